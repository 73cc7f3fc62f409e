//! The acting half of an adapter: plans for one executor, and words to live servers. Making a plan is pure.

pub(crate) mod known_id;
pub mod opening;
pub(crate) mod refusal;
#[cfg(test)]
pub(crate) mod scene;
pub(crate) mod stdout;

use std::collections::BTreeMap;
use std::path::Path;

use agentctl_model::{
    CleanSignal, FirstWords, IdSource, Intent, KernelView, Process, Refusal, Session, SpawnPlan, Stdin,
    StopWay,
};

use crate::Root;
use crate::gateway::ServerError;

/// What a person says to a session that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Approve,
    Deny,
    Text(String),
}

/// What agentctl can do with one agent beyond reading it.
pub trait Control: Send + Sync {
    /// How this is done with this agent; an intent that makes no sense for it is refused before anything starts.
    fn plan(&self, intent: &Intent) -> Result<SpawnPlan, Refusal>;

    /// Why this value cannot be given to the agent as what it is (`model`, `system prompt`), if it cannot: typed so, it
    /// would be wrong usage rather than something that the agent lacks.
    fn misfit(&self, _what: &str, _value: &str) -> Option<String> {
        None
    }

    /// The id in what a started process said, for plans whose id is in its first words.
    fn learn_id(&self, _said: FirstWords<'_>) -> Option<String> {
        None
    }

    /// Why the run failed, in the agent's own words, where it says so on stdout. What it says on stderr is known anyway.
    fn complaint(&self, _said: FirstWords<'_>) -> Option<String> {
        None
    }

    /// The clean way to end the session that this process carries.
    fn stop_way(&self, session: &Session, process: &Process) -> StopWay;

    /// What the agent leaves in the environment of its tools to name the session: pairs of variable and value, of which
    /// one suffices. Nothing where its tools are told nothing of the session.
    fn tool_marks(&self, _id: &str, _pid: Option<u32>) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Every variable that the agent sets for its children. Nothing that agentctl starts inherits them.
    fn marks(&self) -> &'static [&'static str] {
        &[]
    }

    /// Tells the server that carries a session to break off its turn.
    fn interrupt(&self, _root: &Root, _kernel: &KernelView, session: &Session) -> Result<(), ServerError> {
        Err(no_way_in(session, "be interrupted").into())
    }

    /// Says something to a live session. Success means that the agent accepted it.
    fn send(
        &self,
        _root: &Root,
        _kernel: &KernelView,
        session: &Session,
        _words: &str,
    ) -> Result<(), ServerError> {
        Err(no_way_in(session, "be spoken to").into())
    }

    /// Answers what a live session waits for.
    fn answer(
        &self,
        _root: &Root,
        _kernel: &KernelView,
        session: &Session,
        _answer: &Answer,
    ) -> Result<(), ServerError> {
        Err(no_way_in(session, "be answered").into())
    }

    /// Whether a stored session can be taken up by this program at all, by where its records are.
    fn can_resume(&self, _place: &Path) -> Result<(), Refusal> {
        Ok(())
    }
}

/// The refusal for a session that has no door. What works instead is for whoever sees all of the session to say.
pub(crate) fn no_way_in(session: &Session, what: &str) -> Refusal {
    let reason = format!("{} offers no way in: this session cannot {what} from outside", session.adapter);
    Refusal::new(reason)
}

/// Marks of no single agent: who launched a process, and what several agents set alike.
pub const SHARED_MARKS: &[&str] = &[LAUNCH_MARK, "AI_AGENT", "AGENT"];

/// The one mark that agentctl leaves in the environment of what it starts: the id of the launch.
pub const LAUNCH_MARK: &str = "AGENTCTL_LAUNCH_ID";

/// Refuses words that cannot be an argument of a process, for agents that take them no other way.
pub fn fits_an_argument(words: &str, agent: &str) -> Result<(), Refusal> {
    /// One argument may have 128 KiB with its final NUL; the kernel refuses more.
    const LIMIT: usize = 128 * 1024 - 1;
    if words.len() > LIMIT {
        let reason = format!(
            "{agent} takes its prompt as an argument only, which may have {LIMIT} bytes: this has {}",
            words.len()
        );
        return Err(Refusal::new(reason).hint("put the text into a file and name the file in a short prompt"));
    }
    Ok(())
}

/// A run in the directory of the intent that is given its words by stdin.
pub(crate) fn told_by_stdin(program: &str, args: Vec<String>, intent: &Intent, id: IdSource) -> SpawnPlan {
    SpawnPlan {
        program: program.to_owned(),
        args,
        env: BTreeMap::new(),
        cwd: intent.cwd.clone(),
        stdin: Stdin::Words,
        id,
    }
}

/// For agents that take an interrupt for what it is only without a terminal: in one it would clear the line.
pub(crate) fn interrupt_without_a_terminal(is_headless: bool) -> StopWay {
    StopWay::Signal(if is_headless { CleanSignal::Interrupt } else { CleanSignal::Terminate })
}

/// A flag and its value: in one argument where the value, standing alone, would be taken for a flag itself.
pub(crate) fn flag_with(flag: &str, value: &str) -> Vec<String> {
    if value.starts_with('-') {
        return vec![format!("{flag}={value}")];
    }
    vec![flag.to_owned(), value.to_owned()]
}

/// A value that stands alone among the arguments of a program could be taken for one of its flags.
pub(crate) fn looks_like_a_flag(value: &str) -> bool {
    value.strip_prefix('-').is_some_and(|rest| !rest.starts_with(char::is_whitespace))
}

/// One answer for each question: the whole text for one, a line each for several.
pub(crate) fn one_for_each(text: &str, questions: usize) -> Result<Vec<String>, Refusal> {
    if questions == 1 {
        return Ok(vec![text.to_owned()]);
    }
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if lines.len() == questions {
        return Ok(lines);
    }
    let reason = format!("it asks {questions} questions and the answer has {} lines", lines.len());
    Err(Refusal::new(reason).hint("give one line for each question, in their order"))
}
