import { html, useEffect, useRef } from '../ui.js';
import { signOut } from '../link/api.js';

export const KEYS = [
	['j k ↓ ↑', 'move in the list'], ['Enter', 'open'], ['Esc', 'back'], ['/', 'find'],
	['y', 'approve'], ['n', 'deny'], ['a', 'answer'], ['s', 'send'], ['i', 'interrupt'], ['x', 'stop (pressed again within 2 s)'], ['r', 'resume'], ['l', 'launch'],
	['e', 'evidence'], ['d', 'changes'], ['g', 'group'], ['h', 'hosts'], ['t', 'timeline'], ['u', 'usage'], ['?', 'this help'],
];

export function Help({ close }) {
	const dialog = useRef(null);
	useEffect(() => {
		const element = dialog.current;
		element.showModal();
		return () => element.close();
	}, []);
	return html`<dialog ref=${dialog} class="help" aria-labelledby="help-title" onClose=${close} onClick=${(event) => { if (event.target === dialog.current) close(); }}>
		<h1 id="help-title">Keys</h1>
		<dl>${KEYS.map(([key, word]) => html`<dt><kbd>${key}</kbd></dt><dd>${word}</dd>`)}</dl>
		<p class="hint">No key does anything while you type in a field; Ctrl Enter sends what you typed.</p>
		<div class="buttons"><button onClick=${close}>Close</button><span class="spring"></span><button class="quiet" onClick=${signOut}>Sign out</button></div>
	</dialog>`;
}
