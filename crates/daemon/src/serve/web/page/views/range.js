import { html } from '../ui.js';

export const RANGES = [['1h', 'hour'], ['24h', 'day'], ['7d', 'week'], ['30d', '30 days']];

export function Range({ range, setRange }) {
	return html`<div class="range" role="group" aria-label="Range"><span class="hint">last</span>${RANGES.map(([value, word]) => html`<button class="quiet" aria-pressed=${range === value} onClick=${() => setRange(value)}>${word}</button>`)}</div>`;
}

const UNIT = { h: 3_600_000, d: 86_400_000 };
export const lengthOf = (range) => Number.parseInt(range, 10) * UNIT[range.at(-1)];
