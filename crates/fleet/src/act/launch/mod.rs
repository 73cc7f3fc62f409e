//! Asking for a launch: the record is written, a runner is started, and its word is waited for.
//!
//! The runner owns everything from its first moment, the undo included. Whoever asks may be killed: nothing changes. If
//! the runner is killed, what it left is found here by looking.

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

use agentctl_model::{Intent, Observed, Refusal, SourceReport, SpawnPlan, Surveyed};
use agentctl_process::{Order, Started, spawn, wait_any_gone};
use jiff::Timestamp;

use crate::act::caller::Caller;
use crate::act::gateways::Hosted;
use crate::act::stop::termination::Hunt;
use crate::keep::fresh;
use crate::keep::kernel_lock::KernelLock;
use crate::keep::launches;
use crate::keep::launches::{
    Failed, LaunchFolder, LaunchOrder, MARK, NewLaunch, ProcessMark, Record, WorktreeOrder,
};
use crate::read::query::Query;
use crate::{Fleet, worktree};

pub use attachments::{Attachments, MAX_FILE, WordsError, text, text_of};
pub use issue::Issue;
pub use launcher::Launcher;
pub use request::{LaunchOptions, LaunchRequest, check_folder, check_words, misfit};
pub use resume::ResumeRequest;
pub use side_by_side::SideBySide;
pub use slots::{
    Choice, Defaults, LaunchPlan, MOST_SLOTS, PlannedSlot, SlotError, SlotErrorKind, check_count,
};

/// The command of agentctl that is a runner.
pub const RUNNER: &str = "__run";

/// How long a runner may take to end once it has said why there is no session.
const GOING: Duration = Duration::from_secs(5);

/// How often is looked for the word of a runner: two small files of our own. Being told by the kernel would cost more, since
/// it takes tens of milliseconds to end such a watch.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Why there is no session. Nothing is left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchError {
    /// Not tried, since it must not or cannot be; otherwise it was tried and failed.
    pub refused: bool,
    pub message: String,
    pub hint: Option<String>,
}

impl LaunchError {
    pub fn failed(message: impl Into<String>) -> Self {
        Self { refused: false, message: message.into(), hint: None }
    }

    pub fn refused(message: impl Into<String>) -> Self {
        Self { refused: true, ..Self::failed(message) }
    }

    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl From<Refusal> for LaunchError {
    fn from(refusal: Refusal) -> Self {
        Self { refused: true, message: refusal.reason, hint: refusal.hint }
    }
}

impl From<Failed> for LaunchError {
    fn from(failed: Failed) -> Self {
        Self { refused: failed.refused, message: failed.message, hint: failed.hint }
    }
}

/// A launch that is being carried out.
#[derive(Debug)]
pub struct Launching(Work);

#[derive(Debug)]
enum Work {
    Run(Box<Running>),
    /// There is nothing to run: a server has it already.
    Hosted(Box<Hosted>),
}

/// By a runner.
#[derive(Debug)]
struct Running {
    folder: LaunchFolder,
    runner: Started,
    /// Held until the answer was heard.
    _awaited: KernelLock,
}

impl Fleet {
    /// What would be started. Refuses what makes no sense for this agent.
    pub fn plan(&self, order: &LaunchOrder, intent: &Intent) -> Result<SpawnPlan, Refusal> {
        let adapter = self.sources.iter().find(|source| source.name() == order.adapter);
        let control = adapter.and_then(|source| source.adapter.control());
        let control = control.ok_or_else(|| {
            Refusal::new(format!("{} sessions can only be read, not started", order.adapter))
                .hint("`agentctl adapters` shows what can be done with which agent")
        })?;
        let mut plan = control.plan(intent)?;
        if let Some(program) = &order.program {
            plan.program = program.to_string_lossy().into_owned();
        }
        plan.env.extend(order.env.iter().filter_map(|(name, value)| Some((name.clone(), value.clone()?))));
        Ok(plan)
    }

    /// The working tree that is made for it. What lives in a server takes none.
    pub fn tree_of<'o>(&self, order: &'o LaunchOrder) -> Option<&'o WorktreeOrder> {
        order.worktree.as_ref().filter(|_| self.server_named(&order.adapter, &order.root).is_none())
    }

    /// Writes the record and starts the runner, in the caller's environment; or asks the server in which the session is to
    /// live.
    pub fn launch(
        &self,
        order: LaunchOrder,
        words: &str,
        caller: &Caller,
        now: Timestamp,
    ) -> Result<Launching, LaunchError> {
        if let Some(server) = self.server_named(&order.adapter, &order.root) {
            return server
                .launch(order, words, caller, now)
                .map(|hosted| Launching(Work::Hosted(Box::new(hosted))));
        }
        // What has no plan is refused before anything is written.
        self.plan(&order, &order.intent(words.to_owned(), order.cwd.clone()))?;
        let begin = || -> io::Result<Launching> {
            let record = Record {
                version: launches::VERSION,
                id: fresh::launch_id()?,
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
            LaunchError::failed(format!(
                "cannot start the launch in {}: {error}",
                caller.launches().display()
            ))
        })
    }
}

/// The runner gets the lock on its folder as its standard input: so there is no moment in which nobody holds it.
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
    spawn(Order {
        program: caller.agentctl.clone(),
        args,
        environ,
        cwd: folder.path().to_owned(),
        stdin: held,
        stdout: folder.open_output("runner.log")?,
        stderr: folder.open_output("runner.log")?,
    })
}

impl Launching {
    /// It is not wanted any more: whoever works on it undoes what was done.
    pub fn cancel(&mut self) {
        match &mut self.0 {
            Work::Run(running) => drop(running.folder.cancel()),
            Work::Hosted(hosted) => hosted.cancel(),
        }
    }

    /// Waits for the outcome; the launch is taken back once `cancelled` says so.
    pub fn wait(mut self, fleet: &Fleet, cancelled: impl Fn() -> bool) -> Result<Surveyed, LaunchError> {
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

    /// Until it is time to ask again what became of them: a moment, or until a runner has ended.
    pub(crate) fn rest<'l>(starting: impl IntoIterator<Item = &'l Self>) {
        let runners = starting.into_iter().filter_map(|launching| match &launching.0 {
            Work::Run(running) => running.runner.process,
            Work::Hosted(_) => None,
        });
        wait_any_gone(&runners.collect::<Vec<_>>(), None, POLL_INTERVAL);
    }

    /// The session, once a survey shows its turn, or why there is none.
    pub fn outcome(&mut self, fleet: &Fleet) -> Option<Result<Surveyed, LaunchError>> {
        match &mut self.0 {
            Work::Run(running) => running.outcome(fleet),
            Work::Hosted(hosted) => hosted.outcome(fleet),
        }
    }
}

impl Running {
    fn outcome(&mut self, fleet: &Fleet) -> Option<Result<Surveyed, LaunchError>> {
        // Asked before the files are read: whatever it wrote before it ended is there then.
        let runner_ended = self.runner.ended().ok().flatten().is_some();
        if let Some(failed) = self.folder.failed() {
            // It has nothing left to do but to end; whoever hears of the failure finds no process any more.
            let _ = self.runner.ends_within(GOING);
            let _ = self.folder.remove();
            return Some(Err(failed.into()));
        }
        let record = match self.folder.record() {
            Ok(record) => record,
            Err(error) => {
                return Some(Err(LaunchError::failed(format!("the launch record is gone: {error}"))));
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
        Some(Err(LaunchError::failed("the launch was killed before it had a session")))
    }
}

/// The session of this launch, if it is stored or carried, at the cost of a list.
pub(crate) fn glance(fleet: &Fleet, record: &Record) -> Option<Surveyed> {
    show(fleet, record, false)
}

/// The same; `complete` as `status` shows it, which may cost a read of the whole transcript.
pub(crate) fn show(fleet: &Fleet, record: &Record, complete: bool) -> Option<Surveyed> {
    look(fleet, record, complete).0
}

/// The same, and whether everything that could hold it was heard: only then is not to be found an answer.
pub(crate) fn look(fleet: &Fleet, record: &Record, complete: bool) -> (Option<Surveyed>, bool) {
    let Some((id, query)) = record.session_id.as_ref().zip(Query::of_launch(record)) else {
        return (None, true);
    };
    let survey = fleet.survey(&Query { usage: complete, whole_texts: complete, ..query });
    let heard = !survey.sources.iter().any(SourceReport::is_incomplete);
    (survey.sessions.into_iter().find(|surveyed| surveyed.key.id == *id), heard)
}

/// Undoes a launch that has no session, whoever finds it: its processes, its worktree, its record.
pub fn clean_up(fleet: &Fleet, folder: &LaunchFolder, record: &Record) {
    undo(fleet, record);
    let _ = folder.remove();
}

/// Ends what a launch started and removes what it made.
pub(crate) fn undo(fleet: &Fleet, record: &Record) {
    end_family(fleet, record);
    if let Some(made) = &record.made {
        // What somebody has worked in stays, and `agentctl worktree list` shows it.
        let _ = worktree::remove_if_clean(made);
    }
}

/// Ends everybody that carries the mark of this launch, whatever is known of a session.
pub(crate) fn end_family(fleet: &Fleet, record: &Record) {
    let process = record.process.as_ref().and_then(ProcessMark::process);
    let alive = |process| fleet.kernel.is_alive(process) != Observed::Seen(false);
    let hunt = Hunt {
        kernel: fleet.kernel.as_ref(),
        carriers: process.into_iter().filter(|process| alive(*process)).collect(),
        launch: Some(record.id.clone()),
        marks: Vec::new(),
        source: None,
        known: Vec::new(),
    };
    hunt.finish();
}
