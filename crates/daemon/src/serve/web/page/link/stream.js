import { open } from './api.js';

/** Reads the stream until it ends; `hear` gets each event's data. Returns the cursor of the last one. */
export async function listen(cursor, hear, signal) {
	const headers = cursor ? { 'Last-Event-ID': cursor } : {};
	const answer = await open('/v1/events', { headers, signal });
	const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
	let rest = '';
	let last = cursor;
	for (;;) {
		const { done, value } = await reader.read().catch(() => ({ done: true }));
		if (done) return last;
		rest += value;
		const parts = rest.split('\n\n');
		rest = parts.pop();
		for (const part of parts) {
			const data = [];
			for (const field of part.split('\n')) {
				if (field.startsWith('id:')) last = field.slice(3).trim();
				if (field.startsWith('data:')) data.push(field.slice(5).trim());
			}
			if (data.length) hear(JSON.parse(data.join('\n')));
		}
	}
}
