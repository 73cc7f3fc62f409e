//! The user's own commands around a session, and its time limit. Only the runner is needed for them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use agentctl_testkit::{until, until_seen};
use serde_json::Value;

use crate::scene;
use crate::steer::{ENDLESS, Scene, TIMEOUT};

/// Appends one line with our variables and then a dot, which shows that it is complete.
fn noting(file: &Path) -> String {
    let file = file.display();
    format!("{{ env | grep '^AGENTCTL_' | sort | tr '\\n' ';'; pwd; }} >> '{file}'; echo . >> '{file}'")
}

/// Our variables at the time when the hook ran, and its directory. It must have run once.
fn noted(file: &Path) -> (BTreeMap<String, String>, String) {
    let text = until(TIMEOUT, "the hook's note", || {
        fs::read_to_string(file).ok().filter(|text| text.ends_with(".\n"))
    });
    assert_eq!(text.lines().count(), 2, "it runs once: {text}");
    let line = text.lines().next().unwrap();
    let (variables, cwd) = line.rsplit_once(';').unwrap();
    let pairs = variables.split(';').filter_map(|pair| pair.split_once('='));
    (pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(), cwd.to_owned())
}

/// How much time a session is given. What has not begun when its time is up leaves nothing, and is given more: an agent
/// starts slowly on a busy machine.
const TIMES: [&str; 3] = ["20s", "45s", "90s"];

/// Launches with a limit of time, which is measured from the start of the agent.
fn with_a_limit(scene: &Scene, prompt: &str, more: &[&str]) -> Value {
    for time in TIMES {
        let launched = scene.launch(prompt, &[&["--timeout", time], more].concat());
        if launched.code == Some(0) {
            return launched.json();
        }
        assert!(launched.stderr.contains("its time was up before there was a session"), "{launched:#?}");
        scene.assert_nothing_left();
    }
    panic!("no session within {TIMES:?}");
}

/// Whether the tool is seen at work before the time of its session is up.
fn has_tool_in_time(scene: &Scene) -> bool {
    until_seen(TIMEOUT, "the tool at work, or the end", || {
        let processes = scene.processes();
        let is_at_work = processes.iter().any(|(_, line)| line.trim_end().ends_with(ENDLESS));
        if is_at_work || processes.is_empty() { Ok(is_at_work) } else { Err(format!("{processes:#?}")) }
    })
}

fn exit_file(scene: &Scene) -> Value {
    let folder = scene.launches().into_iter().next().unwrap();
    let text = until(TIMEOUT, "exit.json", || fs::read(folder.join("exit.json")).ok());
    serde_json::from_slice(&text).unwrap()
}

#[test]
fn each_hook_runs_once_with_every_variable_and_nobody_has_to_wait_for_it() {
    let Some(scene) = scene() else { return };
    let (created, completed) = (scene.home.path().join("created"), scene.home.path().join("completed"));
    let launched = scene
        .launch(
            "[[hang:gate]] with hooks",
            &["--on-create", &noting(&created), "--on-complete", &noting(&completed)],
        )
        .ok()
        .json();
    let id = launched["id"].as_str().unwrap();
    let cwd = scene.cwd.canonicalize().unwrap();
    let (variables, place) = noted(&created);
    let expected = |code: &str, outcome: &str, model: &str| -> BTreeMap<String, String> {
        let pairs = [
            ("AGENTCTL_SESSION_ID", id),
            ("AGENTCTL_CWD", cwd.to_str().unwrap()),
            ("AGENTCTL_ADAPTER", "claude-code"),
            ("AGENTCTL_BRANCH", "main"),
            ("AGENTCTL_EXIT_CODE", code),
            ("AGENTCTL_GROUP", ""),
            ("AGENTCTL_MODEL", model),
            ("AGENTCTL_OUTCOME", outcome),
            ("AGENTCTL_HOME", scene.home.agentctl_home().to_str().unwrap()),
            ("AGENTCTL_NO_DAEMON", "1"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        // The test's own mark on its processes.
        let own = variables.iter().filter(|(name, _)| name.starts_with("AGENTCTL_TEST"));
        pairs.into_iter().chain(own.map(|(name, value)| (name.clone(), value.clone()))).collect()
    };
    let model = variables["AGENTCTL_MODEL"].clone();
    assert_eq!(variables, expected("", "", &model));
    assert_eq!(place, cwd.to_str().unwrap());
    assert!(!completed.exists(), "it has not ended yet");

    // The process that launched it ended long ago.
    scene.model.open("gate");
    let (variables, _) = noted(&completed);
    let model = variables["AGENTCTL_MODEL"].clone();
    assert_eq!(variables, expected("0", "completed", &model));
    scene.wait_for_silence();
    assert_eq!(noted(&created).0["AGENTCTL_SESSION_ID"], id);
    assert_eq!((&exit_file(&scene)["exitCode"], &exit_file(&scene)["timedOut"]), (&0.into(), &false.into()));
}

#[test]
fn when_its_time_is_up_it_is_stopped_and_that_is_written_down() {
    let Some(scene) = scene() else { return };
    let completed = scene.home.path().join("completed");
    let more = ["--on-complete", &noting(&completed), "--group", "mine"];
    let launched = with_a_limit(&scene, "[[bash:tail -f /dev/null]] [[hang]] too slow", &more);
    assert_eq!(
        (&launched["status"], &launched["group"]),
        (&"running".into(), &"mine".into()),
        "{launched:#}"
    );
    let (variables, _) = noted(&completed);
    assert_eq!((&*variables["AGENTCTL_GROUP"], &*variables["AGENTCTL_OUTCOME"]), ("mine", "interrupted"));
    scene.wait_for_silence();
    assert_eq!(exit_file(&scene)["timedOut"], true);
    let after = scene.status(launched["id"].as_str().unwrap());
    assert_eq!(
        (&after["status"], &after["outcome"]),
        (&"stopped".into(), &"interrupted".into()),
        "{after:#}"
    );
}

#[test]
fn when_its_time_is_up_it_ends_also_if_nothing_is_known_of_its_session() {
    let Some(scene) = scene() else { return };
    let is_in_time = TIMES.into_iter().any(|time| {
        let launched = scene.launch("[[bash:tail -f /dev/null]] [[hang]] unseen", &["--timeout", time]);
        let is_late = launched.stderr.contains("its time was up before there was a session");
        assert!(launched.code == Some(0) || is_late, "{launched:#?}");
        if launched.code == Some(0) && has_tool_in_time(&scene) {
            return true;
        }
        // Nothing of this one may be taken for the next one.
        scene.wait_for_silence();
        scene.launches().iter().for_each(|folder| fs::remove_dir_all(folder).unwrap());
        false
    });
    assert!(is_in_time, "no tool at work within {TIMES:?}");
    // From here on its storage cannot be read: no survey shows the session.
    let store = scene.home.path().join(".claude");
    fs::rename(&store, store.with_file_name(".away")).unwrap();
    fs::write(&store, "not a folder").unwrap();
    assert_eq!(exit_file(&scene)["timedOut"], true);
    scene.wait_for_silence();
}
