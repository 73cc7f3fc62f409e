//! Sessions that agentctl itself started: their end is announced once, with or without a daemon, whichever
//! process is killed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use agentctl_testkit::{Output, Signal, until, until_seen};
use serde_json::Value;

use crate::events::Listener;
use crate::house::{House, SOON};
use crate::stand_in::StandIn;
use crate::webhooks::{Receiver, configure, pending};

/// A stand-in for Claude Code that can be launched: it takes its id, works until the gate is opened, and ends
/// well.
const AGENT: &str = include_str!("agent.sh");

pub(crate) struct Scene {
    pub(crate) house: House,
    pub(crate) receiver: Receiver,
}

impl Scene {
    pub(crate) fn set() -> Self {
        let (house, receiver) = (House::new(), Receiver::start(&[]));
        configure(&house, &receiver.url);
        let scene = Self { house, receiver };
        scene.put_on_path("claude", AGENT);
        scene
    }

    pub(crate) fn put_on_path(&self, name: &str, script: &str) {
        let path = self.house.home.path().join(format!("{name}.sh"));
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self.house.home.put_on_path(name, &path);
    }

    /// The launched session, and the id of its launch.
    pub(crate) fn launch(&self, place: &str, variables: &[(&str, &str)]) -> (String, String) {
        self.launch_with(place, &[], variables)
    }

    pub(crate) fn launch_with(
        &self,
        place: &str,
        more: &[&str],
        variables: &[(&str, &str)],
    ) -> (String, String) {
        let launched = self.try_launch(place, more, variables).ok().json();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (text(&launched["id"]), text(&launched["launch"]["id"]))
    }

    fn try_launch(&self, place: &str, more: &[&str], variables: &[(&str, &str)]) -> Output {
        let cwd = self.house.home.work_dir(place);
        let arguments = [&["launch", "claude-code", "-p", "x", "--json"], more].concat();
        let mut command = self.house.home.agentctl_command(&arguments);
        command.current_dir(cwd).envs(variables.iter().copied());
        self.house.home.run(command)
    }

    /// What the receiver was sent about the end of this session.
    pub(crate) fn told_of(&self, id: &str) -> Value {
        until(SOON, "a webhook of the end", || {
            let bodies = self.receiver.received().into_iter();
            let told = bodies.map(|one| serde_json::from_str::<Value>(&one.body).unwrap());
            told.into_iter().find(|told| told["session_id"] == id)
        })
    }

    pub(crate) fn open_the_gate(&self) {
        fs::write(self.house.home.path().join("gate"), "").unwrap();
    }

    fn close_the_gate(&self) {
        fs::remove_file(self.house.home.path().join("gate")).unwrap();
    }

    pub(crate) fn record(&self, launch: &str, file: &str) -> PathBuf {
        self.house.home.agentctl_home().join("launches").join(launch).join(file)
    }

    /// Waits until no process works for this home any more.
    fn silence(&self) {
        until_seen(SOON, "the end of every process", || match self.house.home.processes() {
            left if left.is_empty() => Ok(()),
            left => Err(format!("{left:?}")),
        });
    }

    /// Waits until everything was delivered, and returns it: delivery and session.
    fn delivered(&self, count: usize) -> Vec<(String, String)> {
        self.receiver.accepted(count);
        until(SOON, "an empty outbox", || (pending(&self.house) == 0).then_some(()));
        let told = self.receiver.received();
        assert_eq!(told.len(), count, "{told:?}");
        let session = |body: &str| serde_json::from_str::<Value>(body).unwrap()["session_id"].clone();
        let text = |one: &crate::webhooks::Received| {
            let id = one.header("X-Agentctl-Delivery").unwrap().to_owned();
            (id, session(&one.body).as_str().unwrap().to_owned())
        };
        told.iter().map(text).collect()
    }
}

#[test]
fn an_end_without_a_daemon_is_told_by_the_next_one() {
    let scene = Scene::set();
    let (id, launch) = scene.launch("a", &[]);
    scene.open_the_gate();
    scene.silence();
    assert!(scene.record(&launch, "exit.json").exists());
    assert_eq!(scene.receiver.received().len(), 0, "nobody delivers yet");
    let _daemon = scene.house.daemon(&[]);
    assert_eq!(scene.delivered(1), [(launch, id.clone())]);
    let told: Value = serde_json::from_str(&scene.receiver.received()[0].body).unwrap();
    assert_eq!((&told["hook_type"], &told["exit_status"]), (&"session.stopped".into(), &"completed".into()));
    assert_eq!(
        (&told["session"]["id"], &told["session"]["outcome"], &told["summary"]),
        (&id.into(), &"completed".into(), &"done".into())
    );
}

/// Only the launcher knows it: the daemon has another receiver and another secret, or none.
#[test]
fn a_webhook_of_the_launcher_alone_goes_to_its_receiver_under_its_secret() {
    let scene = Scene::set();
    let theirs = Receiver::start(&[]);
    let own =
        [("AGENTCTL_WEBHOOK_URL", theirs.url.as_str()), ("AGENTCTL_WEBHOOK_SECRET", "only the launcher")];
    scene.launch("a", &own);
    scene.launch("b", &[("AGENTCTL_WEBHOOK_SECRET", "only the launcher")]);
    scene.open_the_gate();
    scene.silence();
    let mut grep = scene.house.home.command("grep");
    grep.args(["-rl", "only the launcher"]).arg(scene.house.home.agentctl_home());
    assert_eq!(scene.house.home.run(grep).stdout, "", "the secret is in no file");
    let _daemon = scene.house.daemon(&[]);
    scene.delivered(1);
    for received in [theirs.accepted(1), scene.receiver.accepted(1)] {
        let told = received.last().unwrap();
        let expected = agentctl_fleet::keep::outbox::sign("only the launcher", told.body.as_bytes());
        assert_eq!(told.header("X-Signature"), Some(expected.as_str()), "{}", told.head);
    }
}

/// The process has ended, but the storage cannot be read: it is not known that no process owns the session
/// (N4).
#[test]
fn an_end_that_no_survey_shows_is_told_only_when_one_does() {
    let scene = Scene::set();
    fs::write(scene.house.home.path().join("break"), "").unwrap();
    let (id, launch) = scene.launch("a", &[]);
    scene.open_the_gate();
    scene.silence();
    assert!(scene.record(&launch, "exit.json").exists(), "what the runner saw is written down");
    let outbox = fs::read_dir(scene.house.home.agentctl_home().join("outbox"));
    let told = outbox.map_or(0, |files| files.flatten().filter(|file| file.path().is_file()).count());
    assert_eq!(told, 0, "a source that failed says nothing about anybody");
    let log = fs::read_to_string(scene.record(&launch, "runner.log")).unwrap();
    assert!(log.contains("whether the session ended is not known"), "{log}");

    let root = scene.house.home.path().join(".claude");
    fs::remove_file(root.join("projects")).unwrap();
    fs::rename(root.join("aside"), root.join("projects")).unwrap();
    let _daemon = scene.house.daemon(&[]);
    assert_eq!(scene.delivered(1), [(launch, id)]);
    let told: Value = serde_json::from_str(&scene.receiver.received()[0].body).unwrap();
    assert_eq!(told["session"]["status"], "stopped", "{told:#}");
}

#[test]
fn with_a_daemon_one_end_has_one_delivery() {
    let scene = Scene::set();
    let _daemon = scene.house.daemon(&[]);
    scene.house.settled();
    let mut events = Listener::open(&scene.house, "type=session.stopped&type=launch.exited", None);
    let mut expected: Vec<(String, String)> =
        ["a", "b", "c", "d"].map(|place| scene.launch(place, &[])).map(|(id, launch)| (launch, id)).into();
    // A session that the daemon never saw live ends without an event of its own.
    until(SOON, "all of them to be seen", || {
        (scene.house.get("/v1/daemon").json()["liveSessions"] == 4).then_some(())
    });
    scene.open_the_gate();
    let mut heard: Vec<(String, String)> = (0..8)
        .map(|_| {
            let event = events.next();
            assert_eq!(event["session"]["status"], "stopped", "{event}");
            (event["type"].as_str().unwrap().to_owned(), event["sessionId"].as_str().unwrap().to_owned())
        })
        .collect();
    heard.sort();
    let mut each: Vec<(String, String)> = ["launch.exited", "session.stopped"]
        .iter()
        .flat_map(|kind| expected.iter().map(|(_, id)| ((*kind).to_owned(), id.clone())))
        .collect();
    each.sort();
    assert_eq!(heard, each);
    let mut told = scene.delivered(4);
    told.sort();
    expected.sort();
    assert_eq!(told, expected);

    // A person continues one of them by hand: its next end is another one.
    let (launch, id) = expected.remove(0);
    let mut agent = StandIn::on(&scene.house.home, id.clone());
    until(SOON, "it to be seen", || {
        (scene.house.get("/v1/daemon").json()["liveSessions"] == 1).then_some(())
    });
    agent.kill();
    let told = scene.delivered(5);
    assert_eq!(told[4].1, id);
    assert_ne!(told[4].0, launch);
}

/// If the process is killed between any two steps of the announcement, it is still announced, under one id.
#[test]
fn a_runner_killed_at_any_step_loses_nothing() {
    if !agentctl_testkit::has_fault_points() {
        return agentctl_testkit::skip("only debug builds have fault points");
    }
    let scene = Scene::set();
    let writes = ["exit", "outbox"].iter().flat_map(|what| {
        ["begin", "written", "synced", "renamed", "done"].map(|step| format!("{what}.{step}"))
    });
    for (number, point) in writes.chain(["told.put".to_owned()]).enumerate() {
        let (id, launch) = scene.launch("a", &[("AGENTCTL_FAULT", &point)]);
        scene.open_the_gate();
        scene.silence();
        scene.close_the_gate();
        // The next launch then has nothing of this one to record.
        let _ = scene.house.run(&["prune"]).ok();
        let mut daemon = scene.house.daemon(&[]);
        let told = scene.delivered(number + 1);
        assert_eq!(told[number], (launch, id.clone()), "{point}");
        assert_eq!(scene.house.run(&["status", &id, "--json"]).ok().json()["status"], "stopped", "{point}");
        daemon.signal(Signal::KILL);
        daemon.wait(SOON);
    }
    let mut daemon = scene.house.daemon(&[]);
    scene.delivered(11);
    daemon.signal(Signal::TERM);
    daemon.wait(SOON);
}

/// The caller of a launch or its runner is killed at any step of writing the record: there is a session with
/// a complete record, or nothing remains.
#[test]
fn a_launch_killed_at_any_step_of_its_record_is_whole_or_undone() {
    if !agentctl_testkit::has_fault_points() {
        return agentctl_testkit::skip("only debug builds have fault points");
    }
    let scene = Scene::set();
    let steps = ["begin", "written", "synced", "renamed", "done"];
    // The first of these writes is the caller's; the second is the runner's, once it knows that the turn has
    // begun.
    for point in steps.iter().flat_map(|step| [1, 2].map(|time| format!("launch.{step}#{time}"))) {
        let launched = scene.try_launch("a", &[], &[("AGENTCTL_FAULT", &point)]);
        scene.open_the_gate();
        scene.silence();
        scene.close_the_gate();
        let _ = scene.house.run(&["prune"]).ok();
        let records = fs::read_dir(scene.house.home.agentctl_home().join("launches")).unwrap();
        let mut sessions = Vec::new();
        for path in records.map(|entry| entry.unwrap().path()) {
            let record = fs::read(path.join("launch.json")).unwrap();
            let record: Value = serde_json::from_slice(&record).unwrap();
            let id = record["sessionId"].as_str().unwrap_or_else(|| panic!("{point}: {record}")).to_owned();
            let session = scene.house.run(&["status", &id, "--json"]).ok().json();
            assert_eq!((&session["status"], &session["launch"]["id"]), (&"stopped".into(), &record["id"]));
            sessions.push(id);
        }
        if launched.code == Some(0) {
            let id = launched.json()["id"].as_str().unwrap().to_owned();
            assert!(sessions.contains(&id), "{point}: what was acknowledged is there");
        }
    }
}

#[test]
fn launch_and_wait_start_the_daemon_and_do_without_it() {
    let scene = Scene::set();
    let house = &scene.house;
    let standing = || house.run(&["daemon", "status", "--json"]).json();
    let (id, _) = scene.launch("a", &[]);
    assert_eq!(standing()["running"], false, "AGENTCTL_NO_DAEMON starts none");
    let waited = house.run(&["wait", &id, "--timeout", "0s"]);
    assert_eq!(waited.code, Some(124));
    until(SOON, "the daemon that wait started", || (standing()["running"] == true).then_some(()));
    let _ = house.run(&["daemon", "stop"]).ok();
    let cwd = house.home.work_dir("b");
    let launch = house.run(&["launch", "claude-code", "-p", "x", "--cwd", cwd.to_str().unwrap(), "--json"]);
    let second = launch.ok().json()["id"].as_str().unwrap().to_owned();
    until(SOON, "the daemon that launch started", || (standing()["running"] == true).then_some(()));
    let first = standing()["daemon"]["pid"].clone();
    scene.open_the_gate();
    assert_eq!(house.run(&["wait", &id, &second]).code, Some(0));
    assert_eq!(standing()["daemon"]["pid"], first, "one is enough");
    let _ = house.run(&["daemon", "stop"]).ok();
    // No daemon can be started here; the command continues.
    fs::remove_dir_all(house.home.agentctl_home()).unwrap();
    fs::write(house.home.agentctl_home(), "a file where the folder should be").unwrap();
    let waited = house.run(&["wait", &id]);
    assert_eq!((waited.code, waited.stderr.as_str()), (Some(0), ""), "{waited:?}");
}

/// Whatever the program is called: the runner is not part of the agent's family, is not ended with the agent,
/// and sees its exit.
#[test]
fn a_runner_under_another_name_is_not_ended_as_a_tool() {
    let scene = Scene::set();
    let home = &scene.house.home;
    let renamed = home.path().join("another-name");
    fs::copy(env!("CARGO_BIN_EXE_agentctl"), &renamed).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = home.command(renamed.to_str().unwrap());
        command.args(arguments).current_dir(home.work_dir("named")).env("AGENTCTL_NO_DAEMON", "1");
        home.run(command).ok()
    };
    let id = run(&["launch", "claude-code", "x", "--json"]).json()["id"].as_str().unwrap().to_owned();
    let report = run(&["stop", &id, "--json"]).json();
    let ended = report["sessions"][0]["ended"].as_array().unwrap().clone();
    assert!(ended.iter().any(|process| process["role"] == "agent"), "{report:#}");
    assert!(ended.iter().all(|process| process["command"] != "another-name"), "{report:#}");
    until(SOON, "the runner to write down the exit", || {
        let launch = run(&["status", &id, "--json"]).json()["launch"].clone();
        launch["exitedAt"].is_string().then_some(())
    });
}
