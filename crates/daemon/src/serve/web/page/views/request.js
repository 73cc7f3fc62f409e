import { html, useEffect, useRef, useState } from '../ui.js';
import { Ago, Long, Trouble, typed, useDeed } from './parts.js';
import { Diff, isDiff } from './diff.js';
import { post } from '../link/api.js';
import { door } from '../link/door.js';
import { pathOf } from '../link/fleet.js';
import { exact } from '../words.js';

/** A request that has just appeared under the pointer is not answered by a click that was meant for another. */
const SETTLES = 350;
const WHOLE = 20_000;
const KINDS = { approval: 'asks for your approval', question: 'asks you', limit: 'is stopped by a limit' };

export function Request({ pending, target, keys, isOnlyOne }) {
	const [isSettled, settle] = useState(false);
	const summary = pending.summary ?? '';
	const isShort = summary.length <= WHOLE;
	const [unfolded, setUnfolded] = useState('');
	const isWhole = isShort || unfolded === summary;
	const [reason, setReason] = useState('');
	const [state, does] = useDeed();
	useEffect(() => {
		const timer = setTimeout(() => settle(true), SETTLES);
		return () => clearTimeout(timer);
	}, []);
	const can = pending.answerable && !door.readOnly && isSettled && !state.busy && !state.done;
	const answer = (body) => does(true, async () => (await post(pathOf(target, '/answer'), { request: pending.id, ...body })).decision);
	const text = (words) => answer({ text: words });
	const approve = () => can && isWhole && answer({ decision: 'approve' });
	const deny = () => can && answer({ decision: 'deny', ...(reason.trim() ? { text: reason.trim() } : {}) });
	const isApproval = pending.kind === 'approval';
	const offers = (kind) => !pending.options.length || pending.options.some((option) => option.kind === kind);
	const always = pending.options.find((option) => option.kind === 'allow-always' && ['once', 'session'].includes(option.scope));
	const wider = pending.options.filter((option) => option.kind === 'deny-always' || (option.kind === 'allow-always' && option !== always));
	const others = pending.options.filter((option) => option.kind === 'other');
	const box = useRef(null);
	const own = { ...(isApproval && { approve }), deny, focusAnswer: () => box.current.querySelector('.answer input')?.focus() };
	if (keys && isOnlyOne) Object.assign(keys, own);
	// Of several the keys mean the one that has the focus.
	useEffect(() => { box.current.keys = own; });
	return html`<section class="request" aria-label="Request" ref=${box} tabindex="0">
		<h2><span class="status waiting"><span class="glyph" aria-hidden="true">◐</span></span> ${KINDS[pending.kind] ?? 'waits'} <${Ago} time=${pending.since} prefix="since " /></h2>
		${pending.kind === 'limit' && pending.limitedUntil && html`<p>Until ${exact(pending.limitedUntil)}.</p>`}
		${summary ? (isShort && isDiff(summary) ? html`<${Diff} text=${summary} isWhole />` : html`<${Long} text=${summary} tag="pre" first=${WHOLE} onWhole=${() => setUnfolded(summary)} />`)
			: html`<p class="hint">The agent does not say what it asks for.</p>`}
		${!pending.answerable && html`<p class="hint">${pending.kind === 'limit' ? 'It goes on when the limit ends: resume it then.' : 'It cannot be answered from here: answer it where the agent runs.'}</p>`}
		${pending.answerable && door.readOnly && html`<p class="hint">This page is read-only.</p>`}
		${pending.answerable && !door.readOnly && html`
			${!isWhole && html`<p class="hint">Show the whole request before you approve it.</p>`}
			<div class="buttons">
				${isApproval && offers('allow-once') && html`<button class="primary" disabled=${!can || !isWhole} onClick=${approve}>Approve</button>`}
				${(isApproval || pending.options.length > 0) && offers('deny') && html`<button disabled=${!can} onClick=${deny}>Deny</button>`}
				${isApproval && always && html`<button class="quiet" disabled=${!can || !isWhole} onClick=${() => answer({ decision: 'approve-always' })} title=${always.label}>Approve for this session</button>`}
				${others.map((option) => html`<button disabled=${!can} onClick=${() => text(option.label)}>${option.label}</button>`)}
			</div>
			${isApproval && html`<label class="reason">Reason, if you deny it (optional)<input type="text" value=${reason} onInput=${typed(setReason)} /></label>`}
			${wider.length > 0 && html`<p class="hint">The agent also offers ${wider.map((option) => `“${option.label}”`).join(', ')}, which reaches beyond this session: choose that in the agent.</p>`}
			${pending.kind === 'question' && html`<${FreeAnswer} can=${can} send=${text} />`}`}
		${state.busy && html`<p class="hint">The agent is told…</p>`}
		${state.done && html`<p class="hint">The agent has taken it: ${state.done}.</p>`}
		<${Trouble} error=${state.error} what="Not answered" />
	</section>`;
}

function FreeAnswer({ can, send }) {
	const [words, set] = useState('');
	const submit = (event) => {
		event.preventDefault();
		if (can && words.trim()) send(words);
	};
	return html`<form class="answer" onSubmit=${submit}>
		<label>Answer<input type="text" value=${words} onInput=${typed(set)} /></label>
		<button disabled=${!can || !words.trim()}>Answer</button>
	</form>`;
}
