import { html, useState } from '../ui.js';
import { Command, Trouble, useAnswer, useDeed } from './parts.js';
import { post } from '../link/api.js';
import { door } from '../link/door.js';
import { machines } from '../link/fleet.js';
import { addressOf, quoted } from '../words.js';

const MODES = [['', 'as the agent itself decides'], ['plan', 'plan: look, change nothing'], ['accept-edits', 'accept-edits: edit without asking'], ['bypass', 'bypass: everything without asking']];

function commandLine({ host, agent, prompt, folder, worktree, branch, hold, mode }) {
	const words = ['agentctl', 'launch', agent || 'AGENT'];
	if (host) words.push('--host', host);
	if (worktree) words.push('--worktree', folder || '.', '--branch', branch || 'BRANCH');
	else if (folder) words.push('--cwd', folder);
	if (mode) words.push('--permission-mode', mode);
	if (hold) words.push('--hold');
	words.push('-p', prompt || '…');
	return words.map(quoted).join(' ');
}

export function Launch({ fleet }) {
	const [form, setForm] = useState({ host: '', agent: '', prompt: '', folder: '', worktree: false, branch: '', hold: true, mode: '' });
	const there = form.host && `?host=${encodeURIComponent(form.host)}`;
	const adapters = useAnswer(`/v1/adapters${there}`);
	const [state, does] = useDeed();
	const field = (name) => ({ value: form[name], onInput: (event) => setForm({ ...form, [name]: event.currentTarget.value }) });
	const check = (name) => ({ checked: form[name], onChange: (event) => setForm({ ...form, [name]: event.currentTarget.checked }) });
	const agents = (adapters.value ?? []).filter((adapter) => adapter.enabled);
	const agent = (agents.find(({ name }) => name === form.agent) ?? agents[0])?.name ?? '';
	const folders = [...new Set(fleet.sessions.filter((session) => session.host === (form.host || fleet.host) && session.cwd).map((session) => session.cwd))].sort().slice(0, 300);
	const command = commandLine({ ...form, agent });
	const launch = (event) => {
		event.preventDefault();
		const { worktree, folder, branch } = form;
		const place = worktree ? { worktree: { repository: folder, branch } } : folder ? { cwd: folder } : {};
		const body = { adapter: agent, prompt: form.prompt, hold: form.hold, ...place, ...(form.mode ? { permissionMode: form.mode } : {}) };
		does(true, async () => { location.hash = addressOf(await post(`/v1/sessions${there}`, body)); });
	};
	return html`<section class="view narrow"><h1>Launch an agent</h1>
		${door.readOnly && html`<p class="trouble">This page is read-only: nothing can be launched from it.</p>`}
		<form class="launch" onSubmit=${launch}>
			${machines()[1] && html`<label for="host">Machine</label><select id="host" ...${field('host')}>${machines().map((name) => html`<option value=${name === fleet.host ? '' : name}>${name}</option>`)}</select>`}
			<label for="agent">Agent</label><select id="agent" ...${field('agent')} value=${agent}>${agents.map((adapter) => html`<option value=${adapter.name}>${adapter.title}</option>`)}</select>
			<label for="prompt">Prompt</label><textarea id="prompt" rows="5" required ...${field('prompt')}></textarea>
			<label for="folder">Folder</label><input id="folder" type="text" list="folders" required=${form.worktree} placeholder="/home/you/project" autocomplete="off" spellcheck=${false} ...${field('folder')} />
			<datalist id="folders">${folders.map((folder) => html`<option value=${folder}></option>`)}</datalist>
			<label class="check"><input type="checkbox" ...${check('worktree')} /> In a working tree of its own, beside that repository</label>
			${form.worktree && html`<label for="branch">Branch</label><input id="branch" type="text" required spellcheck=${false} ...${field('branch')} />`}
			<label class="check"><input type="checkbox" ...${check('hold')} /> Hold: keep it after its turn, so that it can be spoken with</label>
			<label for="mode">Mode</label><select id="mode" ...${field('mode')}>${MODES.map(([value, word]) => html`<option value=${value}>${word}</option>`)}</select>
			<${Command} what="The same on the command line" command=${command} />
			<div class="buttons"><button class="primary" disabled=${state.busy || door.readOnly || !agent || !form.prompt.trim()}>Launch</button><span class="hint">${state.busy ? 'Launching: its id comes with its first turn…' : ''}</span></div>
			<${Trouble} error=${state.error} what="Not launched" />
			<${Trouble} error=${adapters.error} what="The agents could not be read" />
		</form>
	</section>`;
}
