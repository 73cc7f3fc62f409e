// What agents wrote is hostile text. It reaches the page as text nodes only, and what could hide or reorder it is made visible.

const ESCAPE_SEQUENCE = /\u001b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g;
// Controls without tab and line feed, marks that change the direction of writing, and characters that nobody can see.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udfff]/g;

const named = (unseen) => `⟨U+${unseen.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}⟩`;

export function clean(text) {
	if (text === null || text === undefined) return '';
	return String(text).replace(/\r\n?/g, '\n').replace(ESCAPE_SEQUENCE, '').replace(UNSEEN, named);
}

/** The beginning of a text on one line. Only what is shown is looked at: the text may be megabytes long. */
export function line(text, most = 200) {
	if (!text) return '';
	const start = String(text).slice(0, most * 4);
	const one = clean(start).replace(/\s+/g, ' ').trim();
	return one.length > most || text.length > start.length ? `${one.slice(0, most)}…` : one;
}

/** What a tool is called with, for a glance: the command itself, or the only text that was given. */
export function brief(text) {
	if (text?.[0] !== '{' || text.length > 4000) return text;
	try {
		const given = JSON.parse(text);
		const values = Object.values(given);
		const told = given.command ?? (values.length === 1 ? values[0] : null);
		return typeof told === 'string' ? told : text;
	} catch {
		return text;
	}
}

export function baseName(path) {
	if (!path) return '';
	const parts = path.split('/').filter(Boolean);
	return clean(parts.at(-1) ?? '/');
}

export function quoted(argument) {
	return /^[A-Za-z0-9_@%+=:,./-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", "'\\''")}'`;
}

export const plural = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;
