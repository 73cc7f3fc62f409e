//! The acting half of an adapter: plans for one executor, and messages to live servers. Making a plan is pure.

pub(crate) mod known_id;
pub(crate) mod offer;
pub mod opening;
pub(crate) mod permission;
pub(crate) mod refusal;
#[cfg(test)]
pub(crate) mod scene;
pub(crate) mod stdout;

use std::collections::BTreeMap;
use std::path::Path;

use agentctl_model::{
    CleanSignal, Conversation, Error, FirstWords, IdSource, Intent, KernelView, Process, Session, SpawnPlan,
    Stdin, StopWay,
};
use jiff::Timestamp;

use crate::hold::{Acceptance, Decision, HoldPlan};
use crate::{Adapter, Root};

/// A person's answer to a session that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The agent's id of the request that is answered; `None` only where the agent has none.
    pub request: Option<String>,
    pub decision: Decision,
}

impl From<Decision> for Answer {
    /// An answer to whatever the session waits for.
    fn from(decision: Decision) -> Self {
        Self { request: None, decision }
    }
}

/// What agentctl can do with one agent beyond reading it.
pub trait Control: Adapter {
    /// How to carry out this intent with this agent; an intent that makes no sense for it is refused before anything
    /// starts.
    fn plan(&self, intent: &Intent) -> Result<SpawnPlan, Error>;

    /// How to carry out this intent as a session that stays and can be spoken with. Its first prompt is part of the
    /// protocol.
    fn hold(&self, intent: &Intent) -> Result<HoldPlan, Error> {
        let _ = intent;
        Err(Error::refused("this agent has no two-way protocol that agentctl speaks, so it cannot be held")
            .hint("launch it without --hold: the session is one turn long and can be resumed"))
    }

    /// How to carry out this intent on the agent's own screen, in a terminal. The first prompt is in the arguments.
    fn terminal(&self, intent: &Intent) -> Result<SpawnPlan, Error> {
        let _ = intent;
        Err(Error::refused("this agent cannot be given a prompt for its own screen")
            .hint("launch it without --terminal"))
    }

    /// The moment before which the agent must not take up this conversation as a held one; `None` if any will do.
    fn hold_not_before(&self, _conversation: &Conversation) -> Option<Timestamp> {
        None
    }

    /// Why this value cannot be given to the agent as its `model`, `system prompt` and so on; `None` if it can. Such
    /// a value is wrong usage rather than something that the agent lacks.
    fn misfit(&self, _what: &str, _value: &str) -> Option<String> {
        None
    }

    /// The id in the first output of a started process, for plans whose id appears there.
    fn learn_id(&self, _said: FirstWords<'_>) -> Option<String> {
        None
    }

    /// Why the run failed, in the agent's own words, if it says so on stdout. Its stderr is known anyway.
    fn complaint(&self, _said: FirstWords<'_>) -> Option<String> {
        None
    }

    /// The clean way to end the session that this process owns.
    fn stop_way(&self, session: &Session, process: &Process) -> StopWay;

    /// The marks by which the agent names the session in the environment of its tools: pairs of variable and value,
    /// of which one suffices. Empty if its tools learn nothing about the session.
    fn tool_marks(&self, id: &str, _pid: Option<u32>) -> Vec<(&'static str, String)> {
        self.card().id_marks.iter().map(|variable| (*variable, id.to_owned())).collect()
    }

    /// Every variable that the agent sets for its children. Nothing that agentctl starts inherits them.
    fn marks(&self) -> &'static [&'static str] {
        self.card().marks
    }

    /// Connects to the server that owns a live session; `None` if the session cannot be reached from outside.
    fn reach<'s>(&self, _root: &Root, _kernel: &KernelView, _session: &'s Session) -> Reached<'s> {
        Ok(None)
    }

    /// Refuses words that the agent cannot take at once.
    fn takes(&self, _words: &str) -> Result<(), Error> {
        Ok(())
    }

    /// Tells the server that owns a session to interrupt its turn.
    fn interrupt(&self, root: &Root, kernel: &KernelView, session: &Session) -> Result<Acceptance, Error> {
        let live = self.reach(root, kernel, session)?;
        live.ok_or_else(|| no_way_in(session, "be interrupted"))?.interrupt()
    }

    /// Sends a message to a live session. Success means that the agent accepted it.
    fn send(
        &self,
        root: &Root,
        kernel: &KernelView,
        session: &Session,
        words: &str,
    ) -> Result<Acceptance, Error> {
        self.takes(words)?;
        let live = self.reach(root, kernel, session)?;
        live.ok_or_else(|| no_way_in(session, "be spoken to"))?.send(words)
    }

    /// Answers the request that a live session waits for. Returns what became of the reason of a denial.
    fn answer(
        &self,
        root: &Root,
        kernel: &KernelView,
        session: &Session,
        answer: &Answer,
    ) -> Result<ReasonLeft, Error> {
        let live = self.reach(root, kernel, session)?;
        live.ok_or_else(|| no_way_in(session, "be answered"))?.answer(answer)
    }

    /// Whether this program can resume a stored session at all, judged by where its records are.
    fn can_resume(&self, _place: &Path) -> Result<(), Error> {
        Ok(())
    }
}

/// A live session, with a connection to the server that owns it. No action counts as done before the server has
/// confirmed it.
pub trait LiveSession {
    /// Interrupts the turn with its tools; a session that is not working has nothing to interrupt.
    fn interrupt(&mut self) -> Result<Acceptance, Error>;

    fn send(&mut self, words: &str) -> Result<Acceptance, Error>;

    /// Answers a request that the session waits for. One that is gone is refused, and no other gets its answer. Returns
    /// what became of the reason of a denial.
    fn answer(&mut self, answer: &Answer) -> Result<ReasonLeft, Error>;
}

/// What became of the reason of a denial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReasonLeft {
    /// There was none, or the answer has it.
    Nothing,
    /// It was sent as a message.
    Sent,
    /// It had no place in the answer, and is still to be sent.
    Unsent(String),
}

/// A connection to a live session, `None` for a session without a server, or why the server gave none.
pub type Reached<'s> = Result<Option<Box<dyn LiveSession + 's>>, Error>;

/// The refusal for a session that cannot be reached from outside. The caller, which sees the whole session, says what
/// works instead.
fn no_way_in(session: &Session, what: &str) -> Error {
    let reason = format!("{} offers no way in: this session cannot {what} from outside", session.adapter);
    Error::refused(reason)
}

/// The processes that own this session, as the survey found them.
pub(crate) fn owners<'k>(kernel: &'k KernelView, session: &Session) -> impl Iterator<Item = &'k Process> {
    let owns = |process: &&Process| session.processes.iter().any(|entry| entry.pid == process.pid());
    kernel.processes.iter().filter(owns)
}

/// Marks that belong to no single agent: the mark of a launch, and those that several agents set alike.
pub const SHARED_MARKS: &[&str] = &[LAUNCH_MARK, "AI_AGENT", "AGENT"];

/// The one mark that agentctl leaves in the environment of what it starts: the id of the launch.
pub const LAUNCH_MARK: &str = "AGENTCTL_LAUNCH_ID";

/// Refuses a prompt that cannot be an argument of a process, for agents that take it no other way.
pub fn fits_an_argument(words: &str, agent: &str) -> Result<(), Error> {
    /// One argument may have 128 KiB including its final NUL; the kernel refuses more.
    const LIMIT: usize = 128 * 1024 - 1;
    if words.len() > LIMIT {
        let reason = format!(
            "{agent} takes its prompt as an argument only, which may have {LIMIT} bytes: this has {}",
            words.len()
        );
        return Err(
            Error::refused(reason).hint("put the text into a file and name the file in a short prompt")
        );
    }
    Ok(())
}

/// A run in the directory of the intent that receives its prompt on stdin.
pub(crate) fn with_prompt_on_stdin(
    program: &str,
    args: Vec<String>,
    intent: &Intent,
    id: IdSource,
) -> SpawnPlan {
    SpawnPlan {
        program: program.to_owned(),
        args,
        env: BTreeMap::new(),
        cwd: intent.cwd.clone(),
        stdin: Stdin::Words,
        id,
    }
}

/// The agent's own screen in the directory of the intent. The arguments contain the prompt, and there is nobody yet
/// who could answer a question about it.
pub(crate) fn on_screen(
    program: &str,
    args: Vec<String>,
    intent: &Intent,
    id: IdSource,
    agent: &str,
) -> Result<SpawnPlan, Error> {
    args.iter().try_for_each(|arg| fits_an_argument(arg, agent))?;
    Ok(SpawnPlan { stdin: Stdin::Terminal, ..with_prompt_on_stdin(program, args, intent, id) })
}

/// The arguments, and the prompt as the last one, which is not taken for a flag.
pub(crate) fn then_words(mut args: Vec<String>, intent: &Intent) -> Vec<String> {
    args.extend(["--".to_owned(), intent.words.clone()]);
    args
}

/// For agents that treat an interrupt as one only without a terminal: in a terminal it would clear the input line.
pub(crate) fn interrupt_without_a_terminal(is_headless: bool) -> StopWay {
    StopWay::Signal(if is_headless { CleanSignal::Interrupt } else { CleanSignal::Terminate })
}

/// A flag and its value, as one argument if the value alone would be taken for a flag.
pub(crate) fn flag_with(flag: &str, value: &str) -> Vec<String> {
    if value.starts_with('-') {
        return vec![format!("{flag}={value}")];
    }
    vec![flag.to_owned(), value.to_owned()]
}

/// Whether a program could take this value for one of its flags.
pub(crate) fn looks_like_a_flag(value: &str) -> bool {
    value.strip_prefix('-').is_some_and(|rest| !rest.starts_with(char::is_whitespace))
}

/// One answer for each question: the whole text for one, a line each for several.
pub(crate) fn one_for_each(text: &str, questions: usize) -> Result<Vec<String>, Error> {
    if questions == 1 {
        return Ok(vec![text.to_owned()]);
    }
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if lines.len() == questions {
        return Ok(lines);
    }
    let reason = format!("it asks {questions} questions and the answer has {} lines", lines.len());
    Err(Error::refused(reason).hint("give one line for each question, in their order"))
}
