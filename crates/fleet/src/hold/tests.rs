//! A holder over real pipes and a real socket, with an agent that repeats what it is told.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{channel, sync_channel};
use std::time::{Duration, Instant};

use agentctl_adapters::hold::lines::{Line, Lines};
use agentctl_adapters::hold::{Acceptance, Decision, HeldState, Protocol, Said, Step, Ticket, TurnEnd, Verb};
use agentctl_model::ProcessRef;

use super::holder::{self, Holder, Limits, Pipes};
use super::reach::{self, HoldError, end, state};
use super::wire::{self, Ask, Reader, Reply};
use crate::act::asker::Asker;
use crate::act::steer::SteerOptions;
use crate::keep::launches::LaunchFolder;

const LONG: Duration = Duration::from_mins(1);

#[expect(clippy::needless_pass_by_value, reason = "the scenes read better so")]
fn tell(folder: &Path, verb: Verb, allow_self: bool, timeout: Duration) -> Result<Acceptance, HoldError> {
    let options = SteerOptions { asker: Asker::this_process(allow_self), timeout, as_command: false };
    reach::tell(folder, &verb, options, || false)
}

/// The agent is `cat`. Each message comes back and is accepted then; `wait` is kept here, as by a protocol without a
/// queue; `mute` is written and never answered; `turn` opens a turn that only an interrupt ends.
#[derive(Default)]
struct Echo {
    lines: Lines,
    kept: Vec<Ticket>,
    muted: usize,
    told: Vec<(Ticket, String)>,
    turn_open: bool,
    last_end: Option<TurnEnd>,
    is_ready: bool,
}

impl Protocol for Echo {
    fn open(&mut self) -> Step {
        Step { write: b"hello\n".to_vec(), said: Vec::new() }
    }

    fn hear(&mut self, bytes: &[u8]) -> Step {
        let mut step = Step::default();
        for line in self.lines.take(bytes) {
            let Line::Whole(line) = line else { continue };
            let line = String::from_utf8(line).unwrap();
            if line == "hello" {
                self.is_ready = true;
                step.said.push(Said::Ready { session: "s".into() });
            } else if line == "interrupt" {
                (self.turn_open, self.last_end) = (false, Some(TurnEnd::Interrupted));
                step.said.push(Said::TurnEnded(TurnEnd::Interrupted));
            } else if line == "turn" {
                self.turn_open = true;
                step.said.push(Said::TurnOpened);
            }
            if let Some(at) = self.told.iter().position(|(_, told)| *told == line) {
                let ticket = self.told.remove(at).0;
                step.said.push(Said::Accepted { ticket, how: Acceptance::Now });
            }
        }
        step
    }

    fn tell(&mut self, ticket: Ticket, verb: Verb) -> Step {
        let words = match verb {
            Verb::Send { words, .. } if words == "wait" => {
                self.kept.push(ticket);
                return Step::default();
            }
            Verb::Send { words, .. } => words,
            Verb::Interrupt => "interrupt".to_owned(),
            Verb::Answer { request: id, .. } | Verb::Choose { id, .. } => {
                let reason = format!("nothing waits under {id}");
                return Step { write: Vec::new(), said: vec![Said::Refused { ticket, reason }] };
            }
        };
        let write = format!("{words}\n").into_bytes();
        if words == "mute" {
            self.muted += 1;
        } else {
            self.told.push((ticket, words));
        }
        Step { write, said: Vec::new() }
    }

    fn withdraw(&mut self, ticket: Ticket) -> bool {
        let before = self.kept.len();
        self.kept.retain(|kept| *kept != ticket);
        before != self.kept.len()
    }

    fn close(&mut self) -> Vec<u8> {
        b"bye\n".to_vec()
    }

    fn state(&self) -> HeldState {
        HeldState {
            session: self.is_ready.then(|| "s".to_owned()),
            turn_open: self.turn_open,
            last_end: self.last_end.clone(),
            pending: Vec::new(),
            queued: self.kept.len() + self.muted,
            lost: None,
        }
    }

    fn takes_reasons(&self) -> bool {
        false
    }
}

struct Scene {
    place: tempfile::TempDir,
    agent: Child,
    holder: Holder,
}

impl Scene {
    fn new(limits: Limits) -> Self {
        Self::owned_by(None, limits)
    }

    /// `steered` is the process whose children may not steer the session; the agent itself by default.
    fn owned_by(steered: Option<u32>, limits: Limits) -> Self {
        let place = tempfile::tempdir().unwrap();
        let (mut stdin, mut stdout) = (None, tempfile::tempfile().unwrap());
        let pipes = Pipes::for_child(&mut stdin, &mut stdout).unwrap();
        let agent =
            Command::new("cat").stdin(stdin.unwrap()).stdout(stdout).stderr(Stdio::null()).spawn().unwrap();
        let process: Option<ProcessRef> = agentctl_process::identity(steered.unwrap_or_else(|| agent.id()));
        let folder = LaunchFolder::at(place.path());
        let holder =
            Holder::start((Box::new(Echo::default()), "first".into()), pipes, &folder, process, limits)
                .unwrap();
        let scene = Self { place, agent, holder };
        scene.until(|state| state.session.is_some());
        scene
    }

    fn folder(&self) -> &Path {
        self.place.path()
    }

    fn until(&self, is_it: impl Fn(&HeldState) -> bool) {
        let until = Instant::now() + LONG;
        // It has to answer within a fixed time, for which a busy machine may be too slow once.
        while !state(self.folder()).is_ok_and(|report| is_it(&report.state)) {
            assert!(Instant::now() < until, "{:?}", state(self.folder()));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn send(&self, words: &str, timeout: Duration) -> Result<Acceptance, HoldError> {
        let verb = Verb::Send { words: words.into(), as_command: false };
        tell(self.folder(), verb, false, timeout)
    }

    fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.agent), signal).unwrap();
    }

    fn agent_ends(&mut self) {
        let until = Instant::now() + LONG;
        while self.agent.try_wait().unwrap().is_none() {
            assert!(Instant::now() < until, "the agent lives on");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.agent.kill();
        let _ = self.agent.wait();
    }
}

#[test]
fn what_the_agent_takes_is_told_as_taken_and_its_end_closes_the_line() {
    let mut scene = Scene::new(Limits::default());
    assert!(matches!(scene.send("one", LONG), Ok(Acceptance::Now)));
    let answer = Verb::Answer { request: "r".into(), decision: Decision::AllowOnce };
    let refused = tell(scene.folder(), answer, false, LONG);
    assert!(matches!(&refused, Err(HoldError::Refused(reason)) if reason.contains("under r")), "{refused:?}");
    assert!(end(scene.folder(), false).is_ok());
    scene.agent_ends();
}

#[test]
fn what_waits_here_is_taken_back_when_the_time_is_up_or_the_caller_leaves() {
    let scene = Scene::new(Limits::default());
    let taken_back = scene.send("wait", Duration::from_millis(30));
    assert!(matches!(taken_back, Err(HoldError::Withdrawn)), "{taken_back:?}");
    assert_eq!(state(scene.folder()).unwrap().state.queued, 0);
    let given = scene.send("mute", Duration::from_millis(30));
    assert!(matches!(given, Err(HoldError::Unknown(_))), "the agent has it: {given:?}");
    let mut caller = wire::connect(scene.folder()).unwrap();
    let verb = Verb::Send { words: "wait".into(), as_command: false };
    wire::write_line(&mut caller, &Ask::Tell { verb, allow_self: false }).unwrap();
    scene.until(|state| state.queued == 2);
    drop(caller);
    scene.until(|state| state.queued == 1);
}

#[test]
fn a_process_of_the_agent_may_look_but_not_steer() {
    let scene = Scene::owned_by(Some(std::process::id()), Limits::default());
    assert!(matches!(scene.send("zero", LONG), Ok(Acceptance::Now)), "it may talk to itself");
    let refused = tell(scene.folder(), Verb::Interrupt, false, LONG);
    assert!(matches!(&refused, Err(HoldError::Refused(reason)) if reason.contains("itself")), "{refused:?}");
    assert!(matches!(end(scene.folder(), false), Err(HoldError::Refused(_))));
    let allowed = tell(scene.folder(), Verb::Interrupt, true, LONG);
    assert!(matches!(allowed, Ok(Acceptance::Now)), "{allowed:?}");
}

/// What the agent has recorded it has taken, whatever its protocol says; what still waits here it has not.
#[test]
fn a_record_is_a_proof_for_what_the_agent_has() {
    let scene = Scene::new(Limits::default());
    let options = SteerOptions { timeout: Duration::from_millis(700), ..SteerOptions::default() };
    let told = |words: &str| {
        let verb = Verb::Send { words: words.into(), as_command: false };
        reach::tell(scene.folder(), &verb, options, || true)
    };
    let taken = told("mute");
    assert!(matches!(taken, Ok(Acceptance::Now)), "{taken:?}");
    let kept = told("wait");
    assert!(matches!(kept, Err(HoldError::Withdrawn)), "{kept:?}");
}

/// The runner answers and hangs up while the records are looked at.
#[test]
fn an_answer_that_comes_while_the_records_are_read_is_heard() {
    let place = tempfile::tempdir().unwrap();
    let listener = wire::listen(place.path()).unwrap();
    let (look, looks) = channel();
    let (leaves, left) = channel();
    let runner = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _: Ask = Reader::of(&stream).unwrap().line().unwrap();
        looks.recv().unwrap();
        wire::write_line(&mut stream, &Reply::Accepted(Acceptance::Queued)).unwrap();
        drop(stream);
        leaves.send(()).unwrap();
    });
    let verb = Verb::Send { words: "one".into(), as_command: false };
    let options = SteerOptions { timeout: LONG, ..SteerOptions::default() };
    let told = reach::tell(place.path(), &verb, options, || {
        look.send(()).unwrap();
        left.recv().unwrap();
        true
    });
    assert!(matches!(told, Ok(Acceptance::Queued)), "{told:?}");
    runner.join().unwrap();
}

#[test]
fn an_agent_that_dies_leaves_nobody_waiting() {
    let mut scene = Scene::new(Limits::default());
    std::thread::scope(|threads| {
        let waiting = threads.spawn(|| {
            tell(scene.place.path(), Verb::Send { words: "mute".into(), as_command: false }, false, LONG)
        });
        scene.until(|state| state.queued == 1);
        scene.agent.kill().unwrap();
        let lost = waiting.join().unwrap();
        assert!(matches!(&lost, Err(HoldError::Unknown(why)) if why.contains("ended")), "{lost:?}");
    });
    let gone = scene.send("one", LONG);
    assert!(matches!(gone, Err(HoldError::Unknown(_) | HoldError::NotHeld(_))), "{gone:?}");
}

#[test]
fn a_turn_that_takes_too_long_is_interrupted_and_an_idle_session_is_ended() {
    let short = Some(Duration::from_millis(50));
    let mut scene = Scene::new(Limits { turn: short, idle: short });
    assert!(scene.send("turn", LONG).is_ok());
    scene.agent_ends();
    let report = scene.holder.report();
    assert_eq!(report.state.last_end, Some(TurnEnd::Interrupted));
    let asked = LaunchFolder::at(scene.folder()).asked_to_end().unwrap();
    assert!(format!("{asked:?}").contains("--idle-timeout"), "{asked:?}");
}

#[test]
fn a_watcher_is_told_of_every_change() {
    let scene = Scene::new(Limits::default());
    let mut stream: UnixStream = wire::connect(scene.folder()).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    wire::write_line(&mut stream, &Ask::Watch).unwrap();
    let mut reader = Reader::of(&stream).unwrap();
    let mut next = || match reader.line().unwrap() {
        Reply::State(report) => report.state,
        other => panic!("{other:?}"),
    };
    assert!(!next().turn_open);
    assert!(scene.send("turn", LONG).is_ok());
    assert!(next().turn_open);
}

/// An agent that reads nothing costs no more than the bound, and nobody waits for it in vain.
#[test]
fn an_agent_that_does_not_read_is_given_up() {
    let scene = Scene::new(Limits::default());
    scene.signal(rustix::process::Signal::STOP);
    let words = "x".repeat(80 << 10);
    let lost = (0..20).find_map(|_| match scene.send(&words, Duration::from_millis(10)) {
        Err(HoldError::Unknown(why)) if why.contains("does not read") => Some(why),
        Err(HoldError::Unknown(_)) => None,
        other => panic!("{other:?}"),
    });
    assert!(lost.is_some(), "the backlog grows for ever");
    let report = state(scene.folder()).unwrap();
    assert!(report.state.lost.is_some_and(|why| why.contains("does not read")));
    // Nothing is kept for it any more, and the caller hears so at once.
    let after = scene.send("one", LONG);
    assert!(matches!(&after, Err(HoldError::Unknown(why)) if why.contains("does not read")), "{after:?}");
    scene.signal(rustix::process::Signal::CONT);
}

/// An agent that writes faster than it is heard waits, and loses nothing.
#[test]
fn an_agent_that_writes_much_waits_until_it_is_heard() {
    const ALL: usize = 8 << 20;
    let (mut stdin, mut stdout) = (None, tempfile::tempfile().unwrap());
    let pipes = Pipes::for_child(&mut stdin, &mut stdout).unwrap();
    let (inbox, inputs) = sync_channel(holder::MOST_INPUTS);
    let reader = std::thread::spawn(move || holder::read(pipes.from_agent, &inbox));
    rustix::io::ioctl_fionbio(&stdout, true).unwrap();
    let bytes: Vec<u8> = (0..=255).cycle().take(ALL).collect();
    let mut written = 0;
    while written < ALL {
        match stdout.write(&bytes[written..]) {
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let pause = rustix::event::Timespec { tv_sec: 1, tv_nsec: 0 };
                let mut ends = [rustix::event::PollFd::new(&stdout, rustix::event::PollFlags::OUT)];
                if rustix::event::poll(&mut ends, Some(&pause)).unwrap() == 0 {
                    break;
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
    // What waits to be parsed, what the reader has in its hands, and what is in the pipe.
    assert!(
        written <= (holder::MOST_INPUTS + 2) * holder::CHUNK,
        "{written} were taken and nobody heard them"
    );
    drop(stdout);
    let mut heard = Vec::new();
    for input in inputs {
        match input {
            holder::Input::Heard(chunk) => heard.extend(chunk),
            holder::Input::Closed => break,
            _ => panic!("nobody called"),
        }
    }
    assert!(heard == bytes[..written], "all of it was heard, in order");
    reader.join().unwrap();
}
