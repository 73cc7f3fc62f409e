//! What is done, and what was answered. A deed looks at its session anew before it acts, like every command.

use std::path::Path;
use std::time::Duration;

use agentctl_adapters::Answer;
use agentctl_adapters::hold::Decision;
use agentctl_fleet::act::asker::Asker;
use agentctl_fleet::act::launch::{
    LaunchOptions, LaunchRequest, ResumeRequest, Stay, check_folder, check_words,
};
use agentctl_fleet::act::steer::{Accepted, SteerOptions};
use agentctl_fleet::{Purpose, StopOptions};
use agentctl_model::{Capability, Error, ErrorKind, Pending, Session, Status, text};

use super::{is_here, locate};
use crate::cli::web;
use crate::failure::Failure;
use crate::link::daemon_process::DaemonProcess;
use crate::link::hosts::Located;
use crate::output::Output;
use crate::render::style::{self, Colour};
use crate::surroundings::Surroundings;
use crate::top::Scene;
use crate::top::form::Order;
use crate::top::keys::Deed;

/// How long a clean end may take before the processes are killed, as in `agentctl stop`.
const GRACE: Duration = Duration::from_secs(10);

/// What is said while it is done.
pub(super) fn doing(deed: &Deed) -> String {
    match deed {
        Deed::Answer { decision: Decision::AllowOnce | Decision::AllowAlways, .. } => "approving".to_owned(),
        Deed::Answer { decision: Decision::Deny { .. }, .. } => "denying".to_owned(),
        Deed::Answer { .. } => "answering".to_owned(),
        Deed::Send { .. } => "sending".to_owned(),
        Deed::Interrupt { .. } => "interrupting".to_owned(),
        Deed::Stop { .. } => "stopping".to_owned(),
        Deed::Resume { .. } => "resuming".to_owned(),
        Deed::Page { .. } => "opening the page".to_owned(),
        Deed::Launch(order) => format!("starting {}", order.agent),
    }
}

/// Does it, and returns what the agent answered, in words.
pub(super) fn carry_out(deed: Deed, scene: &Scene) -> Result<String, Failure> {
    let surroundings = scene.surroundings.anew();
    let steering = SteerOptions { asker: Asker::this_process(false), ..SteerOptions::default() };
    let fleet = surroundings.fleet()?;
    let find = |key| locate(key, Purpose::Act, &fleet, scene);
    match deed {
        Deed::Answer { key, shown, decision } => {
            let (target, request) = asked_again(|| find(&key), &shown)?;
            let noun = match decision {
                Decision::AllowOnce | Decision::AllowAlways => "the approval",
                Decision::Deny { .. } => "the denial",
                Decision::Text(_) => "the answer",
            };
            let receipt = target.answer(&fleet, Answer { request, decision }, steering)?;
            let of = shown.summary.as_deref().map(|words| format!(" of {}", text::visible_line(words)));
            Ok(told(&target, &format!("accepted {noun}{}", of.unwrap_or_default()), receipt.session.as_ref()))
        }
        Deed::Send { key, words } => {
            let target = find(&key)?;
            wanted(&target, &surroundings);
            let receipt = target.send(&fleet, &words, steering)?;
            let what = match receipt.accepted {
                Accepted::Now => "accepted the message",
                Accepted::Queued => "has the message in its queue",
            };
            Ok(told(&target, what, receipt.session.as_ref()))
        }
        Deed::Interrupt { key } => {
            let target = find(&key)?;
            let receipt = target.interrupt(&fleet, steering)?;
            let what = if receipt.interrupted { "interrupted its turn" } else { "had no open turn" };
            Ok(told(&target, what, receipt.session.as_ref()))
        }
        Deed::Stop { key } => {
            let target = find(&key)?;
            let caller = surroundings.caller(&surroundings.settings()?)?;
            let options = StopOptions { grace: GRACE, force: false, asker: Asker::this_process(false) };
            let report = target.stop(&fleet, &caller, options)?;
            if let Some(error) = report.error {
                return Err(error.into());
            }
            let what = match (report.was_stopped, report.survived.len(), &report.open_in) {
                (true, ..) => "was stopped already".to_owned(),
                (false, 0, Some(place)) => {
                    format!("ended its turn; it is still open in {}", text::one_line(place))
                }
                (false, 0, None) => "was stopped".to_owned(),
                (false, left, _) => format!(
                    "was not stopped: {}",
                    text::counted(left, "process survived", "processes survived")
                ),
            };
            Ok(told(&target, &what, report.session.as_ref()))
        }
        Deed::Resume { key, words } => resume(&find(&key)?, &words, &surroundings),
        Deed::Page { key } => {
            let host = (!is_here(&key)).then_some(key.host);
            web::show(&web::Place { host, id: key.id, cwd: key.variant }, &surroundings)?;
            Ok("the page is open in your browser, at this session".to_owned())
        }
        Deed::Launch(order) => launch(order, &surroundings),
    }
}

/// How often is looked for the id of a request whose words are there.
const LOOKS: usize = 3;

/// The session that asks, and the id of its request. While its runner is busy only the records tell of the request, and
/// they do not know the id that was on the screen: then it is looked at again, because an answer without the name could
/// reach the next request.
fn asked_again(
    find: impl Fn() -> Result<Located, Failure>,
    shown: &Pending,
) -> Result<(Located, Option<String>), Failure> {
    let mut look = 1;
    loop {
        let target = find()?;
        let id = still_asked(&target.found.session, shown)?.id.clone();
        if id.is_some() || shown.id.is_none() {
            return Ok((target, id));
        }
        if look == LOOKS {
            let words = "nothing was answered: who holds this session does not answer";
            return Err(Failure::from(Error::new(ErrorKind::Refused, words)));
        }
        look += 1;
    }
}

/// The request that a person decided about, as it is now. A newer one is not answered in its place. The id of one that
/// was seen in the records first is known only when its runner has told it; its words are the same.
fn still_asked<'s>(session: &'s Session, shown: &Pending) -> Result<&'s Pending, Failure> {
    if let Some(now) = session.pending.iter().find(|now| now.is_same_request(shown)) {
        return Ok(now);
    }
    let now = session.pending.first().and_then(|pending| pending.summary.as_deref()).map(text::visible_line);
    let now = now.map_or_else(|| "nothing".to_owned(), |words| format!("`{words}`"));
    let words = format!("nothing was answered: it does not wait for this any more, but for {now}");
    Err(Failure::from(Error::new(ErrorKind::Refused, words)))
}

/// What acts on this machine wants the daemon, as on the command line.
fn wanted(target: &Located, surroundings: &Surroundings) {
    if target.far.is_none() {
        DaemonProcess::wanted(surroundings, &mut Output::new(surroundings, Colour::Never));
    }
}

fn told(target: &Located, what: &str, now: Option<&Session>) -> String {
    let now = now.map(|now| {
        let look = style::look(now.status, now.outcome);
        format!("; it is {} {}", look.glyph, look.word)
    });
    format!("{} {what}{}", text::one_line(&target.found.key.adapter), now.unwrap_or_default())
}

fn resume(target: &Located, words: &str, surroundings: &Surroundings) -> Result<String, Failure> {
    check_words(words).map_err(|why| Failure::new(ErrorKind::Usage, why))?;
    // A session that was held can be held again; the others take the message as their next turn.
    let was_held = target.found.session.capabilities.contains(&Capability::Send);
    let request =
        ResumeRequest { stay: Stay { hold: was_held, ..Stay::default() }, ..ResumeRequest::default() };
    if let Some(far) = &target.far {
        let session = far.resume(&target.found, words, &request)?;
        return Ok(told(target, "goes on", Some(&session)));
    }
    let settings = surroundings.settings()?;
    let launcher = surroundings.launcher(&settings)?;
    let order = launcher.fleet.resume_order(&target.found, &request, &launcher.caller.programs)?;
    launcher.make_ready(surroundings.now())?;
    wanted(target, surroundings);
    let begun = launcher.carry_out(order, words, surroundings.now(), || false)?;
    Ok(told(target, "goes on", Some(&begun.session)))
}

/// Launches on this machine, the way `agentctl launch` does.
fn launch(order: Order, surroundings: &Surroundings) -> Result<String, Failure> {
    let usage = |why: String| Failure::new(ErrorKind::Usage, why);
    check_words(&order.prompt).map_err(usage)?;
    let settings = surroundings.settings()?;
    let launcher = surroundings.launcher(&settings)?;
    if let Some(mistake) = &launcher.mistake {
        return Err(
            Failure::new(ErrorKind::Failed, mistake.clone()).hint("`agentctl config check` tries it again")
        );
    }
    let choice = launcher.defaults.choice(Some(order.agent.clone()), None);
    let choice = choice.ok_or_else(|| usage("no agent was named".to_owned()))?;
    let cwd = surroundings.meant(Path::new(&order.folder));
    if !launcher.fleet.works_elsewhere(&choice.adapter, None)? {
        check_folder(&cwd).map_err(usage)?;
    }
    let stay = Stay { hold: order.hold, ..Stay::default() };
    let request = LaunchRequest {
        choices: vec![choice],
        side_by_side: false,
        cwd,
        cwd_is_chosen: true,
        worktree: None,
        base: None,
        options: LaunchOptions { stay, ..LaunchOptions::default() },
    };
    let failed = |error: std::io::Error| Failure::new(ErrorKind::Failed, error.to_string());
    let plan = launcher.plan(&request, order.prompt).map_err(failed)?;
    let slot = plan.slots.first().ok_or_else(|| usage("there is nothing to launch".to_owned()))?;
    let slot = slot.order.clone()?;
    launcher.prepare(&plan, surroundings.now(), |_| Ok::<_, Failure>(()))?;
    DaemonProcess::wanted(surroundings, &mut Output::new(surroundings, Colour::Never));
    let begun = launcher.carry_out(slot, &plan.words, surroundings.now(), || false)?;
    let session = &begun.session;
    let look = style::look(session.status, session.outcome);
    let ended = if session.status == Status::Stopped { " already" } else { "" };
    Ok(format!(
        "{} {} is {} {}{ended}",
        text::one_line(&session.adapter),
        text::one_line(&session.id),
        look.glyph,
        look.word
    ))
}

#[cfg(test)]
mod tests {
    use agentctl_model::PendingKind;
    use agentctl_testkit::sessions::session;

    use super::*;

    fn request(id: Option<&str>, words: &str) -> Pending {
        let pending = Pending::new(PendingKind::Approval, Some(words.to_owned()), None);
        Pending { id: id.map(Into::into), ..pending }
    }

    #[test]
    fn an_old_yes_is_no_answer_to_a_newer_request() {
        let mut now = session("a", Status::Waiting, None);
        now.pending = vec![request(Some("r2"), "Bash: rm -rf /")];
        assert!(still_asked(&now, &request(Some("r1"), "Bash: rm -rf build")).is_err());
        assert!(still_asked(&now, &request(None, "Bash: rm -rf build")).is_err());
        // The same words under another id are another request.
        assert!(still_asked(&now, &request(Some("r1"), "Bash: rm -rf /")).is_err());
        let same = still_asked(&now, &request(None, "Bash: rm -rf /")).unwrap();
        assert_eq!(same.id.as_deref(), Some("r2"));
        // What does not describe the request may differ: since when, and whether it could be answered a moment ago.
        let shown =
            Pending { since: Some(jiff::Timestamp::UNIX_EPOCH), ..request(Some("r2"), "Bash: rm -rf /") };
        assert!(still_asked(&now, &shown.answerable(true)).is_ok());
        now.pending.clear();
        assert!(still_asked(&now, &request(Some("r2"), "Bash: rm -rf /")).is_err());
    }
}
