import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from '../ui.js';
import { Ago, Status, typed, unheardRows, useClock } from './parts.js';
import { want } from '../link/fleet.js';
import { addressOf, baseName, keyOf, line, look, nameOf, sorted, titleOf, whatOf } from '../words.js';

const HEIGHTS = { wide: { row: 44, section: 38, note: 44 }, compact: { row: 64, section: 34, note: 56 } };
const BEYOND = 400;

/** The rows in their order, the section of each, and whether an order waits. */
export function useRows(fleet, filter, cursor) {
	const before = useRef({ keys: [] });
	return useMemo(() => {
		const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
		const fits = (session) => (!filter.host || session.host === filter.host)
			&& (!filter.adapter || session.adapter === filter.adapter)
			&& (!words.length || matches(session, words));
		before.current = arranged(before.current, sorted(fleet.sessions.filter(fits)), cursor, filter);
		return before.current;
	}, [fleet.sessions, filter, cursor]);
}

/** While the order changes the row under the cursor stays: so do those that are known, and new ones come below it. */
function arranged(before, wanted, cursor, filter) {
	const all = new Map(wanted.map((session) => [keyOf(session), session]));
	const sections = new Map(wanted.map((session) => [keyOf(session), look(session.status, session.outcome).section]));
	let keys = [...all.keys()];
	const kept = before.cursor === cursor && before.filter === filter && before.keys.indexOf(cursor) !== keys.indexOf(cursor)
		? before.keys.filter((key) => all.has(key)) : [];
	let waits = false;
	if (kept.includes(cursor)) {
		const known = new Set(kept);
		kept.splice(kept.indexOf(cursor) + 1, 0, ...keys.filter((key) => !known.has(key)));
		waits = kept.some((key, at) => key !== keys[at]);
		if (waits) keys = kept;
		if (waits) for (const key of keys) sections.set(key, before.sections.get(key) ?? before.sections.get(cursor));
	}
	return { cursor, filter, keys, sections, waits, rows: keys.map((key) => all.get(key)) };
}

function matches(session, words) {
	const text = [session.id, session.name, session.prompt?.slice(0, 2000), session.adapter, session.cwd, session.branch, session.host, session.status, session.outcome, session.model, session.group, whatOf(session)].join(' ').toLowerCase();
	return words.every((word) => text.includes(word));
}

export function useTwice(sessions) {
	return useMemo(() => {
		const seen = new Set();
		const twice = new Set();
		for (const name of sessions.map(nameOf)) (seen.has(name) ? twice : seen).add(name);
		return twice;
	}, [sessions]);
}

export function List({ fleet, order, compact, chosen, cursor, setCursor, filter, setFilter, twice }) {
	const { rows } = order;
	useClock();
	const box = useRef(null);
	const [view, setView] = useState({ top: 0, height: 900 });
	const heights = compact ? HEIGHTS.compact : HEIGHTS.wide;
	const several = fleet.hosts.length > 1;
	const notes = unheardRows(fleet);
	const { items, total, places } = useMemo(() => layOut(order, notes, heights), [order, notes.map((note) => note.key + note.words).join(), heights]);

	useLayoutEffect(() => {
		const element = box.current;
		const measure = () => setView({ top: element.scrollTop, height: element.clientHeight });
		measure();
		const watch = new ResizeObserver(measure);
		watch.observe(element);
		return () => watch.disconnect();
	}, []);
	// The row under the cursor also stays where it is on the screen.
	const were = useRef(places);
	useLayoutEffect(() => {
		const [was, is, element] = [were.current.get(cursor), places.get(cursor), box.current];
		were.current = places;
		const isSeen = was && is && was.top + heights.row > element.scrollTop && was.top < element.scrollTop + element.clientHeight;
		if (isSeen) element.scrollTop += is.top - was.top;
	}, [places]);
	useEffect(() => {
		const place = cursor && places.get(cursor);
		if (!place) return;
		const element = box.current;
		if (place.top < element.scrollTop) element.scrollTop = place.top - heights.section;
		else if (place.top + heights.row > element.scrollTop + element.clientHeight - 40) element.scrollTop = place.top + heights.row - element.clientHeight + 40;
	}, [cursor]);

	const from = firstBelow(items, view.top - BEYOND);
	const shown = [];
	for (let at = from; at < items.length && items[at].top < view.top + view.height + BEYOND; at += 1) shown.push(items[at]);
	const titles = ['Status', 'For', 'Agent', 'Session', 'Now', 'Folder', ...(several ? ['Host'] : [])];
	const draw = (item) => {
		const style = { top: `${item.top}px`, height: `${item.height}px` };
		if (item.title) return html`<tr key=${item.title} role="row" class="section" style=${style} aria-rowindex=${item.index}><th role="rowheader" scope="rowgroup">${item.title}<span class="count">${item.count}</span></th></tr>`;
		if (item.note) return html`<tr key=${item.note.key} role="row" class="note" style=${style} aria-rowindex=${item.index}><td role="cell"><span class="status unknown"><span class="glyph" aria-hidden="true">?</span><span>${item.note.name}</span></span> <span class="text">${line(item.note.words, 220)}</span> <${Ago} time=${item.note.asOf} suffix=" ago" /></td></tr>`;
		const { session } = item;
		const key = keyOf(session);
		return html`<${Row} key=${key} ...${{ session, style, several, index: item.index, isChosen: key === chosen, isCursor: key === cursor, address: addressOf(session, twice), onPoint: () => setCursor(key) }} />`;
	};
	return html`<section class="list ${compact ? 'compact' : 'wide'} ${several ? 'several' : ''}" aria-label="Sessions">
		<${Filter} ...${{ fleet, filter, setFilter }}>${order.waits && html`<button class="quiet waits" title="The order has changed. It is shown when the cursor leaves its row, or now." onClick=${() => setCursor(null)}>↕ Order waits</button>`}<//>
		<div class="scroll" ref=${box} tabindex="0" onScroll=${(event) => setView({ top: event.currentTarget.scrollTop, height: event.currentTarget.clientHeight })}>
			<table role="table" aria-label="Sessions" aria-rowcount=${items.length + 1}>
				<thead role="rowgroup"><tr role="row" aria-rowindex="1">${titles.map((title) => html`<th role="columnheader" scope="col" class=${`c-${title.toLowerCase()}`}>${title}</th>`)}</tr></thead>
				<tbody role="rowgroup" style=${{ height: `${total}px` }}>${shown.map(draw)}</tbody>
			</table>
			${fleet.heardAt > 0 && !rows.length && html`<${Nothing} ...${{ fleet, filter, setFilter }} />`}
		</div>
	</section>`;
}

function Row({ session, style, several, index, isChosen, isCursor, address, onPoint }) {
	const { tone } = look(session.status, session.outcome);
	const since = session.pending[0]?.since ?? session.since ?? session.stoppedAt ?? session.updatedAt;
	const open = (event) => {
		onPoint();
		if (!event.target.closest('a')) location.hash = address;
	};
	return html`<tr role="row" class="row ${tone} ${isCursor ? 'cursor' : ''}" style=${style} aria-rowindex=${index} aria-current=${isChosen ? 'true' : null} data-id=${session.id} data-status=${session.status} onClick=${open}>
		<td role="cell" class="c-status"><${Status} session=${session} /></td>
		<td role="cell" class="c-for"><${Ago} time=${since} /></td>
		<td role="cell" class="c-agent">${session.adapter}</td>
		<td role="cell" class="c-session"><a href=${address}>${titleOf(session)}</a></td>
		<td role="cell" class="c-now">${whatOf(session)}</td>
		<td role="cell" class="c-folder" title=${session.cwd}>${baseName(session.cwd)}${session.branch && html`<span class="branch"> · ${line(session.branch, 40)}</span>`}</td>
		${several && html`<td role="cell" class="c-host">${session.host}</td>`}
	</tr>`;
}

function Filter({ fleet, filter, setFilter, children }) {
	const adapters = useMemo(() => [...new Set(fleet.sessions.map((session) => session.adapter))].sort(), [fleet.sessions]);
	const hosts = fleet.hosts.map((row) => row.name);
	const choose = (name) => (event) => setFilter({ ...filter, [name]: event.currentTarget.value });
	return html`<div class="filter">
		<input id="filter" type="search" placeholder="Filter  /" aria-label="Filter" value=${filter.text} onInput=${choose('text')} />
		${adapters.length > 1 && html`<select aria-label="Only this agent" value=${filter.adapter} onChange=${choose('adapter')}><option value="">All agents</option>${adapters.map((name) => html`<option>${name}</option>`)}</select>`}
		${hosts.length > 1 && html`<select aria-label="Only this machine" value=${filter.host} onChange=${choose('host')}><option value="">All machines</option>${hosts.map((name) => html`<option>${name}</option>`)}</select>`}
		<select aria-label="How far back ended sessions are shown" value=${fleet.endedSince} onChange=${typed(want)}>
			<option value="1d">Ended today</option><option value="7d">Ended in 7 days</option><option value="all">All ended</option>
		</select>${children}
	</div>`;
}

function Nothing({ fleet, filter, setFilter }) {
	if (filter.text || filter.adapter || filter.host) {
		return html`<div class="empty"><p>No session fits the filter.</p><button onClick=${() => setFilter({ text: '', adapter: '', host: '' })}>Show all</button></div>`;
	}
	if (!fleet.hasEnded) return null;
	return html`<div class="empty"><p>Nothing runs, and nothing ended in this time.</p><p><a href="#/launch">Launch an agent</a>, or start one in a terminal: it appears here by itself.</p></div>`;
}

function layOut({ rows, sections }, notes, heights) {
	const items = [];
	const places = new Map();
	let top = 0;
	const add = (item, height) => {
		items.push({ ...item, top, height, index: items.length + 2 });
		top += height;
	};
	let section = null;
	const counts = {};
	for (const name of sections.values()) counts[name] = (counts[name] ?? 0) + 1;
	for (const session of rows) {
		const key = keyOf(session);
		const name = sections.get(key);
		if (name !== section) add({ title: name, count: counts[name] }, heights.section);
		section = name;
		places.set(key, { top });
		add({ session }, heights.row);
	}
	if (notes.length) add({ title: 'Not heard', count: notes.length }, heights.section);
	for (const note of notes) add({ note }, heights.note);
	return { items, total: top, places };
}

function firstBelow(items, height) {
	let [low, high] = [0, items.length];
	while (low < high) {
		const middle = (low + high) >> 1;
		if (items[middle].top + items[middle].height < height) low = middle + 1; else high = middle;
	}
	return low;
}
