import { html, render, useEffect, useMemo, useRef, useState } from './ui.js';
import { learnRights } from './link/api.js';
import { door, onDoor, proved, signIn, takeCode } from './link/door.js';
import { start } from './link/fleet.js';
import { announcement, Banner, countsOf, Header, SignedOut, summaryOf } from './views/frame.js';
import { Group, Groups } from './views/groups.js';
import { Help } from './views/help.js';
import { Hosts } from './views/hosts.js';
import { Inbox } from './views/inbox.js';
import { Launch } from './views/launch.js';
import { List, useRows, useTwice } from './views/list.js';
import { Session } from './views/session.js';
import { Timeline } from './views/timeline.js';
import { Usage } from './views/usage.js';
import { useFleet } from './views/parts.js';
import { addressOf, keyOf, nameOf, titleOf } from './words.js';

const code = takeCode();

/** `#/s/HOST/ID?cwd=FOLDER`, `#/groups/NAME`, `#/inbox` and so on. */
function parse(hash) {
	const [path, query = ''] = hash.replace(/^#\/?/, '').split('?', 2);
	let parts;
	try {
		parts = path.split('/').map(decodeURIComponent);
	} catch {
		parts = [''];
	}
	const [view, first, second, third] = parts;
	if (view === 's' && first && second) return { view: '', host: first, id: second, cwd: new URLSearchParams(query).get('cwd') ?? third ?? null };
	return { view: view ?? '', name: first ?? null };
}

function useAddress() {
	const [hash, set] = useState(location.hash);
	useEffect(() => {
		const follow = () => set(location.hash);
		addEventListener('hashchange', follow);
		return () => removeEventListener('hashchange', follow);
	}, []);
	return useMemo(() => parse(hash), [hash]);
}

/** The title carries the count, and the live region names who needs a person, and nothing else. */
function useNeedsYou(sessions) {
	const known = useRef(null);
	useEffect(() => {
		document.title = summaryOf(countsOf(sessions));
		const waiting = sessions.filter((session) => session.status === 'waiting');
		const fresh = waiting.filter((session) => !known.current?.has(keyOf(session)));
		known.current = new Set(waiting.map(keyOf));
		if (fresh.length) document.getElementById('needs-you').textContent = announcement(fresh) + fresh.slice(0, 3).map(titleOf).join(', ');
	}, [sessions]);
}

const isTyping = (target) => target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
const go = (hash) => { location.hash = hash; };

function App() {
	const fleet = useFleet();
	const address = useAddress();
	const [filter, setFilter] = useState({ text: '', adapter: '', host: '' });
	const [cursor, setCursor] = useState(null);
	const [range, setRange] = useState('24h');
	const [help, setHelp] = useState(false);
	const order = useRows(fleet, filter, cursor);
	const { rows } = order;
	const twice = useTwice(fleet.sessions);
	const keys = useRef({}).current;
	useNeedsYou(fleet.sessions);
	const isChosen = (session) => session.id === address.id && session.host === address.host && (!address.cwd || session.cwd === address.cwd);
	const row = address.id ? fleet.sessions.find(isChosen) ?? null : null;

	const press = useRef(null);
	press.current = (event) => {
		if (event.ctrlKey || event.metaKey || event.altKey || help) return;
		if (isTyping(event.target)) {
			if (event.key === 'Escape') event.target.blur();
			return;
		}
		const at = rows.findIndex((session) => keyOf(session) === cursor);
		const move = (by) => {
			const next = rows[Math.min(rows.length - 1, Math.max(0, at + by))];
			if (next) setCursor(keyOf(next));
		};
		const open = () => { if (rows[at]) go(addressOf(rows[at], twice)); };
		const isOnList = address.view === '';
		const request = document.activeElement?.closest('.request');
		// What is answered must be on the screen: a session that is only pointed at is opened first.
		const inSession = (name) => () => { if (isOnList && !address.id) open(); else ((address.id && keys[name]) ?? request?.keys?.[name])?.(); };
		const step = (by) => () => {
			if (isOnList) return move(at < 0 ? 1 : by);
			const all = [...document.querySelectorAll('.request')];
			all[Math.max(0, Math.min(all.length - 1, all.indexOf(request) + by))]?.focus();
		};
		const does = {
			j: step(1), k: step(-1), ArrowDown: step(1), ArrowUp: step(-1),
			Enter: isOnList && !/^(A|BUTTON|SUMMARY)$/.test(event.target.tagName) ? open : null,
			Escape: () => (address.id || address.view ? go(address.view === 'groups' && address.name ? '#/groups' : '#/') : setFilter({ text: '', adapter: '', host: '' })),
			'/': () => { if (!isOnList) go('#/'); setTimeout(() => document.getElementById('filter')?.focus()); },
			y: inSession('approve'), n: inSession('deny'), a: inSession('focusAnswer'), s: inSession('send'), i: inSession('interrupt'), x: inSession('stop'), r: inSession('resume'), e: inSession('evidence'), d: inSession('changes'),
			g: () => (address.id && keys.group ? keys.group() : go('#/groups')),
			l: () => { if (!door.readOnly) go('#/launch'); }, h: () => go('#/hosts'), t: () => go('#/timeline'), u: () => go('#/usage'), '?': () => setHelp(true),
		}[event.key];
		const scrolls = event.key.startsWith('Arrow') && !(isOnList && (event.target === document.body || event.target.closest('.list')));
		if (!does || scrolls) return;
		event.preventDefault();
		does();
	};
	useEffect(() => {
		const listen = (event) => press.current(event);
		addEventListener('keydown', listen);
		return () => removeEventListener('keydown', listen);
	}, []);

	if (door.state === 'signed-out') return html`<${SignedOut} />`;
	const shared = { fleet, twice, range, setRange };
	const list = html`<${List} ...${{ fleet, order, compact: Boolean(address.id) || innerWidth < 820, chosen: row && keyOf(row), cursor, setCursor, filter, setFilter, twice }} />`;
	const views = { inbox: Inbox, groups: address.name ? Group : Groups, timeline: Timeline, usage: Usage, hosts: Hosts, launch: Launch };
	const View = views[address.view];
	return html`<div class=${`frame ${address.id ? 'with-session' : ''}`}>
		<${Header} ...${{ fleet, view: address.id ? '' : address.view, showHelp: () => setHelp(true) }} />
		<${Banner} fleet=${fleet} />
		${View ? html`<main class="scroll page"><${View} key=${address.name} name=${address.name} ...${shared} /></main>`
			: html`<main class="panes">${list}${address.id && html`<${Session} key=${`${address.host} ${address.id} ${address.cwd}`} ...${{ address, row, fleet, keys, isTwice: twice.has(nameOf(address)) }} />`}</main>`}
		${help && html`<${Help} close=${() => setHelp(false)} />`}
	</div>`;
}

async function signInAnew() {
	const fresh = takeCode();
	if (!fresh) return;
	await signIn(fresh);
	location.reload();
}

async function begin() {
	addEventListener('hashchange', signInAnew);
	addEventListener('resize', () => render(html`<${App} />`, document.getElementById('app')));
	if (code) await signIn(code);
	render(html`<${App} />`, document.getElementById('app'));
	if (!await proved() && door.state === 'signed-out') return;
	const learn = () => { if (door.state === 'open') learnRights().then(() => render(html`<${App} />`, document.getElementById('app')), () => {}); };
	onDoor(learn);
	learn();
	start();
}

begin();
