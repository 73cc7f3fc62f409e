
const LIVE = {
	running: { glyph: '●', section: 'Working' },
	waiting: { glyph: '◐', section: 'Needs you' },
	idle: { glyph: '○', section: 'Ready' },
	unknown: { glyph: '?', section: 'Not known' },
};
const ENDED = { completed: '✓', failed: '✕', died: '✕', interrupted: '·' };

export const SECTIONS = ['Needs you', 'Working', 'Ready', 'Not known', 'Ended'];

/** How a status looks: its glyph, its words, the class that colours it, and where in the list it stands. */
export function look(status, outcome) {
	const live = LIVE[status];
	if (live) return { ...live, word: status, more: '', tone: status };
	const failed = outcome === 'failed' || outcome === 'died';
	return {
		glyph: ENDED[outcome] ?? (status === 'stopped' ? '·' : '?'),
		word: status ?? 'unknown',
		more: outcome === 'completed' ? 'done' : outcome ?? '',
		tone: failed ? 'failed' : outcome === 'completed' ? 'done' : 'stopped',
		section: 'Ended',
	};
}

export const isLive = (session) => session.status !== 'stopped';
