import { html } from '../ui.js';
import { Ago, Trouble, useAnswer, useClock } from './parts.js';

const GLYPH = { complete: ['✓', 'done'], partial: ['?', 'waiting'], 'not-installed': ['·', 'stopped'] };
const Coverage = ({ coverage }) => {
	const [glyph, tone] = GLYPH[coverage] ?? ['✕', 'failed'];
	return html`<span class=${`status ${tone}`}><span class="glyph" aria-hidden="true">${glyph}</span><span>${coverage}</span></span>`;
};

const Table = ({ name, heads, children }) => html`<h2>${name}</h2><div class="sideways" tabindex="0" role="region" aria-label=${name}>
	<table class="plain"><thead><tr>${heads.map((head) => html`<th class=${head.startsWith('#') && 'figure'}>${head.replace('#', '')}</th>`)}</tr></thead><tbody>${children}</tbody></table></div>`;
const Figure = ({ children }) => html`<td class="figure">${children}</td>`;

export function Hosts({ fleet }) {
	useClock();
	const { value, error } = useAnswer('/v1/hosts', { every: 10_000 });
	const daemon = useAnswer('/v1/daemon', { every: 10_000 }).value;
	const hosts = value?.hosts ?? fleet.hosts;
	return html`<section class="view"><h1>Hosts and sources</h1>
		<${Trouble} error=${error} what="The machines could not be asked" />
		<${Table} name="Machines" heads=${['Name', 'Heard', 'By', '#Live', '#Waiting', '#Took', 'Version', 'Why not']}>
			${hosts.map((row) => html`<tr key=${row.name}><th scope="row">${row.name}${row.name === fleet.host && html` <span class="hint">this machine</span>`}</th><td><${Coverage} coverage=${row.coverage} /></td><td>${row.via}</td>
			<${Figure}>${row.live ?? '–'}<//><${Figure}>${row.waiting ?? '–'}<//><${Figure}>${row.tookMs} ms<//><td>${row.version ?? '–'}</td>
			<td class="text">${row.error} <span class="hint">${row.hint}</span>${row.coverage !== 'complete' && html` <${Ago} time=${row.asOf} prefix="last heard " suffix=" ago" />`}</td></tr>`)}<//>
		<${Table} name="Sources" heads=${['Agent', 'Heard', 'Root', '#Sessions', '#Took', 'Why not']}>
			${fleet.sources.map((row) => html`<tr key=${`${row.host} ${row.adapter} ${row.root}`}><th scope="row">${row.adapter}${fleet.hosts.length > 1 && html` <span class="hint">${row.host}</span>`}</th><td><${Coverage} coverage=${row.coverage} /></td><td><code>${row.root}</code></td>
			<${Figure}>${row.sessions ?? '–'}<//><${Figure}>${row.tookMs} ms<//><td class="text">${[row.error, ...row.warnings].filter(Boolean).join('; ')}</td></tr>`)}<//>
		${daemon && html`<p class="hint">agentctl ${daemon.version}, up for <${Ago} time=${daemon.startedAt} />, watching ${daemon.watchedFolders} folders and ${daemon.watchedProcesses} processes. ${daemon.watchIncomplete}</p>`}
	</section>`;
}
