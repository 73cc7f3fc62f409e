import { html, useState } from '../ui.js';

const FIRST = 400;
const STEP = 4000;
const LONGEST_LINE = 2000;

export const isDiff = (text) => /^(diff --git |--- .*\n\+\+\+ |@@ -\d|\*\*\* (Begin Patch|Update File|Add File))/m.test(text.slice(0, 4000));

const kindOf = (line) => {
	if (/^(diff --git|index |--- |\+\+\+ |\*\*\* |new file|deleted file|rename |similarity )/.test(line)) return 'file';
	if (line.startsWith('@@')) return 'hunk';
	return { '+': 'added', '-': 'removed' }[line[0]] ?? 'same';
};

/** `isWhole` cuts nothing and folds nothing: what a person decides about. */
export function Diff({ text, isWhole }) {
	const [most, show] = useState(FIRST);
	const shown = isWhole ? text.length + 1 : most;
	const lines = text.split('\n', shown + 1);
	const hasMore = lines.length > shown;
	const cut = (line) => (!isWhole && line.length > LONGEST_LINE ? `${line.slice(0, LONGEST_LINE)}…` : line);
	return html`<div class="diff" tabindex="0" role="region" aria-label="Changes">
		${lines.slice(0, shown).map((line) => html`<div class=${`line ${kindOf(line)}`}>${cut(line) || ' '}</div>`)}
		${hasMore && html`<button class="quiet more" onClick=${() => show(shown + STEP)}>Show more lines</button>`}
	</div>`;
}
