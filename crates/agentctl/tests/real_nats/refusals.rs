//! Every command that changes something is refused, at once and with the same exit code, where somebody may only look.

use serde_json::json;

use crate::house::House;
use crate::rights::Guarded;
use crate::scene::Machine;
use crate::stand_in::StandIn;

/// A session that has stopped.
const STOPPED: &str = "cccccccc-0000-4000-8000-00000000000c";

/// A machine with a session at work, one that has stopped, a lock and a fuse.
struct Busy {
    machine: Machine,
    live: StandIn,
    fuse: String,
    cwd: String,
}

impl Busy {
    fn start(guarded: &Guarded, name: &str, serve: &str) -> Self {
        let machine = guarded.machine(name, &format!("serve = \"{serve}\""));
        let home = &machine.house.home;
        let live = StandIn::start(home);
        let folder = home.path().join(".claude/projects/-w");
        std::fs::create_dir_all(&folder).unwrap();
        let record = json!({
            "type": "user", "uuid": "11111111-1111-4111-8111-111111111111", "parentUuid": null, "sessionId": STOPPED,
            "timestamp": "2026-11-15T10:00:00.000Z", "cwd": "/w", "version": "2.0.0",
            "message": {"role": "user", "content": "go"},
        });
        std::fs::write(folder.join(format!("{STOPPED}.jsonl")), format!("{record}\n")).unwrap();
        let cwd = home.git_repo("project").display().to_string();
        let fuse = json!({"directory": cwd, "ttl": "1h"}).to_string();
        let fuse = machine.house.write("POST", "/v1/fuses", &fuse).json()["id"].as_str().unwrap().to_owned();
        assert_eq!(
            machine.house.write("POST", "/v1/locks", &json!({"directory": cwd}).to_string()).status,
            200
        );
        Self { machine, live, fuse, cwd }
    }

    /// Every command that changes something on a machine.
    fn deeds(&self) -> Vec<String> {
        let (name, cwd) = (&self.machine.name, &self.cwd);
        let live = format!("{name}/{}", self.live.id);
        let stopped = format!("{name}/{STOPPED}");
        vec![
            format!("send {live} more"),
            format!("approve {live}"),
            format!("deny {live}"),
            format!("answer {live} yes"),
            format!("interrupt {live}"),
            format!("stop {live}"),
            format!("resume {stopped} more"),
            format!("resume {stopped} more --at 23:59"),
            format!("inbox --done {stopped}"),
            format!("fuse set --session {live} --max-time 1h"),
            format!("launch claude-code -p x --cwd {cwd} --host {name}"),
            format!("lock /tmp --host {name}"),
            format!("unlock {cwd} --host {name}"),
            format!("fuse set /tmp --ttl 1h --host {name}"),
            format!("fuse extend {cwd} --ttl 2h --host {name}"),
            format!("fuse cancel {cwd} --host {name}"),
            format!("worktree create {cwd} --branch b --host {name}"),
            format!("worktree clean {cwd}-b --host {name}"),
        ]
    }

    /// Of several launches each fails for itself, which is another exit code.
    fn spread(&self) -> String {
        let (name, cwd) = (&self.machine.name, &self.cwd);
        format!("launch --adapter claude-code --adapter codex -p x --cwd {cwd} --host {name}")
    }

    /// Nothing of it was done.
    #[track_caller]
    fn is_as_before(&self) {
        let house = &self.machine.house;
        let locks = house.get("/v1/locks").json()["locks"].clone();
        let locked: Vec<&str> =
            locks.as_array().unwrap().iter().map(|lock| lock["directory"].as_str().unwrap()).collect();
        assert!(locked.contains(&self.cwd.as_str()) && !locked.contains(&"/tmp"), "{locks:#}");
        let fuses = house.get("/v1/fuses").json()["fuses"].clone();
        assert_eq!((fuses.as_array().unwrap().len(), &fuses[0]["id"]), (1, &json!(self.fuse)));
        let list = house.get("/v1/sessions?since=all").json();
        let sessions = list["sessions"].as_array().unwrap();
        assert_eq!(sessions.len(), 2, "{list:#}");
        let live = sessions.iter().find(|one| one["id"] == self.live.id.as_str()).unwrap();
        assert_eq!(live["status"], "running", "{live:#}");
    }
}

#[test]
fn every_deed_is_refused_where_a_machine_or_the_server_lets_nobody_act() {
    let Some(guarded) = Guarded::set() else { return };
    // dev1 lets the bus act and the server lets ann look; dev2 lets the bus look, and the server lets bob act.
    let (acts, reads) = (Busy::start(&guarded, "dev1", "act"), Busy::start(&guarded, "dev2", "read"));
    let (ann, bob) = (guarded.asker("ann"), guarded.asker("bob"));
    ann.hears(&["dev1", "dev2"]);
    for (asker, busy, why) in [(&bob, &reads, "read and not act"), (&ann, &acts, "Permissions Violation")] {
        for deed in busy.deeds() {
            let refused = asker.home.agentctl(&deed.split(' ').collect::<Vec<_>>());
            assert_eq!(refused.code, Some(7), "{deed}: {refused:?}");
            assert!(refused.stderr.contains(why), "{deed}: {refused:?}");
        }
        let refused = asker.home.agentctl(&busy.spread().split(' ').collect::<Vec<_>>());
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.stdout.contains(why), "{refused:?}");
        busy.is_as_before();
    }
    // The same words where a daemon asks in somebody's place.
    let desk = House { home: bob.home };
    let _daemon = desk.daemon(&[]);
    let body = json!({"directory": "/tmp"}).to_string();
    let refused = desk.write("POST", "/v1/locks?host=dev2", &body);
    assert_eq!((refused.status, &refused.json()["code"]), (409, &json!("refused")), "{refused:?}");
    assert!(refused.body.contains("read and not act"), "{refused:?}");
    reads.is_as_before();
}
