import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from '../ui.js';
import { Ago, Status, typed, unheardRows, useClock } from './parts.js';
import { want } from '../link/fleet.js';
import { addressOf, baseName, keyOf, line, look, sorted, titleOf, whatOf } from '../words.js';

const HEIGHTS = { wide: { row: 44, section: 38, note: 44 }, compact: { row: 64, section: 34, note: 56 } };
const BEYOND = 400;

export function useRows(fleet, filter) {
	return useMemo(() => {
		const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
		const fits = (session) => (!filter.host || session.host === filter.host)
			&& (!filter.adapter || session.adapter === filter.adapter)
			&& (!words.length || matches(session, words));
		return sorted(fleet.sessions.filter(fits));
	}, [fleet.sessions, filter.text, filter.host, filter.adapter]);
}

function matches(session, words) {
	const text = [session.id, session.name, session.prompt?.slice(0, 2000), session.adapter, session.cwd, session.branch, session.host, session.status, session.outcome, session.model, session.group, whatOf(session)].join(' ').toLowerCase();
	return words.every((word) => text.includes(word));
}

export function useTwice(sessions) {
	return useMemo(() => {
		const seen = new Set();
		const twice = new Set();
		for (const { host, id } of sessions) {
			const both = `${host}/${id}`;
			if (seen.has(both)) twice.add(both);
			seen.add(both);
		}
		return twice;
	}, [sessions]);
}

export function List({ fleet, rows, compact, chosen, cursor, setCursor, filter, setFilter, twice }) {
	useClock();
	const box = useRef(null);
	const [view, setView] = useState({ top: 0, height: 900 });
	const heights = compact ? HEIGHTS.compact : HEIGHTS.wide;
	const several = fleet.hosts.length > 1;
	const notes = unheardRows(fleet);
	const { items, total, places } = useMemo(() => layOut(rows, notes, heights), [rows, notes.map((note) => note.key + note.words).join(), heights]);

	useLayoutEffect(() => {
		const element = box.current;
		const measure = () => setView({ top: element.scrollTop, height: element.clientHeight });
		measure();
		const watch = new ResizeObserver(measure);
		watch.observe(element);
		return () => watch.disconnect();
	}, []);
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
		return html`<${Row} key=${key} ...${{ session, style, several, index: item.index, isChosen: key === chosen, isCursor: key === cursor, address: addressOf(session, twice.has(`${session.host}/${session.id}`)), onPoint: () => setCursor(key) }} />`;
	};
	return html`<section class="list ${compact ? 'compact' : 'wide'} ${several ? 'several' : ''}" aria-label="Sessions">
		<${Filter} ...${{ fleet, filter, setFilter }} />
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

function Filter({ fleet, filter, setFilter }) {
	const adapters = useMemo(() => [...new Set(fleet.sessions.map((session) => session.adapter))].sort(), [fleet.sessions]);
	const hosts = fleet.hosts.map((row) => row.name);
	const choose = (name) => (event) => setFilter({ ...filter, [name]: event.currentTarget.value });
	return html`<div class="filter">
		<input id="filter" type="search" placeholder="Filter  /" aria-label="Filter" value=${filter.text} onInput=${choose('text')} />
		${adapters.length > 1 && html`<select aria-label="Only this agent" value=${filter.adapter} onChange=${choose('adapter')}><option value="">All agents</option>${adapters.map((name) => html`<option>${name}</option>`)}</select>`}
		${hosts.length > 1 && html`<select aria-label="Only this machine" value=${filter.host} onChange=${choose('host')}><option value="">All machines</option>${hosts.map((name) => html`<option>${name}</option>`)}</select>`}
		<select aria-label="How far back ended sessions are shown" value=${fleet.endedSince} onChange=${typed(want)}>
			<option value="1d">Ended today</option><option value="7d">Ended in 7 days</option><option value="all">All ended</option>
		</select>
	</div>`;
}

function Nothing({ fleet, filter, setFilter }) {
	if (filter.text || filter.adapter || filter.host) {
		return html`<div class="empty"><p>No session fits the filter.</p><button onClick=${() => setFilter({ text: '', adapter: '', host: '' })}>Show all</button></div>`;
	}
	if (!fleet.hasEnded) return null;
	return html`<div class="empty"><p>Nothing runs, and nothing ended in this time.</p><p><a href="#/launch">Launch an agent</a>, or start one in a terminal: it appears here by itself.</p></div>`;
}

function layOut(rows, notes, heights) {
	const items = [];
	const places = new Map();
	let top = 0;
	const add = (item, height) => {
		items.push({ ...item, top, height, index: items.length + 2 });
		top += height;
	};
	let section = null;
	const counts = new Map();
	for (const session of rows) {
		const name = look(session.status, session.outcome).section;
		counts.set(name, (counts.get(name) ?? 0) + 1);
	}
	for (const session of rows) {
		const name = look(session.status, session.outcome).section;
		if (name !== section) add({ title: name, count: counts.get(name) }, heights.section);
		section = name;
		places.set(keyOf(session), { top });
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
