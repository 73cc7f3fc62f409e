// All sessions. One tab leads (Web Locks): it alone holds the event stream, asks for the lists and tells the others
// (BroadcastChannel), because a browser has six connections for one origin. A leader that does not answer loses its place.
import { get, Lost } from './api.js';
import { door, doubt, listeners, lose, onDoor, proved } from './door.js';
import { listen } from './stream.js';
import { keyOf } from '../words.js';

const LOOK_EVERY = 2000;
const SILENT = 7000;
const UNHEARD_EVERY = 5000;
const REREAD_EVERY = 60_000;

/** What is shown. `heardAt` is when the last answer came, by the clock of this browser. */
export const fleet = { sessions: [], host: '', sources: [], hosts: [], heardAt: 0, problem: '', endedSince: '1d', hasEnded: false };

export const [onFleet, tell] = listeners();
export const [onEvent, tellEvent] = listeners();

const me = crypto.randomUUID();
const channel = new BroadcastChannel('agentctl');
let leads = false;
let heardLeader = Date.now();
/** Which state is shown: whose it is, and how often its live and its ended sessions have changed. */
let shown = { of: me, live: 0, ended: 0 };
let live = [];
let ended = [];

function show() {
	const known = new Set(live.map(keyOf));
	fleet.sessions = [...live, ...ended.filter((session) => !known.has(keyOf(session)))];
}


/** One question that is asked again and again: this machine, or some others. */
class Part {
	live = [];
	ended = [];
	rows = [];
	sources = [];
	at = 0;
	endedAt = 0;

	constructor(hosts) {
		this.hosts = hosts;
	}

	ask(more) {
		const query = new URLSearchParams([...more, ...this.hosts.map((host) => ['host', host])]).toString();
		return get(`/v1/sessions${query && `?${query}`}`);
	}

	async look() {
		if (this.busy) {
			this.again = true;
			return;
		}
		this.busy = true;
		try {
			await this.read();
			fleet.problem = '';
		} catch (error) {
			if (!(error instanceof Lost)) fleet.problem = error.message;
		}
		this.busy = false;
		publish();
		if (this.again && leads) {
			this.again = false;
			this.look();
		}
	}

	async read() {
		const isOld = Date.now() - this.endedAt > REREAD_EVERY || this.since !== fleet.endedSince;
		const askedEnded = isOld && this.readEnded();
		const answer = await this.ask([]).catch((error) => Promise.allSettled([askedEnded]).then(() => { throw error; }));
		const here = new Set(answer.sessions.map(keyOf));
		const hasLost = this.live.some((session) => !here.has(keyOf(session)));
		// What is no longer live is shown as ended in the same moment.
		if (hasLost && !isOld) await this.readEnded();
		const text = JSON.stringify(answer.sessions);
		if (text !== this.text) shown.live += 1;
		Object.assign(this, { text, live: answer.sessions, rows: answer.hosts, sources: answer.sources, at: Date.now() });
		if (!this.hosts.length) fleet.host = answer.host;
		if (isOld) publish();
		await askedEnded;
	}

	async readEnded() {
		const since = fleet.endedSince;
		const { sessions } = await this.ask([['since', since]]);
		Object.assign(this, { ended: sessions.filter((session) => session.status === 'stopped'), endedAt: Date.now(), since });
		shown.ended += 1;
	}
}

const here = new Part([]);
let heard = new Part([]);
let unheard = new Part([]);
let rosterAt = 0;

async function readRoster() {
	rosterAt = Date.now();
	const answer = await get('/v1/sessions?host=all&limit=0').catch(() => null);
	if (!answer) return;
	place(answer.hosts.filter((row) => row.name !== answer.host));
	lookFar();
}

const isHeard = ({ coverage }) => coverage === 'complete' || coverage === 'partial';

/** The names of the machines that are heard, or of those that are not. */
export const machines = (heard = true) => fleet.hosts.filter((row) => isHeard(row) === heard).map((row) => row.name).filter((name) => name !== 'nats' || !heard);

/** The parameters of a question about every machine that is heard. */
export const everywhere = () => (machines()[1] ? machines() : []).map((name) => `&host=${encodeURIComponent(name)}`).join('');

/** Machines that answer are asked together; the others apart from them, so that nobody waits for those. */
function place(rows) {
	const sorted = (part, fits) => {
		const own = rows.filter(fits);
		const names = own.map((row) => row.name).filter((name) => name !== 'nats');
		return Object.assign(names.join() === part.hosts.join() ? part : new Part(names), { rows: own });
	};
	heard = sorted(heard, isHeard);
	unheard = sorted(unheard, (row) => !isHeard(row));
}

function lookEverywhere() {
	here.look();
	if (Date.now() - rosterAt > REREAD_EVERY) readRoster();
	else lookFar();
}

function lookFar() {
	if (heard.hosts.length) heard.look();
	if (unheard.hosts.length && Date.now() - unheard.at > UNHEARD_EVERY) unheard.look().then(() => place([...heard.rows, ...unheard.rows]));
}

let told = {};
function publish() {
	// A leader that has heard nothing yet has nothing to tell.
	if (!here.at || !leads) return;
	const all = (name) => [here, heard, unheard].flatMap((part) => part[name]);
	const news = {};
	if (told.live !== shown.live) news.liveRows = live = all('live');
	if (told.ended !== shown.ended) news.endedRows = ended = all('ended');
	told = { ...shown };
	if (news.liveRows || news.endedRows) show();
	Object.assign(fleet, { sources: all('sources'), hosts: all('rows'), heardAt: here.at, hasEnded: here.endedAt > 0 });
	post({ kind: 'state', shown, ...news, state: { ...fleet, sessions: null } });
	tell();
}


let stopListening = null;

async function lead(options) {
	try {
		await navigator.locks.request('agentctl.leader', options, async () => {
			leads = true;
			inherit();
			lookEverywhere();
			followEvents();
			await new Promise(() => {});
		});
	} catch {
		// Another tab took the place.
		leads = false;
		stopListening?.abort();
		lead({});
	}
}

function inherit() {
	shown = { of: me, live: 1, ended: 1 };
	const isHere = (row) => (row.host ?? row.name) === fleet.host;
	place(fleet.hosts.filter((row) => !isHere(row)));
	here.at = fleet.heardAt;
	here.rows = fleet.hosts.filter(isHere);
	for (const row of fleet.sources) (isHere(row) ? here : heard).sources.push(row);
	for (const row of live) (isHere(row) ? here : heard).live.push(row);
	for (const row of ended) (isHere(row) ? here : heard).ended.push(row);
}

async function followEvents() {
	let cursor = null;
	while (leads && door.state !== 'signed-out') {
		stopListening = new AbortController();
		try {
			cursor = await listen(cursor, hearEvent, stopListening.signal);
			// The daemon ended the stream: it may be gone, so it proves itself before the next request.
			if (leads) lose('its stream of events ended');
		} catch (error) {
			if (!(error instanceof Lost)) cursor = null;
		}
		await new Promise((resolve) => { setTimeout(resolve, 500); });
		if (leads && await proved()) lookEverywhere();
	}
}

let soon = null;
function hearEvent({ type, sessionId, host }) {
	const about = { type, sessionId, host };
	if (['session.stopped', 'session.gone', 'launch.exited'].includes(type)) here.endedAt = 0;
	post({ kind: 'event', about });
	tellEvent(about);
	// Several events of one moment are one look.
	soon ??= setTimeout(() => { soon = null; here.look(); }, 30);
}


// While the one who answers has not proved itself, nothing is told: another page could stand at this address.
function post(message) {
	if (door.state === 'open') channel.postMessage(message);
}

channel.onmessage = ({ data }) => {
	if (door.state === 'signed-out' || door.state === 'starting') return;
	if (leads) {
		if (data.kind === 'poke') lookEverywhere();
		if (data.kind === 'want') want(data.since);
		if (data.kind === 'hello') {
			told = {};
			publish();
		}
		return;
	}
	if (data.kind === 'lost') doubt();
	if (data.kind === 'event' || data.kind === 'state') heardLeader = Date.now();
	if (data.kind === 'event') tellEvent(data.about);
	if (data.kind === 'state') take(data);
};

function take({ shown: next, liveRows, endedRows, state }) {
	const misses = (name, rows) => !rows && (shown.of !== next.of || shown[name] !== next[name]);
	if (misses('live', liveRows) || misses('ended', endedRows)) return post({ kind: 'hello' });
	live = liveRows ?? live;
	ended = endedRows ?? ended;
	shown = next;
	const { sessions } = fleet;
	Object.assign(fleet, state, { sessions });
	if (liveRows || endedRows) show();
	tell();
}

export function pathOf(target, route, more = {}) {
	const query = new URLSearchParams(more);
	if (target.host !== fleet.host) query.set('host', target.host);
	if (target.adapter) query.set('adapter', target.adapter);
	if (target.configRoot) query.set('root', target.configRoot);
	if (target.twice && target.cwd) query.set('cwd', target.cwd);
	const text = query.toString();
	return `/v1/sessions/${encodeURIComponent(target.id)}${route}${text ? `?${text}` : ''}`;
}

export function poke() {
	if (leads) lookEverywhere();
	else post({ kind: 'poke' });
}

export function want(since) {
	if (!leads) return post({ kind: 'want', since });
	fleet.endedSince = since;
	tell();
	lookEverywhere();
}

export function start() {
	lead({});
	post({ kind: 'hello' });
	setInterval(() => {
		if (document.hidden || door.state !== 'open') return;
		poke();
		if (!leads && Date.now() - heardLeader > SILENT) {
			heardLeader = Date.now();
			doubt().then((isThere) => isThere && lead({ steal: true }));
		}
	}, LOOK_EVERY);
	document.addEventListener('visibilitychange', () => { if (!document.hidden) poke(); });
	onDoor(() => {
		// Only the leader notices the end of the stream; the others look for themselves.
		if (leads && door.state === 'lost') channel.postMessage({ kind: 'lost' });
		if (door.state !== 'open') return;
		// What happened meanwhile was told to nobody: everything is read again.
		rosterAt = here.endedAt = heard.endedAt = unheard.endedAt = 0;
		heardLeader = Date.now();
		poke();
		if (!leads) post({ kind: 'hello' });
	});
}
