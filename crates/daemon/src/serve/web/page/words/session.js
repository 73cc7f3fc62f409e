import { line } from './text.js';
import { look, SECTIONS } from './status.js';

/** What tells two sessions apart, also where one id is stored twice. */
export const keyOf = (session) => [session.host, session.adapter, session.configRoot, session.id, session.cwd ?? ''].join('\u0000');

export const titleOf = (session) => line(session.name || session.prompt, 160) || session.id;

export function whatOf(session) {
	const [pending] = session.pending;
	if (pending) return line(pending.summary, 160) || (pending.kind === 'question' ? 'asks a question' : `waits: ${pending.kind}`);
	return line(session.statusDetail || session.lastMessage, 160);
}

/** `twice` has the names of those whose id stands twice on their machine. */
export const nameOf = ({ host, id }) => `${host}/${id}`;
export function addressOf(session, twice) {
	const address = `#/s/${encodeURIComponent(session.host)}/${encodeURIComponent(session.id)}`;
	return twice?.has(nameOf(session)) && session.cwd ? `${address}?cwd=${encodeURIComponent(session.cwd)}` : address;
}

const time = (text) => (text ? Date.parse(text) : 0);

/** Needs-you first, longest wait first; what ended last is the first of the ended. */
export function sorted(sessions) {
	const placed = sessions.map((session) => {
		const place = SECTIONS.indexOf(look(session.status, session.outcome).section);
		const at = place === 0
			? time(session.pending[0]?.since ?? session.since)
			: -time(place === 4 ? session.stoppedAt ?? session.updatedAt : session.startedAt ?? session.since);
		return { session, place, at };
	});
	placed.sort((a, b) => a.place - b.place || a.at - b.at || (a.session.id < b.session.id ? -1 : 1));
	return placed.map(({ session }) => session);
}
