
export function ago(time, now = Date.now()) {
	const then = typeof time === 'number' ? time : Date.parse(time);
	return Number.isNaN(then) ? '' : span(now - then);
}

export function span(milliseconds) {
	const seconds = Math.max(0, Math.round(milliseconds / 1000));
	if (seconds < 60) return `${seconds}s`;
	if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
	if (seconds < 86400) return `${Math.floor(seconds / 3600)}h`;
	return `${Math.floor(seconds / 86400)}d`;
}

const EXACT = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
export function exact(time) {
	const date = new Date(time);
	return time === null || Number.isNaN(date.getTime()) ? '' : EXACT.format(date);
}

export const clock = (time) => new Date(time).toLocaleTimeString(undefined, { hourCycle: 'h23' });

export function count(number) {
	if (number === null || number === undefined) return '–';
	if (number < 10_000) return number.toLocaleString('en');
	if (number < 1_000_000) return `${(number / 1000).toFixed(number < 100_000 ? 1 : 0)}k`;
	return `${(number / 1_000_000).toFixed(number < 100_000_000 ? 1 : 0)}M`;
}

export const allTokens = (tokens) => {
	const known = tokens ? Object.values(tokens).filter((part) => part !== null) : [];
	return known.length ? known.reduce((sum, part) => sum + part, 0) : null;
};

export const money = (cost) => (cost === null || cost === undefined ? '–' : `$${cost < 100 ? cost.toFixed(2) : Math.round(cost).toLocaleString('en')}`);
