import { h } from './vendor/preact.js';
import htm from './vendor/htm.js';
import { clean } from './words/text.js';

export { render, Fragment } from './vendor/preact.js';
export { useState, useEffect, useLayoutEffect, useMemo, useRef, useCallback } from './vendor/hooks.js';

const shown = (child) => (typeof child === 'string' ? clean(child) : child);
/** Makes elements. Whatever text they hold is cleaned here, so no view can forget it. */
export const html = htm.bind((type, props, ...children) => {
	for (const name of ['title', 'aria-label']) if (props?.[name]) props[name] = shown(props[name]);
	return h(type, props, ...children.map(shown));
});
