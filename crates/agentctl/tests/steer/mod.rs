//! What can be done with every agent, tested with the real one: launched, read, stopped in the middle of a
//! tool, resumed; and launches that fail, after which nothing is left.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(dead_code, reason = "each agent uses a part of it")]

pub(crate) mod served;
pub(crate) mod until_its_end;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentctl_testkit::{Background, FakeModel, Output, Skip, TestHome, skip, until, until_seen};
use serde_json::Value;

pub(crate) const TIMEOUT: Duration = Duration::from_mins(3);

/// What a tool of the agent runs until it is ended. The unusual path makes it easy to find among all processes.
pub(crate) const ENDLESS: &str = "tail -f /dev/null";

/// One agent with a model, a home and a repository of its own.
pub(crate) struct Scene {
    pub(crate) adapter: &'static str,
    pub(crate) model: FakeModel,
    pub(crate) home: TestHome,
    pub(crate) cwd: PathBuf,
    /// The model to name, where the agent needs one.
    pub(crate) model_name: Option<&'static str>,
}

impl Scene {
    /// `None`, with a printed reason, when the agent is not available here.
    pub(crate) fn set(
        adapter: &'static str,
        settle: impl FnOnce(&mut TestHome, &str) -> Result<(), Skip>,
    ) -> Option<Self> {
        Self::with_model(FakeModel::start(), adapter, settle)
    }

    /// The same with a model of the test's own.
    pub(crate) fn with_model(
        model: FakeModel,
        adapter: &'static str,
        settle: impl FnOnce(&mut TestHome, &str) -> Result<(), Skip>,
    ) -> Option<Self> {
        let mut home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
        if let Err(reason) = settle(&mut home, &model.url()) {
            skip(reason);
            return None;
        }
        let cwd = home.git_repo("project");
        Some(Self { adapter, model, home, cwd, model_name: None })
    }

    pub(crate) fn agentctl(&self, arguments: &[&str]) -> Output {
        let mut command = self.home.agentctl_command(arguments);
        command.current_dir(&self.cwd);
        self.home.run(command)
    }

    /// `launch` of this agent, with everything allowed.
    pub(crate) fn launch(&self, prompt: &str, more: &[&str]) -> Output {
        let mut arguments =
            vec!["launch", self.adapter, "-p", prompt, "--permission-mode", "bypass", "--json"];
        arguments.extend(self.model_name.into_iter().flat_map(|model| ["--model", model]));
        arguments.extend(more);
        self.agentctl(&arguments)
    }

    pub(crate) fn status(&self, id: &str) -> Value {
        self.agentctl(&["status", id, "--json"]).ok().json()
    }

    /// The processes of this home beside this test's own commands.
    pub(crate) fn processes(&self) -> Vec<(u32, String)> {
        self.home.processes()
    }

    pub(crate) fn launches(&self) -> Vec<PathBuf> {
        folders(&self.home.agentctl_home().join("launches"))
    }

    /// Checks that nothing runs, nothing is locked, and no record is left.
    pub(crate) fn assert_nothing_left(&self) {
        self.wait_for_silence();
        assert_eq!(self.launches(), Vec::<PathBuf>::new(), "a launch record was left behind");
        let locks = self.agentctl(&["locks", "--json"]).ok().json();
        let held = locks.as_array().or_else(|| locks["locks"].as_array()).unwrap();
        assert!(held.is_empty(), "{locks:#}");
    }

    /// Waits until every process of this home has ended. The runner may take a moment to record an exit.
    pub(crate) fn wait_for_silence(&self) {
        until_seen(TIMEOUT, "the end of all processes", || match self.processes() {
            left if left.is_empty() => Ok(()),
            left => Err(format!("{left:#?}")),
        });
    }

    /// The tool that the agent was told to run.
    pub(crate) fn wait_for_tool(&self) {
        until_seen(TIMEOUT, "the tool at work", || {
            let processes = self.processes();
            let found = processes
                .iter()
                .any(|(_, line)| line.trim_end() == ENDLESS || line.ends_with(&format!("{ENDLESS} ")));
            if found { Ok(()) } else { Err(format!("{processes:#?}")) }
        });
    }
}

pub(crate) fn folders(path: &Path) -> Vec<PathBuf> {
    fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Whether the id is in a file's name or in a file's text somewhere below.
pub(crate) fn is_stored_below(root: &Path, id: &str) -> bool {
    folders(root).iter().any(|path| {
        let named = path.file_name().is_some_and(|name| name.to_string_lossy().contains(id));
        // The agent is at work, and may have removed a file since the folder was listed.
        let Ok(found) = path.symlink_metadata() else { return named };
        named
            || (found.is_dir() && is_stored_below(path, id))
            || (found.is_file() && memory_holds(&fs::read(path).unwrap_or_default(), id.as_bytes()))
    })
}

fn memory_holds(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

/// From launch to the end of a second turn. `store` is where the agent keeps its sessions, below the home.
pub(crate) fn launched_stopped_and_resumed(scene: &Scene, store: &str) {
    let prompt = format!("[[bash:{ENDLESS}]] [[hang]] at work");
    let launched = scene.launch(&prompt, &[]).ok().json();
    let id = launched["id"].as_str().unwrap().to_owned();
    assert_eq!(
        (&launched["adapter"], &launched["status"]),
        (&scene.adapter.into(), &"running".into()),
        "{launched:#}"
    );
    assert!(is_stored_below(&scene.home.path().join(store), &id), "{id} is not the agent's own");
    assert!(
        launched["launch"]["id"].is_string() && launched["launch"]["prompt"] == prompt.as_str(),
        "{launched:#}"
    );
    let list = scene.agentctl(&["list", "--json"]).ok().json();
    assert_eq!(list["sessions"].as_array().unwrap().len(), 1, "{list:#}");
    assert_eq!(list["sessions"][0]["id"], id.as_str());

    // A second one in the same tree is refused, and the holder is named.
    let refused = scene.launch("[[text:no]] second", &[]);
    assert_eq!(refused.code, Some(7), "{refused:#?}");
    assert!(refused.stderr.contains(&id), "{refused:#?}");
    assert_eq!(scene.launches().len(), 1, "the refused one left a record");

    scene.wait_for_tool();
    let peek = scene.agentctl(&["peek", &id]).ok().stdout;
    assert!(peek.contains("at work"), "{peek}");
    let live = scene.agentctl(&["resume", &id, "more"]);
    assert_eq!(live.code, Some(7), "{live:#?}");
    assert!(live.stderr.contains("live"), "{live:#?}");

    let stopped = scene.agentctl(&["stop", &id, "--json"]).ok().json();
    assert_eq!(stopped["sessions"][0]["survived"], Value::Array(Vec::new()), "{stopped:#}");
    scene.wait_for_silence();
    let after = scene.status(&id);
    assert_eq!(after["status"], "stopped", "{after:#}");
    assert_eq!(after["outcome"], "interrupted", "somebody ended it: {after:#}");
    assert!(after["stoppedAt"].is_string(), "{after:#}");
    assert!(scene.agentctl(&["peek", &id]).ok().stdout.contains("at work"));
    let again = scene.agentctl(&["stop", &id]);
    assert_eq!(again.code, Some(0), "stopping a stopped one is success: {again:#?}");

    let resumed = scene
        .agentctl(&["resume", &id, "[[hang:second]] go on", "--permission-mode", "bypass", "--json"])
        .ok()
        .json();
    assert_eq!((&resumed["id"], &resumed["status"]), (&id.as_str().into(), &"running".into()), "{resumed:#}");
    assert_ne!(resumed["launch"]["id"], launched["launch"]["id"]);
    let mut waiting = Background::spawn(&scene.home, scene.home.agentctl_command(&["wait", &id]));
    assert_eq!(scene.status(&id)["status"], "running");
    assert!(waiting.try_wait().is_none(), "it waited for the turn before: {}", waiting.stdout());
    scene.model.open("second");
    let waited = waiting.wait(TIMEOUT);
    assert!(waited.success(), "{} {}", waiting.stdout(), waiting.stderr());
    let done = scene.status(&id);
    assert_eq!(done["outcome"], "completed", "{done:#}");
    // Some agents put line breaks around the text.
    assert_eq!(done["prompt"].as_str().map(str::trim), Some(prompt.as_str()), "{done:#}");
    scene.wait_for_silence();
    let exit = until(TIMEOUT, "the exit in the record", || {
        let now = scene.status(&id);
        now["launch"]["exitedAt"].is_string().then_some(now)
    });
    assert_eq!(exit["launch"]["exitCode"], 0, "{exit:#}");
}

/// A model that refuses the key.
pub(crate) fn refused_by_the_model(scene: &Scene, words: &str) {
    let prompt = "[[err:401|the key is wrong]] [[err:401|the key is wrong]] [[err:401|the key is wrong]]";
    fails_in_its_words(scene, prompt, &[], words);
}

/// A turn that fails soon. An agent that gives up before its records show the turn has no session: the launch
/// fails in its words, names what the agent keeps of it, and leaves nothing. One whose turn was shown first
/// has a session whose turn failed, which `wait` reports. `launch --wait` reports it in the agent's words
/// either way.
pub(crate) fn fails_in_its_words(scene: &Scene, prompt: &str, more: &[&str], words: &str) {
    let launched = scene.launch(prompt, more);
    if launched.stdout.is_empty() {
        assert_eq!(launched.code, Some(1), "{launched:#?}");
        assert!(launched.stderr.contains(words), "{launched:#?}");
        scene.assert_nothing_left();
        // A turn in the agent's own records is never denied.
        let list = scene.agentctl(&["list", "--all", "--json"]).ok().json();
        for row in list["sessions"].as_array().unwrap().iter().filter(|row| !row["prompt"].is_null()) {
            // An agent that prints its id only when it is done has none to name.
            let is_nameless = launched.stderr.contains("ended before its turn was seen");
            let id = row["id"].as_str().unwrap();
            assert!(launched.stderr.contains(id) || is_nameless, "{launched:#?} {row:#}");
        }
    } else {
        let session = launched.json();
        let id = session["id"].as_str().unwrap();
        assert_eq!(scene.agentctl(&["wait", id]).code, Some(1), "{session:#}");
        scene.wait_for_silence();
        let ended = scene.status(id);
        // An agent that records nothing before it exits left its turn open.
        assert!(ended["outcome"] == "failed" || ended["outcome"] == "died", "{ended:#}");
    }
    let waited = scene.launch(prompt, &[more, &["--wait"]].concat());
    assert_eq!(waited.code, Some(1), "{waited:#?}");
    assert!(waited.stderr.contains(words), "{waited:#?}");
    scene.wait_for_silence();
}

/// An agent that is not installed.
pub(crate) fn not_installed(adapter: &'static str) {
    let home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
    let cwd = home.git_repo("project");
    let mut command = home.agentctl_command(&["launch", adapter, "-p", "hello", "--env", "X=1"]);
    // Only the system's own tools.
    command.current_dir(&cwd).env("PATH", "/usr/bin:/bin");
    let failed = home.run(command);
    assert_eq!(failed.code, Some(1), "{failed:#?}");
    assert!(failed.stderr.contains("not installed"), "{failed:#?}");
    assert_eq!(folders(&home.agentctl_home().join("launches")), Vec::<PathBuf>::new());
}

/// A copy of a conversation continues by itself; the original stays as it was.
pub(crate) fn forked(scene: &Scene) {
    let launched = scene.launch("[[text:first reply]] begin", &[]).ok().json();
    let id = launched["id"].as_str().unwrap();
    scene.wait_for_silence();
    let fork = scene.agentctl(&["resume", id, "[[text:forked reply]] go on", "--fork", "--json"]).ok().json();
    let fork_id = fork["id"].as_str().unwrap();
    assert_ne!(fork_id, id, "{fork:#}");
    scene.wait_for_silence();
    for (id, words) in [(id, "first reply"), (fork_id, "forked reply")] {
        let row = scene.status(id);
        assert_eq!(
            (&row["status"], &row["outcome"], &row["lastMessage"]),
            (&"stopped".into(), &"completed".into(), &words.into()),
            "{row:#}"
        );
    }
    let whole = scene.agentctl(&["peek", fork_id]).ok().stdout;
    assert!(whole.contains("first reply") && whole.contains("forked reply"), "{whole}");
}
