//! Requests a launch: writes the record, starts a runner, and waits for its result.
//!
//! The runner owns everything from its first moment, including the undo. If the caller is killed, nothing changes. If
//! the runner is killed, what it left is found here by a survey.

mod attachments;
pub(crate) mod complaint;
mod issue;
mod launcher;
mod request;
mod resume;
mod side_by_side;
mod slots;

use std::fs::File;
use std::io;
use std::time::Duration;

use agentctl_adapters::hold::{HoldPlan, HoldWay};
use agentctl_model::{Error, Intent, Observed, SourceReport, SpawnPlan, Surveyed};
use agentctl_process::pages::Pages;
use agentctl_process::{Order, Started, spawn_with, wait_any_gone};
use jiff::Timestamp;

use crate::act::caller::Caller;
use crate::act::gateways::GatewayLaunch;
use crate::act::offered::{capabilities_of, unless_offered};
use crate::act::runner::terminal::tmux_program;
use crate::act::stop::termination::Termination;
use crate::keep::kernel_lock::KernelLock;
use crate::keep::launches;
use crate::keep::launches::{LaunchFolder, LaunchOrder, MARK, NewLaunch, ProcessMark, Record, WorktreeOrder};
use crate::keep::new_names;
use crate::read::query::Query;
use crate::{Fleet, worktree};

pub use attachments::{Attachments, MAX_FILE, text, text_of};
pub use issue::Issue;
pub use launcher::Launcher;
pub use request::{LaunchOptions, LaunchRequest, Stay, check_folder, check_words, misfit};
pub use resume::ResumeRequest;
pub use side_by_side::SlotResults;
pub use slots::{Choice, Defaults, LaunchPlan, MOST_SLOTS, PlannedSlot, check_count};
pub(crate) use slots::{no_gateway, unknown_agent};

/// The agentctl command that is a runner.
pub const RUNNER: &str = "__run";

/// How long a runner may take to exit after it has written why there is no session.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// How often the result of a runner is polled, which reads two small files of our own. A watch by the kernel would cost
/// more, since removing it takes tens of milliseconds.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A launch in progress.
#[derive(Debug)]
pub struct Launching(Work);

#[derive(Debug)]
enum Work {
    Run(Box<Running>),
    /// There is nothing to run, because a gateway has accepted it already.
    InGateway(Box<GatewayLaunch>),
}

/// A launch that a runner carries out.
#[derive(Debug)]
struct Running {
    folder: LaunchFolder,
    runner: Started,
    /// Held until the result was read.
    _awaited: KernelLock,
}

impl Fleet {
    /// Returns what would be started. Refuses what makes no sense for this agent.
    pub fn plan(&self, order: &LaunchOrder, intent: &Intent) -> Result<SpawnPlan, Error> {
        self.plan_with_way(order, intent).map(|(plan, _)| plan)
    }

    /// The same, with the way to a session that is to be held.
    pub(crate) fn plan_with_way(
        &self,
        order: &LaunchOrder,
        intent: &Intent,
    ) -> Result<(SpawnPlan, Option<HoldWay>), Error> {
        let via = order.via.as_deref().map(|via| self.acp_agent(via).ok_or_else(|| unknown_agent(via)));
        let via = via.transpose()?;
        let adapter = self.sources.iter().find(|source| source.name() == order.adapter);
        let control = adapter.and_then(|source| source.adapter.control());
        let control = control.ok_or_else(|| {
            Error::refused(format!("{} sessions can only be read, not started", order.adapter))
                .hint("`agentctl adapters` shows what can be done with which agent")
        })?;
        let source = self.source(&order.adapter, &order.root);
        let store = source.and_then(|source| source.adapter.store_to_name(&source.root));
        let intent = &Intent { store, ..intent.clone() };
        let (mut plan, way) = if order.terminal {
            if let Some(via) = via {
                return Err(Error::refused(format!("{} has no screen of its own over ACP", via.name))
                    .hint("launch it without --terminal: the session is held, and can be spoken with"));
            }
            (control.terminal(intent)?, None)
        } else if let Some(via) = via {
            let HoldPlan { spawn, way } = via.hold(intent)?;
            (spawn, Some(way))
        } else if order.hold {
            let HoldPlan { spawn, way } = control.hold(intent)?;
            (spawn, Some(way))
        } else {
            (control.plan(intent)?, None)
        };
        if let Some(program) = &order.program {
            plan.program = program.to_string_lossy().into_owned();
        }
        plan.env.extend(order.env.iter().filter_map(|(name, value)| Some((name.clone(), value.clone()?))));
        Ok((plan, way))
    }

    /// Returns the worktree that is to be made for the launch. A session that lives in a gateway gets none.
    pub fn tree_of<'o>(&self, order: &'o LaunchOrder) -> Option<&'o WorktreeOrder> {
        order.worktree.as_ref().filter(|_| self.server_named(&order.adapter, &order.root).is_none())
    }

    /// Writes the record and starts the runner in the caller's environment, or asks the gateway in which the session is
    /// to live.
    pub fn launch(
        &self,
        order: LaunchOrder,
        words: &str,
        caller: &Caller,
        now: Timestamp,
    ) -> Result<Launching, Error> {
        let (adapter, wanted) = (order.adapter.clone(), order.capability());
        let offered = |error: Error| match wanted {
            Some(wanted) => unless_offered(error, &capabilities_of(&adapter), wanted),
            None => error,
        };
        self.refuse_spent_for(&order, now)?;
        if let Some(server) = self.server_named(&order.adapter, &order.root) {
            return server
                .launch(order, words, caller, now)
                .map(|hosted| Launching(Work::InGateway(Box::new(hosted))))
                .map_err(offered);
        }
        // An order without a plan is refused before anything is written.
        self.plan(&order, &order.intent(words.to_owned(), order.cwd.clone())).map_err(offered)?;
        if order.terminal {
            tmux_program(caller)?;
        }
        let begin = || -> io::Result<Launching> {
            let record = Record {
                version: launches::VERSION,
                id: new_names::launch_id()?,
                launched_at: now,
                order,
                session_id: None,
                settled: false,
                made: None,
                process: None,
            };
            let NewLaunch { folder, held, awaited } =
                LaunchFolder::create(&caller.launches(), &record, words)?;
            let started = start_runner(&folder, held.into_file(), &record.id, caller);
            if started.is_err() {
                let _ = folder.remove();
            }
            Ok(Launching(Work::Run(Box::new(Running { folder, runner: started?, _awaited: awaited }))))
        };
        begin().map_err(|error| {
            Error::agent_failed(format!(
                "cannot start the launch in {}: {error}",
                caller.launches().display()
            ))
        })
    }
}

/// Starts the runner. It gets the lock on its directory as its standard input, so that the lock is held without a gap.
fn start_runner(
    folder: &LaunchFolder,
    held: Option<File>,
    launch: &str,
    caller: &Caller,
) -> io::Result<Started> {
    let mut environ = caller.clean_environ();
    environ.set(MARK, launch);
    let mut args = vec![RUNNER.into(), folder.path().into()];
    // A daemon raised its limit for itself, not for agents.
    args.extend(agentctl_process::open_files::usual().map(|soft| format!("--open-files={soft}").into()));
    let order = Order {
        program: caller.agentctl.clone(),
        args,
        environ,
        cwd: folder.path().to_owned(),
        stdin: held,
        stdout: folder.open_output("runner.log")?,
        stderr: folder.open_output("runner.log")?,
    };
    // It waits for as long as its agent lives.
    spawn_with(order, Pages::Small)
}

impl Launching {
    /// Cancels the launch: the process that works on it undoes what was done.
    pub fn cancel(&mut self) {
        match &mut self.0 {
            Work::Run(running) => drop(running.folder.cancel()),
            Work::InGateway(hosted) => hosted.cancel(),
        }
    }

    /// Waits for the outcome; cancels the launch once `cancelled` returns true.
    pub fn wait(mut self, fleet: &Fleet, cancelled: impl Fn() -> bool) -> Result<Surveyed, Error> {
        loop {
            if let Some(outcome) = self.outcome(fleet) {
                return outcome;
            }
            if cancelled() {
                self.cancel();
            }
            Self::rest([&self]);
        }
    }

    /// Waits until it is time to check the outcomes again: a moment, or until a runner has exited.
    pub(crate) fn rest<'l>(starting: impl IntoIterator<Item = &'l Self>) {
        let runners = starting.into_iter().filter_map(|launching| match &launching.0 {
            Work::Run(running) => running.runner.process,
            Work::InGateway(_) => None,
        });
        wait_any_gone(&runners.collect::<Vec<_>>(), None, POLL_INTERVAL);
    }

    /// Returns the session once a survey shows its turn, or why there is none.
    pub fn outcome(&mut self, fleet: &Fleet) -> Option<Result<Surveyed, Error>> {
        match &mut self.0 {
            Work::Run(running) => running.outcome(fleet),
            Work::InGateway(hosted) => hosted.outcome(fleet),
        }
    }
}

impl Running {
    fn outcome(&mut self, fleet: &Fleet) -> Option<Result<Surveyed, Error>> {
        // This is checked before the files are read, so that everything the runner wrote before it exited is there.
        let runner_ended = self.runner.ended().ok().flatten().is_some();
        if let Some(failed) = self.folder.failed() {
            // It has nothing left to do but exit. A caller that learns of the failure finds no process any more.
            let _ = self.runner.ends_within(EXIT_TIMEOUT);
            let _ = self.folder.remove();
            return Some(Err(failed.into()));
        }
        let record = match self.folder.record() {
            Ok(record) => record,
            Err(error) => {
                return Some(Err(Error::agent_failed(format!("the launch record is gone: {error}"))));
            }
        };
        if record.settled || runner_ended {
            let seen = show(fleet, &record, true);
            if seen.is_some() {
                return seen.map(Ok);
            }
        }
        if !runner_ended {
            return None;
        }
        clean_up(fleet, &self.folder, &record);
        Some(Err(Error::agent_failed("the launch was killed before it had a session")))
    }
}

/// Returns the session of this launch, if it is stored or has an owner, at the cost of a list.
pub(crate) fn glance(fleet: &Fleet, record: &Record) -> Option<Surveyed> {
    show(fleet, record, false)
}

/// The same; with `complete` it contains what `status` shows, which may cost a read of the whole transcript.
pub(crate) fn show(fleet: &Fleet, record: &Record, complete: bool) -> Option<Surveyed> {
    look(fleet, record, complete).0
}

/// The same, and whether every source that could hold it was read. Only then does a missing session mean that there is
/// none.
pub(crate) fn look(fleet: &Fleet, record: &Record, complete: bool) -> (Option<Surveyed>, bool) {
    let Some((id, query)) = record.session_id.as_ref().zip(Query::of_launch(record)) else {
        return (None, true);
    };
    let survey = fleet.survey(&Query { usage: complete, whole_texts: complete, ..query });
    let heard = !survey.sources.iter().any(SourceReport::is_incomplete);
    (survey.sessions.into_iter().find(|surveyed| surveyed.key.id == *id), heard)
}

/// Undoes a launch that has no session, no matter which process finds it: its processes, its worktree, its record.
pub fn clean_up(fleet: &Fleet, folder: &LaunchFolder, record: &Record) {
    undo(fleet, record);
    let _ = folder.remove();
}

/// Ends what a launch started and removes what it made.
pub(crate) fn undo(fleet: &Fleet, record: &Record) {
    end_family(fleet, record);
    if let Some(made) = &record.made {
        // A worktree with changes stays, and `agentctl worktree list` shows it.
        let _ = worktree::remove_if_clean(made);
    }
}

/// Ends every process that carries the mark of this launch, whatever is known of a session.
pub(crate) fn end_family(fleet: &Fleet, record: &Record) {
    let process = record.process.as_ref().and_then(ProcessMark::process);
    let alive = |process| fleet.kernel.is_alive(process) != Observed::Seen(false);
    let termination = Termination {
        kernel: fleet.kernel.as_ref(),
        owners: process.into_iter().filter(|process| alive(*process)).collect(),
        launch: Some(record.id.clone()),
        marks: Vec::new(),
        source: None,
        known: Vec::new(),
    };
    termination.finish();
}
