//! Other machines over a real sshd: its keys, its refusals, and a program that answers well, badly or never.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "the test sets up sshd and its keys")]

mod alike;
mod events;
mod every;
mod faults;
mod http;
mod names;
#[path = "../daemon/stand_in.rs"]
#[allow(dead_code, reason = "another test's room, of which a part is used")]
mod stand_in;

use std::fs;
use std::net::TcpListener;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use agentctl_testkit::{Near, TestHome, until};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_mins(2);

/// A home that asks, and another machine with a home of its own.
struct Scene {
    near: Near,
    far: TestHome,
}

impl Deref for Scene {
    type Target = Near;

    fn deref(&self) -> &Near {
        &self.near
    }
}

impl Scene {
    fn set() -> Option<Self> {
        let near = Near::set(env!("CARGO_BIN_EXE_agentctl"))?;
        Some(Self { near, far: TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl")) })
    }

    /// A scene whose other machine is called box and answers.
    fn with_box() -> Option<Self> {
        let scene = Self::set()?;
        scene.configure_program(&scene.far_program(), "30s");
        Some(scene)
    }

    /// A command of the other machine beside a daemon.
    fn far_daemon(&self, arguments: &[&str]) -> Command {
        let mut command = self.far.agentctl_command(arguments);
        command.env_remove("AGENTCTL_NO_DAEMON");
        command
    }

    /// How many requests its daemon has heard; each of these questions is one.
    fn far_requests(&self) -> u64 {
        let status = self.far.run(self.far_daemon(&["daemon", "status", "--json"])).ok().json();
        status["daemon"]["requests"].as_u64().unwrap()
    }

    fn far_program(&self) -> PathBuf {
        self.near.program_of(&self.far, "agentctl")
    }
}

/// A stopped session of Claude Code with one message.
fn transcript(home: &TestHome, id: &str, text: &str) {
    let folder = home.path().join(".claude/projects/-w");
    fs::create_dir_all(&folder).unwrap();
    let line = serde_json::json!({
        "type": "user", "uuid": "11111111-1111-4111-8111-111111111111", "parentUuid": null, "sessionId": id,
        "timestamp": "2026-11-15T10:00:00.000Z", "cwd": "/w", "version": "2.0.0",
        "message": {"role": "user", "content": text},
    });
    fs::write(folder.join(format!("{id}.jsonl")), format!("{line}\n")).unwrap();
}

const NEAR: &str = "aaaaaaaa-0000-4000-8000-00000000000a";
const FAR: &str = "bbbbbbbb-0000-4000-8000-00000000000b";

#[test]
fn a_machine_is_asked_over_ssh_and_leaves_nothing_behind() {
    let Some(scene) = Scene::set() else { return };
    scene.configure_program(&scene.far_program(), "30s");
    let rows = scene.rows();
    let [row] = rows.as_array().unwrap().as_slice() else { panic!("{rows:#}") };
    assert_eq!((row["name"].as_str(), row["via"].as_str()), (Some("box"), Some("ssh")), "{row:#}");
    assert_eq!((row["coverage"].as_str(), row["sessions"].as_u64()), (Some("complete"), Some(0)), "{row:#}");
    assert_eq!(row["version"].as_str(), Some(env!("CARGO_PKG_VERSION")));
    assert!(row["error"].is_null() && row["asOf"].is_string(), "{row:#}");
    let (passed, failed) = scene.check();
    assert_eq!(passed, ["resolve", "connect", "authenticate", "program", "version", "answer"], "{failed:#}");
    // Nothing of agentctl runs there, and looking made no folder.
    until(PATIENCE, "what ssh started to end", || scene.far.processes().is_empty().then_some(()));
    assert!(!scene.far.agentctl_home().exists());
    let sockets = scene.home.agentctl_home().join("ssh");
    assert_eq!(fs::metadata(&sockets).unwrap().permissions().mode() & 0o777, 0o700);
    let person = scene.home.agentctl(&["hosts"]).ok().stdout;
    assert!(person.contains("box") && person.contains("yes"), "{person}");
}

/// Two machines in one list: each session says where it is, and what is typed for it begins with that.
#[test]
fn the_sessions_of_two_machines_are_one_list() {
    let Some(scene) = Scene::set() else { return };
    scene.configure_program(&scene.far_program(), "30s");
    let (near, far) = (NEAR, FAR);
    transcript(&scene.home, near, "here");
    transcript(&scene.far, far, "there");
    let list = |more: &[&str]| {
        let arguments = [&["list", "--since", "all"][..], more].concat();
        scene.home.agentctl(&arguments).ok()
    };
    let both = list(&["--host", "all", "--json"]).json();
    let mut seen: Vec<(&str, &str)> = both["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|session| (session["id"].as_str().unwrap(), session["host"].as_str().unwrap()))
        .collect();
    seen.sort_unstable();
    let own_name = both["hosts"][0]["name"].as_str().unwrap();
    assert_eq!(seen, [(near, own_name), (far, "box")], "{both:#}");
    assert_eq!((&both["hosts"][1]["name"], &both["hosts"][1]["via"]), (&"box".into(), &"ssh".into()));
    let claude = |host: &str| {
        let sources = both["sources"].as_array().unwrap();
        sources.iter().any(|source| source["host"] == host && source["coverage"] == "complete")
    };
    assert!(claude("box") && claude(own_name), "{both:#}");

    let ids = |more: &[&str]| list(&[&["-q"], more].concat()).stdout;
    assert_eq!(ids(&[]), format!("{near}\n"), "without --host it is this machine alone");
    assert_eq!(ids(&["--host", "local"]), format!("{near}\n"));
    assert_eq!(ids(&["--host", "box"]), format!("box/{far}\n"));
    assert_eq!(ids(&["--host", "all", "--limit", "1", "--sort", "name"]), format!("{near}\n"));
    assert!(list(&["--host", "all"]).stdout.contains("box/bbbbbbbb"));
    assert_eq!(scene.home.agentctl(&["list", "--host", "nobody"]).code, Some(2));

    // The settings may make it the default, and a machine that cannot be heard hides nobody else's sessions.
    let silent = scene.script("silent", "exec cat > /dev/null");
    scene.configure(&format!(
        "host = \"all\"\n[hosts.quiet]\nssh = \"box\"\nprogram = \"{}\"\ntimeout = \"2s\"\n",
        silent.display()
    ));
    let told = list(&["-q"]);
    assert_eq!(told.stdout, format!("{near}\n"));
    assert!(told.stderr.contains("quiet was not heard"), "{}", told.stderr);
    assert_eq!(scene.home.agentctl(&["list", "--strict"]).code, Some(6));
}

/// Its daemon is asked where one runs, with the sources that a login there resolves to.
#[test]
fn the_daemon_of_the_other_machine_is_used() {
    let Some(scene) = Scene::set() else { return };
    scene.configure_program(&scene.far_program(), "30s");
    let _ = scene.far.run(scene.far_daemon(&["daemon", "start"])).ok();
    let before = scene.far_requests();
    assert_eq!(scene.rows()[0]["coverage"], "complete");
    // A question whether it lives, the list, and this status itself; a daemon that is busy is asked once more whether it
    // lives.
    let requests = scene.far_requests() - before;
    assert!((3..6).contains(&requests), "{requests}");
}

#[test]
fn every_refusal_is_a_row_with_its_step_and_a_remedy() {
    let Some(scene) = Scene::set() else { return };
    let folder = scene.home.work_dir("ssh");
    let program = scene.far_program();
    let refused = |expected: &str, words: &str| {
        let (_, failed) = scene.check();
        assert_eq!(failed["step"], expected, "{failed:#}");
        assert!(failed["message"].as_str().unwrap().contains(words), "{failed:#}");
        assert!(failed["hint"].is_string(), "{failed:#}");
        let row = scene.rows()[0].clone();
        assert_eq!((row["coverage"].as_str(), &row["sessions"]), (Some("failed"), &Value::Null), "{row:#}");
        assert_eq!(row["error"], failed["message"]);
    };
    scene.configure_program(Path::new("/nowhere/agentctl"), "30s");
    refused("program", "not found");
    let noisy = scene.script("noisy", "head -c 70000 /dev/zero | tr '\\0' x");
    scene.configure_program(&noisy, "30s");
    refused("version", "no greeting");
    let old = scene.script("old", "echo \"error: unrecognized subcommand '$1'\" >&2; exit 2");
    scene.configure_program(&old, "30s");
    refused("version", "too old");
    // It keeps its streams open and says nothing.
    let silent = scene.script("silent", "exec cat > /dev/null");
    scene.configure_program(&silent, "2s");
    refused("connect", "no answer within");
    // It greets and then speaks nonsense.
    let greeting = r#"agentctl-stdio/1 {"version":"9","host":"x","instance":"y","caller":null}"#;
    let garbage =
        scene.script("garbage", &format!("echo '{greeting}'; read line; echo nonsense; exec cat >/dev/null"));
    scene.configure_program(&garbage, "5s");
    refused("answer", "");
    let cut = scene.script(
        "cut",
        &format!(
            "echo '{greeting}'; read line; printf 'HTTP/1.1 200 OK\\r\\nContent-Length: 9\\r\\n\\r\\n{{'"
        ),
    );
    scene.configure_program(&cut, "30s");
    refused("answer", "cut");

    // A key that is not let in, and a machine that shows another key than before. A connection that ssh keeps would
    // hide both, so its sockets go first.
    let forget = || {
        for entry in fs::read_dir(scene.home.agentctl_home().join("ssh")).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
    };
    scene.configure_program(&program, "30s");
    fs::copy(folder.join("stranger.pub"), folder.join("authorized")).unwrap();
    forget();
    refused("authenticate", "Permission denied");
    fs::copy(folder.join("user.pub"), folder.join("authorized")).unwrap();
    let other = fs::read_to_string(folder.join("other-host.pub")).unwrap();
    fs::write(folder.join("known"), format!("[127.0.0.1]:{} {other}", scene.port)).unwrap();
    forget();
    refused("authenticate", "IDENTIFICATION HAS CHANGED");
    fs::write(folder.join("known"), "").unwrap();
    refused("authenticate", "verification failed");

    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    scene.configure(&format!("[hosts.box]\nssh = \"ssh://127.0.0.1:{closed}\"\n"));
    let direct = scene.script("ssh", "exec /usr/bin/ssh -F none \"$@\"");
    scene.home.put_on_path("ssh", &direct);
    refused("connect", "refused");
}

#[test]
fn one_silent_machine_does_not_delay_or_hide_the_others() {
    let Some(scene) = Scene::set() else { return };
    let silent = scene.script("silent", "exec cat > /dev/null");
    let program = scene.far_program();
    scene.configure(&format!(
        "[hosts.quiet]\nssh = \"box\"\nprogram = \"{}\"\ntimeout = \"3s\"\n\
         [hosts.box]\nssh = \"box\"\nprogram = \"{}\"\ntimeout = \"60s\"\n",
        silent.display(),
        program.display()
    ));
    let rows = scene.rows();
    let coverage: Vec<(&str, &str)> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["name"].as_str().unwrap(), row["coverage"].as_str().unwrap()))
        .collect();
    assert_eq!(coverage, [("box", "complete"), ("quiet", "failed")], "{rows:#}");
    assert_eq!(scene.home.agentctl(&["hosts", "--strict"]).code, Some(6));
    assert_eq!(scene.home.agentctl(&["hosts", "check", "nobody"]).code, Some(2));
    // Nothing is concluded of a machine that was not heard, nor of this one, which was not asked.
    let words = |host: &str| scene.home.agentctl(&["list", "--host", host]).ok().stdout;
    assert_eq!(words("quiet"), "no session was heard of, and not every machine was heard\n");
    assert_eq!(words("box"), "no live sessions; `agentctl list -a` also shows stopped ones\n");
}
