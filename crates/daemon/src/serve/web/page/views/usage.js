import { html, useState } from '../ui.js';
import { Answered, useAnswer, Without } from './parts.js';
import { everywhere } from '../link/fleet.js';
import { Range } from './range.js';
import { allTokens, count, money, plural } from '../words.js';

const BY = [['day', 'day'], ['model', 'model'], ['cwd', 'project'], ['adapter', 'agent']];
const BASIS = { agent: 'by the agents’ own figures', config: 'by your prices', table: 'by the bundled prices', mixed: 'by figures of several kinds' };

export function Usage({ range, setRange }) {
	const [by, setBy] = useState('day');
	const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC';
	const usage = useAnswer(`/v1/usage?${new URLSearchParams({ by, since: range, tz: zone })}${everywhere()}`, { every: 30_000 });
	const { value } = usage;
	const rows = value?.rows ?? [];
	const priced = rows.some((row) => row.cost !== null);
	const size = (row) => (priced ? row.cost ?? 0 : allTokens(row.tokens) ?? 0);
	const most = Math.max(...rows.map(size), 0) || 1;
	const ordered = by === 'day' ? rows : [...rows].sort((a, b) => size(b) - size(a));
	return html`<section class="view narrow"><h1>Usage</h1>
		<${Range} ...${{ range, setRange }} />
		<div class="range" role="group" aria-label="By"><span class="hint">by</span>${BY.map(([key, word]) => html`<button class="quiet" aria-pressed=${by === key} onClick=${() => setBy(key)}>${word}</button>`)}</div>
		<${Answered} of=${usage} what="The usage" /><${Without} />
		${value && html`<p class="total"><b>${money(value.total.cost)}</b> <span>${count(allTokens(value.total.tokens))} tokens</span> <span>${plural(value.total.sessions, 'session')}</span>
			${value.total.costBasis && html`<span class="hint">${BASIS[value.total.costBasis]}</span>`}</p>`}
		${value && rows.length === 0 && html`<div class="empty"><p>Nothing was spent in this time.</p></div>`}
		${rows.length > 0 && html`<table class="plain bars"><thead><tr><th class="first">${BY.find(([key]) => key === by)[1]}</th><th><span class="unseen">Share</span></th><th class="figure">Cost</th><th class="figure">Tokens</th><th class="figure">Sessions</th></tr></thead>
			<tbody>${ordered.slice(0, 200).map((row) => html`<tr key=${row.key}><th scope="row" title=${row.key}>${row.key ?? 'not known'}</th>
				<td class="bar"><span class="fill" style=${{ width: `${(size(row) / most) * 100}%` }}></span></td>
				<td class="figure">${money(row.cost)}</td><td class="figure">${count(allTokens(row.tokens))}</td><td class="figure">${row.sessions}</td></tr>`)}</tbody></table>`}
		${value?.unpriced.length > 0 && html`<p class="hint">Without a price: ${value.unpriced.join(', ')}. Their tokens count, their cost is not known.</p>`}
	</section>`;
}
