//! Agents that run in Node: the script behind the interpreter, and processes that restart themselves. Pure.
//!
//! Node hides the agent: the kernel's name is `node` or `MainThread`, and the agent is a script somewhere in the
//! argv. Only the program that really runs counts, never a file of that name in the arguments of another program.

use agentctl_model::{
    Claim, Evidence, KernelView, Process, ProcessHead, ProcessRef, ProcessRole, Stray, Tie,
};

use crate::join::{alive, claim};

/// The names of the interpreters' binaries.
const INTERPRETERS: [&str; 3] = ["node", "nodejs", "bun"];
/// Options of Node whose value is an argument of its own.
const WITH_VALUE: [&str; 8] =
    ["-r", "--require", "--import", "--loader", "--experimental-loader", "-C", "--conditions", "--env-file"];
/// Options of Node after which there is no script.
const NO_SCRIPT: [&str; 6] = ["-e", "--eval", "-p", "--print", "-c", "--check"];

/// What a process runs: an interpreter's script or the program itself, and its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Invocation<'h> {
    /// The path of the script, or of the program.
    pub program: &'h str,
    /// Everything after it.
    pub arguments: &'h [String],
}

/// An agent that Node runs: the name of its command, and its npm package with the entry files in it.
pub(crate) struct NodeProgram {
    pub(crate) name: &'static str,
    pub(crate) package: &'static str,
    pub(crate) entries: &'static [&'static str],
}

impl NodeProgram {
    /// How this program was started; `None` for every other program.
    pub(crate) fn run<'h>(&self, head: &'h ProcessHead) -> Option<Invocation<'h>> {
        Invocation::of(head).filter(|run| run.is(self.name, self.package, self.entries))
    }

    pub(crate) fn is(&self, head: &ProcessHead) -> bool {
        self.run(head).is_some()
    }
}

impl<'h> Invocation<'h> {
    pub fn of(head: &'h ProcessHead) -> Option<Self> {
        let (first, rest) = head.argv.split_first()?;
        if !INTERPRETERS.contains(&file_name(first)) {
            return Some(Self { program: first, arguments: rest });
        }
        let mut index = 0;
        loop {
            let argument = rest.get(index)?.as_str();
            index += match argument {
                option if NO_SCRIPT.contains(&option) => return None,
                option if WITH_VALUE.contains(&option) => 2,
                option if option.starts_with('-') => 1,
                script => return Some(Self { program: script, arguments: &rest[index + 1..] }),
            };
        }
    }

    /// The file name of the program.
    pub fn name(&self) -> &'h str {
        file_name(self.program)
    }

    /// Whether the program has this name, or is one of the entry files of this npm package.
    pub fn is(&self, name: &str, package: &str, entries: &[&str]) -> bool {
        let file = file_name(self.program);
        file == name
            || (entries.contains(&file) && self.program.rsplit_once(package).is_some_and(is_whole_folder))
    }

    /// The argument after one of these flags, or the part after `flag=`.
    pub fn option(&self, flags: &[&str]) -> Option<&'h str> {
        let mut arguments = self.arguments.iter().take_while(|argument| *argument != "--");
        while let Some(argument) = arguments.next() {
            if flags.contains(&argument.as_str()) {
                return arguments.next().map(String::as_str).filter(|value| !value.starts_with('-'));
            }
            let glued = flags
                .iter()
                .filter(|flag| flag.starts_with("--"))
                .find_map(|flag| argument.strip_prefix(flag)?.strip_prefix('='));
            if glued.is_some() {
                return glued;
            }
        }
        None
    }

    /// Whether one of the arguments is one of these flags, in either spelling.
    pub fn has(&self, flags: &[&str]) -> bool {
        let mut arguments = self.arguments.iter().take_while(|argument| *argument != "--");
        arguments.any(|argument| {
            flags.contains(&argument.as_str())
                || argument.split_once('=').is_some_and(|(flag, _)| flags.contains(&flag))
        })
    }

    /// The words that belong to no option. Every option takes a value, except these switches.
    pub fn words(&self, switches: &[&str]) -> Vec<&'h str> {
        let mut words = Vec::new();
        let mut arguments = self.arguments.iter().map(String::as_str).peekable();
        while let Some(argument) = arguments.next() {
            if argument == "--" {
                words.extend(arguments);
                break;
            }
            if !argument.starts_with('-') {
                words.push(argument);
            } else if !argument.contains('=') && !switches.contains(&argument) {
                arguments.next_if(|value| !value.starts_with('-'));
            }
        }
        words
    }

    /// The first argument, if it is a word and not an option.
    pub fn first_word(&self) -> Option<&'h str> {
        self.arguments.first().map(String::as_str).filter(|word| !word.starts_with('-'))
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether the package's name stands between slashes in the path.
fn is_whole_folder((before, after): (&str, &str)) -> bool {
    (before.is_empty() || before.ends_with('/')) && after.starts_with('/')
}

/// A claim under the script's name: "node" would say nothing.
pub fn named_claim(id: &str, process: &Process, tie: Tie, headless: bool, how: Evidence) -> Claim {
    let mut claim = claim(id, process, tie, headless, how);
    if let Some(run) = Invocation::of(&process.head) {
        run.name().clone_into(&mut claim.command);
    }
    claim
}

/// A stray under the script's name.
pub fn named_stray(process: &Process) -> Stray {
    let cwd = process.cwd.seen().map(|cwd| cwd.to_string_lossy().into_owned());
    let mut stray = Stray::of(&process.head, cwd);
    if let Some(run) = Invocation::of(&process.head) {
        run.name().clone_into(&mut stray.command);
    }
    stray
}

/// A process that only restarted the agent and waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wrapper<'k> {
    pub outer: &'k Process,
    /// The process that does the work: the innermost one.
    pub inner: ProcessRef,
}

/// Separates the processes that do the work from those that wait for one: a process whose own child runs the same
/// agent with the same arguments is its wrapper. A process whose wrapper was killed stands for itself.
pub fn unwrapped<'k>(processes: &[&'k Process]) -> (Vec<&'k Process>, Vec<Wrapper<'k>>) {
    let arguments = |process: &'k Process| Invocation::of(&process.head).map(|run| run.arguments);
    let child_of = |outer: &'k Process| {
        processes.iter().copied().find(|inner| {
            inner.head.parent == outer.pid()
                && inner.pid() != outer.pid()
                && arguments(inner) == arguments(outer)
        })
    };
    let (mut workers, mut wrappers) = (Vec::new(), Vec::new());
    for process in processes.iter().copied() {
        // A process table that was read while pids were reused may contain a cycle; real nesting never goes this
        // deep.
        let innermost = std::iter::successors(Some(process), |outer| child_of(outer)).take(8).last();
        match innermost {
            Some(inner) if inner.pid() != process.pid() => {
                wrappers.push(Wrapper { outer: process, inner: inner.head.process });
            }
            _ => workers.push(process),
        }
    }
    (workers, wrappers)
}

/// A wrapper belongs to the sessions of its worker: it is a second process of theirs, never an owner by itself.
pub fn claim_wrappers(claims: &mut Vec<Claim>, wrappers: &[Wrapper<'_>], kernel: &KernelView) {
    let mut more = Vec::new();
    for wrapper in wrappers {
        for claim in claims.iter().filter(|claim| claim.owner.process == wrapper.inner) {
            let how = alive(wrapper.outer, kernel, "started the agent and waits for it");
            let mut outer = named_claim(&claim.id, wrapper.outer, claim.tie, claim.owner.headless, how);
            outer.variant.clone_from(&claim.variant);
            outer.role = ProcessRole::Wrapper;
            more.push(outer);
        }
    }
    claims.extend(more);
}

#[cfg(test)]
#[path = "node_tests.rs"]
mod tests;
