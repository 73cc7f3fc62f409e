//! Real agents and real pid namespaces, both ways: the host surveys an agent in a child namespace, and a
//! child namespace surveys an agent of the host. A live agent is never called stopped.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "a test starts what it looks at")]

use std::process::Command;
use std::time::Duration;

use agentctl_testkit::{
    Background, Claude, Codex, FakeModel, NodeAgent, OpenCode, Pi, Signal, Skip, TestHome, new_uuid, skip,
    until_seen,
};
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_mins(3);
const APART: [&str; 3] = ["-pf", "--mount-proc", "--kill-child"];

struct Case {
    adapter: &'static str,
    settle: fn(&mut TestHome, &str) -> Result<(), Skip>,
    /// The command line of a run that ends with its turn.
    run: fn(&str, &str) -> Vec<String>,
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

const CLAUDE: Case = Case {
    adapter: "claude-code",
    settle: |home, url| Claude::settle(home, url).map(drop),
    run: |id, prompt| {
        let mode = "bypassPermissions";
        words(&["claude", "-p", prompt, "--session-id", id, "--permission-mode", mode])
    },
};
const CODEX: Case = Case {
    adapter: "codex",
    settle: |home, url| Codex::settle(home, url).map(drop),
    run: |_, prompt| {
        words(&["codex", "exec", "--json", "--dangerously-bypass-approvals-and-sandbox", prompt])
    },
};
const OLD_CODEX: Case =
    Case { settle: |home, url| Codex::settle_without_locks(home, url).map(drop), ..CODEX };
const COPILOT: Case = Case {
    adapter: "copilot",
    settle: |home, url| NodeAgent::copilot(home, url).map(drop),
    run: |id, prompt| {
        let all = ["--output-format", "json", "--allow-all-tools", "--allow-all-paths"];
        words(&[&["copilot", "-p", prompt, "--session-id", id][..], &all].concat())
    },
};
const QWEN: Case = Case {
    adapter: "qwen",
    settle: |home, url| NodeAgent::qwen(home, url).map(drop),
    run: |id, prompt| words(&["qwen", prompt, "-o", "stream-json", "--yolo", "--session-id", id]),
};
const GEMINI: Case = Case {
    adapter: "gemini",
    settle: |home, url| NodeAgent::gemini(home, url).map(drop),
    run: |id, prompt| {
        words(&["gemini", "-p", prompt, "-o", "stream-json", "--approval-mode", "yolo", "--session-id", id])
    },
};
const KIMI: Case = Case {
    adapter: "kimi",
    settle: |home, url| NodeAgent::kimi(home, url).map(drop),
    run: |_, prompt| words(&["kimi", "-p", prompt, "--output-format", "stream-json"]),
};
const PI: Case = Case {
    adapter: "pi",
    settle: |home, url| Pi::settle(home, url).map(drop),
    run: |id, prompt| {
        let model = agentctl_testkit::agents::pi::MODEL;
        words(&["pi", "--model", model, "--session-id", id, "-p", "--mode", "json", prompt])
    },
};
const OPENCODE: Case = Case {
    adapter: "opencode",
    settle: |home, url| OpenCode::settle(home, url, &json!("allow")).map(drop),
    run: |_, prompt| words(&["opencode", "run", "--format", "json", "--title", "a test", prompt]),
};

/// Whether this machine permits pid namespaces; prints why not.
fn namespaces() -> bool {
    let tried = Command::new("unshare").args(APART).arg("true").output();
    let works = tried.as_ref().is_ok_and(|tried| tried.status.success());
    if !works {
        skip(format!("no pid namespace can be made here: {tried:?}"));
    }
    works
}

struct Scene {
    home: TestHome,
    case: Case,
    // Dropped after the processes that talk to it.
    _model: FakeModel,
}

impl Scene {
    fn set(case: Case) -> Option<Self> {
        if !namespaces() {
            return None;
        }
        let model = FakeModel::start();
        let mut home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
        match (case.settle)(&mut home, &model.url()) {
            Ok(()) => Some(Self { home, case, _model: model }),
            Err(reason) => {
                skip(reason);
                None
            }
        }
    }

    /// A run that hangs in its turn, here or in a namespace. There it is not the first process.
    fn start(&self, apart: bool) -> Background {
        let line = (self.case.run)(&new_uuid(), "[[hang]] a turn that stays open");
        let cwd = self.home.git_repo("project");
        let mut command = if apart {
            let mut command = self.home.command("unshare");
            command.args(APART).args(["sh", "-c", r#""$@" & wait"#, "sh"]).args(&line);
            command
        } else {
            let mut command = self.home.command(&line[0]);
            command.args(&line[1..]);
            command
        };
        command.current_dir(&cwd).env("PWD", &cwd);
        Background::spawn(&self.home, command)
    }

    fn list(&self, apart: bool, live: bool) -> Vec<Value> {
        let way: &[&str] = if apart { &["unshare", APART[0], APART[1], APART[2]] } else { &[] };
        self.list_by(way, live)
    }

    /// The list of an agentctl that is started through another program.
    fn list_by(&self, way: &[&str], live: bool) -> Vec<Value> {
        let all: &[&str] = if live { &[] } else { &["--all", "--since", "all"] };
        let arguments = [&["list", "--json", "--adapter", self.case.adapter][..], all].concat();
        let plain = self.home.agentctl_command(&arguments);
        let command = match way {
            [] => plain,
            [program, rest @ ..] => {
                let mut command = self.home.command(program);
                command.args(rest).arg(plain.get_program()).args(plain.get_args());
                command.env("AGENTCTL_NO_DAEMON", "1");
                command
            }
        };
        let answer = self.home.run(command).ok().json();
        answer["sessions"].as_array().unwrap().clone()
    }

    fn wait_running(&self, run: &Background) -> Value {
        until_seen(TIMEOUT, "the agent at work", || {
            let rows = self.list(false, false);
            match rows.as_slice() {
                // Records of the turn exist too: what only its process knows cannot be seen from elsewhere.
                [row]
                    if row["status"] == "running" && row["pid"].is_number() && row["prompt"].is_string() =>
                {
                    Ok(row.clone())
                }
                _ => Err(format!("{rows:#?}\n{}\n{}", run.stdout(), run.stderr())),
            }
        })
    }
}

/// A pid namespace that is older than the agent and has used nearly all its pids: whatever pid the agent
/// gets, and whenever it starts, it could be one of those here.
struct Elder {
    first: Background,
    way: Vec<String>,
}

impl Elder {
    fn born(home: &TestHome) -> Self {
        let script = "echo $(($(cat /proc/sys/kernel/pid_max) - 5000)) > /proc/sys/kernel/ns_last_pid && exec tail -f /dev/null";
        let mut command = home.command("unshare");
        command.args(APART).args(["sh", "-c", script]);
        let first = Background::spawn(home, command);
        let within = until_seen(TIMEOUT, "the first process of the namespace", || {
            let children = format!("/proc/{0}/task/{0}/children", first.pid());
            let child = std::fs::read_to_string(children).unwrap_or_default().trim().to_owned();
            let name = std::fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
            if name.trim() == "tail" { Ok(child) } else { Err(format!("{child} {name} {}", first.stderr())) }
        });
        Self { first, way: words(&["nsenter", "-t", &within, "-p", "-m"]) }
    }

    fn list(&self, scene: &Scene, live: bool) -> Vec<Value> {
        let way: Vec<&str> = self.way.iter().map(String::as_str).collect();
        scene.list_by(&way, live)
    }
}

/// The host's live agent, which is younger than the namespace, seen from within it.
fn the_hosts_younger(case: Case) {
    let Some(scene) = Scene::set(case) else { return };
    let mut elder = Elder::born(&scene.home);
    let run = scene.start(false);
    let row = scene.wait_running(&run);
    for live in [false, true] {
        let inside = elder.list(&scene, live);
        let there = inside.iter().find(|there| there["id"] == row["id"]);
        let there = there.unwrap_or_else(|| panic!("not listed (live: {live}): {inside:#?}"));
        assert_eq!(there["status"], "unknown", "from within: {there:#}");
        let why = there["statusDetail"].as_str().unwrap();
        assert!(why.contains("pid namespace"), "{why}");
    }
    assert_eq!(scene.list(false, true)[0]["status"], "running", "seen from the host as before");
    elder.first.signal(Signal::KILL);
}

/// The host's live agent, seen from within.
fn the_hosts(case: Case) {
    let Some(scene) = Scene::set(case) else { return };
    let mut run = scene.start(false);
    let row = scene.wait_running(&run);
    let (id, name) = (&row["id"], scene.case.adapter);
    for live in [false, true] {
        let inside = scene.list(true, live);
        let there = inside.iter().find(|row| row["id"] == *id);
        let there = there.unwrap_or_else(|| panic!("{name}: not listed (live: {live}): {inside:#?}"));
        assert_eq!(there["status"], "unknown", "{name}, from within: {there:#}");
        let why = there["statusDetail"].as_str().unwrap();
        assert!(why.contains("pid namespace"), "{why}");
    }
    // What is visible is judged as before, including its end.
    scene.home.signal(u32::try_from(row["pid"].as_u64().unwrap()).unwrap(), Signal::KILL);
    run.signal(Signal::KILL);
    run.wait(TIMEOUT);
    let rows = until_seen(TIMEOUT, "its end", || {
        let rows = scene.list(false, false);
        if rows[0]["status"] == "stopped" { Ok(rows) } else { Err(format!("{rows:#?}")) }
    });
    assert_eq!(rows[0]["outcome"], "died", "{rows:#?}");
}

/// A live agent in a child namespace, seen from the host.
fn the_containers(case: Case) {
    let Some(scene) = Scene::set(case) else { return };
    let run = scene.start(true);
    let row = scene.wait_running(&run);
    let pid = row["pid"].as_u64().unwrap();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let pids = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap();
    assert!(pids.split_whitespace().count() > 1, "it lives apart: {pids}");
    let live = scene.list(false, true);
    assert_eq!(live.iter().map(|row| &row["id"]).collect::<Vec<_>>(), [&row["id"]], "{live:#?}");
    let stopped = scene.home.agentctl(&["stop", row["id"].as_str().unwrap(), "--force", "--json"]);
    assert_eq!(stopped.code, Some(0), "{stopped:#?}");
}

/// The verdict on an agent that was killed in the namespace of the survey.
fn our_own(case: Case, status: &str, outcome: Option<&str>) {
    let Some(scene) = Scene::set(case) else { return };
    let line = (scene.case.run)(&new_uuid(), "[[hang]] a turn that stays open");
    let cwd = scene.home.git_repo("project");
    let ask = "agentctl() { \"$ASK\" list --json --all --since all --adapter \"$NAME\"; }\n";
    let script = format!(
        "{ask}\"$@\" & tries=0\n\
         until agentctl | tr -d ' \\n' | grep -q '\"status\":\"running\".*\"prompt\":\".*hang'; do\n\
           tries=$((tries+1)); [ $tries -gt 600 ] && exit 9; sleep 0.1\n\
         done\n\
         kill -9 $!; wait $!; for p in /proc/[0-9]*; do p=${{p#/proc/}}; [ $p -gt 1 ] && kill -9 $p; done 2>/dev/null\n\
         tries=0; agentctl > \"$OUT\"\n\
         until grep -q \"$STATUS\" \"$OUT\"; do\n\
           tries=$((tries+1)); [ $tries -gt 100 ] && exit 9; sleep 0.1; agentctl > \"$OUT\"\n\
         done"
    );
    let out = scene.home.work_dir("out").join("list.json");
    let mut command = scene.home.command("unshare");
    command.args(APART).args(["bash", "-c", &script, "bash"]).args(&line).current_dir(&cwd).env("PWD", &cwd);
    command.env("ASK", env!("CARGO_BIN_EXE_agentctl")).env("NAME", scene.case.adapter).env("OUT", &out);
    command.env("AGENTCTL_NO_DAEMON", "1").env("STATUS", format!("\"{status}\""));
    let _ = scene.home.run(command);
    let list: Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    let row = &list["sessions"][0];
    assert_eq!((row["status"].as_str(), row["outcome"].as_str()), (Some(status), outcome), "{list:#}");
}

macro_rules! both_ways {
    ($($name:ident: $case:expr;)*) => {
        mod seen_from_within { $(#[test] fn $name() { super::the_hosts($case); })* use super::*; }
        mod begun_outside_later { $(#[test] fn $name() { super::the_hosts_younger($case); })* use super::*; }
        mod seen_from_the_host { $(#[test] fn $name() { super::the_containers($case); })* use super::*; }
    };
}

both_ways! {
    claude_code: CLAUDE;
    codex: CODEX;
    codex_without_locks: OLD_CODEX;
    copilot: COPILOT;
    qwen: QWEN;
    gemini: GEMINI;
    kimi: KIMI;
    pi: PI;
    opencode: OPENCODE;
}

#[test]
fn what_died_in_our_own_namespace_is_dead() {
    for case in [CLAUDE, CODEX, OLD_CODEX, COPILOT, OPENCODE] {
        our_own(case, "stopped", Some("died"));
    }
}

/// From here it cannot be distinguished from one that works outside.
#[test]
fn what_left_nothing_when_it_died_in_our_own_namespace_is_in_doubt() {
    for case in [PI, GEMINI, KIMI, QWEN] {
        our_own(case, "unknown", None);
    }
}

/// A resumed agent is tied by its note alone.
#[test]
fn a_claude_that_was_taken_up_again_is_seen_both_ways() {
    let resumed = |apart: bool| {
        let scene = Scene::set(CLAUDE)?;
        let cwd = scene.home.git_repo("project");
        let id = new_uuid();
        let line = (scene.case.run)(&id, "[[text:done]]");
        let mut first = scene.home.command(&line[0]);
        first.args(&line[1..]).current_dir(&cwd);
        let _ = scene.home.run(first).ok();
        let again = words(&["claude", "-p", "[[hang]] again", "--continue"]);
        let mut command = scene.home.command(if apart { "unshare" } else { "claude" });
        if apart {
            command.args(APART).args(["sh", "-c", r#""$@" & wait"#, "sh"]).args(&again);
        } else {
            command.args(&again[1..]);
        }
        let run = Background::spawn(&scene.home, {
            command.current_dir(&cwd);
            command
        });
        let row = scene.wait_running(&run);
        assert_eq!(row["id"].as_str(), Some(id.as_str()), "{row:#}");
        Some((scene, run))
    };
    drop(resumed(true));
    if let Some((scene, _run)) = resumed(false) {
        let inside = scene.list(true, false);
        assert_eq!(inside[0]["status"], "unknown", "{inside:#?}");
    }
}

/// Where nothing ties a session to its process, the exit that our own runner saw still does.
#[test]
fn an_exit_that_our_runner_saw_counts_in_every_namespace() {
    let Some(scene) = Scene::set(PI) else { return };
    let mut elder = Elder::born(&scene.home);
    let cwd = scene.home.git_repo("project");
    let model = agentctl_testkit::agents::pi::MODEL;
    let launch = ["launch", "pi", "-p", "[[hang]] a turn that stays open", "--model", model, "--json"];
    let mut launch = scene.home.agentctl_command(&launch);
    launch.current_dir(&cwd);
    let _ = scene.home.run(launch).ok();
    let row = until_seen(TIMEOUT, "the agent at work", || {
        let rows = scene.list(false, false);
        match rows.as_slice() {
            [row] if row["status"] == "running" && row["pid"].is_number() => Ok(row.clone()),
            _ => Err(format!("{rows:#?}")),
        }
    });
    let inside = elder.list(&scene, false);
    assert_eq!(inside[0]["status"], "unknown", "its runner lives, and it may too: {inside:#?}");
    scene.home.signal(u32::try_from(row["pid"].as_u64().unwrap()).unwrap(), Signal::KILL);
    let inside = until_seen(TIMEOUT, "its end", || {
        let inside = elder.list(&scene, false);
        if inside[0]["status"] == "stopped" { Ok(inside) } else { Err(format!("{inside:#?}")) }
    });
    assert_eq!(inside[0]["outcome"], "died", "{inside:#?}");
    elder.first.signal(Signal::KILL);
}
