import { html, useEffect, useLayoutEffect, useRef, useState } from '../ui.js';
import { Ago, Long, Reading, Trouble } from './parts.js';
import { Diff, isDiff } from './diff.js';
import { get } from '../link/api.js';
import { door, onDoor } from '../link/door.js';
import { onEvent, pathOf } from '../link/fleet.js';
import { brief, line } from '../words.js';

const FIRST = 40;
const WHO = { user: 'you', agent: 'agent', tool: 'tool', system: 'system' };

/** The last entries of a session; read again when an event concerns it and once a second while it works. */
function useEntries(target, isAtWork, stamp) {
	const [state, set] = useState({ entries: null, error: null });
	const [limit, setLimit] = useState(FIRST);
	useEffect(() => {
		const stop = new AbortController();
		const path = pathOf(target, '/messages', { limit });
		let busy = false;
		let again = false;
		let last = '';
		let later = null;
		const read = async () => {
			if (busy) { again = true; return; }
			busy = true;
			try {
				const { entries } = await get(path, stop.signal);
				const text = JSON.stringify(entries);
				if (text !== last) set({ entries, error: null });
				last = text;
			} catch (error) {
				if (stop.signal.aborted) return;
				set((old) => ({ ...old, error }));
				last = '';
				// A source that had no time now may have it then.
				later = setTimeout(read, 3000);
			}
			busy = false;
			if (again && !stop.signal.aborted) { again = false; read(); }
		};
		read();
		const timer = isAtWork && setInterval(() => { if (!document.hidden && door.state === 'open') read(); }, 1000);
		const ends = [
			onEvent((event) => { if (event.sessionId === target.id) read(); }),
			onDoor(() => { if (door.state === 'open') read(); }),
		];
		return () => {
			stop.abort();
			clearInterval(timer);
			clearTimeout(later);
			ends.forEach((end) => end());
		};
	}, [target.host, target.id, target.adapter, target.configRoot, limit, isAtWork, stamp]);
	return { ...state, limit, more: () => setLimit(limit * 5) };
}

export function Conversation({ target, isAtWork, stamp, below }) {
	const { entries, error, limit, more } = useEntries(target, isAtWork, stamp);
	const box = useRef(null);
	const isAtEnd = useRef(true);
	useLayoutEffect(() => { if (isAtEnd.current && box.current) box.current.scrollTop = box.current.scrollHeight; });
	const noticeScroll = ({ currentTarget: at }) => { isAtEnd.current = at.scrollHeight - at.scrollTop - at.clientHeight < 60; };
	return html`<div class="conversation scroll" ref=${box} onScroll=${noticeScroll} tabindex="0" role="region" aria-label="Conversation">
		${!entries && !error && html`<${Reading} />`}
		<${Trouble} error=${error} what="The conversation could not be read" />
		${entries && entries.length >= limit && html`<button class="quiet earlier" onClick=${() => { isAtEnd.current = false; more(); }}>Show earlier</button>`}
		${entries && !entries.length && html`<p class="reading">Nothing was said yet.</p>`}
		${entries && keyed(folded(entries)).map(([key, entry]) => html`<${Entry} key=${key} entry=${entry} />`)}
		${below}
	</div>`;
}

function folded(entries) {
	const out = [];
	for (const entry of entries) {
		const before = out.at(-1);
		if (entry.kind === 'tool-result' && before?.kind === 'tool-call' && !before.result) out[out.length - 1] = { ...before, result: entry };
		else out.push(entry);
	}
	return out;
}

/** Entries have no ids: they are told apart by their time and beginning, so that what is unfolded stays so. */
function keyed(entries) {
	const seen = new Map();
	return entries.map((entry) => {
		const key = `${entry.at} ${entry.kind} ${entry.text.slice(0, 60)}`;
		const times = seen.get(key) ?? 0;
		seen.set(key, times + 1);
		return [`${key} ${times}`, entry];
	});
}

function Entry({ entry }) {
	if (entry.kind === 'tool-call' || entry.kind === 'tool-result') return html`<${Tool} entry=${entry} />`;
	const tone = entry.kind === 'error' ? 'error' : entry.kind === 'notice' ? 'notice' : entry.role;
	return html`<article class=${`entry ${tone}`}>
		<header><span class="who">${entry.kind === 'error' ? 'error' : WHO[entry.role] ?? entry.role}</span><${Ago} time=${entry.at} suffix=" ago" /></header>
		<${Prose} text=${entry.text} />
	</article>`;
}

function Tool({ entry }) {
	const [isOpen, open] = useState(false);
	const results = entry.kind === 'tool-result' ? [entry] : [entry, entry.result].filter(Boolean);
	const failed = entry.result?.kind === 'error';
	return html`<details class="entry tool" onToggle=${(event) => open(event.currentTarget.open)}>
		<summary><span class="who">${line(entry.tool ?? 'tool', 40)}</span><code>${line(entry.kind === 'tool-call' ? brief(entry.text) : entry.text, 140)}</code>${failed && ' ✕'}</summary>
		${isOpen && results.map((part) => html`<div class="part"><span class="who">${part.kind === 'tool-result' ? 'result' : 'call'}</span>${isDiff(part.text)
			? html`<${Diff} text=${part.text} />` : html`<${Long} text=${part.text} tag="pre" />`}</div>`)}
	</details>`;
}

/** Words with their fenced code in monospace. No markup is made of them. */
function Prose({ text }) {
	const head = text.slice(0, 20_000);
	if (!head.includes('```')) return html`<${Long} text=${text} />`;
	const parts = head.split(/^```[^\n]*\n?/m);
	const rest = text.slice(head.length);
	return html`<div class="prose">${parts.map((part, at) => part.trim() && (at % 2 === 0
		? html`<${Long} text=${part.replace(/^\n+|\n+$/g, '')} />`
		: isDiff(part) ? html`<${Diff} text=${part} />` : html`<${Long} text=${part.replace(/\n+$/, '')} tag="pre" />`))}${rest && html`<${Long} text=${rest} first=${0} />`}</div>`;
}
