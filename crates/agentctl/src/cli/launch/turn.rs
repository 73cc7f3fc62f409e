//! Carrying out one launch or resume: waiting for its session, and telling of it.

use std::io::Write;

use agentctl_fleet::keep::launches::LaunchOrder;
use agentctl_fleet::{Caller, Fleet, LaunchError};
use agentctl_model::{Capability, Outcome, Session, Status, Surveyed, text};

use crate::cli::wait::for_turn;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::render::sessions::short_ids;
use crate::render::width::measure;
use crate::render::{json, path, style};
use crate::surroundings::Surroundings;

/// Starts it and waits until a survey shows its turn. Ctrl-C takes it back.
pub(crate) fn carry_out(
    order: LaunchOrder,
    words: &str,
    what: &str,
    fleet: &Fleet,
    caller: &Caller,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<Surveyed, Failure> {
    let interrupt = Interrupt::listen();
    let launching = fleet.launch(order, words, caller, surroundings.now())?;
    out.progress(Some(what));
    let outcome = launching.wait(fleet, || interrupt.came());
    out.progress(None);
    match outcome {
        Ok(session) => Ok(session),
        Err(error) => Err(said(error, interrupt.came())),
    }
}

/// Tells of a session that was started, and with `wait` of how its turn ended. `place` says in words where it lives, if not
/// in a process here. What can be done next comes last, when it is known how things stand.
pub(crate) fn tell(
    session: &Surveyed,
    place: Option<&str>,
    (wait, as_json): (bool, bool),
    fleet: &Fleet,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<Exit, Failure> {
    match (wait, as_json) {
        (false, true) => {
            json::answer(out, &session.session)?;
            Ok(ended_as(session, fleet, out))
        }
        (true, true) => for_turn(session, true, fleet, surroundings, out),
        (false, false) => {
            head(&session.session, place, surroundings, out)?;
            next_steps(&session.session, out)?;
            Ok(ended_as(session, fleet, out))
        }
        (true, false) => {
            head(&session.session, place, surroundings, out)?;
            let ended = for_turn(session, false, fleet, surroundings, out)?;
            let now = fleet.again(session);
            next_steps(&now.as_ref().unwrap_or(session).session, out)?;
            Ok(ended)
        }
    }
}

fn head(
    session: &Session,
    place: Option<&str>,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<(), Failure> {
    let look = style::look(session.status, session.outcome);
    let status = out.paint.apply(look.tone, &format!("{} {}", look.glyph, look.word));
    writeln!(out, "{status}  {}  {}", session.adapter, text::one_line(&session.id))?;
    let cwd = session.cwd.as_deref().map(|cwd| path::shown(cwd, surroundings.home.as_deref()));
    let branch = session.branch.as_deref().map(|branch| format!(" ({})", text::one_line(branch)));
    if let Some(cwd) = cwd {
        writeln!(out, "  in {cwd}{}", branch.unwrap_or_default())?;
    }
    if let Some(place) = place {
        writeln!(out, "  {}", text::one_line(place))?;
    }
    Ok(())
}

/// Commands for a session as it is now, and what they are for.
fn steps(session: &Session) -> Vec<(String, &'static str)> {
    let id = text::one_line(&session.id);
    let id = short_ids(std::iter::once(id.as_str())).concat();
    if session.is_live() {
        return vec![
            (format!("agentctl logs -f {id}"), "follow it"),
            (format!("agentctl wait {id}"), "wait for the end of its turn"),
            (format!("agentctl stop {id}"), "end it"),
        ];
    }
    let mut steps = vec![(format!("agentctl peek {id}"), "what it said")];
    if session.capabilities.contains(&Capability::Resume) {
        steps.push((format!("agentctl resume {id} MESSAGE"), "go on with it"));
    }
    steps
}

/// One below the other.
fn next_steps(session: &Session, out: &mut Output) -> Result<(), Failure> {
    let steps = steps(session);
    let width = steps.iter().map(|(command, _)| measure(command)).max().unwrap_or(0);
    for (command, what) in steps {
        let line = format!("  {command:<width$}  {what}");
        writeln!(out, "{}", out.paint.dim(&line))?;
    }
    Ok(())
}

/// How a command ends that does not wait: a turn that went wrong before it returned is no success.
fn ended_as(session: &Surveyed, fleet: &Fleet, out: &mut Output) -> Exit {
    let object = &session.session;
    let Some(outcome) = object.outcome.filter(|_| went_wrong(session)) else { return Exit::Done };
    let words = fleet.complaint(session).map(|words| format!(": {}", text::clean(&words)));
    let id = text::one_line(&object.id);
    out.error(&format!(
        "the turn of {id} is over already, {}{}",
        outcome.as_str(),
        words.unwrap_or_default()
    ));
    Exit::Failed
}

/// Nobody runs it any more, and its turn did not end by itself.
pub(super) fn went_wrong(session: &Surveyed) -> bool {
    let object = &session.session;
    object.status == Status::Stopped && object.outcome.is_some_and(|outcome| outcome != Outcome::Completed)
}

/// Why there is no session. Of one that was not wanted any more this also says whether it could be taken back.
fn said(error: LaunchError, interrupted: bool) -> Failure {
    let exit = match (interrupted, error.refused) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Refused,
        (false, false) => Exit::Failed,
    };
    let failure = Failure::new(exit, text::clean(&error.message));
    match error.hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

impl From<LaunchError> for Failure {
    fn from(error: LaunchError) -> Self {
        said(error, false)
    }
}

impl From<agentctl_model::Refusal> for Failure {
    fn from(refusal: agentctl_model::Refusal) -> Self {
        LaunchError::from(refusal).into()
    }
}

#[cfg(test)]
mod tests {
    use agentctl_model::{Outcome, Status};

    use super::*;

    #[test]
    fn what_can_be_done_next_depends_on_how_it_stands() {
        let session = |status, outcome| Session {
            capabilities: vec![Capability::Peek, Capability::Resume],
            pid: Some(1),
            ..crate::cli::order::tests::session("agent:main:dashboard:934eb747-1111-4111", status, outcome)
        };
        let verbs = |session: &Session| -> Vec<String> {
            let verb = |step: &String| step.split(' ').nth(1).map(str::to_owned);
            steps(session).iter().filter_map(|(step, _)| verb(step)).collect()
        };
        assert_eq!(verbs(&session(Status::Running, None)), ["logs", "wait", "stop"]);
        let mut done = session(Status::Stopped, Some(Outcome::Completed));
        assert_eq!(verbs(&done), ["peek", "resume"]);
        assert_eq!(steps(&done)[0].0, "agentctl peek agent:main:dashboard:934eb747");
        done.capabilities.clear();
        assert_eq!(verbs(&done), ["peek"]);
    }
}
