//! Agents that only the Agent Client Protocol knows, each by the name that its user gave it.
//!
//! Nothing that such an agent stores can be read, so its sessions are those that runners hold now. The fleet finds them
//! in the launch records and asks their runners; this adapter only ties them to their processes.

mod known;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use agentctl_model::{
    Capability, CleanSignal, Entry, Environ, Error, Harvest, Intent, Joined, KernelView, Process,
    ProcessHead, Session, SpawnPlan, StopWay, Tie,
};

pub use self::known::{
    AcpAgent, OPENING_TIMEOUT, PREFIX, built_in, built_in_names, check_name, is_name, native_of,
};
use crate::control::LAUNCH_MARK;
use crate::join::{alive, claim};
use crate::{Adapter, Card, Control, Conversation, Follow, ReadError, Root, Scope, Trace, WatchTarget};

/// The adapter of one such agent.
#[derive(Debug)]
pub struct AcpOnly {
    card: &'static Card,
    command: Vec<String>,
    /// It lives as long as the process, and so does everything of it.
    control: OnceLock<&'static AcpOnly>,
}

/// The adapter of this agent. A name and a command have one, however often it is asked for.
pub fn adapter(agent: &AcpAgent) -> &'static AcpOnly {
    static MADE: Mutex<BTreeMap<(String, Vec<String>), &'static AcpOnly>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    made.entry((agent.name.clone(), agent.command.clone())).or_insert_with_key(|(name, command)| {
        let leak = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
        let card = Card::new(leak(name), leak(&agent.title))
            .programs(Box::leak(Box::new([leak(agent.program())])))
            .capabilities(&[Capability::Stop])
            .trace(Trace::Note);
        let adapter: &'static AcpOnly = Box::leak(Box::new(AcpOnly {
            card: Box::leak(Box::new(card)),
            command: command.clone(),
            control: OnceLock::new(),
        }));
        let _ = adapter.control.set(adapter);
        adapter
    })
}

/// The root of such an adapter: it reads no folder.
pub fn root(agent: &AcpAgent) -> Root {
    Root::at(&agent.name)
}

impl Adapter for AcpOnly {
    fn card(&self) -> &'static Card {
        self.card
    }

    fn root(&self, _environ: &Environ) -> Option<Root> {
        None
    }

    fn survey(&self, _root: &Root, _scope: &Scope<'_>) -> Harvest {
        Harvest::complete(Vec::new())
    }

    /// Those that run its command. What agentctl started is known from the launch records, whatever it is called.
    fn recognises(&self, head: &ProcessHead) -> bool {
        let Some((program, rest)) = self.command.split_first() else { return false };
        let base = |word: &str| word.rsplit('/').next().unwrap_or(word).to_owned();
        // An interpreter and its flag may stand before the program.
        (0..head.argv.len().min(3))
            .any(|at| base(&head.argv[at]) == base(program) && head.argv[at + 1..].starts_with(rest))
    }

    /// Nothing ties a process that somebody else started to a session, so while there is one, no session that the agent
    /// lists is known to be stopped.
    fn join(&self, _root: &Root, _harvest: &Harvest, kernel: &KernelView) -> Joined {
        let mut joined = Joined::default();
        for process in &kernel.processes {
            match (kernel.launched_for(process), process.variable(LAUNCH_MARK)) {
                (Some(id), _) => {
                    let how = alive(process, kernel, "agentctl started it for this session");
                    joined.claims.push(claim(id, process, Tie::Exact, false, how));
                }
                (None, None) => {
                    let why =
                        format!("pid {} runs the same agent and does not say which session", process.pid());
                    joined.blind.get_or_insert(why);
                }
                (None, Some(_)) => {}
            }
        }
        joined
    }

    /// Its runner announces what changes.
    fn watch(&self, _root: &Root) -> Vec<WatchTarget> {
        Vec::new()
    }

    fn read(&self, _place: &Path, _id: &str, _limit: usize) -> Result<Vec<Entry>, ReadError> {
        Err(self.unreadable())
    }

    fn conversation(&self, _place: &Path, _id: &str) -> Conversation<'_> {
        Conversation::Nothing
    }

    fn follow(&self, _place: &Path, _id: &str, _backlog: usize) -> Result<Box<dyn Follow>, ReadError> {
        Err(self.unreadable())
    }

    fn control(&self) -> Option<&'static dyn Control> {
        self.control.get().map(|adapter| *adapter as &dyn Control)
    }
}

impl AcpOnly {
    fn unreadable(&self) -> ReadError {
        let why = "what an agent stores that only ACP knows cannot be read";
        ReadError::new(Path::new(self.card.name), io::Error::new(io::ErrorKind::Unsupported, why))
    }

    fn only_held(&self) -> Error {
        Error::refused(format!("{} is spoken with over ACP only, and has no other way", self.card.name))
            .hint("launch it without --terminal: the session is held, and can be spoken with")
    }
}

/// How it is started is in the user's settings and in [`AcpAgent::hold`].
impl Control for AcpOnly {
    fn plan(&self, _intent: &Intent) -> Result<SpawnPlan, Error> {
        Err(self.only_held())
    }

    fn terminal(&self, _intent: &Intent) -> Result<SpawnPlan, Error> {
        Err(self.only_held())
    }

    fn stop_way(&self, _session: &Session, _process: &Process) -> StopWay {
        StopWay::Signal(CleanSignal::Terminate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_processes_are_known_by_its_command() {
        let agent = |words: &[&str]| {
            let command = words.iter().map(|&word| word.to_owned()).collect();
            adapter(&AcpAgent::configured("some", command, BTreeMap::new()))
        };
        let head = |argv: &[&str]| crate::join::scene::head("", argv);
        let goose = agent(&["goose", "acp"]);
        assert!(goose.recognises(&head(&["/usr/bin/goose", "acp", "--more"])));
        assert!(goose.recognises(&head(&["node", "/x/bin/goose", "acp"])));
        assert!(!goose.recognises(&head(&["goose", "run"])) && !goose.recognises(&head(&["vim", "goose"])));
        let script = agent(&["python3", "/x/agent.py"]);
        assert!(script.recognises(&head(&["/usr/bin/python3", "/x/agent.py"])));
        assert!(!script.recognises(&head(&["python3", "/y.py"])));
    }

    #[test]
    fn a_name_has_one_adapter() {
        let agent = |command: &str| AcpAgent::configured("goose", vec![command.to_owned()], BTreeMap::new());
        let one = adapter(&agent("goose"));
        assert!(std::ptr::eq(one, adapter(&agent("goose"))));
        assert_eq!((one.card().name, one.card().programs), ("acp:goose", &["goose"][..]));
        assert!(one.control().is_some_and(|control| control.card().name == "acp:goose"));
        assert_eq!(adapter(&agent("other")).card().programs, ["other"]);
    }
}
