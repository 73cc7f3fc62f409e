//! Finds the id of a session whose agent prints it only at the end: a survey shows which session the started process
//! has begun.

use agentctl_model::text::clean;
use agentctl_model::{ProcessRef, Status, Surveyed};
use jiff::Timestamp;

use crate::keep::launches::Record;
use crate::{Fleet, Query, Wanted};

/// Returns the session that this launch has begun, once the kernel and the agent's records agree on one: its owner is
/// the very process that was started, it was created after the launch, and it begins with the prompt of this launch.
/// With anything less, the caller waits.
pub(super) fn begun_session(fleet: &Fleet, record: &Record, words: &str) -> Option<String> {
    let started = record.process.as_ref()?.process()?;
    let survey = fleet.survey(&Query {
        adapters: vec![record.order.adapter.clone()],
        root: Some(record.order.root.clone()),
        whole_texts: true,
        ..Query::new(Wanted::Live)
    });
    let mut begun =
        survey.sessions.iter().filter(|surveyed| is_begun(surveyed, started, record.launched_at, words));
    let one = begun.next()?;
    begun.next().is_none().then(|| one.key.id.clone())
}

/// Its creation is compared with the launch, since both times are recorded ones. The moment from which its process counts
/// as its owner will not do: where that is the time of a lock file, it lies within the millisecond of the creation, and
/// agents record whole milliseconds.
fn is_begun(surveyed: &Surveyed, started: ProcessRef, launched_at: Timestamp, words: &str) -> bool {
    let session = &surveyed.session;
    session.status != Status::Unknown
        && surveyed.owners.iter().any(|owner| owner.process == started)
        && session.started_at.is_some_and(|made| made >= launched_at)
        && session.prompt.as_deref().is_some_and(|prompt| says(prompt, words))
}

/// Whether the first prompt is what was sent. An agent may remove a part that only it interprets, such as a command
/// before the text.
fn says(prompt: &str, words: &str) -> bool {
    let prompt = prompt.trim();
    !prompt.is_empty() && clean(words).trim().ends_with(prompt)
}

#[cfg(test)]
mod tests {
    use agentctl_model::{OwnerProcess, ProcessEntry, ProcessRole, Session, Tie};
    use agentctl_testkit::sessions;

    use super::*;

    #[test]
    fn a_prompt_is_the_words_or_their_end() {
        assert!(says("fix it", "fix it") && says("  fix it\n", "fix it  ") && says("fix it", "/goal fix it"));
        assert!(!says("fix", "fix it") && !says("", "fix it") && !says("fix it now", "fix it"));
    }

    #[test]
    fn a_session_created_in_the_millisecond_of_its_lock_is_the_one_begun() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let launched_at = at("2026-11-16T10:00:00.500Z");
        let ours = ProcessRef { pid: 7, start: 70, boot: 1 };
        let begun = |made: &str, process: ProcessRef| {
            let locked_at = Some(at("2026-11-16T10:00:01.0647Z"));
            let (role, command) = (ProcessRole::Agent, "codex".to_owned());
            let session = Session {
                started_at: Some(at(made)),
                processes: vec![ProcessEntry { pid: 7, started_at: locked_at, role, command }],
                ..sessions::session("a", Status::Running, None)
            };
            let owners = vec![OwnerProcess { process, role, tie: Tie::Exact }];
            let surveyed = Surveyed { owners, ..sessions::surveyed(session) };
            is_begun(&surveyed, ours, launched_at, "Fix the auth bug")
        };
        assert!(begun("2026-11-16T10:00:01.064Z", ours));
        assert!(!begun("2026-11-16T10:00:00.499Z", ours), "older than the launch");
        assert!(!begun("2026-11-16T10:00:01.064Z", ProcessRef { start: 71, ..ours }), "of another process");
    }
}
