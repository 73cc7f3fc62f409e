import { html } from '../ui.js';
import { Answered, useAnswer, useClock, Without } from './parts.js';
import { everywhere } from '../link/fleet.js';
import { lengthOf, Range } from './range.js';
import { addressOf, exact, keyOf, look, span, titleOf } from '../words.js';

const WIDTH = 1000;
const MOST = 300;
const DAY = 86_400_000;
const STEPS = [300_000, 900_000, 3_600_000, 10_800_000, 21_600_000, DAY, 5 * DAY];

/** Moments that lie a step apart from each midnight on, by the clock of whoever looks: that is how they are labelled. */
function ticksOf(begin, end, step) {
	const ticks = [];
	for (let day = new Date(begin).setHours(0, 0, 0, 0), next; day < end; day = next) {
		next = new Date(day).setDate(new Date(day).getDate() + Math.max(1, step / DAY));
		for (let tick = day; tick < Math.min(next, end); tick += step < DAY ? step : Infinity) if (tick >= begin) ticks.push(tick);
	}
	return ticks;
}

export function Timeline({ fleet, range, setRange, twice }) {
	useClock(10_000);
	const timeline = useAnswer(`/v1/timeline?since=${range}${everywhere()}`, { every: 5000 });
	const { value } = timeline;
	const end = Date.now();
	const begin = end - lengthOf(range);
	const step = STEPS.find((length) => lengthOf(range) / length <= 8) ?? STEPS.at(-1);
	const ticks = ticksOf(begin, end, step);
	const place = (time) => Math.min(1, Math.max(0, (time - begin) / (end - begin)));
	const lanes = value?.lanes ?? [];
	const day = step >= DAY;
	return html`<section class="view timeline"><h1>Timeline</h1><${Range} ...${{ range, setRange }} />
		<${Answered} of=${timeline} what="The timeline" /><${Without} />
		${value && lanes.length === 0 && html`<div class="empty"><p>Nothing was recorded in this time.</p></div>`}
		${lanes.length > 0 && html`
			<svg class="unseen" aria-hidden="true"><defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="hatch" width="2" height="6" /></pattern></defs></svg>
			<p class="legend">${['running', 'waiting', 'idle', 'unknown', 'stopped'].map((status) => html`<span><svg viewBox="0 0 18 12" class="key" aria-hidden="true"><rect class=${`span ${status}`} width="18" height="12" /></svg> ${status}</span>`)}</p>
			<div class="lanes">
				<div class="lane scale" aria-hidden="true"><span></span><div>${ticks.map((tick) => html`<span class="tick" style=${{ left: `${place(tick) * 100}%` }}>${new Date(tick).toLocaleString(undefined, day ? { month: 'short', day: 'numeric' } : { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })}</span>`)}</div></div>
				${lanes.slice(0, MOST).map((lane) => html`<${Lane} key=${keyOf({ ...lane, id: lane.sessionId })} ...${{ lane, place, end, fleet, twice, ticks }} />`)}
			</div>
			${lanes.length > MOST && html`<p class="hint">${lanes.length - MOST} more lanes are not drawn; \`agentctl timeline\` tells them.</p>`}`}
	</section>`;
}

function Lane({ lane, place, end, fleet, twice, ticks }) {
	const own = { ...lane, id: lane.sessionId };
	const session = fleet.sessions.find((one) => one.id === own.id && keyOf(one) === keyOf(own)) ?? own;
	const name = titleOf(session).slice(0, 80);
	const words = (piece) => `${piece.status} ${exact(piece.from)} – ${piece.to ? exact(piece.to) : 'now'} (${span((piece.to ? Date.parse(piece.to) : end) - Date.parse(piece.from))})`;
	return html`<div class="lane"><a href=${addressOf(session, twice)} title=${`${lane.adapter} ${lane.sessionId}`}>${fleet.hosts.length > 1 && html`<span class="hint">${lane.host} </span>`}${name}</a>
		<svg viewBox=${`0 0 ${WIDTH} 18`} preserveAspectRatio="none" role="img" aria-label=${`${name}: ${lane.spans.slice(-6).map(words).join('; ')}`}>
			${ticks.map((tick) => html`<line class="grid" x1=${place(tick) * WIDTH} x2=${place(tick) * WIDTH} y1="0" y2="18" />`)}
			${lane.spans.map((piece) => {
				const [from, to] = [place(Date.parse(piece.from)), place(piece.to ? Date.parse(piece.to) : end)];
				return to > 0 && from < 1 && html`<rect class=${`span ${look(piece.status, piece.outcome).tone}`} x=${from * WIDTH} width=${Math.max((to - from) * WIDTH, 1.5)} y="3" height="12"><title>${words(piece)}</title></rect>`;
			})}
		</svg></div>`;
}
