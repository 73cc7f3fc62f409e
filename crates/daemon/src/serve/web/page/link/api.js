import { door, doubt, forget, lose, proved } from './door.js';

const LONG = 4000;

export class Problem extends Error {
	constructor(status, problem) {
		super(problem.detail || problem.title || `the daemon answered ${status}`);
		this.status = status;
		this.hint = problem.hint ?? null;
	}
}

/** Nobody who could prove himself answered. The banner says it. */
export class Lost extends Error {}

export async function open(path, { method = 'GET', body, headers = {}, signal } = {}) {
	if (!await proved()) throw new Lost('the daemon does not answer');
	const token = sessionStorage.getItem('token');
	if (!token) throw new Lost('signed out');
	const writes = method === 'GET' ? {} : { 'Content-Type': 'application/json', 'X-Agentctl': '1' };
	// An answer that takes long may be a daemon that stands still.
	const watch = setInterval(doubt, LONG);
	let answer;
	try {
		answer = await fetch(path, {
			method, signal, credentials: 'omit', cache: 'no-store', redirect: 'error',
			headers: { Authorization: `Bearer ${token}`, ...writes, ...headers },
			body: body === undefined ? undefined : JSON.stringify(body),
		});
	} catch (error) {
		if (signal?.aborted) throw error;
		lose('the connection was lost');
		throw new Lost('the connection was lost');
	} finally {
		clearInterval(watch);
	}
	if (answer.status === 401) {
		forget('this sign-in has ended');
		throw new Lost('signed out');
	}
	if (!answer.ok) throw new Problem(answer.status, await answer.json().catch(() => ({})));
	return answer;
}

export async function get(path, signal) {
	const answer = await open(path, { signal });
	try {
		return await answer.json();
	} catch (error) {
		if (signal?.aborted) throw error;
		lose('an answer was cut off');
		throw new Lost('an answer was cut off');
	}
}

export async function post(path, body = {}) {
	const answer = await open(path, { method: 'POST', body });
	return answer.json().catch(() => ({}));
}

export async function signOut() {
	await post('/v1/web/sign-out').catch(() => {});
	forget('you have signed out');
}

export async function learnRights() {
	const web = await get('/v1/web');
	door.readOnly = web.readOnly;
	return web;
}
