//! Carrying out one launch or resume: waiting for its session, and telling of it.

use std::io::Write;

use agentctl_fleet::launches::LaunchOrder;
use agentctl_fleet::{Caller, Fleet, LaunchError};
use agentctl_model::{Outcome, Status, Surveyed, text};

use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::Output;
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

/// The session and what can be done next. `place` says in words where it lives, if not in a process here.
pub(crate) fn report(
    session: &Surveyed,
    place: Option<&str>,
    as_json: bool,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<(), Failure> {
    if as_json {
        return json::answer(out, &session.session);
    }
    let object = &session.session;
    let look = style::look(object.status, object.outcome);
    let status = out.paint.apply(look.tone, &format!("{} {}", look.glyph, look.word));
    let id = text::one_line(&object.id);
    writeln!(out, "{status}  {}  {id}", object.adapter)?;
    let cwd = object.cwd.as_deref().map(|cwd| path::shown(cwd, surroundings.home.as_deref()));
    let branch = object.branch.as_deref().map(|branch| format!(" ({})", text::one_line(branch)));
    if let Some(cwd) = cwd {
        writeln!(out, "  in {cwd}{}", branch.unwrap_or_default())?;
    }
    if let Some(place) = place {
        writeln!(out, "  {}", text::one_line(place))?;
    }
    let short: String = id.chars().take(13).collect();
    for (command, what) in [
        (format!("agentctl logs -f {short}"), "follow it"),
        (format!("agentctl wait {short}"), "wait for the end of its turn"),
        (format!("agentctl stop {short}"), "end it"),
    ] {
        let line = format!("  {command:<28} {what}");
        writeln!(out, "{}", out.paint.dim(&line))?;
    }
    Ok(())
}

/// How a command ends that does not wait: a turn that went wrong before it returned is no success.
pub(crate) fn ended_as(session: &Surveyed, fleet: &Fleet, out: &mut Output) -> Exit {
    let object = &session.session;
    let Some(outcome) = object.outcome.filter(|_| went_wrong(session)) else { return Exit::Done };
    let words = fleet.complaint(session).map(|words| format!(": {}", text::clean(&words)));
    let id = text::one_line(&object.id);
    out.error(&format!("the turn of {id} is over already, {}{}", outcome.word(), words.unwrap_or_default()));
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
