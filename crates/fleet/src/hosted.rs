//! Sessions that live in a server: launched, stopped and spoken to by asking it. Nothing is started here, so there is no
//! runner, no process to end and no lock to hold.
//!
//! A launch leaves one record, written when the server has named the session and never before: what was asked for, for
//! `launch` and `group` of the session. It joins by that id, makes no row of its own, and expires like every other.

use std::path::Path;
use std::time::{Duration, Instant};

use agentctl_adapters::Answer;
use agentctl_adapters::host::{Addressee, Begun, Errand, Host, HostError, Request};
use agentctl_model::{Outcome, Refusal, SpawnPlan, Status, Surveyed};
use jiff::Timestamp;

use crate::caller::Caller;
use crate::launch::{LaunchError, show};
use crate::launches::{self, CallbackOrder, Exit, LaunchFolder, LaunchOrder, Record, Talk};
use crate::runner::ready::refuse_a_held_directory;
use crate::speak::SpeakError;
use crate::stop::Stopped;
use crate::{Fleet, Source, fresh};

/// How often a server is asked whether its list shows what it was told.
const LOOK: Duration = Duration::from_millis(200);
/// A turn that the server took is shown within a moment. Nothing is concluded when it is not, but the caller is not kept.
const SHOWN_WITHIN: Duration = Duration::from_mins(1);

/// What a launch would do.
#[derive(Debug, Clone, PartialEq)]
pub enum Preview {
    Spawn(SpawnPlan),
    Request(Request),
}

/// Somebody who was to be told how a session ended, and was not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untold {
    pub launch: String,
    pub session: Option<String>,
    pub order: CallbackOrder,
    /// Why the last try failed.
    pub error: Option<String>,
    /// It is still being tried.
    pub tried: bool,
}

/// The server behind one source.
pub(crate) struct Server<'f> {
    fleet: &'f Fleet,
    source: &'f Source,
    host: &'static dyn Host,
}

/// A launch that a server has taken.
#[derive(Debug)]
pub(crate) struct Hosted {
    record: Record,
    folder: Option<LaunchFolder>,
    begun: Begun,
    since: Instant,
    cancelled: bool,
    /// What to ask when it is taken back.
    source: HostedSource,
}

/// Of a source, what outlives the fleet it was taken from.
struct HostedSource(Source, &'static dyn Host);

impl std::fmt::Debug for HostedSource {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.root.path.fmt(out)
    }
}

impl Fleet {
    /// Whether this session lives in a server and not in a process here.
    pub fn is_hosted(&self, target: &Surveyed) -> bool {
        self.host_of(target).is_some()
    }

    /// Where a new session of this agent would be: of several places the first that leads anywhere.
    pub fn place_to_launch(&self, adapter: &str) -> Option<&Source> {
        let of_adapter = || self.sources.iter().filter(|source| source.name() == adapter);
        let leads =
            |source: &&Source| source.adapter.host().is_none_or(|host| host.is_reachable(&source.root));
        of_adapter().find(leads).or_else(|| of_adapter().next())
    }

    /// The gateway of this caller, to which others can be told: the first one that leads anywhere.
    pub fn callback_to(&self, to: Addressee) -> Option<CallbackOrder> {
        let leads =
            |source: &&Source| source.adapter.host().is_some_and(|host| host.is_reachable(&source.root));
        let source = self.sources.iter().find(leads)?;
        let root = source.root.path.to_string_lossy().into_owned();
        Some(CallbackOrder { adapter: source.name().to_owned(), root, to })
    }

    /// The callbacks of launches that are over and that nobody has heard.
    pub fn untold(&self) -> Vec<Untold> {
        let ledger = self.ledger();
        let over = ledger.entries().iter().filter(|(folder, _)| folder.exit().is_some());
        let untold = over.filter_map(|(folder, record)| {
            let order = record.order.callback.clone()?;
            let state = folder.callback();
            if state.as_ref().is_some_and(|state| state.delivered_at.is_some()) {
                return None;
            }
            // A runner at work holds its folder: where nobody does, nobody will tell.
            let tried = folder.hold().is_ok_and(|held| held.is_none());
            let error = state.and_then(|state| state.error);
            Some(Untold {
                launch: record.id.clone(),
                session: record.session_id.clone(),
                order,
                error,
                tried,
            })
        });
        untold.collect()
    }

    /// What a launch would start or send. Refuses what makes no sense for this agent.
    pub fn preview(&self, order: &LaunchOrder, words: &str) -> Result<Preview, Refusal> {
        match self.host_named(&order.adapter, &order.root) {
            Some(server) => server.request(order, words).map(Preview::Request),
            None => self.plan(order, &order.intent(words.to_owned(), order.cwd.clone())).map(Preview::Spawn),
        }
    }

    pub(crate) fn host_of(&self, target: &Surveyed) -> Option<Server<'_>> {
        self.host_named(&target.key.adapter, &target.key.root)
    }

    pub(crate) fn host_named(&self, adapter: &str, root: &str) -> Option<Server<'_>> {
        let fits = |source: &&Source| source.name() == adapter && source.root.path.as_os_str() == root;
        let source = self.sources.iter().find(fits)?;
        Some(Server { fleet: self, source, host: source.adapter.host()? })
    }
}

impl Server<'_> {
    fn request(&self, order: &LaunchOrder, words: &str) -> Result<Request, Refusal> {
        refuse_what_needs_a_process(order)?;
        self.host.request(&self.source.root, &errand(order, words))
    }

    pub(crate) fn launch(
        &self,
        order: LaunchOrder,
        words: &str,
        caller: &Caller,
        now: Timestamp,
    ) -> Result<Hosted, LaunchError> {
        self.request(&order, words)?;
        if let (true, false, Talk::New) = (order.cwd_is_chosen, order.force, &order.conversation) {
            refuse_a_held_directory(self.fleet, caller, &order.cwd)?;
        }
        let begun = self.host.begin(&self.source.root, &errand(&order, words)).map_err(failed)?;
        let record = Record {
            version: launches::VERSION,
            id: fresh::launch_id().map_err(|error| LaunchError::failed(error.to_string()))?,
            launched_at: now,
            order,
            session_id: Some(begun.id.clone()),
            settled: true,
            made: None,
            process: None,
        };
        // The session is there whether this can be written or not; without it only its labels are lost.
        let folder = write_down(&caller.launches(), &record, words, now).ok();
        let source = HostedSource(self.source.clone(), self.host);
        Ok(Hosted { record, folder, begun, since: Instant::now(), cancelled: false, source })
    }

    /// Breaks off the turn; the session stays and takes the next message.
    pub(crate) fn stop(&self, target: &Surveyed, grace: Duration) -> Result<Stopped, Refusal> {
        let aborted = self.host.stop(&self.source.root, &target.key.id).map_err(refused)?;
        let began = Instant::now();
        loop {
            let now = self.fleet.again(target).map(|now| now.session.status);
            // Not to hear of it is not to know that it rests.
            if matches!(now, Some(Status::Idle | Status::Stopped)) {
                let how = if aborted { "its gateway broke off the turn; the session stays" } else { "" };
                return Ok(Stopped {
                    was_stopped: !aborted,
                    how: how.to_owned(),
                    ended: Vec::new(),
                    survived: Vec::new(),
                });
            }
            if began.elapsed() >= grace {
                let took = if aborted { "took the stop" } else { "found nothing to stop" };
                let then = match now {
                    Some(status) => format!("still says that session {} is {}", target.key.id, status.word()),
                    None => format!("has not been heard of session {} since", target.key.id),
                };
                let reason = format!("the gateway {took}, but {then}");
                return Err(Refusal::new(reason).hint("look again, or stop it in the gateway's own page"));
            }
            std::thread::sleep(LOOK);
        }
    }

    pub(crate) fn interrupt(&self, target: &Surveyed) -> Result<(), Refusal> {
        self.host.stop(&self.source.root, &target.key.id).map(drop).map_err(refused)
    }

    pub(crate) fn send(&self, target: &Surveyed, words: &str) -> Result<(), SpeakError> {
        let once = fresh::uuid().map_err(|error| SpeakError::Silent(error.to_string()))?;
        self.host.send(&self.source.root, &target.key.id, words, &once).map_err(spoken)
    }

    pub(crate) fn answer(&self, target: &Surveyed, answer: &Answer) -> Result<(), SpeakError> {
        self.host.answer(&self.source.root, &target.key.id, answer).map_err(spoken)
    }
}

impl Server<'_> {
    pub(crate) fn tell(&self, to: &Addressee, words: &str, once: &str) -> Result<(), HostError> {
        self.host.tell(&self.source.root, to, words, once)
    }
}

impl Hosted {
    /// Breaks off what was begun. The session itself is the server's and stays.
    pub(crate) fn cancel(&mut self) {
        if !std::mem::replace(&mut self.cancelled, true) {
            let HostedSource(source, host) = &self.source;
            let _ = host.stop(&source.root, &self.begun.id);
            self.forget();
        }
    }

    fn forget(&self) {
        if let Some(folder) = &self.folder {
            let _ = folder.remove();
        }
    }

    pub(crate) fn outcome(&mut self, fleet: &Fleet) -> Option<Result<Surveyed, LaunchError>> {
        let id = &self.begun.id;
        if self.cancelled {
            return Some(Err(LaunchError::failed(format!(
                "it was taken back; the gateway keeps session {id}"
            ))));
        }
        let seen = show(fleet, &self.record, true);
        match seen.filter(|seen| self.source.1.shows(&seen.session, &self.begun)) {
            Some(seen) if seen.session.outcome == Some(Outcome::Failed) && !is_at_work(&seen) => {
                self.forget();
                let why = seen.session.status_detail.as_deref().unwrap_or("it does not say why");
                let message = format!("the turn failed at once: {why}");
                Some(Err(
                    LaunchError::failed(message).hint(format!("the gateway keeps it: `agentctl peek {id}`"))
                ))
            }
            Some(seen) => Some(Ok(seen)),
            None if self.since.elapsed() > SHOWN_WITHIN => {
                self.forget();
                let message = format!("the gateway took it as {id}, but its list does not show the turn");
                Some(Err(LaunchError::failed(message).hint(format!("`agentctl status {id}` looks again"))))
            }
            None => {
                std::thread::sleep(LOOK);
                None
            }
        }
    }
}

fn write_down(
    launches: &Path,
    record: &Record,
    words: &str,
    now: Timestamp,
) -> std::io::Result<LaunchFolder> {
    let (folder, _held) = LaunchFolder::create(launches, record, words)?;
    // No process of it ever runs here: its time begins now, and nobody needs to find that out.
    let exit = Exit {
        exit_code: None,
        exit_signal: None,
        exited_at: None,
        timed_out: false,
        found_gone_at: Some(now),
    };
    folder.write_exit(&exit)?;
    Ok(folder)
}

fn errand<'a>(order: &'a LaunchOrder, words: &'a str) -> Errand<'a> {
    Errand {
        session: match &order.conversation {
            Talk::New | Talk::Fork { .. } => None,
            Talk::Resume { id, .. } => Some(id),
        },
        words,
        model: order.model.as_deref(),
        permission: order.permission,
        cwd: Some(order.cwd.as_path()).filter(|_| order.cwd_is_chosen),
        once: &order.fresh_id,
    }
}

/// There is no process here that could be given these, or be waited for.
fn refuse_what_needs_a_process(order: &LaunchOrder) -> Result<(), Refusal> {
    let resumed = matches!(order.conversation, Talk::Resume { .. });
    let forked = matches!(order.conversation, Talk::Fork { .. });
    let hooks = order.on_create.is_some() || order.on_complete.is_some();
    let chosen = order.model.is_some() || order.permission.is_some();
    let asked = [
        (forked, "--fork", "its gateway forks sessions only by itself", ""),
        (
            order.worktree.is_some(),
            "working tree",
            "its sessions live in a gateway, in folders of their own",
            "launch it alone, with --cwd for a folder that the gateway can reach",
        ),
        (!order.env.is_empty(), "--env", "its sessions run in the gateway's environment", ""),
        (
            order.system_prompt.is_some(),
            "--system-prompt-append",
            "its gateway has its own",
            "say it in the prompt",
        ),
        (
            hooks,
            "--on-create or --on-complete",
            "nothing of it runs here that could run them",
            "`agentctl wait ID && CMD`, or a webhook on session.idle",
        ),
        (
            order.callback.is_some(),
            "--callback-session or --callback-agent",
            "nothing of it runs here that could tell",
            "let it tell them itself: it lives in the same gateway",
        ),
        (
            order.timeout_ms.is_some(),
            "--timeout",
            "nothing of it runs here that could be ended",
            "`agentctl fuse set --session ID --max-time 30m` stops it in the gateway",
        ),
        (
            resumed && chosen,
            "--model or --permission-mode with resume",
            "a session keeps what it began with",
            "",
        ),
    ];
    match asked.into_iter().find(|(asked, ..)| *asked) {
        None => Ok(()),
        Some((_, what, why, hint)) => {
            let refusal = Refusal::new(format!("{} takes no {what}: {why}", order.adapter));
            Err(if hint.is_empty() { refusal } else { refusal.hint(hint) })
        }
    }
}

fn is_at_work(session: &Surveyed) -> bool {
    matches!(session.session.status, Status::Running | Status::Waiting)
}

fn failed(error: HostError) -> LaunchError {
    match error {
        HostError::Refused(refusal) => LaunchError { refused: false, ..refusal.into() },
        HostError::Unheard(why) => LaunchError::failed(why),
    }
}

fn refused(error: HostError) -> Refusal {
    match error {
        HostError::Refused(refusal) => refusal,
        HostError::Unheard(why) => Refusal::new(why),
    }
}

fn spoken(error: HostError) -> SpeakError {
    match error {
        HostError::Refused(refusal) => SpeakError::Refused(refusal),
        HostError::Unheard(why) => SpeakError::Silent(why),
    }
}
