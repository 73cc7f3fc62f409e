import { html, useEffect, useState } from '../ui.js';
import { onDoor, door } from '../link/door.js';
import { fleet, machines, onFleet, poke } from '../link/fleet.js';
import { get } from '../link/api.js';
import { ago, exact, look } from '../words.js';

export function useFleet() {
	const [, again] = useState(0);
	useEffect(() => {
		const draw = () => again((count) => count + 1);
		const ends = [onFleet(draw), onDoor(draw)];
		return () => ends.forEach((end) => end());
	}, []);
	return fleet;
}

export const typed = (set) => (event) => set(event.currentTarget.value);

export function useClock(every = 5000) {
	const [, again] = useState(0);
	useEffect(() => {
		const timer = setInterval(() => { if (!document.hidden) again((count) => count + 1); }, every);
		return () => clearInterval(timer);
	}, [every]);
}

/** One answer of the API: `{value, error, at}`; read again when `path` or `turn` changes and after `every` milliseconds. */
export function useAnswer(path, { turn = 0, every = 0, ask = get } = {}) {
	const [state, set] = useState({ path: null, value: null, error: null, at: 0 });
	useEffect(() => {
		if (!path) return undefined;
		const stop = new AbortController();
		let timer = null;
		const read = async () => {
			try {
				const value = await ask(path, stop.signal);
				set({ path, value, error: null, at: Date.now() });
			} catch (error) {
				if (stop.signal.aborted) return;
				set((old) => ({ path, value: old.path === path ? old.value : null, error, at: old.at }));
			}
			if (every && !stop.signal.aborted) timer = setTimeout(read, document.hidden ? every * 5 : every);
		};
		read();
		const end = onDoor(() => { if (door.state === 'open' && !every) read(); });
		return () => {
			stop.abort();
			clearTimeout(timer);
			end();
		};
	}, [path, turn, every]);
	return state.path === path ? state : { path, value: null, error: null, at: 0 };
}

/** A deed: `{busy, done, error}`, and how it is done. What it was called stands in `busy` until it is answered. */
export function useDeed() {
	const [state, set] = useState({});
	const does = async (busy, deed) => {
		set({ busy });
		try {
			set({ done: await deed() });
		} catch (error) {
			set({ error });
		}
		poke();
	};
	return [state, does];
}

export function Status({ session }) {
	const { glyph, word, more, tone } = look(session.status, session.outcome);
	return html`<span class="status ${tone}"><span class="glyph" aria-hidden="true">${glyph}</span>${more
		? html`<span class="unseen">${word} </span><span>${more}</span>` : html`<span>${word}</span>`}</span>`;
}

export function Ago({ time, prefix = '', suffix = '' }) {
	if (!time) return null;
	return html`<time datetime=${time} title=${exact(time)}>${prefix}${ago(time)}${suffix}</time>`;
}

const FIRST = 4000;
const STEP = 50_000;

/** A text that may be megabytes long: its beginning, and the rest piece by piece. */
export function Long({ text, first = FIRST, tag: Tag = 'div', onWhole }) {
	const [shown, show] = useState(first);
	const rest = text.length - shown;
	useEffect(() => { if (rest <= 0) onWhole?.(); }, [rest <= 0, text]);
	return html`<${Tag} class="text">${text.slice(0, shown)}${rest > 0 && html`…
		<button class="quiet more" onClick=${() => show(shown + STEP)}>Show more (${rest.toLocaleString('en')} characters left)</button>`}<//>`;
}

/** A line for a shell, to copy. */
export function Command({ what, command }) {
	const [copied, copy] = useState('');
	const toClipboard = () => navigator.clipboard.writeText(command).then(() => copy('Copied.'), () => copy('The browser did not let it be copied.'));
	return html`<div class="command"><span class="hint">${what}</span><pre class="text">${command}</pre><button type="button" class="quiet" onClick=${toClipboard}>Copy</button> <span class="hint">${copied}</span></div>`;
}

export function Trouble({ error, what }) {
	if (!error) return null;
	return html`<p class="trouble">${what ? `${what}: ` : ''}${error.message}${error.hint && html` <span class="hint">${error.hint}</span>`}</p>`;
}

export const Answered = ({ of, what }) => (of.error ? html`<${Trouble} error=${of.error} what=${`${what} could not be read`} />` : !of.value && html`<${Reading} />`);

export const Without = () => machines(false).length > 0 && html`<p class="hint">Without ${machines(false).join(', ')}: not heard.</p>`;

/** Says that something is read, but only when it takes long enough to be noticed. */
export function Reading() {
	const [seen, see] = useState(false);
	useEffect(() => {
		const timer = setTimeout(() => see(true), 300);
		return () => clearTimeout(timer);
	}, []);
	return html`<p class="reading">${seen && 'Reading…'}</p>`;
}

export function unheardRows(state) {
	const hosts = state.hosts.filter((row) => row.coverage !== 'complete')
		.map((row) => ({ key: `host ${row.name}`, name: row.name, words: `${row.coverage === 'partial' ? 'partly heard' : 'not heard'}: ${row.error ?? row.coverage}`, hint: row.hint, asOf: row.asOf }));
	const sources = state.sources.filter((row) => !['complete', 'not-installed'].includes(row.coverage))
		.map((row) => ({ key: `source ${row.host} ${row.adapter} ${row.root}`, name: row.adapter, words: `${row.coverage === 'partial' ? 'partly heard' : 'not heard'}: ${row.error ?? row.coverage} (${row.root})`, asOf: null }));
	return [...hosts, ...sources];
}
