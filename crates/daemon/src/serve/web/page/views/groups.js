import { html, useState } from '../ui.js';
import { Ago, Answered, Status, useAnswer, useClock } from './parts.js';
import { Diff } from './diff.js';
import { addressOf, allTokens, count, line, money, plural, span } from '../words.js';

const NOT_YET = { status: 'unknown', outcome: null };

export function Groups() {
	useClock();
	const groups = useAnswer('/v1/groups', { every: 5000 });
	const { value } = groups;
	return html`<section class="view"><h1>Groups</h1>
		<${Answered} of=${groups} what="The groups" />
		${value?.groups.length === 0 && html`<div class="empty"><p>No group was launched.</p><p><code>agentctl launch -p 'Try it' --adapter claude-code --adapter codex</code> launches two side by side.</p></div>`}
		${value?.groups.map((group) => html`<article class="card"><header><a href=${`#/groups/${encodeURIComponent(group.group)}`}>${group.group}</a><span class="hint">${plural(group.slots.length, 'slot')} · <${Ago} time=${group.launchedAt} suffix=" ago" /></span></header>
			<p class="slots">${group.slots.map((slot) => html`<span><${Status} session=${slot.status ? slot : NOT_YET} /> ${slot.adapter}</span>`)}</p></article>`)}
	</section>`;
}

export function Group({ name, twice }) {
	useClock();
	const path = `/v1/groups/${encodeURIComponent(name)}`;
	const group = useAnswer(path, { every: 3000 });
	const { value } = group;
	const [open, setOpen] = useState('');
	return html`<section class="view"><a class="back always" href="#/groups">Groups</a><h1>${name}</h1>
		<${Answered} of=${group} what="The group" />
		${value && html`<div class="side-by-side">${value.slots.map((slot) => html`<${Slot} key=${slot.slot} ...${{ slot, twice, isOpen: open === slot.slot, toggle: () => setOpen(open === slot.slot ? '' : slot.slot) }} />`)}</div>`}
		${open && html`<${SlotDiff} path=${`${path}/diff?slot=${encodeURIComponent(open)}`} slot=${open} />`}
	</section>`;
}

function Slot({ slot, twice, isOpen, toggle }) {
	const { session, diff } = slot;
	return html`<article class="card slot">
		<header><${Status} session=${session ?? NOT_YET} />${session ? html`<a href=${addressOf(session, twice.has(`${session.host}/${session.id}`))}>${slot.slot}</a>` : slot.slot}</header>
		<dl>
			<dt>Agent</dt><dd>${slot.adapter}${slot.model && ` · ${slot.model}`}</dd>
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
