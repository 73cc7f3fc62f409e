//! Finds the id of a session whose agent prints it only at the end: a survey shows which session the started process
//! has begun.

use agentctl_model::text::clean;
use agentctl_model::{Status, Surveyed};

use crate::keep::launches::Record;
use crate::{Fleet, Query, Wanted};

/// Returns the session that this launch has begun, once the kernel and the agent's records agree on one: its owner is
/// the very process that was started, it was created after that process, and it begins with the prompt of this launch.
/// With anything less, the caller waits.
pub(super) fn begun_session(fleet: &Fleet, record: &Record, words: &str) -> Option<String> {
    let started = record.process.as_ref()?.process()?;
    let survey = fleet.survey(&Query {
        adapters: vec![record.order.adapter.clone()],
        root: Some(record.order.root.clone()),
        whole_texts: true,
        ..Query::new(Wanted::Live)
    });
    let mut carried = survey.sessions.iter().filter(|surveyed| {
        surveyed.session.status != Status::Unknown
            && surveyed.owners.iter().any(|owner| owner.process == started)
            && is_younger(surveyed)
            && surveyed.session.prompt.as_deref().is_some_and(|prompt| says(prompt, words))
    });
    let one = carried.next()?;
    carried.next().is_none().then(|| one.key.id.clone())
}

/// Whether it was created after the process that owns it. Both times are recorded ones.
fn is_younger(surveyed: &Surveyed) -> bool {
    let process = surveyed.session.processes.first().and_then(|process| process.started_at);
    match (surveyed.session.started_at, process) {
        (Some(made), Some(started)) => made >= started,
        _ => false,
    }
}

/// Whether the first prompt is what was sent. An agent may remove a part that only it interprets, such as a command
/// before the text.
fn says(prompt: &str, words: &str) -> bool {
    let prompt = prompt.trim();
    !prompt.is_empty() && clean(words).trim().ends_with(prompt)
}

#[cfg(test)]
mod tests {
    use super::says;

    #[test]
    fn a_prompt_is_the_words_or_their_end() {
        assert!(says("fix it", "fix it") && says("  fix it\n", "fix it  ") && says("fix it", "/goal fix it"));
        assert!(!says("fix", "fix it") && !says("", "fix it") && !says("fix it now", "fix it"));
    }
}
