//! `launch --terminal`: a real agent on its own screen, in a real tmux.
#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests run processes and read what they left"
)]

#[path = "daemon/house.rs"]
#[allow(dead_code, reason = "another test's room, of which a part is used")]
mod house;
#[path = "real_hold/road.rs"]
#[allow(dead_code, reason = "another test's room, of which a part is used")]
mod road;
mod steer;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use agentctl_testkit::agents::claude::{self, KEY};
use agentctl_testkit::agents::pi;
use agentctl_testkit::{
    Claude, Codex, NodeAgent, OpenCode, Pi, Pty, Signal, Skip, TestHome, skip, until_seen,
};
use road::Client;
use serde_json::{Value, json};
use steer::{Scene, TIMEOUT, folders};

/// An agent at its home. `None`, with a printed reason, when it or tmux is not available here.
fn settled(
    adapter: &'static str,
    settle: impl FnOnce(&mut TestHome, &str) -> Result<(), Skip>,
) -> Option<Scene> {
    if Command::new("tmux").arg("-V").output().is_err() {
        skip("tmux is not installed");
        return None;
    }
    Scene::set(adapter, settle)
}

/// Claude Code in a directory that it trusts.
fn scene() -> Option<Scene> {
    let scene = settled("claude-code", |home, url| Claude::settle(home, url).map(drop))?;
    claude::trust(&scene.home, &scene.cwd);
    Some(scene)
}

/// The tmux servers whose socket is this one or lies below: it stands in their arguments. They carry no mark of their home.
fn tmux_servers(socket: &Path) -> Vec<PathBuf> {
    let has = |place: &PathBuf| {
        let line = fs::read(place.join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        let mut words = line.split('\0');
        words.next().is_some_and(|program| program.ends_with("tmux"))
            && words.any(|word| Path::new(word).starts_with(socket))
    };
    folders(Path::new("/proc")).into_iter().filter(has).collect()
}

/// Checks that neither a process nor a record nor a screen is left of any launch.
fn assert_nothing_left(scene: &Scene) {
    scene.assert_nothing_left();
    until_seen(TIMEOUT, "the end of tmux", || match tmux_servers(&scene.home.agentctl_home()) {
        left if left.is_empty() => Ok(()),
        left => Err(format!("{left:?}")),
    });
}

/// What every test of a screen needs: the session as it was launched, and the socket of its tmux.
struct OnScreen {
    id: String,
    socket: PathBuf,
}

impl OnScreen {
    fn launch(scene: &Scene, prompt: &str, more: &[&str]) -> Self {
        let arguments = [&["launch", scene.adapter, "-p", prompt, "--terminal", "--json"], more].concat();
        Self::of(scene, &scene.agentctl(&arguments).ok().json())
    }

    fn of(scene: &Scene, launched: &Value) -> Self {
        let id = launched["id"].as_str().unwrap().to_owned();
        let launch = launched["launch"]["id"].as_str().unwrap();
        let socket = scene.home.agentctl_home().join("launches").join(launch).join("tmux.sock");
        assert!(socket.exists(), "{launched:#}");
        Self { id, socket }
    }

    /// The tmux servers of this launch.
    fn servers(&self) -> Vec<PathBuf> {
        tmux_servers(&self.socket)
    }

    fn attach(&self, scene: &Scene) -> Pty {
        Pty::spawn(&scene.home.agentctl_command(&["attach", &self.id]))
    }

    fn wait_for(&self, scene: &Scene, status: &str, last: Option<&str>) -> Value {
        until_seen(TIMEOUT, &format!("{status}, {last:?}"), || {
            let now = scene.status(&self.id);
            let is_so = now["status"] == status && (last.is_none() || now["lastMessage"].as_str() == last);
            if is_so { Ok(now) } else { Err(format!("{now:#}")) }
        })
    }

    fn wait_for_end_of_tmux(&self) {
        until_seen(TIMEOUT, "the end of tmux", || match self.servers() {
            left if left.is_empty() => Ok(()),
            left => Err(format!("{left:?}")),
        });
    }

    /// Stops it, after which nothing of it runs any more.
    fn stop(&self, scene: &Scene) -> Value {
        let stopped = scene.agentctl(&["stop", &self.id, "--json"]).ok().json();
        assert_eq!(stopped["sessions"][0]["survived"], Value::Array(Vec::new()), "{stopped:#}");
        scene.wait_for_silence();
        self.wait_for_end_of_tmux();
        let after = scene.status(&self.id);
        assert_eq!((&after["status"], &after["pid"]), (&"stopped".into(), &Value::Null), "{after:#}");
        after
    }
}

/// A session like any that a person started: it runs, it is idle, it is opened and typed into, and it is stopped.
#[test]
fn it_is_listed_opened_typed_into_and_stopped() {
    let Some(scene) = scene() else { return };
    let screen = OnScreen::launch(&scene, "[[hang:first]] on its screen", &["--env", "TOKEN=hidden"]);
    let list = scene.agentctl(&["list", "--json"]).ok().json();
    assert_eq!(list["sessions"].as_array().unwrap().len(), 1, "{list:#}");
    let row = &list["sessions"][0];
    assert_eq!((&row["id"], &row["status"]), (&screen.id.as_str().into(), &"running".into()), "{row:#}");

    // What lives as long as the session shows neither the prompt nor any variable of the caller.
    let [server] = &screen.servers()[..] else { panic!("{:?}", screen.servers()) };
    for file in ["cmdline", "environ"] {
        let shown = String::from_utf8_lossy(&fs::read(server.join(file)).unwrap()).into_owned();
        for secret in ["on its screen", "hidden", KEY, "AGENTCTL_LAUNCH_ID"] {
            assert!(!shown.contains(secret), "tmux shows {secret} in its {file}");
        }
    }
    let pid = row["pid"].as_u64().unwrap();
    let environ = fs::read(format!("/proc/{pid}/environ")).unwrap();
    let environ = String::from_utf8_lossy(&environ).into_owned();
    let launch = screen.socket.parent().unwrap();
    for wanted in [
        "TOKEN=hidden".to_owned(),
        format!("ANTHROPIC_API_KEY={KEY}"),
        format!("TMUX={}", screen.socket.display()),
        format!("AGENTCTL_LAUNCH_ID={}", launch.file_name().unwrap().to_str().unwrap()),
    ] {
        assert!(environ.split('\0').any(|variable| variable.starts_with(&wanted)), "no {wanted}: {environ}");
    }
    for file in folders(launch).iter().filter(|file| file.is_file()) {
        assert!(!fs::read_to_string(file).unwrap().contains(KEY), "{} keeps a secret", file.display());
    }

    let mut terminal = screen.attach(&scene);
    terminal.wait_for("on its screen");
    scene.model.open("first");
    terminal.wait_for("● released");
    screen.wait_for(&scene, "idle", Some("released"));
    let words = "second [[text:two]]";
    terminal.send(words);
    terminal.wait_for(words);
    terminal.send("\r");
    terminal.wait_for("● two");
    let idle = screen.wait_for(&scene, "idle", Some("two"));
    assert_eq!(idle["pid"].as_u64(), Some(pid), "the same process: {idle:#}");

    // It goes on when nobody looks at it.
    drop(terminal);
    screen.wait_for(&scene, "idle", Some("two"));
    let after = screen.stop(&scene);
    assert_eq!(after["outcome"], "completed", "{after:#}");
    let exit = &after["launch"];
    assert!(exit["exitedAt"].is_string() && exit["exitCode"].is_null(), "seen, but not how: {after:#}");
}

/// The runner only watches: without it the session is the same, and so is its end.
#[test]
fn a_killed_runner_changes_nothing_for_the_session() {
    let Some(scene) = scene() else { return };
    let screen = OnScreen::launch(&scene, "[[text:one]] begin", &["--wait"]);
    let is_runner = |(pid, line): &(u32, String)| line.contains(" __run ").then_some(*pid);
    let runner = scene.processes().iter().find_map(is_runner).unwrap();
    scene.home.signal(runner, Signal::KILL);
    until_seen(TIMEOUT, "the end of the runner", || {
        let left = scene.processes();
        if left.iter().any(|(pid, _)| *pid == runner) { Err(format!("{left:?}")) } else { Ok(()) }
    });
    let now = screen.wait_for(&scene, "idle", Some("one"));
    let mut terminal = screen.attach(&scene);
    terminal.wait_for("● one");
    terminal.send("more [[hang]]");
    terminal.wait_for("more [[hang]]");
    terminal.send("\r");
    let running = screen.wait_for(&scene, "running", None);
    assert_eq!(running["pid"], now["pid"], "{running:#}");
    screen.stop(&scene);
}

/// A session that ran without a screen is opened on one, with the next message.
#[test]
fn a_stored_session_is_resumed_on_a_screen() {
    let Some(scene) = scene() else { return };
    let first = scene.launch("[[text:one]] begin", &["--wait"]).ok().json();
    scene.wait_for_silence();
    resumed_on_screen(&scene, first["id"].as_str().unwrap());
}

/// Over HTTP it is the same screen, for a new session and for a stored one.
#[test]
fn a_screen_is_opened_through_http() {
    let Some(scene) = scene() else { return };
    let _daemon = road::open(&scene);
    let api = Client::of(&scene);
    let post = |target: &str, body: &Value| api.ask("POST", target, body);
    let prompt = "[[hang:first]] on its screen";
    let both =
        json!({"adapter": "claude-code", "prompt": prompt, "cwd": scene.cwd, "terminal": true, "hold": true});
    assert_eq!(post("/v1/sessions", &both).status, 400);
    let order = json!({"adapter": "claude-code", "prompt": prompt, "cwd": scene.cwd, "terminal": true});
    let launched = post("/v1/sessions", &order);
    assert_eq!(launched.status, 200, "{launched:?}");
    let screen = OnScreen::of(&scene, &launched.json());
    screen.wait_for(&scene, "running", None);
    screen.attach(&scene).wait_for("on its screen");
    scene.model.open("first");
    screen.wait_for(&scene, "idle", Some("released"));
    let session = format!("/v1/sessions/{}", screen.id);
    let stopped = post(&format!("{session}/stop"), &Value::Null);
    assert_eq!(stopped.json()["sessions"][0]["survived"], json!([]), "{stopped:?}");
    screen.wait_for(&scene, "stopped", None);
    let again = json!({"message": "[[text:two]] go on", "terminal": true});
    let resumed = post(&format!("{session}/resume"), &again);
    assert_eq!(resumed.status, 200, "{resumed:?}");
    let again = OnScreen::of(&scene, &resumed.json());
    assert!(again.id == screen.id && again.socket != screen.socket);
    again.wait_for(&scene, "idle", Some("two"));
    again.attach(&scene).wait_for("two");
    let stopped = scene.agentctl(&["stop", &again.id, "--json"]).ok().json();
    assert_eq!(stopped["sessions"][0]["survived"], json!([]), "{stopped:#}");
    again.wait_for_end_of_tmux();
}

/// Claude Code asks whether it may trust a directory before it takes any prompt. Whoever waited is told that, and nothing
/// is left. Who gives it too little time to draw its screen is told that instead.
#[test]
fn a_question_before_the_first_turn_is_told() {
    let Some(scene) = settled("claude-code", |home, url| Claude::settle(home, url).map(drop)) else { return };
    let launch = ["launch", "claude-code", "-p", "hello", "--terminal", "--timeout"];
    let mut times = ["1s", "30s", "1m", "2m", "3m"].into_iter();
    loop {
        let time = times.next().expect("the question is on the screen within three minutes");
        let failed = scene.agentctl(&[&launch[..], &[time]].concat());
        assert_eq!((failed.code, failed.stdout.as_str()), (Some(1), ""), "{failed:#?}");
        assert!(failed.stderr.contains("its screen shows"), "{failed:#?}");
        assert_nothing_left(&scene);
        if failed.stderr.contains("its screen shows:") && failed.stderr.contains("trust") {
            break;
        }
    }
}

/// An agent that ends before its turn leaves neither a screen nor a record.
#[test]
fn an_agent_that_ends_at_once_leaves_nothing() {
    let Some(scene) = scene() else { return };
    scene.home.put_on_path("claude", Path::new("/bin/false"));
    let failed = scene.agentctl(&["launch", "claude-code", "-p", "hello", "--terminal"]);
    assert_eq!((failed.code, failed.stdout.as_str()), (Some(1), ""), "{failed:#?}");
    assert!(failed.stderr.contains("`claude` ended"), "{failed:#?}");
    assert_nothing_left(&scene);
}

#[test]
fn without_tmux_it_says_what_to_do_and_leaves_nothing() {
    let home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
    let cwd = home.git_repo("project");
    let mut command = home.agentctl_command(&["launch", "claude-code", "-p", "hello", "--terminal"]);
    command.current_dir(&cwd).env("PATH", home.work_dir("empty"));
    let failed = home.run(command);
    assert_eq!((failed.code, failed.stdout.as_str()), (Some(1), ""), "{failed:#?}");
    assert!(failed.stderr.contains("--terminal needs tmux"), "{failed:#?}");
    assert!(failed.stderr.contains("install"), "{failed:#?}");
    assert_eq!(folders(&home.agentctl_home().join("launches")), Vec::<PathBuf>::new());
}

#[test]
fn a_screen_is_not_held_and_not_every_agent_has_one() {
    let home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
    let cwd = home.git_repo("project");
    let agentctl = |arguments: &[&str]| {
        let mut command = home.agentctl_command(arguments);
        command.current_dir(&cwd);
        home.run(command)
    };
    for both in [
        &["launch", "claude-code", "-p", "x", "--terminal", "--hold"][..],
        &["resume", "5f0c", "x", "--hold", "--terminal"],
    ] {
        assert_eq!(agentctl(both).code, Some(2), "{both:?}");
    }
    let kimi = agentctl(&["launch", "kimi", "-p", "x", "--terminal"]);
    assert_eq!(kimi.code, Some(7), "{kimi:#?}");
    assert!(kimi.stderr.contains("without its screen"), "{kimi:#?}");
    let shown =
        agentctl(&["launch", "claude-code", "-p", "hello you", "--terminal", "--dry-run"]).ok().stdout;
    assert!(shown.contains(" -- 'hello you'\n") && shown.contains("stdin    the keys of"), "{shown}");
    let shown =
        agentctl(&["launch", "codex", "-p", "hello", "--terminal", "--dry-run", "--json"]).ok().json();
    assert_eq!(shown["launches"][0]["plan"]["stdin"], "terminal", "{shown:#}");
    assert_eq!(folders(&home.agentctl_home().join("launches")), Vec::<PathBuf>::new());
}

/// The same for the other agents that take a first prompt for their screen.
fn on_its_screen(scene: &Scene) {
    let prompt = "[[hang:first]] on its screen";
    let model: Vec<&str> = scene.model_name.into_iter().flat_map(|model| ["--model", model]).collect();
    let screen = OnScreen::launch(scene, prompt, &model);
    screen.wait_for(scene, "running", None);
    screen.attach(scene).wait_for("on its screen");
    scene.model.open("first");
    let idle = screen.wait_for(scene, "idle", Some("released"));
    assert_eq!(idle["prompt"].as_str().map(str::trim), Some(prompt), "{idle:#}");
    screen.stop(scene);
    // OpenCode ignores a prompt for a session that it has stored.
    if scene.adapter != "opencode" {
        resumed_on_screen(scene, &screen.id);
        return;
    }
    let refused = scene.agentctl(&["resume", &screen.id, "go on", "--terminal"]);
    assert_eq!(refused.code, Some(7), "{refused:#?}");
}

/// A stored session goes on, on a new screen.
fn resumed_on_screen(scene: &Scene, id: &str) {
    let arguments = ["resume", id, "[[text:two]] go on", "--terminal", "--json"];
    let screen = OnScreen::of(scene, &scene.agentctl(&arguments).ok().json());
    assert_eq!(screen.id, id);
    screen.wait_for(scene, "idle", Some("two"));
    screen.attach(scene).wait_for("two");
    screen.stop(scene);
}

/// Claude Code's and Pi's screens are seen in every run, the others in the long one: what their screens ask before a
/// first turn changes from day to day.
fn is_short_run() -> bool {
    let is_short = std::env::var_os("AGENTCTL_LONG").is_none();
    if is_short {
        skip("the screens of further agents are seen with --long");
    }
    is_short
}

#[test]
fn pi_on_its_screen() {
    let Some(scene) = settled("pi", |home, url| Pi::settle(home, url).map(drop)) else { return };
    on_its_screen(&Scene { model_name: Some(pi::MODEL), ..scene });
}

#[test]
fn codex_on_its_screen() {
    if is_short_run() {
        return;
    }
    let Some(scene) = settled("codex", |home, url| Codex::settle(home, url).map(drop)) else { return };
    let config = scene.home.path().join(".codex/config.toml");
    let trusted = format!("\n[projects.{:?}]\ntrust_level = \"trusted\"\n", scene.cwd);
    fs::write(&config, fs::read_to_string(&config).unwrap() + &trusted).unwrap();
    on_its_screen(&scene);
}

#[test]
fn opencode_on_its_screen() {
    if is_short_run() {
        return;
    }
    let Some(scene) = settled("opencode", |home, url| OpenCode::settle(home, url, &json!("allow")).map(drop))
    else {
        return;
    };
    on_its_screen(&scene);
}

#[test]
fn copilot_on_its_screen() {
    if is_short_run() {
        return;
    }
    let Some(scene) = settled("copilot", |home, url| NodeAgent::copilot(home, url).map(drop)) else { return };
    let trusted = json!({"trustedFolders": [scene.cwd]});
    fs::create_dir_all(scene.home.path().join(".copilot")).unwrap();
    fs::write(scene.home.path().join(".copilot/config.json"), trusted.to_string()).unwrap();
    on_its_screen(&scene);
}

#[test]
fn gemini_on_its_screen() {
    if is_short_run() {
        return;
    }
    let Some(scene) = settled("gemini", |home, url| NodeAgent::gemini(home, url).map(drop)) else { return };
    on_its_screen(&scene);
}

#[test]
fn qwen_on_its_screen() {
    if is_short_run() {
        return;
    }
    let Some(scene) = settled("qwen", |home, url| NodeAgent::qwen(home, url).map(drop)) else { return };
    on_its_screen(&scene);
}
