//! How OpenCode is started, resumed and stopped. Making a plan is pure.

use std::collections::BTreeMap;

use agentctl_model::text::clean;
use agentctl_model::{
    CleanSignal, Conversation, Error, FirstWords, IdSource, Intent, KernelView, Permission, Process, Session,
    SpawnPlan, Stdin, StopWay,
};
use serde_json::{Map, Value};

use super::OpenCode;
use super::processes::{Kind, OPENCODE};
use super::server::held::PrivateOpenCode;
use super::server::http::Door;
use super::server::steer::Steered;
use crate::Root;
use crate::control::{Control, Reached, on_screen, owners, with_prompt_on_stdin};
use crate::hold::HoldPlan;

const PROGRAM: &str = "opencode";

/// Permission rules that override the user's own. All versions accept them; the flag that allows everything is newer
/// than some of those versions.
const RULES: &str = "OPENCODE_PERMISSION";

/// Everything that rules exist for. The star alone would lose against a rule of the user for one tool.
const EVERYTHING: [&str; 17] = [
    "*",
    "bash",
    "codesearch",
    "doom_loop",
    "edit",
    "external_directory",
    "glob",
    "grep",
    "list",
    "lsp",
    "read",
    "skill",
    "task",
    "todoread",
    "todowrite",
    "webfetch",
    "websearch",
];

/// How many lines of an error are shown.
const MOST_LINES: usize = 12;

/// The arguments that every start shares, after the first ones, and the variables.
fn arguments(intent: &Intent, first: &[&str]) -> Result<(Vec<String>, BTreeMap<String, String>), Error> {
    if intent.system_prompt.is_some() {
        return Err(Error::refused("opencode takes no further instructions at a launch")
            .hint("put them into AGENTS.md or into the prompt"));
    }
    let mut args: Vec<String> = first.iter().map(|&arg| arg.to_owned()).collect();
    match &intent.conversation {
        Conversation::New => {}
        Conversation::Stored { id, .. } => args.push(format!("--session={id}")),
        Conversation::ForkOf { id, .. } => args.extend([format!("--session={id}"), "--fork".to_owned()]),
    }
    if let Some(model) = &intent.model {
        args.push(format!("--model={}", full_name(model)?));
    }
    // OpenCode uses this variable and not the process's working directory.
    let mut env = BTreeMap::from([("PWD".to_owned(), intent.cwd.to_string_lossy().into_owned())]);
    match intent.permission {
        None | Some(Permission::Default) => {}
        Some(Permission::Plan) => args.push("--agent=plan".to_owned()),
        Some(Permission::AcceptEdits) => {
            env.insert(RULES.to_owned(), allowing(&["edit"]));
        }
        Some(Permission::Bypass) => {
            env.insert(RULES.to_owned(), allowing(&EVERYTHING));
        }
    }
    args.extend(intent.more.iter().cloned());
    Ok((args, env))
}

impl Control for OpenCode {
    fn plan(&self, intent: &Intent) -> Result<SpawnPlan, Error> {
        // The log names the session that was created, and a user's setting could reduce what the log contains.
        let (args, env) =
            arguments(intent, &["run", "--format", "json", "--print-logs", "--log-level", "INFO"])?;
        let id = match &intent.conversation {
            Conversation::New | Conversation::ForkOf { .. } => IdSource::FirstWords,
            Conversation::Stored { id, .. } => IdSource::Known(id.clone()),
        };
        Ok(SpawnPlan { env, ..with_prompt_on_stdin(PROGRAM, args, intent, id) })
    }

    /// Only its server asks what a run refuses by itself.
    fn hold(&self, intent: &Intent) -> Result<HoldPlan, Error> {
        if intent.system_prompt.is_some() {
            return Err(no_instructions());
        }
        let model = intent.model.as_deref().map(full_name).transpose()?;
        let id = match &intent.conversation {
            Conversation::New | Conversation::ForkOf { .. } => IdSource::FirstWords,
            Conversation::Stored { id, .. } => IdSource::Known(id.clone()),
        };
        let mut env = environment(intent);
        if intent.permission == Some(Permission::Plan) {
            // Later messages name no agent of their own.
            env.insert("OPENCODE_CONFIG_CONTENT".to_owned(), r#"{"default_agent":"plan"}"#.to_owned());
        }
        let args = ["serve", "--hostname", "127.0.0.1", "--port", "0"].map(str::to_owned).into_iter();
        let args = args.chain(intent.more.iter().cloned()).collect();
        let (program, cwd) = (PROGRAM.to_owned(), intent.cwd.clone());
        let spawn = SpawnPlan { program, args, env, cwd, stdin: Stdin::Nothing, id };
        Ok(HoldPlan::server(
            spawn,
            PrivateOpenCode::of(intent, model.and_then(|model| model.split_once('/'))),
        ))
    }

    /// The agent ignores a prompt for a session that it has stored.
    fn terminal(&self, intent: &Intent) -> Result<SpawnPlan, Error> {
        if intent.conversation != Conversation::New {
            return Err(Error::refused("OpenCode takes a prompt for its screen only with a new session")
                .hint("resume it without --terminal"));
        }
        let (mut args, env) = arguments(intent, &[])?;
        args.push(format!("--prompt={}", intent.words));
        let plan = on_screen(PROGRAM, args, intent, IdSource::Seen, "OpenCode")?;
        Ok(SpawnPlan { env, ..plan })
    }

    /// The log names the session when it is created, the events only with the model's first output. Sub-agents come
    /// later.
    fn learn_id(&self, said: FirstWords<'_>) -> Option<String> {
        let made = complete_lines(said.stderr).find_map(created_in_log);
        made.or_else(|| events(said.stdout).find_map(|event| event["sessionID"].as_str().map(str::to_owned)))
    }

    /// The last error event. For some errors only the log has the reason, under the event's reference; an error
    /// before the session exists is printed between the lines of the log.
    fn complaint(&self, said: FirstWords<'_>) -> Option<String> {
        let Some(error) = events(said.stdout).filter(|event| event["type"] == "error").last() else {
            return error_outside_log(said.stderr);
        };
        let data = &error["error"]["data"];
        let logged = data["ref"].as_str().and_then(|reference| {
            let mark = format!(" ref={reference} ");
            complete_lines(said.stderr).find(|line| line.contains(&mark)).and_then(reason_in_log)
        });
        let words = logged.or_else(|| data["message"].as_str().map(str::to_owned));
        words.or_else(|| error["error"]["name"].as_str().map(str::to_owned))
    }

    /// A run has no clean end: its transcript stays as it is. A terminal records the end of its turn. A
    /// process that serves several sessions is asked to interrupt one of them.
    fn stop_way(&self, _session: &Session, process: &Process) -> StopWay {
        match OPENCODE.kind(&process.head) {
            Kind::Server | Kind::Editor => StopWay::Ask,
            Kind::Terminal if process.listening.seen().is_some_and(|at| !at.is_empty()) => StopWay::Ask,
            _ => StopWay::Signal(CleanSignal::Terminate),
        }
    }

    /// The tools only know the process, and those of old versions not even that.
    fn tool_marks(&self, _id: &str, pid: Option<u32>) -> Vec<(&'static str, String)> {
        pid.map(|pid| ("OPENCODE_PID", pid.to_string())).into_iter().collect()
    }

    /// Only the owner counts, if it listens: another server would accept the request and do nothing.
    fn reach<'s>(&self, root: &Root, kernel: &KernelView, session: &'s Session) -> Reached<'s> {
        let owners: Vec<&Process> =
            owners(kernel, session).filter(|process| self.is_ours(process, root)).collect();
        let doors: Vec<Door> = owners.iter().flat_map(|owner| Door::all_of(owner)).collect();
        let is_private = owners.iter().any(|owner| kernel.private_server_of(owner).is_some());
        match &session.cwd {
            Some(directory) if !doors.is_empty() => {
                let steered = Steered::reach(&doors, directory, &session.id)?;
                Ok(Some(Box::new(steered.private(is_private))))
            }
            _ => Ok(None),
        }
    }
}

/// The variables of every start.
fn environment(intent: &Intent) -> BTreeMap<String, String> {
    // OpenCode uses this variable and not the process's working directory.
    let mut env = BTreeMap::from([("PWD".to_owned(), intent.cwd.to_string_lossy().into_owned())]);
    match intent.permission {
        None | Some(Permission::Default | Permission::Plan) => {}
        Some(Permission::AcceptEdits) => {
            env.insert(RULES.to_owned(), allowing(&["edit"]));
        }
        Some(Permission::Bypass) => {
            env.insert(RULES.to_owned(), allowing(&EVERYTHING));
        }
    }
    env
}

fn no_instructions() -> Error {
    Error::refused("opencode takes no further instructions at a launch")
        .hint("put them into AGENTS.md or into the prompt")
}

/// `provider/model`; OpenCode fails on anything else without giving a reason.
fn full_name(model: &str) -> Result<&str, Error> {
    match model.split_once('/') {
        Some((provider, name)) if !provider.is_empty() && !name.is_empty() => Ok(model),
        _ => Err(Error::refused(format!("opencode needs a model as provider/model: {model}"))
            .hint("`opencode models` lists them")),
    }
}

fn allowing(what: &[&str]) -> String {
    let rules: Map<String, Value> = what.iter().map(|rule| ((*rule).to_owned(), "allow".into())).collect();
    Value::Object(rules).to_string()
}

fn complete_lines(said: &str) -> impl DoubleEndedIterator<Item = &str> {
    said.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'))
}

fn events(stdout: &str) -> impl Iterator<Item = Value> {
    complete_lines(stdout).filter_map(|line| serde_json::from_str(line).ok())
}

/// The session that a line of the log reports as created: `… message=created id=ses_… slug=…`, and until 1.1 `…
/// service=session id=ses_… slug=… created`.
fn created_in_log(line: &str) -> Option<String> {
    let behind = |mark: &str| line.split_once(mark).map(|(_, rest)| rest);
    let young = behind(" message=created id=").filter(|_| line.starts_with("timestamp="));
    let old =
        behind(" service=session id=").filter(|_| line.starts_with("INFO ") && line.ends_with(" created"));
    let id = young.or(old)?.split(' ').next()?;
    id.starts_with("ses").then(|| id.to_owned())
}

/// What the agent printed on stderr outside its log lines, from the first mention of an error on.
fn error_outside_log(stderr: &str) -> Option<String> {
    let is_log = |line: &&str| line.starts_with("timestamp=") || line.starts_with("INFO ");
    let lines = complete_lines(stderr).filter(|line| !is_log(line)).map(without_colours);
    let words: Vec<String> = lines.skip_while(|line| !line.starts_with("Error: ")).take(MOST_LINES).collect();
    (!words.is_empty()).then(|| words.join("\n").trim_end().to_owned())
}

/// `ESC [ … m` changes the colour of what follows.
fn without_colours(line: &str) -> String {
    let mut pieces = line.split("\u{1b}[");
    let first = pieces.next().unwrap_or_default();
    let rest = pieces.map(|piece| piece.split_once('m').map_or(piece, |(_, words)| words));
    clean(&std::iter::once(first).chain(rest).collect::<String>())
}

/// `error="…"`, written as JSON writes it.
fn reason_in_log(line: &str) -> Option<String> {
    let (_, rest) = line.split_once(" error=")?;
    serde_json::Deserializer::from_str(rest).into_iter::<String>().next()?.ok()
}

#[cfg(test)]
#[path = "control_tests.rs"]
mod tests;
