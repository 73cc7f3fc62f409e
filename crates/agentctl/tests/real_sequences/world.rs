//! One held session of a real agent, the commands about it, and the processes behind it.

use std::collections::BTreeSet;
use std::fs;
use std::panic::Location;
use std::time::Duration;

use agentctl_testkit::{Background, Signal, until, until_seen};
use serde_json::{Value, json};

use crate::agents::Agent;
use crate::dice::Dice;
use crate::ledger::{Deed, Ledger, Told, What, word};
use crate::oracle::{ModelLog, Truth, truth};
use crate::steer::{ENDLESS, Scene};

/// How long something may take on a machine that does much else.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

pub(crate) struct World {
    pub(crate) agent: Agent,
    pub(crate) scene: Scene,
    pub(crate) dice: Dice,
    pub(crate) id: String,
    pub(crate) ledger: Ledger,
    pub(crate) log: ModelLog,
    /// The processes of the agent itself.
    pub(crate) own: BTreeSet<u32>,
    pub(crate) runner: Option<u32>,
    pub(crate) daemon: Option<Background>,
    pub(crate) trace: Vec<String>,
}

impl World {
    /// `None`, with a printed reason, when the agent is not available here.
    pub(crate) fn new(agent: Agent, has_daemon: bool) -> Option<Self> {
        let scene = Scene::set(agent.adapter, agent.settle)?;
        let mut world = Self {
            agent,
            scene,
            dice: Dice::of(0),
            id: String::new(),
            ledger: Ledger::default(),
            log: ModelLog::default(),
            own: BTreeSet::new(),
            runner: None,
            daemon: None,
            trace: Vec::new(),
        };
        if has_daemon {
            world.start_daemon();
        }
        Some(world)
    }

    pub(crate) fn note(&mut self, words: impl Into<String>) {
        let words = words.into();
        if std::env::var_os("AGENTCTL_SEQUENCE_TRACE").is_some() {
            eprintln!("{} {words}", self.agent.adapter);
        }
        self.trace.push(words);
    }

    pub(crate) fn start_daemon(&mut self) {
        let command = self.scene.home.agentctl_command(&["daemon", "run"]);
        self.daemon = Some(Background::spawn(&self.scene.home, command));
        let socket = self.scene.home.agentctl_home().join("agentctl.sock");
        until(PATIENCE, "the daemon", || {
            std::os::unix::net::UnixStream::connect(&socket).is_ok().then_some(())
        });
    }

    /// Starts the session, or takes it up again.
    pub(crate) fn start(&mut self, prompt: &str, number: u32) {
        let mut arguments = if self.id.is_empty() {
            vec!["launch", self.agent.adapter, "-p", prompt]
        } else {
            vec!["resume", &self.id, prompt]
        };
        arguments.extend(["--hold", "--json"]);
        if let Some(model) = self.agent.model_name {
            arguments.extend(["--model", model]);
        }
        self.trace.push(format!("{arguments:?}"));
        let began = self.ledger.tick();
        let started = self.scene.agentctl(&arguments).ok().json();
        let id = started["id"].as_str().unwrap();
        assert!(self.id.is_empty() || self.id == id, "another session was resumed: {started:#}");
        id.clone_into(&mut self.id);
        let told = Some(Told::Accepted(json!({"started": true})));
        let what = What::Say(number);
        self.ledger.deeds.push(Deed { what, began, command: None, told, shown: None, replies: (0, 0) });
        self.ledger.granted = None;
        self.find_processes();
    }

    /// Learns which processes are the agent's. No tool runs yet.
    fn find_processes(&mut self) {
        let processes = self.scene.processes();
        let is_ours = |line: &str| line.starts_with(env!("CARGO_BIN_EXE_agentctl"));
        self.runner =
            processes.iter().find(|(_, line)| is_ours(line) && line.contains(" __run ")).map(|(pid, _)| *pid);
        self.own = processes.iter().filter(|(_, line)| !is_ours(line)).map(|(pid, _)| *pid).collect();
        assert!(self.runner.is_some() && !self.own.is_empty(), "{processes:#?}");
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.scene.processes().iter().any(|(pid, _)| self.own.contains(pid))
    }

    pub(crate) fn has_tool(&self) -> bool {
        self.scene.processes().iter().any(|(_, line)| line.trim_end() == ENDLESS)
    }

    /// Begins a command about the session.
    pub(crate) fn begin(&mut self, what: What, verb: &str, more: &[&str]) -> usize {
        let arguments = [&[verb, &self.id], more, &["--json"]].concat();
        let mut command = self.scene.home.agentctl_command(&arguments);
        command.current_dir(&self.scene.cwd);
        let by_daemon = self.daemon.is_some() && self.dice.percent(50);
        if by_daemon {
            command.env_remove("AGENTCTL_NO_DAEMON");
        }
        let by = if by_daemon { " by the daemon" } else { "" };
        let at = self.ledger.deeds.len();
        self.note(format!("{at}: {verb} {more:?}{by}"));
        self.log.read(&self.scene.model);
        let replies = self.log.replies.len();
        let began = self.ledger.tick();
        let command = Some(Background::spawn(&self.scene.home, command));
        let shown = Some(&self.ledger.shown).filter(|shown| shown.len() == 1).map(|shown| shown[0].clone());
        self.ledger.deeds.push(Deed { what, began, command, told: None, shown, replies: (replies, replies) });
        at
    }

    /// Waits for what a command says.
    #[track_caller]
    pub(crate) fn finish(&mut self, at: usize) -> Told {
        if let Some(told) = &self.ledger.deeds[at].told {
            return told.clone();
        }
        let mut command = self.ledger.deeds[at].command.take().expect("a command that runs");
        let status = command.wait(PATIENCE);
        let told = Told::read(status.code(), &command.stdout(), &command.stderr());
        self.note(format!("{at}: {told:?}"));
        if let Some(answered) = told.receipt().map(|receipt| &receipt["answered"]) {
            self.note_pending(answered);
        }
        self.log.read(&self.scene.model);
        let deed = &mut self.ledger.deeds[at];
        (deed.told, deed.replies.1) = (Some(told.clone()), self.log.replies.len());
        match deed.what {
            What::Interrupt | What::Stop => self.ledger.cut(),
            What::Answer { allows: false, reason: None, .. } if self.agent.denial_ends && !told.is_no() => {
                self.ledger.cut();
            }
            What::Answer { always: true, .. } if told.is_accepted() => {
                let number = deed.request().and_then(|request| self.ledger.asked.get(request)).copied();
                self.ledger.ever_granted.extend(number);
                self.ledger.granted = number.map(always_command);
            }
            _ => {}
        }
        told
    }

    /// Takes in the commands that have ended by themselves.
    pub(crate) fn finish_those_that_ended(&mut self) {
        for at in self.ledger.unfinished() {
            if self.ledger.deeds[at].command.as_mut().is_some_and(|command| command.try_wait().is_some()) {
                self.finish(at);
            }
        }
    }

    pub(crate) fn run(&mut self, what: What, verb: &str, more: &[&str]) -> Told {
        let at = self.begin(what, verb, more);
        self.finish(at)
    }

    /// A message with this script and a number by which it is known.
    pub(crate) fn begin_say(&mut self, script: &str, more: &[&str]) -> usize {
        let number = self.ledger.number();
        let message = format!("{script} {}", word(number));
        self.begin(What::Say(number), "send", &[&[message.as_str()], more].concat())
    }

    pub(crate) fn say(&mut self, script: &str) -> Told {
        let at = self.begin_say(script, &[]);
        self.finish(at)
    }

    pub(crate) fn begin_answer(&mut self, verb: &str, request: Option<&str>, more: &[&str]) -> usize {
        let what = What::Answer {
            named: request.map(str::to_owned),
            allows: verb == "approve",
            always: more.contains(&"--always"),
            reason: None,
        };
        let named = request.into_iter().flat_map(|request| ["--request", request]);
        self.begin(what, verb, &more.iter().copied().chain(named).collect::<Vec<_>>())
    }

    pub(crate) fn begin_interrupt(&mut self, more: &[&str]) -> usize {
        self.ledger.cut();
        self.begin(What::Interrupt, "interrupt", more)
    }

    pub(crate) fn interrupt(&mut self) -> Told {
        let at = self.begin_interrupt(&[]);
        self.finish(at)
    }

    /// What agentctl says of the session now. What it shows as waiting is noted.
    pub(crate) fn shown(&mut self) -> Value {
        let shown = self.scene.status(&self.id);
        self.ledger.shown.clear();
        for pending in shown["pending"].as_array().unwrap() {
            self.note_pending(pending);
            self.ledger.shown.extend(pending["id"].as_str().map(str::to_owned));
        }
        shown
    }

    /// Notes what a request that was shown is about.
    fn note_pending(&mut self, pending: &Value) {
        if let Some(id) = pending["id"].as_str() {
            self.ledger.note_request(id, pending["summary"].as_str().unwrap_or_default());
        }
    }

    /// Waits until what is told is what is true, and returns both.
    #[track_caller]
    pub(crate) fn agrees(&mut self) -> (Truth, Value) {
        let caller = Location::caller();
        let told = until_seen(PATIENCE, "the truth", || {
            self.finish_those_that_ended();
            let before = truth(self);
            let shown = self.shown();
            let after = truth(self);
            if before == after && fits(after, &shown) {
                return Ok((after, shown));
            }
            Err(format!("{before:?}, {after:?} ({caller}) told: {shown:#} {}", self.recently()))
        });
        self.note(format!("{:?}", told.0));
        told
    }

    fn recently(&self) -> String {
        let replies = &self.log.replies;
        format!("{:?} {:#?}", &replies[replies.len().saturating_sub(3)..], self.scene.processes())
    }

    pub(crate) fn signal(&mut self, pid: u32, signal: Signal) {
        self.note(format!("signal {signal:?} to {pid}"));
        self.scene.home.signal(pid, signal);
    }

    pub(crate) fn wait_for_end(&self, pid: u32) {
        until(PATIENCE, "the end of a process", || {
            (!self.scene.processes().iter().any(|(one, _)| *one == pid)).then_some(())
        });
    }

    /// Ends the session: no process of it is left.
    pub(crate) fn stop(&mut self) {
        self.ledger.cut();
        let told = self.run(What::Stop, "stop", &[]);
        let receipt = told.receipt().unwrap_or_else(|| panic!("it was not stopped: {told:?}"));
        assert_eq!(receipt["sessions"][0]["survived"], json!([]), "{receipt:#}");
        self.is_silent();
    }

    /// Checks that nothing of the session runs any more. Commands of this test may.
    pub(crate) fn is_silent(&mut self) {
        self.release_waiters();
        let daemon = self.daemon.as_ref().map(Background::pid);
        until_seen(PATIENCE, "the end of all processes", || {
            self.finish_those_that_ended();
            let commands: Vec<_> = self
                .ledger
                .unfinished()
                .into_iter()
                .filter_map(|at| self.ledger.deeds[at].command.as_ref().map(Background::pid))
                .collect();
            let mut left = self.scene.processes();
            left.retain(|(pid, _)| Some(*pid) != daemon && !commands.contains(pid));
            if left.is_empty() { Ok(()) } else { Err(format!("{left:#?}")) }
        });
        self.runner = None;
        self.own.clear();
    }

    /// Lets the commands go on that wait to steer their own session.
    pub(crate) fn release_waiters(&self) {
        for number in &self.ledger.selfish {
            fs::write(self.scene.cwd.join(format!("go{number}")), "").unwrap();
        }
    }
}

/// Whether this is what must be told.
fn fits(truth: Truth, shown: &Value) -> bool {
    let pending = shown["pending"].as_array().unwrap();
    match truth {
        Truth::Gone => shown["status"] == "stopped" && pending.is_empty(),
        Truth::Idle => shown["status"] == "idle" && pending.is_empty(),
        Truth::Running => shown["status"] == "running" && pending.is_empty(),
        Truth::Waiting(number) => {
            let is_it = |one: &Value| {
                one["answerable"] == true
                    && one["id"].is_string()
                    && one["summary"]
                        .as_str()
                        .is_some_and(|words| words.contains(&crate::ledger::mark(number)))
            };
            shown["status"] == "waiting" && pending.len() == 1 && is_it(&pending[0])
        }
        Truth::Either => shown["status"] != "stopped" && shown["status"] != "unknown",
        Truth::Unclear => false,
    }
}

/// A command that is allowed for the session. Agents widen such a grant to all commands of the same program.
pub(crate) fn always_command(number: u32) -> String {
    format!("mkdir -p {}", crate::ledger::mark(number))
}
