import { html, useState } from '../ui.js';
import { Ago, Answered, Status, Trouble, useAnswer, useClock } from './parts.js';
import { Request } from './request.js';
import { post } from '../link/api.js';
import { door } from '../link/door.js';
import { addressOf, baseName, keyOf, line, nameOf, titleOf } from '../words.js';

export function Inbox({ fleet, twice }) {
	useClock();
	const [turn, again] = useState(0);
	const waiting = fleet.sessions.filter((session) => session.pending.length).map((session) => keyOf(session) + session.pending.map((pending) => pending.id).join()).join();
	const inbox = useAnswer('/v1/inbox', { turn: `${turn} ${waiting}`, every: 5000 });
	const { value } = inbox;
	// The daemon tells the inbox of this machine; what waits on others is in the list.
	const far = fleet.sessions.filter((session) => session.host !== fleet.host && session.pending.length);
	const all = value ? [...value.items, ...far.map((session) => ({ ...session.pending[0], next: [], session }))] : [];
	// A session that asks for several things is told once for each of them, and is one card with all of them.
	const seen = new Set();
	const items = all.map((item) => ({ ...item, key: keyOf(item.session) })).filter(({ key }) => !seen.has(key) && seen.add(key));
	return html`<section class="view narrow"><h1>Inbox</h1>
		<${Answered} of=${inbox} what="The inbox" />
		${value && !items.length && html`<div class="empty"><p>Nobody waits for you.</p></div>`}
		${items.map((item) => html`<${Item} key=${item.key} ...${{ item, fleet, twice, again: () => again(turn + 1) }} />`)}
		${value?.fuses.length > 0 && html`<h2>Fuses and budgets</h2><ul>${value.fuses.map((fuse) => html`<li>${fuse.label ?? fuse.directory ?? fuse.sessionId}: ${fuse.stage}</li>`)}</ul>`}
		${value?.warnings.map((warning) => html`<p class="trouble">${warning}</p>`)}
	</section>`;
}

function Item({ item, fleet, twice, again }) {
	const { session } = item;
	const [error, fail] = useState(null);
	const target = { ...session, twice: twice.has(nameOf(session)) };
	const done = () => post(`/v1/inbox/${encodeURIComponent(session.id)}/done?adapter=${encodeURIComponent(session.adapter)}`).then(again, fail);
	return html`<article class="card">
		<header><${Status} session=${session} /><a href=${addressOf(session, twice)}>${titleOf(session)}</a><span class="hint">${session.adapter} · ${baseName(session.cwd)} <${Ago} time=${item.since} prefix="· " /></span></header>
		${session.pending.map((pending) => html`<${Request} key=${pending.id ?? pending.summary} ...${{ pending, target }} />`)}
		${item.kind === 'failure' && html`<p class="text">${line(item.summary ?? session.statusDetail, 600)}</p>
			${!door.readOnly && html`<div class="buttons"><button onClick=${done}>Done</button></div>`}`}
		${!item.answerable && item.onlyIn && html`<p class="hint">Only in ${item.onlyIn}.</p>`}
		${item.next.length > 0 && item.kind === 'failure' && html`<p class="hint">${item.next.map((step) => html`<code>${step}</code> `)}</p>`}
		<${Trouble} error=${error} what="Not done" />
	</article>`;
}
