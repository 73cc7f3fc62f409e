//! Performs one launch or resume: waits for its session and reports it.

use std::io::Write;
use std::sync::Arc;

use agentctl_fleet::Fleet;
use agentctl_fleet::act::launch::Launcher;
use agentctl_fleet::keep::launches::LaunchOrder;
use agentctl_model::{Capability, Error, ErrorKind, Outcome, Session, Status, Surveyed, text};

use super::far;
use crate::cli::wait::for_turn;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::link::hosts::{Located, RosterHost, full};
use crate::output::Output;
use crate::render::sessions::short_ids;
use crate::render::width::measure;
use crate::render::{json, path, style};
use crate::surroundings::Surroundings;

/// Starts the agent and waits until a survey shows its turn. Ctrl-C undoes the launch.
pub(crate) fn carry_out(
    order: LaunchOrder,
    words: &str,
    what: &str,
    launcher: &Launcher,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<Surveyed, Failure> {
    let interrupt = Interrupt::listen();
    out.progress(Some(what));
    let outcome = launcher.carry_out(order, words, surroundings.now(), || interrupt.came());
    out.progress(None);
    outcome.map_err(|error| said(error, interrupt.came()))
}

/// Reports a session that was started, and with `wait` how its turn ended. `place` describes where it lives
/// if it is not a process on this machine. Suggested commands come last, when the state of the session is
/// known.
pub(crate) fn tell(
    session: &Located,
    place: Option<&str>,
    (wait, as_json): (bool, bool),
    fleet: &Fleet,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let far = session.far.as_deref();
    if !as_json {
        head(&session.found.session, far, place, surroundings, out)?;
    }
    if !wait {
        if as_json {
            json::answer(out, &session.found.session)?;
        } else {
            next_steps(&session.found.session, far, out)?;
        }
        return Ok(ended_as(session, "is over already", fleet, out));
    }
    let ended = for_turn(session, as_json, fleet, surroundings, out)?;
    let now = session.again(fleet).unwrap_or_else(|| session.found.clone());
    let now = Located { found: now, ..session.clone() };
    if !as_json {
        next_steps(&now.found.session, far, out)?;
    }
    // A held session is still there when its turn has failed, and its records may say so a moment after it was idle.
    let is_over = matches!(now.found.session.status, Status::Idle | Status::Stopped);
    let outcome = now.found.session.outcome.filter(|outcome| is_over && *outcome != Outcome::Completed);
    let Some(outcome) = outcome else { return Ok(ended) };
    complain(&now, outcome, "has ended", fleet, out);
    Ok(ended.or_worse(Exit::Failed))
}

/// The same for a session that another machine has just started.
pub(crate) fn tell_far(
    session: &Session,
    host: &Arc<RosterHost>,
    (wait, as_json): (bool, bool),
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let located = match far::locate(host, session) {
        Ok(located) => located,
        // It was started, whatever is heard after that.
        Err(failure) => {
            if as_json {
                json::answer(out, session)?;
            } else {
                head(session, Some(host), None, surroundings, out)?;
            }
            return Err(failure);
        }
    };
    tell(&located, None, (wait, as_json), &surroundings.fleet()?, surroundings, out)
}

/// Where a session on its own screen lives.
pub(crate) fn on_screen(order: &LaunchOrder) -> Option<String> {
    order.terminal.then(|| "on its own screen in tmux: `agentctl attach` opens it".to_owned())
}

fn head(
    session: &Session,
    far: Option<&RosterHost>,
    place: Option<&str>,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<(), Failure> {
    let look = style::look(session.status, session.outcome);
    let status = out.paint.apply(look.tone, &format!("{} {}", look.glyph, look.word));
    let id = text::one_line(&full(far, &session.id));
    writeln!(out, "{status}  {}  {id}", text::one_line(&session.adapter))?;
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

/// The commands that make sense for a session in its current state, with their purposes.
fn steps(session: &Session, far: Option<&RosterHost>) -> Vec<(String, &'static str)> {
    let id = text::one_line(&session.id);
    let id = full(far, &short_ids(std::iter::once(id.as_str())).concat());
    if session.is_live() {
        // Only a session that is held is still there after its turn.
        let next = match session.status {
            Status::Idle => (format!("agentctl send {id} MESSAGE"), "go on with it"),
            _ => (format!("agentctl wait {id}"), "wait for the end of its turn"),
        };
        let can_be_read = session.capabilities.contains(&Capability::Peek);
        let read = can_be_read.then(|| (format!("agentctl logs -f {id}"), "follow it"));
        return read.into_iter().chain([next, (format!("agentctl stop {id}"), "end it")]).collect();
    }
    let mut steps = vec![(format!("agentctl peek {id}"), "what it said")];
    if session.capabilities.contains(&Capability::Resume) {
        steps.push((format!("agentctl resume {id} MESSAGE"), "go on with it"));
    }
    steps
}

/// Prints the commands one below the other.
fn next_steps(session: &Session, far: Option<&RosterHost>, out: &mut Output) -> Result<(), Failure> {
    let steps = steps(session, far);
    let width = steps.iter().map(|(command, _)| measure(command)).max().unwrap_or(0);
    for (command, what) in steps {
        let line = format!("  {command:<width$}  {what}");
        writeln!(out, "{}", out.paint.dim(&line))?;
    }
    Ok(())
}

/// The exit code of a command whose turn is over. A turn that went wrong is a failure, reported in the
/// agent's words.
fn ended_as(session: &Located, how: &str, fleet: &Fleet, out: &mut Output) -> Exit {
    let outcome = session.found.session.outcome.filter(|_| went_wrong(&session.found));
    let Some(outcome) = outcome else { return Exit::Done };
    complain(session, outcome, how, fleet, out);
    Exit::Failed
}

/// Says in the agent's words how a turn went wrong.
fn complain(session: &Located, outcome: Outcome, how: &str, fleet: &Fleet, out: &mut Output) {
    let words = match &session.far {
        None => fleet.complaint(&session.found),
        Some(_) => session.found.session.status_detail.clone(),
    };
    let words = words.map(|words| format!(": {}", text::clean(&words)));
    let id = text::one_line(&session.id());
    out.error(&format!("the turn of {id} {how}, {}{}", outcome.as_str(), words.unwrap_or_default()));
}

/// Whether no process runs the session any more and its turn did not complete.
pub(super) fn went_wrong(session: &Surveyed) -> bool {
    let object = &session.session;
    object.status == Status::Stopped && object.outcome.is_some_and(|outcome| outcome != Outcome::Completed)
}

/// Why there is no session. For a cancelled launch this also reports whether it could be undone.
fn said(error: Error, interrupted: bool) -> Failure {
    if interrupted { error.of_kind(ErrorKind::Interrupted) } else { error }.into()
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
            ..agentctl_testkit::sessions::session("agent:main:dashboard:934eb747-1111-4111", status, outcome)
        };
        let verbs = |session: &Session| -> Vec<String> {
            let verb = |step: &String| step.split(' ').nth(1).map(str::to_owned);
            steps(session, None).iter().filter_map(|(step, _)| verb(step)).collect()
        };
        assert_eq!(verbs(&session(Status::Running, None)), ["logs", "wait", "stop"]);
        let mut done = session(Status::Stopped, Some(Outcome::Completed));
        assert_eq!(verbs(&done), ["peek", "resume"]);
        assert_eq!(steps(&done, None)[0].0, "agentctl peek agent:main:dashboard:934eb747");
        done.capabilities.clear();
        assert_eq!(verbs(&done), ["peek"]);
    }
}
