//! `prune`: expired launch records and the remains of killed launches are removed; what is still in use
//! stays.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests run processes and write files")]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentctl_fleet::keep::launches::{Exit, Failed, LaunchFolder, ProcessMark, Record};
use agentctl_fleet::keep::marks::Marks;
use agentctl_fleet::worktree::{self, Made, WorktreeError};
use agentctl_fleet::{KernelLock, Store};
use agentctl_testkit::{Background, Output, TestHome};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

/// A working tree of a repository whose programs the user has not agreed to.
fn create(repository: &Path, branch: &str, base: Option<&str>) -> Result<Made, WorktreeError> {
    worktree::create(repository, branch, base, &Marks::of(Store::at("/nowhere/agentctl")))
}

struct Scene {
    home: TestHome,
}

impl Scene {
    fn new() -> Self {
        Self { home: TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl")) }
    }

    fn launches(&self) -> PathBuf {
        self.home.agentctl_home().join("launches")
    }

    /// A record of a launch that no process works on any more.
    fn record(&self, id: &str, change: impl FnOnce(&mut Record)) -> LaunchFolder {
        let order = json!({
            "adapter": "claude-code", "root": self.home.path().join(".claude"), "conversation": "new",
            "cwd": self.home.path(), "freshId": "", "env": {}, "labels": {}, "files": [], "force": false,
        });
        let record = json!({
            "version": 1, "id": id, "launchedAt": ago(200), "order": order,
            "sessionId": format!("5e550000-0000-4000-8000-{id:0>12}"), "settled": true,
        });
        let mut record: Record = serde_json::from_value(record).unwrap();
        change(&mut record);
        LaunchFolder::create(&self.launches(), &record, "words").unwrap().folder
    }

    /// One whose agent ended this many hours ago.
    fn ended(&self, id: &str, hours: i64) -> LaunchFolder {
        let folder = self.record(id, |_| {});
        let exit = Exit {
            exit_code: Some(0),
            exit_signal: None,
            exited_at: Some(ago(hours)),
            timed_out: false,
            asked: false,
            ended_by: None,
            found_gone_at: None,
        };
        folder.write_exit(&exit).unwrap();
        folder
    }

    fn left(&self) -> BTreeSet<String> {
        let entries = fs::read_dir(self.launches()).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    fn prune(&self, flags: &[&str]) -> Output {
        self.home.agentctl(&[&["prune"], flags].concat()).ok()
    }

    /// What a dry run and then a real one remove, by the name of the folder.
    fn pruned(&self) -> BTreeSet<String> {
        let before = self.left();
        let names = |output: &Output| -> BTreeSet<String> {
            let answer = output.json();
            let paths =
                answer["records"].as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap());
            paths.map(|path| path.rsplit('/').next().unwrap().to_owned()).collect()
        };
        let planned = names(&self.prune(&["--dry-run", "--json"]));
        assert_eq!(self.left(), before, "a dry run touches nothing");
        let gone = names(&self.prune(&["--json"]));
        assert_eq!(gone, planned);
        assert_eq!(self.left(), &before - &gone);
        gone
    }
}

fn ago(hours: i64) -> Timestamp {
    Timestamp::now() - SignedDuration::from_hours(hours)
}

fn names<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

#[test]
fn records_go_when_their_time_is_over_and_the_settings_say_when_that_is() {
    let scene = Scene::new();
    assert!(scene.prune(&[]).stdout.contains("nothing to prune"));
    assert!(!scene.home.agentctl_home().exists(), "looking writes nothing");
    scene.ended("1", 8 * 24);
    scene.ended("2", 2);
    scene.ended("3", 0);
    assert_eq!(scene.pruned(), names(["1"]));
    fs::write(scene.home.agentctl_home().join("config.toml"), "[retention]\nlaunches = \"1h\"\n").unwrap();
    let told = scene.prune(&["--dry-run"]).stdout;
    assert!(told.contains("1 launch record would be removed") && told.contains("ended long ago"), "{told}");
    assert_eq!(scene.pruned(), names(["2"]));
    assert_eq!(scene.left(), names(["3"]));
}

#[test]
fn what_somebody_holds_is_never_touched() {
    let scene = Scene::new();
    // A runner holds its folder, whatever is written in it.
    let held = scene.ended("1", 1000).hold().unwrap();
    // The agent of a dead runner is alive.
    let mut sleep = scene.home.command("sleep");
    sleep.arg("600");
    let mut agent = Background::spawn(&scene.home, sleep);
    let mark = ProcessMark::of(agentctl_process::identity(agent.pid()).unwrap());
    scene.record("2", |record| record.process = Some(mark.clone()));
    scene.record("3", |record| {
        record.process = Some(mark);
        record.session_id = None;
        record.settled = false;
    });
    // The caller has not learned yet that it failed.
    let failed = scene.record("4", |_| {});
    failed.write_failed(&Failed { refused: false, message: "no".into(), hint: None }).unwrap();
    let asker = KernelLock::on_existing(&failed.path().join("prompt"), Duration::ZERO).unwrap();
    // A new one is being written.
    fs::create_dir(scene.launches().join(".5.new")).unwrap();
    let writer = LaunchFolder::at(scene.launches().join(".5.new")).hold().unwrap();
    assert!(held.is_some() && asker.is_some() && writer.is_some());
    assert_eq!(scene.pruned(), names([]));
    assert!(agent.try_wait().is_none(), "the agent lives on");

    drop((held, asker, writer));
    agent.signal(agentctl_testkit::Signal::KILL);
    agent.wait(Duration::from_mins(1));
    // The second one ended unseen: its retention begins now.
    assert_eq!(scene.pruned(), names(["1", "3", "4", ".5.new"]));
    assert!(LaunchFolder::at(scene.launches().join("2")).exit().unwrap().found_gone_at.is_some());
}

#[test]
fn what_a_killed_launch_made_is_undone_unless_somebody_worked_there() {
    let scene = Scene::new();
    let repo = scene.home.git_repo("repo").canonicalize().unwrap();
    let clean = create(&repo, "try/clean", None).unwrap();
    let dirty = create(&repo, "try/dirty", None).unwrap();
    fs::write(dirty.path.join("work"), "of hours").unwrap();
    let kept = create(&repo, "try/kept", None).unwrap();
    // Its id was given to the agent, but the agent never stored a session.
    scene.record("1", |record| {
        record.settled = false;
        record.made = Some(clean.clone());
    });
    scene.record("2", |record| {
        record.session_id = None;
        record.settled = false;
        record.made = Some(dirty.clone());
    });
    // What such a launch started is found by its mark.
    let mut sleep = scene.home.command("sleep");
    sleep.arg("600").env("AGENTCTL_LAUNCH_ID", "2");
    let mut forgotten = Background::spawn(&scene.home, sleep);
    // An old record goes, its working tree stays.
    let old = scene.record("3", |record| record.made = Some(kept.clone()));
    let exit = json!({"exitCode": 0, "exitSignal": null, "exitedAt": ago(1000), "timedOut": false, "foundGoneAt": null});
    old.write_exit(&serde_json::from_value(exit).unwrap()).unwrap();

    assert_eq!(scene.pruned(), names(["1", "2", "3"]));
    assert_eq!((clean.path.exists(), dirty.path.exists(), kept.path.exists()), (false, true, true));
    let mut branches = scene.home.command("git");
    branches.args(["branch", "--format=%(refname:short)"]).current_dir(&repo);
    assert_eq!(scene.home.run(branches).ok().stdout, "main\ntry/dirty\ntry/kept\n");
    let ended = forgotten.wait(Duration::from_mins(1));
    assert!(!ended.success(), "{ended}");
}

#[test]
fn a_source_that_cannot_be_heard_is_no_proof_that_there_is_no_session() {
    let scene = Scene::new();
    scene.record("1", |record| record.settled = false);
    File::create(scene.home.path().join(".claude")).unwrap();
    assert_eq!(scene.pruned(), names([]));
    fs::remove_file(scene.home.path().join(".claude")).unwrap();
}

#[test]
fn a_launch_takes_old_records_away_by_itself() {
    let scene = Scene::new();
    for number in 1..=25 {
        scene.ended(&number.to_string(), 1000 - number);
    }
    scene.ended("30", 2);
    scene.record("31", |record| {
        record.session_id = None;
        record.settled = false;
    });
    let mut launch = scene.home.agentctl_command(&["launch", "claude-code", "-p", "x"]);
    launch.env("PATH", "/nowhere");
    let failed = scene.home.run(launch);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(!failed.stderr.contains("prune"), "it is silent: {failed:?}");
    // The oldest twenty are removed; leftovers are removed only by the command.
    let left = scene.left();
    assert_eq!(left.len(), 25 - 20 + 2, "{left:?}");
    assert!(left.contains("30") && left.contains("31"), "{left:?}");
}
