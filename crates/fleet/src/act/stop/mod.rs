//! Ends a session: first in the clean way of its agent, then by force, together with the whole family of its processes.

mod end_request;
mod error;
mod report;
pub(crate) mod termination;

use std::time::{Duration, Instant};

use agentctl_adapters::Control;
use agentctl_files::is_folder_within;
use agentctl_model::{
    Capability, CleanSignal, EndedBy, Error, Observed, Process, ProcessRole, Session, SpawnPlan, Status,
    StopWay, Survey, Surveyed, Tie, text,
};
use agentctl_process::{InspectRequest, Kernel, Order, Proven, Signal, SignalError, spawn};

use crate::act::asker::Asker;
use crate::act::caller::Caller;
use crate::act::offered::unless_offered;
use crate::act::orphans::Orphan;
use crate::act::stop::termination::Termination;
use crate::hold::Held;
use crate::keep::launches::{LaunchFolder, MARK};
use crate::read::offers;
use crate::read::query::{Query, Wanted};
use crate::read::survey::kernel::KernelSnapshot;
use crate::read::survey::root_membership::may_own;
use crate::{Fleet, Source};

use end_request::EndRequest;
pub(crate) use error::not_broken_off;
pub use report::{StopAnswer, StopReport};
pub use termination::TerminationReport;

/// How often a server is asked whether it has interrupted the turn.
const LOOK: Duration = Duration::from_millis(100);

/// How often the owners of a session are looked up again before they count as unknown.
const LOOKS: usize = 3;

/// How long to wait, and whether to force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopOptions {
    /// The time between the clean way and force.
    pub grace: Duration,
    /// Kill at once.
    pub force: bool,
    pub asker: Asker,
}

impl Fleet {
    /// Ends the whole process tree of a session, and notes the reason in its launch. If the session is stopped already,
    /// that is success.
    pub fn terminate(
        &self,
        by: &EndedBy,
        target: &Surveyed,
        caller: &Caller,
        options: StopOptions,
    ) -> Result<TerminationReport, Error> {
        let ended = self.end(by, target, caller, options);
        ended.map_err(|error| unless_offered(error, &target.session.capabilities, Capability::Stop))
    }

    fn end(
        &self,
        by: &EndedBy,
        target: &Surveyed,
        caller: &Caller,
        options: StopOptions,
    ) -> Result<TerminationReport, Error> {
        if target.session.status == Status::Stopped {
            return self.end_what_is_left(target, options);
        }
        self.refuse_self(target, options.asker)?;
        if let Some(server) = self.server_of(target) {
            return server.stop(target, options.grace);
        }
        let (source, control) = self.control_of(target)?;
        if let (true, Some(parent)) = (target.session.is_subagent(), &target.session.parent_id) {
            let reason = "a sub-agent runs in the process of its parent and cannot be stopped alone";
            return Err(Error::refused(reason)
                .hint(format!("`agentctl stop {}` stops both", text::shell_word(parent))));
        }
        if target.owners.is_empty() {
            // A server that was too busy to answer may do so a moment later.
            let again = || {
                std::thread::sleep(LOOK);
                let known = |now: &Surveyed| now.session.status == Status::Stopped || !now.owners.is_empty();
                self.again(target).filter(known)
            };
            if let Some(now) = (0..LOOKS).find_map(|_| again()) {
                return self.end(by, &now, caller, options);
            }
            let why = target
                .session
                .status_detail
                .clone()
                .unwrap_or_else(|| "no process of it is known".to_owned());
            return Err(Error::refused(format!("which process runs it is not known: {why}")));
        }
        let owners = self.owners(target)?;
        let Some(agent) =
            owners.iter().find(|(_, role)| *role != ProcessRole::Wrapper).map(|(process, _)| process)
        else {
            return Ok(TerminationReport::nothing_ran());
        };
        let mut way = control.stop_way(&target.session, agent);
        if way == StopWay::Ask {
            if !self.is_private(target, source, agent) {
                return self.ask_to_break_off(target, source, control, options.grace);
            }
            // The server was started for this session alone and ends with it. It records the end of the turn before;
            // one that cannot be asked ends all the same.
            if !options.force {
                let _ = self.ask_owner(target, source, control);
            }
            way = StopWay::Signal(CleanSignal::Terminate);
        }
        let entries = target.owners.iter().zip(&target.session.processes);
        let mut termination = Termination {
            kernel: self.kernel.as_ref(),
            owners: target.owners.iter().map(|owner| owner.process).collect(),
            launch: agent.variable(MARK).map(str::to_owned),
            marks: control.tool_marks(&target.key.id, Some(agent.pid())),
            source: Some(source),
            known: entries.map(|(owner, entry)| (owner.process, entry.clone())).collect(),
        };
        self.refuse_if_shared(target, agent)?;
        let launch = self.launch_of(target);
        let asked = EndRequest::note(launch.as_ref(), by);
        let way = match self.holder(target) {
            Some(holder) => CleanWay::Holder(holder),
            None => CleanWay::Agent(way),
        };
        let how = begin(&mut termination, source, target, &way, caller, options)?;
        let report = termination.finish();
        if report.survived.is_empty() {
            asked.stands();
        }
        Ok(TerminationReport { how: how + weakness(target), ..report })
    }

    /// Nobody runs the session. Where its agent died together with the runner that would have seen to it, tools of it
    /// may be left.
    fn end_what_is_left(&self, target: &Surveyed, options: StopOptions) -> Result<TerminationReport, Error> {
        let mut report = TerminationReport::nothing_ran();
        let Some(launch) = &target.session.launch else { return Ok(report) };
        let is_of_it = |orphan: &Orphan| orphan.launch.as_deref() == Some(launch.id.as_str());
        for orphan in self.orphans().iter().filter(|orphan| is_of_it(orphan)) {
            self.refuse_self(target, options.asker)?;
            let reaped = self.reap(orphan);
            report.ended.extend(reaped.ended);
            report.survived.extend(reaped.survived);
        }
        Ok(report)
    }

    /// The directory of the session's newest launch.
    pub(crate) fn launch_of(&self, target: &Surveyed) -> Option<LaunchFolder> {
        let launch = target.session.launch.as_ref()?;
        let folder = LaunchFolder::at(self.launches.as_ref()?.join(&launch.id));
        folder.path().is_dir().then_some(folder)
    }

    /// Returns the adapter's control over the session, or why it has none.
    pub(crate) fn control_of(&self, target: &Surveyed) -> Result<(&Source, &'static dyn Control), Error> {
        let source = self.source(&target.key.adapter, &target.key.root);
        let control = source.and_then(|source| Some((source, source.adapter.control()?)));
        control.ok_or_else(|| Error::refused(format!("{} sessions can only be read", target.key.adapter)))
    }

    /// Does only the first, clean step: the turn is to be interrupted, and no force follows.
    pub fn interrupt(&self, by: &EndedBy, target: &Surveyed) -> Result<(), Error> {
        if let Some(server) = self.server_of(target) {
            return server.interrupt(target);
        }
        let (source, control) = self.control_of(target)?;
        let owners = self.owners(target)?;
        let agent = owners.iter().find(|(_, role)| *role != ProcessRole::Wrapper).map(|(process, _)| process);
        let agent = agent.ok_or_else(|| Error::refused("no process of it is known"))?;
        match control.stop_way(&target.session, agent) {
            StopWay::Ask => self.ask_owner(target, source, control),
            StopWay::Signal(clean) => {
                self.refuse_if_shared(target, agent)?;
                let launch = self.launch_of(target);
                EndRequest::note(launch.as_ref(), by).stands();
                tell(self.kernel.as_ref(), source, target, clean)?;
                Ok(())
            }
            StopWay::Run(_) => Err(Error::refused("this one can only be stopped")),
        }
    }

    /// Whether the agent can continue this conversation at all. Nothing is started to find out.
    pub fn may_resume(&self, target: &Surveyed) -> Result<(), Error> {
        if self.is_in_gateway(target) {
            return Ok(());
        }
        self.control_of(target)?.1.can_resume(&target.place)
    }

    /// Returns the owners that are still alive, after a close inspection.
    pub(crate) fn owners(&self, target: &Surveyed) -> Result<Vec<(Process, ProcessRole)>, Error> {
        // If they cannot be seen, that does not prove that they are gone.
        let heads = match self.kernel.heads() {
            Observed::Seen(heads) => heads,
            Observed::Unobservable(why) => {
                return Err(Error::refused(format!("which process runs it cannot be seen now: {why}")));
            }
        };
        // How a session ends can depend on whether its process has a server to ask.
        let want = InspectRequest { listening: true, ..InspectRequest::default() };
        let alive = target.owners.iter().filter_map(|owner| {
            let head = heads.iter().find(|head| head.process == owner.process)?;
            Some((self.kernel.inspect(head, want)?, owner.role))
        });
        Ok(alive.collect())
    }

    /// Refuses to end a process for one session if it also owns others.
    ///
    /// This needs a survey of its own. The look-up that found the session read the records of that session only, and
    /// other stops may have run since; a survey after the signal would come too late.
    fn refuse_if_shared(&self, target: &Surveyed, agent: &Process) -> Result<(), Error> {
        let live = self.survey(&Query {
            adapters: vec![target.key.adapter.clone()],
            root: Some(target.key.root.clone()),
            ..Query::new(Wanted::Live)
        });
        let shared = live.sessions.iter().find(|other| {
            other.key != target.key && other.owners.iter().any(|owner| owner.process == agent.head.process)
        });
        match shared {
            None => Ok(()),
            Some(other) => {
                let pid = agent.pid();
                let reason =
                    format!("process {pid} also runs session {}, which would end with it", other.key.id);
                Err(Error::refused(reason)
                    .hint("stop it where it runs, or stop both with the program that runs them"))
            }
        }
    }

    /// Whether this server was started by a launch of agentctl for this session alone.
    fn is_private(&self, target: &Surveyed, source: &Source, agent: &Process) -> bool {
        let look = KernelSnapshot::take(self.kernel.as_ref());
        let view = look.view(self.kernel.as_ref(), source, None, &self.ledger());
        view.private_server_of(agent) == Some(target.key.id.as_str())
    }

    /// Asks the server that owns the session to interrupt its turn.
    fn ask_owner(&self, target: &Surveyed, source: &Source, control: &dyn Control) -> Result<(), Error> {
        let look = KernelSnapshot::take(self.kernel.as_ref());
        let view = look.view(self.kernel.as_ref(), source, None, &self.ledger());
        control.interrupt(&source.root, &view, &target.session).map(drop)
    }

    /// The server interrupts the turn and stays alive.
    fn ask_to_break_off(
        &self,
        target: &Surveyed,
        source: &Source,
        control: &'static dyn Control,
        grace: Duration,
    ) -> Result<TerminationReport, Error> {
        self.ask_owner(target, source, control)?;
        let began = Instant::now();
        loop {
            let now = self.again(target).map(|now| now.session);
            // If the session is not seen, that does not prove that it is idle.
            if let Some(now) = now.as_ref().filter(|now| matches!(now.status, Status::Idle | Status::Stopped))
            {
                // An idle session had no turn that could have been interrupted.
                let was_stopped = target.session.status == Status::Idle;
                let how = "its server was asked to break off the turn; the server lives on";
                let how = if was_stopped { String::new() } else { how.to_owned() };
                return Ok(TerminationReport {
                    was_stopped,
                    how,
                    open_in: open_in(now),
                    ..TerminationReport::default()
                });
            }
            if began.elapsed() >= grace {
                let now = now.map(|now| now.status);
                return Err(not_broken_off("its server took the stop", &target.key.id, now)
                    .hint("look again, or stop it where it runs"));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Returns the same session from a new survey.
    pub fn again(&self, target: &Surveyed) -> Option<Surveyed> {
        self.survey_of(target).sessions.into_iter().find(|surveyed| surveyed.key == target.key)
    }

    /// Returns the whole survey: a session that is missing in it may be gone, or its source may not have been read.
    pub(crate) fn survey_of(&self, target: &Surveyed) -> Survey {
        self.survey(&Query::one(&target.key))
    }
}

/// Describes the process that still has the session open.
fn open_in(now: &Session) -> Option<String> {
    let is_server = now
        .processes
        .iter()
        .any(|process| Some(process.pid) == now.pid && process.role == ProcessRole::Server);
    offers::place(now).map(|place| if is_server { format!("its server, {place}") } else { place })
}

/// A note for the case that the process is tied to the session only by being the only candidate.
fn weakness(target: &Surveyed) -> &'static str {
    if target.owners.iter().any(|owner| owner.tie != Tie::Exact) {
        "; the only candidate in its directory, nothing else ties it to this session"
    } else {
        ""
    }
}

/// The clean way to end a session, before force.
enum CleanWay {
    /// The runner that holds it interrupts the turn and closes the line.
    Holder(Held),
    Agent(StopWay),
}

/// Does the first step, and describes it.
fn begin(
    termination: &mut Termination<'_>,
    source: &Source,
    target: &Surveyed,
    way: &CleanWay,
    caller: &Caller,
    options: StopOptions,
) -> Result<String, Error> {
    termination.gather();
    if options.force {
        return Ok("killed at once".to_owned());
    }
    let how = match way {
        // A runner that does not answer is no reason to keep the session: force follows.
        CleanWay::Holder(holder) => match holder.end(true) {
            Ok(()) => "its runner was asked to end it".to_owned(),
            Err(error) => error.message,
        },
        CleanWay::Agent(StopWay::Signal(clean)) => tell(termination.kernel, source, target, *clean)?,
        CleanWay::Agent(StopWay::Run(plan)) => run(&target.key.adapter, plan, caller, options.grace)?,
        CleanWay::Agent(StopWay::Ask) => String::new(),
    };
    termination.wait_for_owners(options.grace);
    Ok(how)
}

/// Sends the clean signal. If a process is not what we took it for, it gets no signal, and nothing else is done either.
fn tell(
    kernel: &dyn Kernel,
    source: &Source,
    target: &Surveyed,
    clean: CleanSignal,
) -> Result<String, Error> {
    let (kind, name) = match clean {
        CleanSignal::Interrupt => (Signal::Interrupt, "SIGINT"),
        CleanSignal::Terminate => (Signal::Terminate, "SIGTERM"),
    };
    let agents = target.owners.iter().filter(|owner| owner.role != ProcessRole::Wrapper);
    let mut told = Vec::new();
    for owner in agents {
        let judge = |seen: &Process| may_own(kernel, source, seen);
        match Proven::of(kernel, owner.process, InspectRequest::default(), judge) {
            Ok(Some(proven)) => {
                // A process that cannot be signalled is found alive in the end, and reported.
                let _ = proven.signal(kind);
            }
            Err(refused @ SignalError::NotOurs { .. }) => return Err(Error::refused(refused.to_string())),
            Ok(None) | Err(_) => {}
        }
        told.push(owner.process.pid.to_string());
    }
    Ok(format!("{name} to process {}", told.join(" and ")))
}

/// Runs a command of the agent itself.
fn run(adapter: &str, plan: &SpawnPlan, caller: &Caller, grace: Duration) -> Result<String, Error> {
    let words = format!("`{} {}`", plan.program, plan.args.join(" "));
    let failed = |why: String| Error::refused(format!("{words} could not be run: {why}"));
    let program = caller.programs.get(adapter).cloned().unwrap_or_else(|| plan.program.clone().into());
    let program = caller.find_program(&program).ok_or_else(|| failed("not found on the PATH".to_owned()))?;
    let nowhere = || agentctl_files::kernel::dev_null().map_err(|error| failed(error.to_string()));
    let order = Order {
        program,
        args: plan.args.iter().map(Into::into).collect(),
        environ: caller.clean_environ(),
        cwd: Some(plan.cwd.clone())
            .filter(|cwd| is_folder_within(cwd) == Ok(true))
            .unwrap_or_else(|| "/".into()),
        stdin: None,
        stdout: nowhere()?,
        stderr: nowhere()?,
    };
    let mut started = spawn(order).map_err(|error| failed(error.to_string()))?;
    let _ = started.ends_within(grace);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use agentctl_adapters::{Root, registry};
    use agentctl_model::{OwnerProcess, ProcessRef};
    use agentctl_process::fake::Scripted;

    use super::*;
    use agentctl_testkit::sessions::{session, surveyed};

    #[test]
    fn a_session_whose_process_cannot_be_seen_is_not_called_stopped() {
        let mut running = surveyed(session("a", Status::Running, None));
        let process = ProcessRef { pid: 42, start: 1, boot: 1 };
        running.owners.push(OwnerProcess { process, role: ProcessRole::Agent, tie: Tie::Exact });
        let source = Source {
            adapter: registry()[0],
            root: Root::at("/home/dev/.claude"),
            timeout: Duration::from_secs(1),
        };
        let caller = Caller {
            environ: agentctl_model::Environ::default(),
            programs: std::collections::BTreeMap::new(),
            home: "/none".into(),
            agentctl: "/none".into(),
        };
        let options = StopOptions { grace: Duration::ZERO, force: false, asker: Asker::default() };
        let stop = |kernel: Scripted| {
            Fleet::new(vec![source.clone()], Arc::new(kernel)).stop(&running, &caller, options)
        };
        let refused = stop(Scripted::new().unobservable("no /proc")).unwrap_err();
        assert!(refused.message.contains("no /proc"), "{refused:?}");
        assert!(stop(Scripted::new()).unwrap().was_stopped, "seen to be gone");
    }
}
