//! Who is on the stage: stand-ins that were started here, a stand-in that `agentctl launch` started, and a real Codex.

use std::fs;
use std::path::PathBuf;

use agentctl_testkit::troupe::Player;
use agentctl_testkit::{Background, Codex, Signal, TestHome, until_seen};

use crate::house::{House, SOON};
use crate::stand_in::StandIn;

/// Where the turn of a session stands, by what its agent recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    Open,
    Waiting,
    Ended,
}

enum Part {
    Claude(StandIn),
    Other(Player),
    Launched(Launched),
    Real(Background),
}

/// An agent that is alive.
pub(crate) struct Actor {
    pub(crate) id: String,
    pub(crate) adapter: &'static str,
    pub(crate) turn: Turn,
    pub(crate) is_frozen: bool,
    part: Part,
}

/// What `agentctl launch` started: the agent, and the runner that is its parent.
pub(crate) struct Launched {
    pub(crate) agent: u32,
    pub(crate) runner: Option<u32>,
}

impl Actor {
    pub(crate) fn claude(house: &House) -> Self {
        let stand_in = StandIn::start(&house.home);
        Self::of(stand_in.id.clone(), "claude-code", Part::Claude(stand_in))
    }

    pub(crate) fn other(house: &House, adapter: &'static str) -> Self {
        let player = Player::start(&house.home, adapter);
        Self::of(player.id.clone(), adapter, Part::Other(player))
    }

    /// The stand-in that was launched with this id, once it says which process it is.
    pub(crate) fn launched(house: &House, id: String) -> Self {
        let agent =
            until_seen(SOON, "the process of a launch", || launched_pid(&house.home, &id).ok_or("none"));
        let runner = parent(agent).filter(|runner| is_ours(&house.home, *runner));
        Self::of(id, "claude-code", Part::Launched(Launched { agent, runner }))
    }

    /// A real Codex at work on a turn that the model never ends.
    pub(crate) fn real(house: &House, codex: &Codex, number: usize) -> Self {
        let cwd = house.home.work_dir(&format!("real-{number}"));
        let mut run = codex.exec(&house.home, &cwd, &["--skip-git-repo-check"], "[[hang]]");
        let id = Codex::thread_id(&mut run);
        Self::of(id, "codex", Part::Real(run))
    }

    fn of(id: String, adapter: &'static str, part: Part) -> Self {
        Self { id, adapter, turn: Turn::Open, is_frozen: false, part }
    }

    pub(crate) fn pid(&self) -> u32 {
        match &self.part {
            Part::Claude(agent) => agent.pid(),
            Part::Other(agent) => agent.child.id(),
            Part::Launched(launched) => launched.agent,
            Part::Real(run) => run.pid(),
        }
    }

    pub(crate) fn is_stand_in_of_claude(&self) -> bool {
        matches!(self.part, Part::Claude(_))
    }

    pub(crate) fn as_launched(&mut self) -> Option<&mut Launched> {
        match &mut self.part {
            Part::Launched(launched) => Some(launched),
            _ => None,
        }
    }

    pub(crate) fn transcript(&self, home: &TestHome) -> Option<PathBuf> {
        match &self.part {
            Part::Claude(agent) => Some(agent.transcript.clone()),
            Part::Launched(_) => Some(home.path().join(format!(".claude/projects/-work/{}.jsonl", self.id))),
            _ => None,
        }
    }

    /// Goes on with its turn, waits for a person, or ends its turn, where this one can.
    pub(crate) fn go_on(&mut self, to: Turn) {
        let Part::Claude(agent) = &self.part else { return };
        match to {
            // A turn that has ended is followed by another message, or the records would say that it is over.
            Turn::Open if self.turn == Turn::Ended => agent.begin(),
            Turn::Open => agent.say("busy"),
            Turn::Waiting if self.turn == Turn::Open => agent.say("waiting"),
            Turn::Ended if self.turn == Turn::Open => agent.finish(),
            _ => return,
        }
        self.turn = to;
    }

    /// Ends as by `kill -9`, with everybody who waits for it.
    pub(crate) fn kill(mut self, home: &TestHome) {
        match &mut self.part {
            Part::Claude(agent) => agent.kill(),
            Part::Other(agent) => agent.kill(),
            Part::Launched(launched) => {
                home.signal(launched.agent, Signal::KILL);
                launched.until_over(home);
            }
            Part::Real(run) => {
                run.signal(Signal::KILL);
                run.wait(SOON);
            }
        }
    }

    /// The turn of a launched agent ends well, and so does its process.
    pub(crate) fn finish_launch(mut self, home: &TestHome) {
        fs::write(gates(home).join(&self.id), "").unwrap();
        self.as_launched().expect("a launched agent").until_over(home);
    }
}

impl Launched {
    /// Waits for the end of the agent, and of its runner, which writes down how it ended.
    pub(crate) fn until_over(&self, home: &TestHome) {
        let both = [Some(self.agent), self.runner];
        until_seen(SOON, "the end of a launch", || {
            let left: Vec<_> =
                home.processes().into_iter().filter(|(pid, _)| both.contains(&Some(*pid))).collect();
            if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
        });
    }
}

pub(crate) fn gates(home: &TestHome) -> PathBuf {
    home.path().join("gates")
}

fn launched_pid(home: &TestHome, id: &str) -> Option<u32> {
    fs::read_to_string(gates(home).join(format!("{id}.pid"))).ok()?.trim().parse().ok()
}

/// The ids of all agents that were ever launched, by what they themselves wrote down.
pub(crate) fn ever_launched(home: &TestHome) -> Vec<(String, u32)> {
    let entries = fs::read_dir(gates(home)).unwrap().map(|entry| entry.unwrap().file_name());
    let names = entries.map(|name| name.into_string().unwrap());
    let ids = names.filter_map(|name| Some(name.strip_suffix(".pid")?.to_owned()));
    ids.filter_map(|id| Some((id.clone(), launched_pid(home, &id)?))).collect()
}

pub(crate) fn is_ours(home: &TestHome, pid: u32) -> bool {
    home.processes().iter().any(|(known, _)| *known == pid)
}

pub(crate) fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}
