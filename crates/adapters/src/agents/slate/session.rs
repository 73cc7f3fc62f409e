//! Reads one Slate session: its own file, the messages beside it, and the end of its trace.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use agentctl_model::text::{clean, clean_cut};
use agentctl_model::{Entry, Facts, Found, Parent, Relation, Role, Turn, TurnState};
use jiff::Timestamp;

use super::records::{Event, Message, SessionFile, Step};
use crate::agents::opencode::conversation::session::{Conversation, Head};
use crate::agents::opencode::storage::tree::Tree;
use crate::transcript::jsonl::open::open_regular;
use crate::transcript::jsonl::{Scan, scan_back};
use crate::transcript::read::evidence;
use crate::transcript::show::At;
use crate::{ReadError, Scope};

/// How many messages are read from each end.
const REACH: usize = 24;

/// What a session's own file says.
pub(super) fn head(bytes: &[u8]) -> Option<Head> {
    let file = SessionFile::parse(bytes)?;
    Some(Head {
        id: file.id.as_ref().to_owned(),
        parent: file.parent().map(clean),
        directory: file.directory.as_deref().map(clean),
        title: file.title.as_deref().map(clean),
        version: file.version.as_deref().map(clean),
        model: file.model().map(clean),
        created: file.created(),
        updated: file.updated(),
        ..Head::default()
    })
}

/// Reads the session, and returns whether one of its records was damaged.
pub(super) fn read(data: &Path, place: PathBuf, head: Head, scope: &Scope<'_>) -> io::Result<(Found, bool)> {
    let tree = Tree::new(data.join("storage"));
    let mut is_damaged = false;
    let (mut last_role, mut words) = (None, None);
    for id in tree.newest(&head.id, REACH)? {
        let json = tree.message(&head.id, &id)?;
        let Some(message) = Message::parse(&json) else {
            is_damaged = true;
            continue;
        };
        if message.role == "system" {
            continue;
        }
        if last_role.is_none() {
            last_role = Some(message.role.to_string());
        }
        if message.role == "assistant" {
            words = message.words().map(|text| clean_cut(&text, scope.text_limit));
        }
        if words.is_some() {
            break;
        }
    }
    let trace = Trace::read(&trace_of(data, &head.id))?;
    let turn = turn(&trace, last_role.as_deref());
    let mut facts = Facts {
        prompt: first_prompt(&tree, &head.id, scope)?,
        turn,
        name: head
            .title
            .filter(|title| !title.is_empty() && !crate::agents::opencode::is_default_title(title)),
        last_message: words,
        cwd: head.directory.filter(|directory| !directory.is_empty()),
        model: head.model,
        started_at: head.created,
        updated_at: head.updated.max(trace.last),
        parent: head.parent.map(|id| Parent { id, relation: Relation::Subagent }),
        ..Facts::default()
    };
    if let Some(version) = head.version {
        facts.meta.insert("version".to_owned(), version.into());
    }
    let found =
        Found { id: head.id, variant: None, place, stamp: None, evidence: vec![evidence(&facts)], facts };
    Ok((found, is_damaged || trace.is_damaged))
}

fn trace_of(data: &Path, id: &str) -> PathBuf {
    data.join("trace").join(format!("{id}.jsonl"))
}

fn first_prompt(tree: &Tree, id: &str, scope: &Scope<'_>) -> io::Result<Option<String>> {
    // The context that the agent adds by itself sorts before the first message.
    for message_id in tree.oldest(id, REACH)? {
        let json = tree.message(id, &message_id)?;
        if let Some(message) = Message::parse(&json).filter(|message| message.role == "user")
            && let Some(words) = message.words()
        {
            return Ok(Some(clean_cut(&words, scope.text_limit)));
        }
    }
    Ok(None)
}

/// Derives the turn from the last step. Another step may follow a step that closed successfully: only the end
/// of the run, or an answer as the last message, shows that the turn is over.
fn turn(trace: &Trace, last_role: Option<&str>) -> Option<Turn> {
    let (state, detail) = match (&trace.step, last_role) {
        (Step::Opened | Step::RunOpened, _) => (TurnState::Open, None),
        (Step::Failed(words), _) => {
            (TurnState::Failed, words.as_deref().map(|words| clean_cut(words, Some(500))))
        }
        (Step::Closed, Some("assistant")) => (TurnState::Finished, None),
        (Step::Closed, _) if trace.is_run_closed => (TurnState::Finished, None),
        (Step::Nothing | Step::RunClosed, None) => (TurnState::NotBegun, None),
        // A prompt without an answer. A damaged trace may have contained the answer's steps.
        (Step::Nothing, Some("user")) if !trace.is_damaged => (TurnState::Open, None),
        (Step::Closed | Step::Nothing | Step::RunClosed, _) => return None,
    };
    let mut turn = Turn::new(state, trace.at.or(trace.last));
    turn.detail = detail;
    Some(turn)
}

/// The end of a trace.
#[derive(Default)]
struct Trace {
    /// The newest line about a step.
    step: Step,
    at: Option<Timestamp>,
    is_run_closed: bool,
    last: Option<Timestamp>,
    is_damaged: bool,
    lines: u32,
}

impl Trace {
    fn read(path: &Path) -> io::Result<Self> {
        let mut trace = Self::default();
        match open_regular(path) {
            Ok(opened) => scan_back(&opened.file, opened.size, &mut trace).map(|_| trace),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(trace),
            Err(error) => Err(error),
        }
    }
}

impl Scan for Trace {
    fn line(&mut self, line: &[u8], _: u64) -> ControlFlow<()> {
        self.lines += 1;
        let Some(event) = Event::parse(line) else {
            // The last line may be a write in progress.
            self.is_damaged |= self.lines > 1;
            return ControlFlow::Continue(());
        };
        self.last = self.last.max(event.at());
        match event.step() {
            Step::Nothing => ControlFlow::Continue(()),
            Step::RunClosed => {
                self.is_run_closed = true;
                ControlFlow::Continue(())
            }
            // A run that was closed without any step means nothing.
            Step::RunOpened if self.is_run_closed => ControlFlow::Continue(()),
            step => {
                self.at = event.at();
                self.step = step;
                ControlFlow::Break(())
            }
        }
    }
}

/// All messages, and the errors of the trace, oldest first, each under a stable name.
pub(super) fn entries(place: &Path, id: &str) -> Result<Vec<(String, Entry)>, ReadError> {
    // <data>/storage/session/<project>/<id>.json
    let data = place.ancestors().nth(4).unwrap_or(place);
    let read = || -> io::Result<Vec<(String, Entry)>> {
        let tree = Tree::new(data.join("storage"));
        let mut entries = Vec::new();
        for message_id in tree.oldest(id, usize::MAX)? {
            let json = tree.message(id, &message_id)?;
            let Some(message) = Message::parse(&json) else { continue };
            let role = match message.role.as_ref() {
                "user" => Role::User,
                "assistant" => Role::Agent,
                _ => continue,
            };
            if let Some(words) = message.words() {
                entries.push((message_id, At(message.at()).said(role, &words)));
            }
        }
        let mut errors = Errors(Vec::new());
        if let Ok(opened) = open_regular(&trace_of(data, id)) {
            scan_back(&opened.file, opened.size, &mut errors)?;
        }
        entries.extend(errors.0.into_iter().rev());
        entries.sort_by_key(|(_, entry)| entry.at);
        Ok(entries)
    };
    read().map_err(|error| ReadError::new(place, error))
}

/// Steps that ended with an error, newest first.
struct Errors(Vec<(String, Entry)>);

impl Scan for Errors {
    fn line(&mut self, line: &[u8], _: u64) -> ControlFlow<()> {
        if let Some(event) = Event::parse(line)
            && let Step::Failed(Some(words)) = event.step()
        {
            self.0.push((event.id.to_string(), At(event.at()).failed(&words)));
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(trace: &[&str], last_role: Option<&str>) -> Option<TurnState> {
        let bytes = trace.join("\n").into_bytes();
        let mut trace = Trace::default();
        scan_back(bytes.as_slice(), bytes.len() as u64, &mut trace).unwrap();
        turn(&trace, last_role).map(|turn| turn.state)
    }

    #[test]
    fn the_last_run_decides_and_a_prompt_without_an_answer_is_open() {
        const RUN: &str = r#"{"type":"agent.run","span":{"kind":"open"}}"#;
        const RUN_END: &str = r#"{"type":"agent.run","span":{"kind":"close"}}"#;
        const STEP: &str = r#"{"type":"agent.step","span":{"kind":"open"}}"#;
        const DONE: &str = r#"{"type":"agent.step","span":{"kind":"close"}}"#;
        const FAILED: &str = r#"{"type":"agent.step","span":{"kind":"close"},"error":"no"}"#;
        let (user, agent) = (Some("user"), Some("assistant"));
        let cases: [(&[&str], Option<&str>, Option<TurnState>); 9] = [
            (&[], None, Some(TurnState::NotBegun)),
            (&[], user, Some(TurnState::Open)),
            (&[], agent, None),
            (&["{half", "{half"], user, None),
            (&[RUN, STEP], user, Some(TurnState::Open)),
            (&[RUN, STEP, FAILED], user, Some(TurnState::Failed)),
            (&[RUN, STEP, FAILED, RUN], user, Some(TurnState::Open)),
            (&[RUN, STEP, DONE, RUN_END], user, Some(TurnState::Finished)),
            (&[RUN, STEP, DONE], agent, Some(TurnState::Finished)),
        ];
        for (trace, last_role, expected) in cases {
            assert_eq!(state(trace, last_role), expected, "{trace:?} {last_role:?}");
        }
    }
}
