//! Manual locks on disk, and automatic ones computed from sessions.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;

use agentctl_model::{ProcessEntry, ProcessRole};
use agentctl_testkit::sessions;

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn noon() -> Timestamp {
    at("2026-11-15T12:00:00Z")
}

fn lock(directory: &Path, by: &str, until: Option<&str>) -> ManualLock {
    ManualLock {
        directory: directory.to_owned(),
        by: Some(by.to_owned()),
        reason: Some("deploying".to_owned()),
        since: noon(),
        until: until.map(at),
    }
}

fn session(id: &str, status: Status, pid: Option<u32>, cwd: &Path) -> Session {
    let entry = |pid| ProcessEntry {
        pid,
        started_at: Some(at("2026-11-15T11:00:00Z")),
        role: ProcessRole::Agent,
        command: "x".to_owned(),
    };
    let cwd = Some(cwd.to_string_lossy().into_owned());
    let processes = pid.map(entry).into_iter().collect();
    Session { pid, processes, cwd, ..sessions::session(id, status, None) }
}

fn survey(sessions: Vec<Session>) -> Survey {
    let sessions = sessions.into_iter().map(sessions::surveyed);
    Survey { sessions: sessions.collect(), ..Survey::default() }
}

struct Scene {
    top: PathBuf,
    locks: Locks,
    _folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        Self { locks: Locks::of(Store::at(top.join(".agentctl"))), top, _folder: folder }
    }

    /// A folder that is the top of a git working tree.
    fn tree(&self, name: &str) -> PathBuf {
        let tree = self.top.join(name);
        fs::create_dir_all(tree.join("src")).unwrap();
        fs::write(tree.join(".git"), "gitdir: elsewhere\n").unwrap();
        tree
    }

    fn holders(&self, survey: &Survey, directory: &Path) -> Vec<String> {
        let holders = self.locks.holders(survey, directory, noon()).unwrap();
        holders.into_iter().map(|holder| holder.session_id.or(holder.by).unwrap()).collect()
    }
}

#[test]
fn a_lock_holds_its_directory_and_what_is_below_until_it_is_taken_off() {
    let scene = Scene::new();
    let tree = scene.tree("repo");
    scene.locks.lock(lock(&tree, "ann", None), false).unwrap();
    let nobody = Survey::default();
    assert_eq!(scene.holders(&nobody, &tree), ["ann"]);
    assert_eq!(scene.holders(&nobody, &tree.join("src")), ["ann"]);
    symlink(&tree, scene.top.join("link")).unwrap();
    assert_eq!(scene.holders(&nobody, &scene.top.join("link/src")), ["ann"]);
    assert!(scene.holders(&nobody, &scene.top).is_empty(), "not what is above");
    assert!(scene.holders(&nobody, &scene.top.join("repository")).is_empty(), "not what only begins so");
    assert!(scene.locks.unlock(&tree.join("src"), noon()).unwrap().is_none());
    assert_eq!(scene.locks.unlock(&tree, noon()).unwrap().unwrap().by.as_deref(), Some("ann"));
    assert!(scene.holders(&nobody, &tree).is_empty());
    assert!(scene.locks.unlock(&tree, noon()).unwrap().is_none());
}

#[test]
fn a_lock_of_another_is_in_the_way_and_ones_own_is_renewed() {
    let scene = Scene::new();
    let tree = scene.tree("repo");
    let later = |by: &str, directory: &Path| ManualLock {
        since: at("2026-11-15T13:00:00Z"),
        ..lock(directory, by, Some("2026-11-15T14:00:00Z"))
    };
    scene.locks.lock(lock(&tree, "ann", None), false).unwrap();
    for directory in [tree.clone(), tree.join("src")] {
        let error = scene.locks.lock(later("bob", &directory), false).unwrap_err();
        assert!(error.to_string().ends_with("repo is locked by ann (deploying)"), "{error}");
    }
    let renewed = scene.locks.lock(later("ann", &tree), false).unwrap();
    assert_eq!((renewed.since, renewed.until), (Some(noon()), Some(at("2026-11-15T14:00:00Z"))));
    let taken = scene.locks.lock(later("bob", &tree), true).unwrap();
    assert_eq!(taken.since, Some(at("2026-11-15T13:00:00Z")));
    assert_eq!(scene.holders(&Survey::default(), &tree), ["bob"], "one lock a directory");
}

#[test]
fn a_second_lock_of_ones_own_keeps_what_is_not_said_again() {
    let scene = Scene::new();
    let tree = scene.tree("repo");
    let until = Some("2026-11-15T14:00:00Z");
    let unsaid = || ManualLock { reason: None, ..lock(&tree, "ann", None) };
    scene.locks.lock(lock(&tree, "ann", until), false).unwrap();
    let again = scene.locks.lock(unsaid(), false).unwrap();
    assert_eq!((again.reason.as_deref(), again.until), (Some("deploying"), until.map(at)));
    let other = ManualLock { reason: Some("releasing".into()), ..unsaid() };
    let again = scene.locks.lock(other, false).unwrap();
    assert_eq!((again.reason.as_deref(), again.until), (Some("releasing"), until.map(at)));
    let longer = ManualLock { until: Some(at("2026-11-15T16:00:00Z")), ..unsaid() };
    let again = scene.locks.lock(longer, false).unwrap();
    assert_eq!((again.reason.as_deref(), again.until), (Some("releasing"), Some(at("2026-11-15T16:00:00Z"))));
    // Fields of another person's lock do not carry over to mine.
    let taken = scene.locks.lock(ManualLock { by: Some("bob".into()), ..unsaid() }, true).unwrap();
    assert_eq!((taken.reason, taken.until), (None, None));
}

#[test]
fn without_a_name_the_owner_is_the_uid() {
    let variables = |pairs: &[(&str, &str)]| -> Environ {
        pairs.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect()
    };
    assert_eq!(user_of(&variables(&[("USER", "ann"), ("LOGNAME", "bob")])), "ann");
    assert_eq!(user_of(&variables(&[])), format!("uid {}", rustix::process::geteuid().as_raw()));
}

#[test]
fn an_expired_lock_is_absent_and_dropped_with_the_next_change() {
    let scene = Scene::new();
    let (old, new) = (scene.tree("old"), scene.tree("new"));
    let expired =
        ManualLock { since: at("2026-11-15T10:00:00Z"), ..lock(&old, "ann", Some("2026-11-15T12:00:00Z")) };
    scene.locks.lock(expired, false).unwrap();
    assert_eq!(scene.locks.manual(at("2026-11-15T11:59:59Z")).unwrap().len(), 1);
    assert!(scene.holders(&Survey::default(), &old).is_empty());
    assert!(scene.locks.unlock(&old, noon()).unwrap().is_none());
    let stored = || fs::read_to_string(scene.top.join(".agentctl/locks.json")).unwrap();
    assert!(stored().contains("/old"));
    scene.locks.lock(lock(&new, "bob", None), false).unwrap();
    assert!(!stored().contains("/old") && stored().contains("/new"), "{}", stored());
    scene.locks.lock(lock(&old, "bob", None), false).unwrap();
}

#[test]
fn a_live_session_holds_its_whole_working_tree_and_no_other() {
    let scene = Scene::new();
    let (repo, other) = (scene.tree("repo"), scene.tree("repo-try"));
    let inner = scene.tree("repo/trees/inner");
    let survey = survey(vec![session("a", Status::Running, Some(7), &repo.join("src"))]);
    assert_eq!(scene.holders(&survey, &repo), ["a"]);
    assert!(scene.holders(&survey, &other).is_empty() && scene.holders(&survey, &inner).is_empty());
    let all = scene.locks.all(&survey, noon()).unwrap();
    assert_eq!((all[0].directory.as_str(), all[0].pid), (repo.to_str().unwrap(), Some(7)));
    assert_eq!(all[0].since, Some(at("2026-11-15T11:00:00Z")));
    let words = format!("claude-code session a works in {} (running, pid 7)", repo.display());
    assert_eq!(all[0].to_string(), words);
}

#[test]
fn outside_of_git_only_the_same_directory_is_held() {
    let scene = Scene::new();
    let plain = scene.top.join("plain");
    fs::create_dir_all(plain.join("below")).unwrap();
    let survey = survey(vec![session("a", Status::Idle, Some(7), &plain)]);
    assert_eq!(scene.holders(&survey, &plain), ["a"]);
    assert!(scene.holders(&survey, &plain.join("below")).is_empty());
    assert!(scene.holders(&survey, &scene.top).is_empty());
}

/// Contract N6: a session that is gone holds nothing, and no process has to release anything.
#[test]
fn a_lock_never_outlives_its_session() {
    let scene = Scene::new();
    let repo = scene.tree("repo");
    for status in [Status::Running, Status::Waiting, Status::Idle, Status::Unknown] {
        assert_eq!(
            scene.holders(&survey(vec![session("a", status, Some(7), &repo)]), &repo),
            ["a"],
            "{status:?}"
        );
    }
    assert!(scene.holders(&survey(vec![session("a", Status::Stopped, None, &repo)]), &repo).is_empty());
    assert!(scene.holders(&survey(Vec::new()), &repo).is_empty());
    assert!(!scene.top.join(".agentctl").exists(), "nothing about sessions is ever stored");
}

#[test]
fn only_local_processes_hold_and_not_knowing_frees_nothing() {
    let scene = Scene::new();
    let repo = scene.tree("repo");
    let held = |session: Session| !scene.holders(&survey(vec![session]), &repo).is_empty();
    let unseen = session("a", Status::Unknown, None, &repo);
    assert!(held(unseen.clone()), "one of several processes here may carry it");
    assert!(!held(Session { config_root: "ws://127.0.0.1:18789".into(), ..unseen }), "a gateway's");
    assert!(!held(session("a", Status::Running, None, &repo)), "a gateway's run");
    let helper = Session {
        relation: Some(agentctl_model::Relation::Subagent),
        ..session("a", Status::Running, Some(7), &repo)
    };
    assert!(!held(helper));
    assert!(!held(Session { cwd: None, ..session("a", Status::Running, Some(7), &repo) }));
}
