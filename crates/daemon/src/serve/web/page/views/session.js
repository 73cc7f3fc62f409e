import { html, useEffect, useMemo, useRef, useState } from '../ui.js';
import { Ago, Answered, Command, Reading, Status, Trouble, typed, useAnswer, useClock, useDeed } from './parts.js';
import { Conversation } from './conversation.js';
import { Diff } from './diff.js';
import { Request } from './request.js';
import { post } from '../link/api.js';
import { door } from '../link/door.js';
import { fleet, pathOf } from '../link/fleet.js';
import { allTokens, count, exact, isLive, money, plural, quoted, titleOf } from '../words.js';

const processes = (session) => plural(session.processes.length, 'process', 'processes');
const TWICE_BY_KEY = 2000;
const TWICE_BY_CLICK = 5000;

/** `row` is the session as the list has it, `null` for one that is not in the list. */
export function Session({ address, row, keys, isTwice }) {
	useClock();
	const target = useMemo(() => ({
		host: address.host, id: address.id, adapter: row?.adapter, configRoot: row?.configRoot, cwd: row?.cwd ?? address.cwd, twice: isTwice || Boolean(address.cwd),
	}), [address.host, address.id, address.cwd, row?.adapter, row?.configRoot, row?.cwd, isTwice]);
	const stamp = row ? `${row.status} ${row.outcome} ${row.updatedAt}` : '';
	const detail = useAnswer(fleet.host && pathOf(target, '', { usage: true }), { turn: row?.status, every: row ? 0 : 3000 });
	const [panel, setPanel] = useState('');
	useEffect(() => setPanel(''), [address.host, address.id]);
	const session = row ? { ...row, tokens: detail.value?.tokens ?? row.tokens, cost: detail.value?.cost ?? row.cost } : detail.value;
	for (const key of Object.keys(keys)) delete keys[key];
	const toggle = (name) => () => setPanel(panel === name ? '' : name);
	Object.assign(keys, { evidence: toggle('evidence'), changes: toggle('changes') });
	if (!session) {
		return html`<section class="session" aria-label="Session"><a class="back" href="#/">Back</a>
			${detail.error ? html`<${Trouble} error=${detail.error} what=${`${address.id} on ${address.host}`} />` : html`<${Reading} />`}</section>`;
	}
	keys.group = session.group ? () => { location.hash = `#/groups/${encodeURIComponent(session.group)}`; } : undefined;
	const requests = html`<div class="requests">${session.pending.map((pending, at) => html`<${Request} key=${pending.id ?? `${pending.kind} ${at} ${pending.summary}`} ...${{ pending, target, keys, isOnlyOne: session.pending.length === 1 }} />`)}</div>`;
	const tab = (name, words) => html`<button class="quiet tab" aria-expanded=${panel === name} onClick=${toggle(name)}>${words}</button>`;
	return html`<section class="session" aria-label="Session">
		<header class="head">
			<a class="back" href="#/">Back</a>
			<h1>${titleOf(session)}</h1>
			<p class="facts">
				<button class="quiet why" aria-expanded=${panel === 'evidence'} title="Why this status" onClick=${keys.evidence}><${Status} session=${session} /><${Ago} time=${session.since} prefix=" for " /></button>
				<span>${session.adapter}</span>
				${session.model && html`<span>${session.model}</span>`}
				<span class="path" title=${session.cwd}>${session.cwd ?? 'no folder'}${session.branch && html`<span class="branch"> · ${session.branch}</span>`}</span>
				${session.tokens && html`<span>${count(allTokens(session.tokens))} tokens</span>`}${session.cost !== null && html`<span>${money(session.cost)}</span>`}
				<code class="id" title=${session.id}>${session.id.slice(0, 8)}</code>
				${session.host !== fleet.host && html`<span>on ${session.host}</span>`}
				${session.group && html`<a href=${`#/groups/${encodeURIComponent(session.group)}`}>group ${session.group}</a>`}
			</p>
			<div class="buttons">
				${tab('evidence', 'Evidence')}${tab('processes', processes(session))}${tab('changes', 'Changes')}${tab('attach', 'Attach')}
				<span class="spring"></span>
				<${Verbs} ...${{ session, target, keys }} />
			</div>
		</header>
		${panel === 'evidence' && html`<${Evidence} ...${{ target, session, stamp }} />`}
		${panel === 'processes' && html`<${Processes} session=${session} />`}
		${panel === 'changes' && html`<${Changes} ...${{ target, stamp }} />`}
		${panel === 'attach' && html`<section class="panel" aria-label="Attach"><${Command} what="In a terminal: leads to where it runs, or opens it in its agent" command=${attachWords(target)} /></section>`}
		<${Conversation} ...${{ target, isAtWork: session.status === 'running' || session.status === 'unknown', stamp, below: requests }} />
		<${Say} key=${`${target.host} ${target.id}`} ...${{ session, target, keys }} />
	</section>`;
}

const attachWords = ({ host, id, cwd, twice }) => ['agentctl', 'attach', host === fleet.host ? id : `${host}/${id}`, ...(twice && cwd ? ['--cwd', cwd] : [])].map(quoted).join(' ');

function Verbs({ session, target, keys }) {
	const [armed, arm] = useState(0);
	const [state, does] = useDeed();
	const timer = useRef(null);
	useEffect(() => () => clearTimeout(timer.current), []);
	const act = (verb) => does(verb === 'stop' ? 'Stopping…' : 'Interrupting…', async () => {
		const done = await post(pathOf(target, `/${verb}`));
		return verb === 'interrupt' ? (done.interrupted ? 'The turn was ended.' : 'No turn was open.') : stopWords(done);
	});
	const stop = (patience) => {
		clearTimeout(timer.current);
		if (armed && Date.now() < armed) {
			arm(0);
			act('stop');
			return;
		}
		arm(Date.now() + patience);
		timer.current = setTimeout(() => arm(0), patience);
	};
	const live = isLive(session);
	const can = (verb) => live && !door.readOnly && !state.busy && session.capabilities.includes(verb);
	keys.interrupt = can('interrupt') ? () => act('interrupt') : undefined;
	keys.stop = can('stop') ? () => stop(TWICE_BY_KEY) : undefined;
	if (door.readOnly) return html`<span class="hint">read-only</span>`;
	return html`${live && session.capabilities.includes('interrupt') && html`<button disabled=${!can('interrupt') || session.status === 'idle'} onClick=${keys.interrupt}>Interrupt</button>`}
		${live && session.capabilities.includes('stop') && html`<button class=${armed ? 'danger armed' : 'danger'} disabled=${!can('stop')} aria-describedby="stop-words"
			onClick=${(event) => { if (event.detail < 2) stop(TWICE_BY_CLICK); }}>Stop</button>`}
		<span id="stop-words" class="hint verb-words">${armed ? `Press Stop again to end this session and its ${processes(session)}.` : state.busy ?? state.done}</span>
		<${Trouble} error=${state.error} what="Not done" />`;
}

function stopWords(done) {
	const reports = done.sessions ?? [];
	const left = reports.reduce((sum, report) => sum + (report.survived?.length ?? 0), 0);
	return left ? `${plural(left, 'process', 'processes')} could not be ended.` : 'Stopped; no process is left.';
}

function Evidence({ target, session, stamp }) {
	const { value, error } = useAnswer(pathOf(target, '/explain'), { turn: stamp });
	const told = value ?? session;
	return html`<section class="panel" aria-label="Evidence">
		${value && html`<p>${value.ruleText}</p>`}
		<ul class="evidence">${told.evidence.map((fact) => html`<li><span class="who">${fact.source}</span> <span class="text">${fact.fact}</span> <${Ago} time=${fact.at} suffix=" ago" /></li>`)}</ul>
		<${Trouble} error=${error} what="Not explained" />
	</section>`;
}

function Processes({ session }) {
	return html`<section class="panel" aria-label="Processes">${session.processes.length === 0 ? html`<p>No process carries this session now.</p>`
		: html`<table class="plain"><thead><tr><th>Pid</th><th>Role</th><th>Since</th><th>Command</th></tr></thead><tbody>${session.processes.map((process) => html`<tr><td>${process.pid}</td><td>${process.role}</td><td title=${exact(process.startedAt)}><${Ago} time=${process.startedAt} /></td><td class="text"><code>${process.command.slice(0, 400)}</code></td></tr>`)}</tbody></table>`}</section>`;
}

function Changes({ target, stamp }) {
	const changes = useAnswer(pathOf(target, '/changes'), { turn: stamp, every: 5000 });
	const { value } = changes;
	return html`<section class="panel changes" aria-label="Changes of its working tree">
		<${Answered} of=${changes} what="The changes" />
		${value && value.files.length === 0 && html`<p>Nothing is changed in ${value.cwd}.</p>`}
		${value && html`<ul class="files">${value.files.map((file) => html`<li><code>${file.path}</code> <span class="added">+${file.added ?? '?'}</span> <span class="removed">−${file.removed ?? '?'}</span></li>`)}</ul>`}
		${value?.diff && html`<${Diff} text=${value.diff} />`}
		${value?.truncated && html`<p class="hint">The rest is not shown here: \`git diff\` in ${value.cwd} shows it.</p>`}
	</section>`;
}

function Say({ session, target, keys }) {
	const [words, setWords] = useState('');
	const [hold, setHold] = useState(true);
	const [state, does] = useDeed();
	const box = useRef(null);
	const live = isLive(session);
	const verb = live ? 'send' : 'resume';
	const can = session.capabilities.includes(verb) && !door.readOnly;
	const submit = (event) => {
		event?.preventDefault();
		if (!words.trim() || state.busy) return;
		does(true, async () => {
			const receipt = await post(pathOf(target, `/${verb}`), live ? { message: words } : { message: words, hold });
			setWords('');
			return receipt.accepted === 'queued' ? 'Queued by the agent.' : 'The agent has it.';
		});
	};
	const focus = () => box.current?.focus();
	keys.send = live && can ? focus : undefined;
	keys.resume = !live && can ? focus : undefined;
	if (!can) {
		const why = door.readOnly ? 'This page is read-only.'
			: live ? 'This session takes no messages from here: its agent offers no way in.' : 'This session cannot be resumed.';
		return html`<p class="say hint">${why}</p>`;
	}
	const keyDown = (event) => { if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) submit(event); };
	return html`<form class="say" onSubmit=${submit}>
		<label><span class="unseen">Message</span><textarea ref=${box} rows="2" placeholder=${live ? 'Say something to it' : 'Say something to take it up again'} value=${words} onInput=${typed(setWords)} onKeyDown=${keyDown}></textarea></label>
		<button class="primary" disabled=${!words.trim() || state.busy}>${live ? 'Send' : 'Resume'}</button>
		${!live && html`<label class="check"><input type="checkbox" checked=${hold} onChange=${(event) => setHold(event.currentTarget.checked)} /> Keep it after its turn</label>`}
		<p class="hint">${state.busy ? 'The agent is told…' : state.done}</p>
		<${Trouble} error=${state.error} what=${live ? 'Not sent' : 'Not resumed'} />
	</form>`;
}
