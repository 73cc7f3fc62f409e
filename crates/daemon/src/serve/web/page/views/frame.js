import { html } from '../ui.js';
import { useClock } from './parts.js';
import { signOut } from '../link/api.js';
import { door } from '../link/door.js';
import { clock, look, plural, span } from '../words.js';

const OLD = 10_000;
const WAYS = [['', 'Sessions'], ['inbox', 'Inbox'], ['groups', 'Groups'], ['timeline', 'Timeline'], ['usage', 'Usage'], ['hosts', 'Hosts']];

export function countsOf(sessions) {
	const counts = { waiting: 0, running: 0, idle: 0, failed: 0 };
	for (const session of sessions) {
		const { tone } = look(session.status, session.outcome);
		if (tone in counts) counts[tone] += 1;
	}
	return counts;
}

export function Header({ fleet, view, showHelp }) {
	const counts = countsOf(fleet.sessions);
	return html`<header class="top">
		<a class="brand" href="#/">agentctl${fleet.host && html` <span class="hint">${fleet.host}</span>`}</a>
		<p class="counts">
			<a href="#/inbox" class=${counts.waiting ? 'status waiting loud' : 'status idle'}><span class="glyph" aria-hidden="true">◐</span> ${counts.waiting} need${counts.waiting === 1 ? 's' : ''} you</a>
			${[['running', '●'], ['idle', '○'], ['failed', '✕']].map(([tone, glyph]) => (tone !== 'failed' || counts.failed > 0) && html`<span class=${`status ${tone}`} title=${tone}><span class="glyph" aria-hidden="true">${glyph}</span> ${counts[tone]}<span class="unseen"> ${tone}</span></span>`)}
			${door.readOnly && html`<span class="tag">read-only</span>`}
		</p>
		<nav aria-label="Views">${WAYS.map(([path, word]) => html`<a href=${`#/${path}`} aria-current=${view === path ? 'page' : null}>${word}</a>`)}</nav>
		<p class="doors">${!door.readOnly && html`<a class="button primary" href="#/launch">Launch…</a>`}
			<button class="quiet" aria-label="Help" title="Keys" onClick=${showHelp}>?</button>
			<button class="quiet" onClick=${signOut}>Sign out</button></p>
	</header>`;
}

export function Banner({ fleet }) {
	useClock(1000);
	const age = fleet.heardAt ? Date.now() - fleet.heardAt : 0;
	const asOf = fleet.heardAt ? ` What you see is from ${clock(fleet.heardAt)}, ${span(age)} ago.` : '';
	if (door.state === 'stranger') {
		return html`<div class="banner bad"><b>Something else answers on this port.</b> It does not know this page’s token, which was not sent to it. Run <code>agentctl web</code> for a new address.${asOf}</div>`;
	}
	if (door.state === 'lost') {
		return html`<div class="banner bad"><b>The daemon does not answer</b> (${door.why}, since ${span(Date.now() - door.since)}). It is asked again every second; <code>agentctl daemon start</code> starts it.${asOf}</div>`;
	}
	if (fleet.problem) return html`<div class="banner">The list could not be read: ${fleet.problem}.${asOf}</div>`;
	if (fleet.heardAt && age > OLD && !document.hidden) return html`<div class="banner">The last answer is old.${asOf}</div>`;
	return null;
}

export function SignedOut() {
	return html`<main class="signed-out"><h1>Signed out</h1>
		<p>Run <code>agentctl web</code> in a terminal on this machine: it opens this page, signed in.</p>
		<p class="hint">Over SSH: <code>agentctl web --print</code> prints the address.${door.why && ` (${door.why})`}</p></main>`;
}

export const summaryOf = (counts) => (counts.waiting ? `◐ ${counts.waiting} · agentctl` : 'agentctl');
export const announcement = (sessions) => `${plural(sessions.length, 'session')} ${sessions.length === 1 ? 'needs' : 'need'} you: `;
