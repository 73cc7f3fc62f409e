//! Ending a session: the clean way of that agent first, then harder, and the whole family of its processes.
//!
//! Who belongs to it is found before the first signal, and again before each further step: what a tool started in a
//! session of its own survives its agent. Every signal goes to one process whose identity was checked.

use std::time::{Duration, Instant};

use agentctl_adapters::Control;
use agentctl_model::{
    CleanSignal, Observed, Process, ProcessEntry, ProcessRef, Refusal, SpawnPlan, Status, StopWay, Surveyed,
};
use agentctl_process::{Order, Sent, Signal, Want, signal, spawn, wait_gone};

use crate::caller::Caller;
use crate::family::{Member, family};
use crate::launches::MARK;
use crate::look::Look;
use crate::question::{Question, Wanted};
use crate::{Fleet, Source};

/// How long what was told to end may take before it is killed, and what was killed before it counts as surviving.
const TOLD: Duration = Duration::from_secs(2);
const KILLED: Duration = Duration::from_secs(10);

/// How often a server is asked whether it broke off.
const LOOK: Duration = Duration::from_millis(100);

/// How patient to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Between the clean way and the hard one.
    pub grace: Duration,
    /// Kill at once.
    pub force: bool,
}

/// What became of a session that was to be stopped.
#[derive(Debug, Clone, PartialEq)]
pub struct Stopped {
    /// Nobody ran it.
    pub was_stopped: bool,
    /// What was done first, in words.
    pub how: String,
    pub ended: Vec<ProcessEntry>,
    pub survived: Vec<ProcessEntry>,
}

impl Fleet {
    /// Ends the whole process tree of a session. Stopping a stopped one is success.
    pub fn stop(&self, target: &Surveyed, caller: &Caller, patience: Patience) -> Result<Stopped, Refusal> {
        let nothing =
            Stopped { was_stopped: true, how: String::new(), ended: Vec::new(), survived: Vec::new() };
        if target.session.status == Status::Stopped {
            return Ok(nothing);
        }
        let (source, control) = self.control_of(target)?;
        if let (true, Some(parent)) = (target.session.is_subagent(), &target.session.parent_id) {
            let reason = "a sub-agent runs in the process of its parent and cannot be stopped alone";
            return Err(Refusal::new(reason).hint(format!("`agentctl stop {parent}` stops both")));
        }
        if target.carriers.is_empty() {
            let why = target
                .session
                .status_detail
                .clone()
                .unwrap_or_else(|| "no process of it is known".to_owned());
            return Err(Refusal::new(format!("which process runs it is not known: {why}")));
        }
        let carriers = self.carriers(target);
        let Some(agent) = carriers.iter().find(|(_, role)| *role != "wrapper").map(|(process, _)| process)
        else {
            return Ok(nothing);
        };
        let mut hunt = Hunt::new(self, source, control, target, agent);
        match control.stop_way(&target.session, agent) {
            StopWay::Ask => return self.ask_to_break_off(target, source, control, patience.grace),
            way => self.refuse_if_shared(target, agent)?.begin(&mut hunt, way, caller, patience)?,
        }
        Ok(hunt.finish())
    }

    /// The adapter's hands, or why it has none.
    pub(crate) fn control_of(&self, target: &Surveyed) -> Result<(&Source, &'static dyn Control), Refusal> {
        let fits = |source: &&Source| {
            source.name() == target.key.adapter && source.root.path.as_os_str() == target.key.root.as_str()
        };
        let source = self.sources.iter().find(fits);
        let control = source.and_then(|source| Some((source, source.adapter.control()?)));
        control.ok_or_else(|| Refusal::new(format!("{} sessions can only be read", target.key.adapter)))
    }

    /// The carriers that still live, looked at closely.
    fn carriers(&self, target: &Surveyed) -> Vec<(Process, &'static str)> {
        let heads = match self.kernel.heads() {
            Observed::Seen(heads) => heads,
            Observed::Unobservable(_) => return Vec::new(),
        };
        let alive = target.carriers.iter().filter_map(|carrier| {
            let head = heads.iter().find(|head| head.process == carrier.process)?;
            Some((self.kernel.inspect(head, Want::default())?, carrier.role))
        });
        alive.collect()
    }

    /// A process that carries other sessions too is not ended for one of them.
    fn refuse_if_shared(&self, target: &Surveyed, agent: &Process) -> Result<Begin, Refusal> {
        let live = self.survey(&Question {
            adapters: vec![target.key.adapter.clone()],
            root: Some(target.key.root.clone()),
            ..Question::new(Wanted::Live)
        });
        let shared = live.sessions.iter().find(|other| {
            other.key != target.key
                && other.carriers.iter().any(|carrier| carrier.process == agent.head.process)
        });
        match shared {
            None => Ok(Begin),
            Some(other) => {
                let pid = agent.pid();
                let reason =
                    format!("process {pid} also runs session {}, which would end with it", other.key.id);
                Err(Refusal::new(reason)
                    .hint("stop it where it runs, or stop both with the program that runs them"))
            }
        }
    }

    /// The server breaks off the turn and lives on.
    fn ask_to_break_off(
        &self,
        target: &Surveyed,
        source: &Source,
        control: &'static dyn Control,
        grace: Duration,
    ) -> Result<Stopped, Refusal> {
        let look = Look::take(self.kernel.as_ref(), source.adapter.card().looks.locks);
        let view = look.view(self.kernel.as_ref(), source, None, &self.ledger());
        control.interrupt(&source.root, &view, &target.session)?;
        let began = Instant::now();
        loop {
            let now = self.again(target);
            let status = now.as_ref().map(|now| now.session.status);
            let over = !matches!(status, Some(Status::Running | Status::Waiting));
            if over || began.elapsed() >= grace {
                let how = "its server was asked to break off the turn; the server lives on".to_owned();
                let survived = if over { Vec::new() } else { target.session.processes.clone() };
                return Ok(Stopped { was_stopped: false, how, ended: Vec::new(), survived });
            }
            std::thread::sleep(LOOK);
        }
    }

    /// The same session, looked at again.
    pub fn again(&self, target: &Surveyed) -> Option<Surveyed> {
        let survey = self.survey(&Question {
            adapters: vec![target.key.adapter.clone()],
            root: Some(target.key.root.clone()),
            subagents: true,
            ..Question::new(Wanted::Ids(vec![target.key.id.clone()]))
        });
        survey.sessions.into_iter().find(|surveyed| surveyed.key == target.key)
    }
}

/// Leave to begin: nobody else ends with the process.
struct Begin;

impl Begin {
    fn begin(
        self,
        hunt: &mut Hunt<'_>,
        way: StopWay,
        caller: &Caller,
        patience: Patience,
    ) -> Result<(), Refusal> {
        hunt.gather();
        if patience.force {
            "it was killed".clone_into(&mut hunt.how);
            return Ok(());
        }
        match way {
            StopWay::Signal(clean) => hunt.tell(clean),
            StopWay::Run(plan) => hunt.run(&plan, caller, patience.grace)?,
            StopWay::Ask => {}
        }
        hunt.wait_for_carriers(patience.grace);
        Ok(())
    }
}

/// One session being ended.
struct Hunt<'a> {
    fleet: &'a Fleet,
    control: &'static dyn Control,
    target: &'a Surveyed,
    source: &'a Source,
    /// The launch that the agent itself carries.
    launch: Option<String>,
    agent: ProcessRef,
    /// Everybody that was ever found to belong to it.
    known: Vec<(ProcessRef, ProcessEntry)>,
    how: String,
}

impl<'a> Hunt<'a> {
    fn new(
        fleet: &'a Fleet,
        source: &'a Source,
        control: &'static dyn Control,
        target: &'a Surveyed,
        agent: &Process,
    ) -> Self {
        let launch = agent.variable(MARK).map(str::to_owned);
        let entries = target.carriers.iter().zip(&target.session.processes);
        let known = entries.map(|(carrier, entry)| (carrier.process, entry.clone())).collect();
        let agent = agent.head.process;
        Self { fleet, control, target, source, launch, agent, known, how: String::new() }
    }

    fn carriers(&self) -> Vec<ProcessRef> {
        self.target.carriers.iter().map(|carrier| carrier.process).collect()
    }

    /// Looks for everybody that belongs to the session now.
    fn gather(&mut self) {
        let Observed::Seen(heads) = self.fleet.kernel.heads() else { return };
        let marks = self.control.tool_marks(&self.target.key.id, Some(self.agent.pid));
        let us = rustix::process::geteuid().as_raw();
        let ours = heads.into_iter().filter(|head| head.uid.is_none_or(|uid| uid == us || us == 0));
        let members: Vec<Member> = ours
            .filter_map(|head| {
                let process = self.fleet.kernel.inspect(&head, Want::default())?;
                let marked = marks.iter().any(|(name, value)| process.variable(name) == Some(value.as_str()));
                let is_agentctl = head.program() == "agentctl" || head.process.pid == std::process::id();
                let launch = process.variable(MARK).map(str::to_owned);
                // A mark counts only under the roots that this session is stored under.
                let marked =
                    (marked && self.is_of_this_root(&process)) || (launch.is_some() && launch == self.launch);
                Some(Member { head, launch, marked, is_agentctl })
            })
            .collect();
        // Whoever was known once stays: a parent that ended in between leaves children without a chain.
        let mut anchors = self.carriers();
        anchors.extend(self.known.iter().map(|(process, _)| *process));
        for member in family(&members, &anchors, self.launch.as_deref()) {
            let process = member.head.process;
            if !self.known.iter().any(|(known, _)| *known == process) {
                self.known.push((process, entry(&member.head)));
            }
        }
    }

    fn is_of_this_root(&self, process: &Process) -> bool {
        let root = process.environ.seen().and_then(|environ| self.source.adapter.root(environ));
        root.is_none_or(|root| root.path == self.source.root.path)
    }

    fn tell(&mut self, clean: CleanSignal) {
        let (signal_kind, name) = match clean {
            CleanSignal::Interrupt => (Signal::Interrupt, "SIGINT"),
            CleanSignal::Terminate => (Signal::Terminate, "SIGTERM"),
        };
        for carrier in self.target.carriers.iter().filter(|carrier| carrier.role != "wrapper") {
            // One that cannot be signalled is found alive in the end, and reported.
            let _ = signal(carrier.process, signal_kind);
        }
        self.how = format!("{name} to process {}", self.agent.pid);
    }

    fn run(&mut self, plan: &SpawnPlan, caller: &Caller, grace: Duration) -> Result<(), Refusal> {
        let words = format!("{} {}", plan.program, plan.args.join(" "));
        let failed = |why: String| Refusal::new(format!("`{words}` could not be run: {why}"));
        let named = caller.programs.get(&self.target.key.adapter).cloned();
        let program = named.unwrap_or_else(|| plan.program.clone().into());
        let program =
            caller.find_program(&program).ok_or_else(|| failed("not found on the PATH".to_owned()))?;
        let nowhere = || std::fs::File::create("/dev/null").map_err(|error| failed(error.to_string()));
        let cwd = Some(plan.cwd.clone()).filter(|cwd| cwd.is_dir()).unwrap_or_else(|| "/".into());
        let mut started = spawn(Order {
            program,
            args: plan.args.iter().map(Into::into).collect(),
            environ: caller.clean_environ(),
            cwd,
            stdin: None,
            stdout: nowhere()?,
            stderr: nowhere()?,
        })
        .map_err(|error| failed(error.to_string()))?;
        let _ = started.ends_within(grace);
        self.how = format!("`{words}`");
        Ok(())
    }

    fn wait_for_carriers(&self, grace: Duration) {
        let began = Instant::now();
        for carrier in self.carriers() {
            wait_gone(carrier, grace.saturating_sub(began.elapsed()));
        }
    }

    /// Everybody who is left: told once, then killed, until nobody comes after.
    fn finish(mut self) -> Stopped {
        // Processes that are just being started by one that ends are found in the next round.
        for _ in 0..8 {
            self.gather();
            let carriers = self.carriers();
            let alive: Vec<ProcessRef> = self
                .known
                .iter()
                .map(|(process, _)| *process)
                .filter(|process| self.is_alive(*process))
                .collect();
            if alive.is_empty() {
                break;
            }
            for process in &alive {
                let hard = carriers.contains(process);
                let _ = signal(*process, if hard { Signal::Kill } else { Signal::Terminate });
            }
            let (began, mut left) = (Instant::now(), alive);
            left.retain(|process| !wait_gone(*process, TOLD.saturating_sub(began.elapsed())));
            left.retain(|process| !matches!(signal(*process, Signal::Kill), Ok(Sent::AlreadyGone)));
            let began = Instant::now();
            left.retain(|process| !wait_gone(*process, KILLED.saturating_sub(began.elapsed())));
            if !left.is_empty() {
                break;
            }
        }
        let (survived, ended): (Vec<_>, Vec<_>) =
            self.known.iter().cloned().partition(|(process, _)| self.is_alive(*process));
        let entries =
            |list: Vec<(ProcessRef, ProcessEntry)>| list.into_iter().map(|(_, entry)| entry).collect();
        Stopped { was_stopped: false, how: self.how, ended: entries(ended), survived: entries(survived) }
    }

    fn is_alive(&self, process: ProcessRef) -> bool {
        self.fleet.kernel.is_alive(process) != Observed::Seen(false)
    }
}

fn entry(head: &agentctl_model::ProcessHead) -> ProcessEntry {
    ProcessEntry {
        pid: head.process.pid,
        started_at: head.started_at,
        role: "tool".to_owned(),
        command: head.program().to_owned(),
    }
}
