//! What happens without any fault: agents begin, go on, wait, end; people lock folders and set timers.

use std::fs;

use serde_json::{Value, json};

use crate::cast::{self, Actor, Turn};
use crate::dice::Dice;
use crate::oracle::Left;
use crate::world::World;

/// So many agents are alive at the most, and so many ended sessions are kept.
const ALIVE: usize = 10;
const ENDED: usize = 30;
/// The folders that are locked and have timers.
const FOLDERS: usize = 6;

impl World {
    pub(crate) fn deed(&mut self, dice: &mut Dice) {
        match dice.below(10) {
            0 | 1 => self.begin(dice),
            2..=5 => self.go_on(dice),
            6 => self.end_one(dice),
            7 => self.lock(dice, None),
            8 => self.set_timer(dice),
            _ if self.alive.len() < ALIVE => self.launch(None),
            _ => {}
        }
    }

    pub(crate) fn begin(&mut self, dice: &mut Dice) {
        if self.alive.len() >= ALIVE {
            return;
        }
        let adapter = dice.pick(&self.agents);
        let actor = match adapter {
            "claude-code" => Actor::claude(&self.house),
            other => Actor::other(&self.house, other),
        };
        self.welcome(actor);
    }

    fn go_on(&mut self, dice: &mut Dice) {
        if self.alive.is_empty() {
            return;
        }
        let to = dice.pick(&[Turn::Open, Turn::Waiting, Turn::Ended]);
        let one = dice.below(self.alive.len());
        self.alive[one].go_on(to);
    }

    /// A launched agent comes to its end by itself, any other one is ended by a signal.
    fn end_one(&mut self, dice: &mut Dice) {
        if self.alive.is_empty() {
            return;
        }
        let one = dice.below(self.alive.len());
        if self.alive[one].as_launched().is_none() || self.alive[one].is_frozen {
            return self.kill(one);
        }
        let mut actor = self.dismiss(one);
        actor.turn = Turn::Ended;
        self.bury(&actor);
        actor.finish_launch(&self.house.home);
        self.over();
    }

    /// Locks a folder or unlocks it, with the command that dies at this point.
    pub(crate) fn lock(&mut self, dice: &mut Dice, point: Option<&str>) {
        let folder = self.folder(dice);
        let put = !self.locks.kept().contains(&folder);
        let mut command =
            self.house.home.agentctl_command(&[if put { "lock" } else { "unlock" }, folder.as_str()]);
        if let Some(point) = point {
            command.env("AGENTCTL_FAULT", point);
        }
        let output = self.house.home.run(command);
        self.locks.note(&folder, put, output.code);
    }

    /// Sets a timer or cancels it. The daemon does it, and there may be none.
    pub(crate) fn set_timer(&mut self, dice: &mut Dice) {
        let folder = self.folder(dice);
        let put = !self.timers.kept().contains(&folder);
        let reply = if put {
            let body = json!({"directory": folder, "ttl": "100h"}).to_string();
            self.house.try_write("POST", "/v1/fuses", &body)
        } else {
            let set = self.house.try_get("/v1/fuses").map(|reply| reply.json());
            let id = set.as_ref().and_then(|set| set["fuses"].as_array()).and_then(|fuses| {
                let fuse = fuses.iter().find(|fuse| fuse["directory"] == folder.as_str())?;
                Some(fuse["id"].as_str()?.to_owned())
            });
            id.and_then(|id| self.house.try_write("DELETE", &format!("/v1/fuses/{id}"), "{}"))
        };
        let code = reply.map(|reply| i32::from(!matches!(reply.status, 200 | 201)));
        self.timers.note(&folder, put, code);
    }

    fn folder(&self, dice: &mut Dice) -> String {
        let folder = self.house.home.work_dir(&format!("kept-{}", dice.below(FOLDERS)));
        folder.to_str().unwrap().to_owned()
    }

    /// Launches an agent; `point` is where the launch dies. What it started lives on.
    pub(crate) fn launch(&mut self, point: Option<&str>) {
        self.launches += 1;
        let cwd = self.house.home.work_dir(&format!("launch-{}", self.launches));
        let mut arguments = vec!["launch", "claude-code", "-p", "x", "--json"];
        if self.launches.is_multiple_of(3) {
            arguments.extend(["--on-complete", "exec sleep 0.01"]);
        }
        let mut command = self.house.home.agentctl_command(&arguments);
        if let Some(point) = point {
            command.env("AGENTCTL_FAULT", point);
        }
        let output = self.house.home.run(command.current_dir_of(&cwd));
        if output.code == Some(0) {
            let id = output.json()["id"].as_str().unwrap().to_owned();
            let actor = Actor::launched(&self.house, id);
            return self.welcome(actor);
        }
        assert!(point.is_some() || self.writes_may_fail, "a launch failed without a fault: {output:?}");
        self.adopt();
    }

    /// After a launch that failed: its agent is alive and becomes one of ours, or nothing of it is left.
    fn adopt(&mut self) {
        let known: Vec<String> = self.alive.iter().map(|actor| actor.id.clone()).collect();
        self.until_settled();
        for (id, pid) in cast::ever_launched(&self.house.home) {
            if known.contains(&id) || self.dead.contains_key(&id) || self.forgotten.contains(&id) {
                continue;
            }
            if cast::is_ours(&self.house.home, pid) {
                let actor = Actor::launched(&self.house, id);
                self.welcome(actor);
            } else if self.transcript_of(&id).exists() {
                // It was ended while its launch was undone.
                self.dead.insert(id, ("claude-code", Left::Damaged));
            } else {
                self.forgotten.insert(id);
            }
        }
    }

    /// The records of the oldest ended sessions are deleted, as people do.
    pub(crate) fn tidy(&mut self) {
        while self.order.len() > ENDED {
            let id = self.order.remove(0);
            self.delete(&id);
        }
    }

    pub(crate) fn delete(&mut self, id: &str) {
        let path = self.transcript_of(id);
        if path.exists() {
            fs::remove_file(path).unwrap();
            self.dead.remove(id);
            self.forgotten.insert(id.to_owned());
        }
    }

    pub(crate) fn list(&self, daemon: bool) -> Value {
        let mut command = self.house.home.agentctl_command(&["list", "--all", "--since", "all", "--json"]);
        if daemon {
            command.env_remove("AGENTCTL_NO_DAEMON");
        }
        self.house.home.run_within(crate::world::PROMPTLY, command).ok().json()
    }
}

/// `Command::current_dir` for a command that is handed on.
trait InFolder {
    fn current_dir_of(self, folder: &std::path::Path) -> Self;
}

impl InFolder for std::process::Command {
    fn current_dir_of(mut self, folder: &std::path::Path) -> Self {
        self.current_dir(folder);
        self
    }
}
