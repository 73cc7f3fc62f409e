//! Which processes are Pi or Pi Rust, and what ties them to a session. Pure.
//!
//! Pi overwrites its arguments (its title is plain `pi`) and keeps no file open. Its environment stays for
//! the whole life of the process, and the tools that it starts have `PI_SESSION_ID` in theirs.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use agentctl_model::{KernelView, Process, ProcessHead};

use super::file::header::Creator;

const NAMES: [&str; 4] = ["pi", "pi-rpc", "pi-rust", "pi_agent_rust"];
/// The runtimes that run Pi's JavaScript.
const RUNTIMES: [&str; 4] = ["node", "nodejs", "bun", "deno"];
/// Subcommands that manage the installation and are never a session.
const NOT_SESSIONS: [&str; 12] = [
    "install",
    "remove",
    "uninstall",
    "update",
    "list",
    "config",
    "doctor",
    "search",
    "info",
    "update-index",
    "migrate",
    "account",
];

/// A cheap check of name and arguments only.
pub(crate) fn is_pi(head: &ProcessHead) -> bool {
    let named = |name: &str| NAMES.contains(&name);
    if named(&head.comm) || named(head.program()) {
        return true;
    }
    // During the first moments it is still `node .../pi`.
    RUNTIMES.contains(&head.program())
        && head
            .argv
            .iter()
            .skip(1)
            .find(|arg| !arg.starts_with('-'))
            .is_some_and(|script| file_name(script) == "pi" || script.contains("/pi-coding-agent/"))
}

/// Which of the two agents a recognised process runs; `None` for wrappers, unrelated programs of the same
/// name, commands that only manage, and processes of other users.
pub(super) fn agent(process: &Process) -> Option<Creator> {
    let exe = process.exe.seen()?.to_string_lossy();
    let exe = file_name(&exe);
    let creator = if RUNTIMES.contains(&exe) {
        Creator::Node
    } else if exe.starts_with("pi") {
        Creator::Rust
    } else {
        return None;
    };
    let first = arguments(&process.head, creator).next();
    (!first.is_some_and(|word| NOT_SESSIONS.contains(&word))).then_some(creator)
}

/// The arguments after the program, or after the script if a runtime runs it.
fn arguments(head: &ProcessHead, creator: Creator) -> impl Iterator<Item = &str> {
    let run_by_name = creator == Creator::Node && RUNTIMES.contains(&head.program());
    head.argv.iter().skip(if run_by_name { 2 } else { 1 }).map(String::as_str)
}

/// All agent processes, each with its agent.
pub(super) fn agents(kernel: &KernelView) -> impl Iterator<Item = (&Process, Creator)> {
    kernel.processes.iter().filter_map(|process| Some((process, agent(process)?)))
}

/// Whether the process was started with a prompt and exits with the turn; known only while the arguments are
/// visible.
pub(crate) fn is_headless(head: &ProcessHead) -> bool {
    head.has_flag("-p") || head.has_flag("--print") || head.option("--mode") == Some("json")
}

/// What identifies the session of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) id: Option<String>,
    pub(super) file: Option<PathBuf>,
    /// How this is known, for the evidence.
    pub(super) how: &'static str,
}

/// The marks of all agents by pid: from the environment of their youngest tool, or else their arguments, or
/// else the launch record.
pub(super) fn marks(kernel: &KernelView) -> HashMap<u32, Mark> {
    let family = Family::of(kernel);
    let mark = |process| mark_in_argv(process).or_else(|| mark_of_launch(process, kernel, &family));
    let mut marks: HashMap<u32, Mark> =
        agents(kernel).filter_map(|(process, _)| Some((process.pid(), mark(process)?))).collect();
    let mut tools: Vec<&Process> = kernel.processes.iter().chain(&kernel.offspring).collect();
    tools.sort_unstable_by_key(|tool| tool.head.process.start);
    for tool in tools {
        let Some(id) = tool.variable("PI_SESSION_ID") else { continue };
        let Some(owner) = family.agent_above(tool) else { continue };
        // An agent that was itself started by a tool passes its parent's mark on to processes that are not
        // its own tools.
        if owner.variable("PI_SESSION_ID") != Some(id) {
            let file = tool.variable("PI_SESSION_FILE").map(PathBuf::from);
            let how = "a tool that it started names this session";
            marks.insert(owner.pid(), Mark { id: Some(id.to_owned()), file, how });
        }
    }
    marks
}

fn mark_in_argv(process: &Process) -> Option<Mark> {
    let how = "its arguments name this session";
    let head = &process.head;
    if head.has_flag("--no-session") {
        return Some(Mark { id: None, file: None, how: "it keeps no session" });
    }
    if let Some(id) = head.option("--session-id") {
        return Some(Mark { id: Some(id.to_owned()), file: None, how });
    }
    let session = head.option("--session")?;
    if session.contains('/') || Path::new(session).extension().is_some() {
        let file = process.cwd.seen().map_or_else(|| PathBuf::from(session), |cwd| cwd.join(session));
        return Some(Mark { id: None, file: Some(file), how });
    }
    // Pi accepts part of an id; agentctl does not.
    (session.len() == 36).then(|| Mark { id: Some(session.to_owned()), file: None, how })
}

/// The session that agentctl launched the process for. An agent that one of its tools started inherits the
/// variable, but not the session.
fn mark_of_launch(process: &Process, kernel: &KernelView, family: &Family<'_>) -> Option<Mark> {
    let id = kernel.launched_for(process).filter(|_| family.agent_above(process).is_none())?;
    Some(Mark { id: Some(id.to_owned()), file: None, how: "our launch record names this session" })
}

/// The parent relations among the observed processes.
pub(super) struct Family<'k> {
    by_pid: HashMap<u32, &'k Process>,
    agents: HashMap<u32, &'k Process>,
}

impl<'k> Family<'k> {
    pub(super) fn of(kernel: &'k KernelView) -> Self {
        let all = kernel.processes.iter().chain(&kernel.offspring);
        Self {
            by_pid: all.map(|process| (process.pid(), process)).collect(),
            agents: agents(kernel).map(|(process, _)| (process.pid(), process)).collect(),
        }
    }

    /// The nearest ancestor that is an agent.
    pub(super) fn agent_above(&self, process: &Process) -> Option<&'k Process> {
        let mut parent = process.head.parent;
        // A process table that is read while processes come and go may even contain a cycle.
        for _ in 0..64 {
            if let Some(agent) = self.agents.get(&parent).filter(|agent| agent.pid() != process.pid()) {
                return Some(agent);
            }
            parent = self.by_pid.get(&parent)?.head.parent;
        }
        None
    }
}

fn file_name(path: &str) -> &str {
    Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or(path)
}
