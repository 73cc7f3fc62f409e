//! What every agent that runs in Node must show, tested with the real one: finished, failed, at work beside
//! another in the same directory, without its wrapper, killed, and resumed.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(dead_code, reason = "each agent uses a part of it")]

use std::path::Path;
use std::time::Duration;

use agentctl_testkit::{
    Background, FakeModel, NodeAgent, Signal, Skip, TestHome, new_uuid, skip, until_seen,
};
use serde_json::Value;

pub(crate) const TIMEOUT: Duration = Duration::from_mins(3);

pub(crate) type Settle = fn(&mut TestHome, &str) -> Result<NodeAgent, Skip>;

/// One agent with a model and a home of its own.
pub(crate) struct Scene {
    pub(crate) adapter: &'static str,
    pub(crate) model: FakeModel,
    pub(crate) home: TestHome,
    pub(crate) agent: NodeAgent,
}

impl Scene {
    /// `None`, with a printed reason, when the agent is not available here.
    pub(crate) fn set(adapter: &'static str, settle: Settle) -> Option<Self> {
        let model = FakeModel::start();
        let mut home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
        match settle(&mut home, &model.url()) {
            Ok(agent) => Some(Self { adapter, model, home, agent }),
            Err(reason) => {
                skip(reason);
                None
            }
        }
    }

    pub(crate) fn list(&self) -> Value {
        let all = ["list", "--all", "--since", "all", "--usage", "--json", "--adapter", self.adapter];
        self.home.agentctl(&all).ok().json()
    }

    /// The row of a session, of which there is at most one.
    pub(crate) fn row(&self, id: &str) -> Option<Value> {
        let list = self.list();
        // Before its first start the agent has no root.
        let coverage = list["sources"][0]["coverage"].as_str();
        assert!(matches!(coverage, Some("complete" | "not-installed")), "{list:#}");
        let mut rows = list["sessions"].as_array().unwrap().iter().filter(|row| row["id"] == id);
        let row = rows.next().cloned();
        assert!(rows.next().is_none(), "{id} is listed twice: {list:#}");
        row
    }

    /// The id of the only session, once it looks like this.
    pub(crate) fn wait_for_any(&self, what: &str, fits: impl Fn(&Value) -> bool) -> String {
        until_seen(TIMEOUT, what, || {
            let list = self.list();
            match list["sessions"].as_array().map(Vec::as_slice) {
                Some([row]) if fits(row) => Ok(row["id"].as_str().unwrap().to_owned()),
                _ => Err(format!("{list:#}")),
            }
        })
    }

    pub(crate) fn wait_for(&self, id: &str, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        until_seen(TIMEOUT, what, || match self.row(id) {
            Some(row) if fits(&row) => Ok(row),
            other => Err(format!("{other:#?}")),
        })
    }

    /// The row of a session whose prompt is recorded; prints the agent's output if that never happens.
    fn wait_at_work(&self, id: &str, run: &Background) -> Value {
        until_seen(TIMEOUT, "the agent at work", || match self.row(id) {
            Some(row) if row["status"] == "running" && row["prompt"].is_string() => Ok(row),
            other => Err(format!("{other:#?}\n{}\n{}", run.stdout(), run.stderr())),
        })
    }

    fn kill(&self, pid: &Value) {
        let mut kill = self.home.command("kill");
        kill.args(["-9", &pid.to_string()]);
        let _ = self.home.run(kill).ok();
    }
}

pub(crate) fn words(row: &Value) -> (&str, Option<&str>) {
    (row["status"].as_str().unwrap(), row["outcome"].as_str())
}

/// A run that used a tool, and one that the model refused.
pub(crate) fn finished_and_failed(adapter: &'static str, settle: Settle) {
    let Some(scene) = Scene::set(adapter, settle) else { return };
    let (odd, plain) = (scene.home.work_dir("odd dir. ünï/My Project.v2"), scene.home.work_dir("plain"));
    let (done, failed) = (new_uuid(), new_uuid());
    let prompt = "[[bash:echo hi]] [[text:All is well.]]";
    // One after the other: two first starts in one home compete for the agent's own locks, and one may wait
    // for minutes.
    let mut run = scene.agent.headless(&scene.home, &odd, &done, prompt);
    assert!(run.wait(TIMEOUT).success(), "{} {}", run.stdout(), run.stderr());
    let mut refused = scene.agent.headless(&scene.home, &plain, &failed, "[[err:400|scripted]]");
    assert!(!refused.wait(TIMEOUT).success(), "{}", refused.stdout());

    let row = scene.row(&done).unwrap();
    assert_eq!(words(&row), ("stopped", Some("completed")), "{row:#}");
    assert_eq!((row["prompt"].as_str(), row["lastMessage"].as_str()), (Some(prompt), Some("All is well.")));
    assert_eq!(row["cwd"].as_str().map(Path::new), Some(odd.as_path()));
    // Twice the usage of the fake model; tokens written to a cache count as input in this protocol.
    let tokens = &row["tokens"];
    assert_eq!((&tokens["in"], &tokens["out"], &tokens["cacheRead"]), (&210.into(), &20.into(), &40.into()));
    assert!(row["model"].is_string() && row["pid"].is_null(), "{row:#}");
    let peek = scene.home.agentctl(&["peek", &done, "--json"]).ok().stdout;
    let last: Value = serde_json::from_str(peek.lines().last().unwrap()).unwrap();
    assert_eq!((last["role"].as_str(), last["text"].as_str()), (Some("agent"), Some("All is well.")));
    assert!(peek.contains("echo hi"), "{peek}");

    let row = scene.row(&failed).unwrap();
    assert_eq!(words(&row), ("stopped", Some("failed")), "{row:#}");
    assert_eq!(row["prompt"], "[[err:400|scripted]]");
}

/// Two at work in one directory; one loses its wrapper, is then killed, and is resumed.
pub(crate) fn at_work_killed_and_resumed(adapter: &'static str, settle: Settle) {
    let Some(scene) = Scene::set(adapter, settle) else { return };
    let cwd = scene.home.git_repo("project");
    let (tool, stream) = (new_uuid(), new_uuid());
    let mut in_tool =
        scene.agent.headless(&scene.home, &cwd, &tool, "[[bash:tail -f /dev/null]] [[hang]] in a tool");
    // The second starts when the first is up: two first starts in one home compete for the agent's own locks.
    let first = scene.wait_at_work(&tool, &in_tool);
    let mut in_stream = scene.agent.headless(&scene.home, &cwd, &stream, "[[hang]] in a stream");
    let second = scene.wait_at_work(&stream, &in_stream);
    assert_ne!(first["pid"], second["pid"]);
    for (row, wrapper) in [(&first, in_tool.pid()), (&second, in_stream.pid())] {
        assert_ne!(row["pid"], wrapper, "the agent is the inner process: {row:#}");
        let outer = row["processes"].as_array().unwrap().iter().find(|process| process["pid"] == wrapper);
        assert_eq!(outer.unwrap()["role"], "wrapper", "{row:#}");
        assert_eq!(
            (row["cwd"].as_str().map(Path::new), row["branch"].as_str()),
            (Some(cwd.as_path()), Some("main"))
        );
    }
    let status = scene.home.agentctl(&["status", &tool, "--json"]).ok().json();
    assert_eq!((&status["status"], &status["pid"]), (&first["status"], &first["pid"]));

    in_tool.signal(Signal::KILL);
    in_tool.wait(TIMEOUT);
    let orphan = scene.row(&tool).unwrap();
    assert_eq!(words(&orphan), ("running", None), "only the wrapper is gone: {orphan:#}");
    assert_eq!(orphan["pid"], first["pid"]);
    scene.kill(&first["pid"]);
    scene.kill(&second["pid"]);
    in_stream.wait(TIMEOUT);
    for id in [&tool, &stream] {
        let row = scene.wait_for(id, "the end of a killed one", |row| row["status"] == "stopped");
        assert_eq!(words(&row), ("stopped", Some("died")), "{row:#}");
    }

    let mut again = scene.agent.resumed(&scene.home, &cwd, &stream, "[[text:Back again.]] go on");
    assert!(again.wait(TIMEOUT).success(), "{} {}", again.stdout(), again.stderr());
    scene.model.wait_turn("[[text:Back again.]]", 0);
    let row = scene.row(&stream).unwrap();
    assert_eq!(words(&row), ("stopped", Some("completed")), "{row:#}");
    assert_eq!(
        (row["prompt"].as_str(), row["lastMessage"].as_str()),
        (Some("[[hang]] in a stream"), Some("Back again."))
    );
}
