// Signing in, and the proof that who answers knows our token: no token leaves this page before it.

const WRITE = { 'Content-Type': 'application/json', 'X-Agentctl': '1' };
const RETRY = 1000;
const PATIENCE = 4000;

export const door = { state: 'starting', since: Date.now(), why: '', readOnly: false };

/** `[on, tell]`: who listens, and how all of them are told. */
export function listeners() {
	const all = new Set();
	const on = (listener) => {
		all.add(listener);
		return () => all.delete(listener);
	};
	return [on, (news) => all.forEach((listener) => listener(news))];
}
export const [onDoor, tellDoor] = listeners();

let isProved = false;
let proving = null;
let retry = null;

function become(state, why = '') {
	if (door.state === state && door.why === why) return;
	if (door.state !== state) door.since = Date.now();
	Object.assign(door, { state, why });
	tellDoor();
}

export function takeCode() {
	if (!location.hash.startsWith('#code=')) return null;
	const said = new URLSearchParams(location.hash.slice(1));
	const to = said.get('to');
	history.replaceState(null, '', `${location.pathname}#${to?.[0] === '/' ? to : '/'}`);
	return said.get('code');
}

const post = (path, body, patience = PATIENCE) => fetch(path, {
	method: 'POST', headers: WRITE, body: JSON.stringify(body), credentials: 'omit', cache: 'no-store', redirect: 'error', signal: AbortSignal.timeout(patience),
});

export async function signIn(code) {
	try {
		// The code is good once: nothing is gained by giving up early.
		const answer = await post('/v1/web/sign-in', { code }, 60_000);
		if (!answer.ok) {
			const problem = await answer.json().catch(() => ({}));
			return become('signed-out', problem.detail ?? 'the code was used before, or is older than a minute');
		}
		const { token, id } = await answer.json();
		sessionStorage.setItem('token', token);
		sessionStorage.setItem('id', id);
	} catch {
		become('signed-out', 'the daemon did not answer the sign-in');
	}
}

export function forget(why = '') {
	sessionStorage.removeItem('token');
	sessionStorage.removeItem('id');
	isProved = false;
	become('signed-out', why);
}

const hex = (bytes) => Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, '0')).join('');

async function expectedProof(token, nonce) {
	const encoder = new TextEncoder();
	const key = await crypto.subtle.digest('SHA-256', encoder.encode(token));
	const hmac = await crypto.subtle.importKey('raw', key, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
	return hex(await crypto.subtle.sign('HMAC', hmac, encoder.encode(nonce)));
}

async function prove() {
	const [token, id] = [sessionStorage.getItem('token'), sessionStorage.getItem('id')];
	if (!token || !id) {
		if (door.state !== 'signed-out') become('signed-out');
		return false;
	}
	const nonce = hex(crypto.getRandomValues(new Uint8Array(32)));
	let status;
	let text;
	try {
		const answer = await post('/v1/web/prove', { id, nonce });
		status = answer.status;
		text = await answer.text();
	} catch {
		return lose('it does not answer');
	}
	let told = null;
	try {
		told = JSON.parse(text);
	} catch {
		// A daemon speaks JSON: this is a program that knows nothing of us.
	}
	if (told?.code === 'forbidden') {
		forget('this sign-in has ended');
		return false;
	}
	// Its other problems pass.
	if (told?.code) return lose(`it answers ${status}`);
	if (told?.proof !== await expectedProof(token, nonce)) {
		become('stranger');
		again();
		return false;
	}
	isProved = true;
	become('open');
	return true;
}

/** Whether the one who answers has proved itself since the last lost connection. */
export function proved() {
	if (isProved) return Promise.resolve(true);
	proving ??= prove().finally(() => { proving = null; });
	return proving;
}

export function lose(why) {
	isProved = false;
	if (door.state !== 'signed-out') {
		become('lost', why);
		again();
	}
	return false;
}

function again() {
	retry ??= setTimeout(() => { retry = null; proved(); }, RETRY);
}

/** The daemon takes long over an answer: is it still there? */
export function doubt() {
	isProved = false;
	return proved();
}
