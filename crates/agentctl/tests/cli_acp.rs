//! Agents that only ACP knows, by `[acp.NAME]` in config.toml: a small scripted one, well behaved and hostile.
#![allow(clippy::disallowed_methods, reason = "tests write what is read")]
#![allow(clippy::unwrap_used, reason = "a failing unwrap is a failing test")]

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use agentctl_testkit::{Background, Output, TestHome, until, until_seen};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_mins(3);

/// A home whose config.toml names the scripted agent, once for each manner that it has.
struct House {
    home: TestHome,
    cwd: PathBuf,
}

impl House {
    fn new(manners: &[&str]) -> Self {
        Self::with_timeout(manners, "2m")
    }

    fn with_timeout(manners: &[&str], timeout: &str) -> Self {
        let home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/acp_agents/agent.py");
        let (store, starts) = (home.path().join("store"), home.path().join("starts"));
        fs::create_dir_all(&store).unwrap();
        let mut config = String::new();
        for manner in manners {
            writeln!(
                config,
                "[acp.{manner}]\ncommand = [\"python3\", \"{}\", {manner:?}]\n\
                 env = {{SESSIONS = \"{}\", STARTS = \"{}\"}}\ntimeout = {timeout:?}",
                script.display(),
                store.display(),
                starts.display()
            )
            .unwrap();
        }
        let folder = home.agentctl_home();
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(folder.join("config.toml"), config).unwrap();
        let cwd = home.work_dir("project");
        Self { home, cwd }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.home.agentctl_command(arguments);
        command.current_dir(&self.cwd);
        self.home.run(command)
    }

    #[track_caller]
    fn done(&self, arguments: &[&str]) -> Value {
        self.run(&[arguments, &["--json"]].concat()).ok().json()
    }

    #[track_caller]
    fn launch(&self, manner: &str, prompt: &str, more: &[&str]) -> String {
        let launched = self.done(&[&["launch", &format!("acp:{manner}"), prompt], more].concat());
        launched["id"].as_str().unwrap().to_owned()
    }

    /// A launch that fails, within this time, leaves nothing.
    #[track_caller]
    fn fails(&self, manner: &str, within: Duration) -> String {
        let began = Instant::now();
        let failed = self.run(&["launch", &format!("acp:{manner}"), "hello"]);
        assert!(matches!(failed.code, Some(1 | 7)), "{manner}: {failed:#?}");
        assert!(began.elapsed() < within, "{manner}: {:?}", began.elapsed());
        self.is_silent();
        let left: Vec<_> =
            fs::read_dir(self.home.agentctl_home().join("launches")).unwrap().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
        failed.stderr
    }

    fn is_silent(&self) {
        until_seen(PATIENCE, "the end of all processes", || match self.home.processes() {
            left if left.is_empty() => Ok(()),
            left => Err(format!("{left:#?}")),
        });
    }

    fn status(&self, id: &str) -> Value {
        self.done(&["status", id])
    }

    #[track_caller]
    fn becomes(&self, id: &str, status: &str) -> Value {
        until_seen(PATIENCE, status, || {
            let seen = self.status(id);
            if seen["status"] == status { Ok(seen) } else { Err(format!("{seen:#}")) }
        })
    }

    fn rows(&self, arguments: &[&str]) -> Vec<Value> {
        let list = self.done(&[&["list"], arguments].concat());
        list["sessions"].as_array().unwrap().clone()
    }

    /// How often the agent was started.
    fn starts(&self) -> usize {
        fs::read_to_string(self.home.path().join("starts")).unwrap_or_default().lines().count()
    }

    #[track_caller]
    fn stop(&self, id: &str) {
        let stopped = self.done(&["stop", id]);
        assert_eq!(stopped["sessions"][0]["survived"], json!([]), "{stopped:#}");
        self.is_silent();
    }

    /// The most memory that the runner ever had, in KiB.
    fn peak_of_runner(&self) -> u64 {
        let processes = self.home.processes();
        let (pid, _) = processes.iter().find(|(_, line)| line.contains("__run")).unwrap();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

#[test]
fn it_is_launched_steered_stopped_listed_and_resumed() {
    let house = House::new(&["good"]);
    let id = house.launch("good", "hello world", &[]);
    let idle = house.becomes(&id, "idle");
    assert_eq!(
        (&idle["adapter"], &idle["prompt"], &idle["name"], &idle["model"], &idle["cost"]),
        (&"acp:good".into(), &"hello world".into(), &"about hello".into(), &"small".into(), &0.25.into()),
        "{idle:#}"
    );
    assert_eq!(idle["capabilities"], json!(["stop", "resume", "send", "approve", "interrupt"]));
    let said = &idle["meta"]["acp"];
    assert_eq!(
        (&said["version"], &said["protocolVersion"], &said["mode"]),
        (&"1.2.3".into(), &1.into(), &"ask".into())
    );
    assert_eq!(house.rows(&[]).len(), 1);

    assert_eq!(house.done(&["send", &id, "please ask yes.txt"])["accepted"], "now");
    let waiting = house.becomes(&id, "waiting");
    assert_eq!(waiting["pending"][0]["summary"], "touch yes.txt", "{waiting:#}");
    assert_eq!(house.done(&["approve", &id])["decision"], "allow-once");
    until(PATIENCE, "the tool", || house.cwd.join("yes.txt").exists().then_some(()));
    house.becomes(&id, "idle");
    let _ = house.done(&["send", &id, "please ask no.txt"]);
    house.becomes(&id, "waiting");
    let wide = house.run(&["approve", &id, "--always"]);
    assert_eq!(wide.code, Some(7), "how far it reaches is not said: {wide:#?}");
    assert_eq!(house.done(&["deny", &id])["decision"], "deny");
    house.becomes(&id, "idle");
    assert!(!house.cwd.join("no.txt").exists());

    let _ = house.done(&["send", &id, "hang on"]);
    assert_eq!(house.status(&id)["status"], "running");
    assert_eq!(house.done(&["interrupt", &id])["interrupted"], true);
    assert_eq!(house.becomes(&id, "idle")["outcome"], "interrupted");
    let _ = house.done(&["send", &id, "fail now"]);
    let failed = until_seen(PATIENCE, "the failure", || {
        let seen = house.status(&id);
        if seen["outcome"] == "failed" { Ok(seen) } else { Err(format!("{seen:#}")) }
    });
    assert_eq!((&failed["status"], &failed["statusDetail"]), (&"idle".into(), &"the model said no".into()));
    let live = house.run(&["resume", &id, "more"]);
    assert_eq!(live.code, Some(7), "{live:#?}");
    house.stop(&id);

    // It is a session while it is held. Looking starts nobody.
    assert_eq!(house.starts(), 1);
    assert_eq!((house.rows(&[]).len(), house.rows(&["-a"]).len()), (0, 0));
    assert_eq!(house.rows(&["--adapter", "acp:good"]).len(), 0);
    assert_eq!(house.run(&["status", &id]).code, Some(3));
    let _ = (house.run(&["doctor"]).ok(), house.run(&["adapters"]).ok(), house.run(&["inbox"]).ok());
    assert_eq!(house.starts(), 1);
    // Who names the agent and wants to see everything asks it.
    let rows = house.rows(&["-a", "--adapter", "acp:good"]);
    assert_eq!((rows.len(), &rows[0]["id"], &rows[0]["status"]), (1, &id.as_str().into(), &"stopped".into()));
    assert_eq!(house.starts(), 2);
    house.is_silent();
    let resumed = house.done(&["resume", &id, "again", "--adapter", "acp:good"]);
    assert_eq!((&resumed["id"], &resumed["status"]), (&id.as_str().into(), &"idle".into()), "{resumed:#}");
    assert_eq!(house.rows(&["-a", "--adapter", "acp:good"]).len(), 1, "one session, one row");
    house.stop(&id);
}

/// The daemon gives the same answer about it.
#[test]
fn the_daemon_knows_it_too() {
    let house = House::new(&["good"]);
    let mut daemon = Background::spawn(&house.home, house.home.agentctl_command(&["daemon", "run"]));
    let ask = |arguments: &[&str]| {
        let mut command = house.home.agentctl_command(arguments);
        command.env_remove("AGENTCTL_NO_DAEMON").current_dir(&house.cwd);
        house.home.run(command)
    };
    until_seen(PATIENCE, "the daemon", || {
        let status = ask(&["daemon", "status"]);
        if status.code == Some(0) { Ok(()) } else { Err(format!("{status:?} {:?}", daemon.try_wait())) }
    });
    let launched = ask(&["launch", "acp:good", "please ask x.txt", "--json"]).ok().json();
    let id = launched["id"].as_str().unwrap();
    let waits = |rows: &Value| {
        let rows = rows["sessions"].as_array().unwrap();
        rows.len() == 1 && rows[0]["id"] == id && rows[0]["status"] == "waiting"
    };
    until_seen(PATIENCE, "the request", || {
        let there = ask(&["list", "--json"]).ok().json();
        if waits(&there) { Ok(()) } else { Err(format!("{there:#}")) }
    });
    let (mut there, mut here) = (ask(&["status", id, "--json"]).ok().json(), house.status(id));
    for session in [&mut there, &mut here] {
        // When it was looked at differs.
        session["evidence"] = Value::Null;
    }
    assert_eq!(there, here);
    assert_eq!(ask(&["approve", id, "--json"]).ok().json()["decision"], "allow-once");
    house.becomes(id, "idle");
    let _ = ask(&["stop", id]).ok();
    assert_eq!(house.starts(), 1);
    let _ = ask(&["daemon", "stop"]).ok();
    house.is_silent();
}

#[test]
fn modes_and_models_are_those_that_it_offers() {
    let house = House::new(&["good"]);
    let id = house.launch("good", "hello", &["--model", "large", "--permission-mode", "bypass"]);
    let seen = house.becomes(&id, "idle");
    assert_eq!((&seen["model"], &seen["meta"]["acp"]["mode"]), (&"large".into(), &"yolo".into()), "{seen:#}");
    house.stop(&id);
    for (more, words) in [(["--model", "huge"], "small, large"), (["--permission-mode", "plan"], "ask, yolo")]
    {
        let refused = house.run(&[&["launch", "acp:good", "hello"][..], &more].concat());
        assert_eq!(refused.code, Some(7), "{refused:#?}");
        assert!(refused.stderr.contains(words), "{refused:#?}");
    }
    let refused = house.run(&["launch", "acp:good", "hello", "--terminal"]);
    assert_eq!(refused.code, Some(7), "{refused:#?}");
    house.is_silent();
}

#[test]
fn what_is_loaded_is_not_said_again_and_what_cannot_be_resumed_says_so() {
    let house = House::new(&["loads", "bare"]);
    let id = house.launch("loads", "hello", &[]);
    house.becomes(&id, "idle");
    house.stop(&id);
    let resumed = house.done(&["resume", &id, "hang again", "--adapter", "acp:loads"]);
    assert_eq!((&resumed["id"], &resumed["status"]), (&id.as_str().into(), &"running".into()), "{resumed:#}");
    house.stop(&id);
    // This one offers nothing beside new sessions.
    let id = house.launch("bare", "hello", &[]);
    let seen = house.becomes(&id, "idle");
    assert_eq!(seen["capabilities"], json!(["stop", "send", "approve", "interrupt"]), "{seen:#}");
    house.stop(&id);
    let unknown = house.run(&["resume", &id, "again", "--adapter", "acp:bare"]);
    assert_eq!(unknown.code, Some(6), "it may exist: {unknown:#?}");
    assert!(unknown.stderr.contains("session/list"), "{unknown:#?}");
    house.is_silent();
}

/// Each of these is given up within its time, in words, and leaves nothing.
#[test]
fn an_agent_that_does_not_open_a_session_is_given_up() {
    let all_fail = |house: &House, manners: &[(&str, &str)]| {
        for &(manner, words) in manners {
            let said = house.fails(manner, PATIENCE);
            assert!(said.contains(words), "{manner}: {said}");
            assert!(said.len() < 2000, "{manner}: {} bytes", said.len());
        }
    };
    // These have to start and to say something within their time.
    let house = House::with_timeout(&["no-session", "version", "no-id", "bad-id", "half"], "15s");
    let manners = [
        ("no-session", "did not answer `session/new` within 15s"),
        ("version", "version 2"),
        ("no-id", "without an id"),
        ("bad-id", "id that cannot be used"),
        ("half", "exit code 3"),
    ];
    all_fail(&house, &manners);
    let house = House::with_timeout(&["silent", "endless"], "4s");
    let words = "did not answer `initialize` within 4s";
    all_fail(&house, &[("silent", words), ("endless", words)]);
    // Asked for its sessions, it is given up as well.
    let asked = house.run(&["list", "-a", "--adapter", "acp:endless", "--strict"]);
    assert_eq!(asked.code, Some(6), "{asked:#?}");
    house.is_silent();
}

#[test]
fn lines_without_end_do_not_fill_the_memory() {
    let house = House::with_timeout(&["endless"], "15s");
    let mut command = house.home.agentctl_command(&["launch", "acp:endless", "hello"]);
    command.current_dir(&house.cwd);
    let mut launch = Background::spawn(&house.home, command);
    let mut peak = 0;
    until(PATIENCE, "the end of the launch", || {
        let has_runner = house.home.processes().iter().any(|(_, line)| line.contains("__run"));
        if has_runner && launch.try_wait().is_none() {
            peak = peak.max(std::panic::catch_unwind(|| house.peak_of_runner()).unwrap_or(0));
        }
        launch.try_wait().map(drop)
    });
    assert!(peak > 0 && peak < 400 << 10, "{peak} KiB");
    house.is_silent();
}

/// Each of these does its turn, and the session can be spoken with afterwards.
#[test]
fn an_agent_that_misbehaves_in_a_turn_is_still_held() {
    let manners = ["noise", "garbage", "requests", "huge", "late", "two", "same-ids", "stubborn"];
    let house = House::new(&manners);
    for manner in manners {
        let words = if manner == "same-ids" { "please ask never.txt" } else { "hello" };
        let id = house.launch(manner, words, &[]);
        if manner == "late" {
            // What it asks for after the end of its turn is a request like any other.
            let waiting = house.becomes(&id, "waiting");
            assert_eq!(waiting["pending"][0]["summary"], "after the end", "{waiting:#}");
            let _ = house.done(&["deny", &id]);
        }
        let idle = house.becomes(&id, "idle");
        assert_eq!(idle["pending"], json!([]), "{manner}: {idle:#}");
        assert_ne!(idle["outcome"], "failed", "{manner}: {idle:#}");
        if manner == "requests" {
            assert_eq!(idle["name"], "about hello", "each was refused: {idle:#}");
        }
        assert_eq!(house.rows(&[]).len(), 1, "{manner}");
        let sent = house.done(&["send", &id, "and more"]);
        assert_eq!(sent["accepted"], "now", "{manner}");
        until_seen(PATIENCE, "the second turn", || {
            let seen = house.status(&id);
            if seen["name"] == "about and" { Ok(()) } else { Err(format!("{manner}: {seen:#}")) }
        });
        if manner == "huge" {
            let peak = house.peak_of_runner();
            assert!(peak < 400 << 10, "{peak} KiB");
        }
        house.stop(&id);
    }
    assert!(!house.cwd.join("never.txt").exists(), "neither of two requests with one id was allowed");
}

#[test]
fn a_name_that_is_not_configured_says_how() {
    let house = House::new(&["good"]);
    for arguments in [&["launch", "acp:other", "x"][..], &["list", "--adapter", "acp:other"]] {
        let refused = house.run(arguments);
        assert_eq!(refused.code, Some(2), "{refused:#?}");
        assert!(refused.stderr.contains("[acp.other]"), "{refused:#?}");
    }
    let path = house.home.agentctl_home().join("config.toml");
    fs::write(&path, "[acp.broken]\ncommand = []\n[acp.absent]\ncommand = [\"no-such-program\"]\n").unwrap();
    let refused = house.run(&["launch", "acp:broken", "x"]);
    assert!(refused.stderr.contains("names no program") && refused.code == Some(1), "{refused:#?}");
    let refused = house.run(&["launch", "acp:absent", "x"]);
    assert!(refused.stderr.contains("no-such-program") && refused.code == Some(1), "{refused:#?}");
    let checked = house.run(&["config", "check"]);
    assert!(checked.stderr.contains("acp.broken") || checked.stdout.contains("acp.broken"), "{checked:#?}");
}
