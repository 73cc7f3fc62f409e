import { html, useState } from '../ui.js';
import { Ago, Answered, Status, useAnswer, useClock, Without } from './parts.js';
import { Diff } from './diff.js';
import { get } from '../link/api.js';
import { machines } from '../link/fleet.js';
import { addressOf, allTokens, count, line, money, plural, span } from '../words.js';

/** What these machines tell, as one: a group may have slots on several. */
async function together(path, signal, hosts = machines()[1] ? machines() : ['']) {
	const told = await Promise.allSettled(hosts.map(async (host) => {
		const answer = await get(host ? `${path}?host=${encodeURIComponent(host)}` : path, signal);
		return answer.groups ?? [answer];
	}));
	const heard = told.filter((one) => one.value);
	if (!heard.length) throw told[0].reason;
	const groups = new Map();
	for (const group of heard.flatMap((one) => one.value)) {
		const known = groups.get(group.group);
		if (known) known.slots.push(...group.slots); else groups.set(group.group, group);
	}
	return [...groups.values()];
}

/** One group is asked for where it is known. */
async function named(path, signal) {
	if (!machines()[1]) return together(path, signal);
	const known = (await together('/v1/groups', signal)).find(({ group }) => path.endsWith(`/${encodeURIComponent(group)}`));
	return together(path, signal, known ? [...new Set(known.slots.map((slot) => slot.host))] : ['']);
}

const NOT_YET = { status: 'unknown', outcome: null };

export function Groups() {
	useClock();
	const groups = useAnswer('/v1/groups', { every: 5000, ask: together });
	const { value } = groups;
	return html`<section class="view"><h1>Groups</h1>
		<${Answered} of=${groups} what="The groups" /><${Without} />
		${value?.length === 0 && html`<div class="empty"><p>No group was launched.</p><p><code>agentctl launch -p 'Try it' --adapter claude-code --adapter codex</code> launches two side by side.</p></div>`}
		${value?.map((group) => html`<article class="card"><header><a href=${`#/groups/${encodeURIComponent(group.group)}`}>${group.group}</a><span class="hint">${plural(group.slots.length, 'slot')} · <${Ago} time=${group.launchedAt} suffix=" ago" /></span></header>
			<p class="slots">${group.slots.map((slot) => html`<span><${Status} session=${slot.status ? slot : NOT_YET} /> ${slot.adapter}</span>`)}</p></article>`)}
	</section>`;
}

export function Group({ name, twice }) {
	useClock();
	const path = `/v1/groups/${encodeURIComponent(name)}`;
	const group = useAnswer(path, { every: 3000, ask: named });
	const value = group.value?.[0];
	const [open, setOpen] = useState('');
	const keyed = ({ host, slot }) => `${host}/${slot}`;
	const shown = value?.slots.find((slot) => keyed(slot) === open);
	return html`<section class="view"><a class="back always" href="#/groups">Groups</a><h1>${name}</h1>
		<${Answered} of=${group} what="The group" /><${Without} />
		${value && html`<div class="side-by-side">${value.slots.map((slot) => html`<${Slot} key=${keyed(slot)} ...${{ slot, twice, isOpen: slot === shown, toggle: () => setOpen(slot === shown ? '' : keyed(slot)) }} />`)}</div>`}
		${shown && html`<${SlotDiff} path=${`${path}/diff?${new URLSearchParams({ slot: shown.slot, ...(shown.host && machines()[1] ? { host: shown.host } : {}) })}`} slot=${shown.slot} />`}
	</section>`;
}

function Slot({ slot, twice, isOpen, toggle }) {
	const { session, diff } = slot;
	return html`<article class="card slot">
		<header><${Status} session=${session ?? NOT_YET} />${session ? html`<a href=${addressOf(session, twice)}>${slot.slot}</a>` : slot.slot}</header>
		<dl>
			<dt>Agent</dt><dd>${slot.adapter}${slot.model && ` · ${slot.model}`}</dd>
			${machines()[1] && html`<dt>Host</dt><dd>${slot.host}</dd>`}
			<dt>Time</dt><dd>${slot.seconds === null ? '–' : span(slot.seconds * 1000)}</dd>
			<dt>Tokens</dt><dd>${count(allTokens(session?.tokens))}</dd>
			<dt>Cost</dt><dd>${money(session?.cost)}</dd>
			<dt>Changes</dt><dd>${diff ? html`${plural(diff.files, 'file')} <span class="added">+${diff.insertions}</span> <span class="removed">−${diff.deletions}</span>` : '–'}</dd>
			<dt>Branch</dt><dd>${slot.branch || '–'}</dd>
		</dl>
		${session?.lastMessage && html`<p class="text hint">${line(session.lastMessage, 240)}</p>`}
		<div class="buttons"><button aria-expanded=${isOpen} onClick=${toggle}>Diff</button></div>
	</article>`;
}

function SlotDiff({ path, slot }) {
	const diff = useAnswer(path, { every: 5000 });
	const { value } = diff;
	const told = value?.slots.find((one) => one.slot === slot) ?? value?.slots[0];
	return html`<section class="panel changes" aria-label=${`Diff of ${slot}`}><h2>${slot}</h2>
		<${Answered} of=${diff} what="The diff" />
		${told?.error && html`<p class="trouble">${told.error}</p>`}
		${told && !told.error && (told.diff ? html`<${Diff} text=${told.diff} />` : html`<p>Nothing is changed in ${told.worktree}.</p>`)}
	</section>`;
}
