//! The real Claude Code, killed -9 with its runner as when a machine goes down, and taken up again in another boot.
#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests start processes and stop at surprises"
)]

#[path = "steer/mod.rs"]
mod steer;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentctl_testkit::{Background, Claude, Signal, until_seen};
use serde_json::Value;
use steer::{ENDLESS, Scene, TIMEOUT, folders};

fn scene() -> Option<Scene> {
    Scene::set("claude-code", |home, url| Claude::settle(home, url).map(drop))
}

/// The full count is for the long run.
fn count(short: usize, long: usize) -> usize {
    if std::env::var_os("AGENTCTL_LONG").is_some() { long } else { short }
}

/// Ends everything at once, as a machine that loses its power does.
fn power_failure(scene: &Scene) {
    for (pid, _) in scene.processes() {
        scene.home.signal(pid, Signal::KILL);
    }
    scene.wait_for_silence();
}

/// What was launched until now was launched in another boot.
fn another_boot(scene: &Scene) {
    for folder in scene.launches() {
        let path = folder.join("launch.json");
        let mut record: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        record["process"]["boot"] = "00000000000000000000000000000001".into();
        fs::write(&path, record.to_string()).unwrap();
    }
}

fn offered(scene: &Scene) -> Vec<String> {
    let answer = scene.agentctl(&["recover", "--since", "all", "--json"]).ok().json();
    let ids = answer["sessions"].as_array().unwrap().iter();
    ids.map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

fn transcript_of(scene: &Scene, id: &str) -> PathBuf {
    let projects = folders(&scene.home.path().join(".claude/projects"));
    let files = projects.iter().map(|project| project.join(format!("{id}.jsonl")));
    files.into_iter().find(|file| file.exists()).unwrap()
}

/// How often the agent was told this.
fn told(transcript: &Path, words: &str) -> usize {
    let text = fs::read_to_string(transcript).unwrap();
    let records = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let is_it = |record: &Value| record["type"] == "user" && record["message"].to_string().contains(words);
    records.filter(is_it).count()
}

#[test]
fn a_launched_session_goes_on_once_after_the_machine_went_down() {
    let Some(scene) = scene() else { return };
    let launched = scene.launch(&format!("[[bash:{ENDLESS}]] [[hang]]"), &[]).ok().json();
    let id = launched["id"].as_str().unwrap().to_owned();
    scene.wait_for_tool();
    assert!(offered(&scene).is_empty(), "it runs");
    power_failure(&scene);
    assert_eq!(scene.status(&id)["outcome"], "died");
    assert!(offered(&scene).is_empty(), "it died in this boot");
    another_boot(&scene);

    let answer = scene.agentctl(&["recover", "--json"]).ok().json();
    let one = &answer["sessions"][0];
    assert_eq!((&one["id"], &one["lostBy"]), (&id.as_str().into(), &"launched-in-another-boot".into()));
    assert!(one["doing"].as_str().unwrap().contains(ENDLESS), "{one:#}");
    // It goes on with the rights that it was launched with: the tool is not refused.
    let words = "[[bash:touch went-on]] [[text:gone on]] one message";
    let done = scene.agentctl(&["recover", "--yes", "--message", words, "--json"]).ok().json();
    assert_eq!(done["sessions"][0]["id"], id.as_str(), "{done:#}");
    until_seen(TIMEOUT, "the end of the recovered turn", || {
        let now = scene.status(&id);
        if now["outcome"] == "completed" { Ok(()) } else { Err(format!("{now:#}")) }
    });
    assert!(scene.cwd.join("went-on").exists(), "the tool was refused");
    for _ in 0..2 {
        assert!(offered(&scene).is_empty());
        let again = scene.agentctl(&["recover", "--yes", "--since", "all", "--json"]).ok().json();
        assert_eq!(again["sessions"].as_array().unwrap().len(), 0, "{again:#}");
    }
    assert_eq!(told(&transcript_of(&scene, &id), "one message"), 1);
}

/// A session that was recovered and died again is not offered a second time in this boot, also when nothing but its first
/// launch is on record.
#[test]
fn what_was_recovered_is_not_offered_again_without_its_launch_record() {
    let Some(scene) = scene() else { return };
    let endless = format!("[[bash:{ENDLESS}]] [[hang]]");
    let launched = scene.launch(&endless, &[]).ok().json();
    let id = launched["id"].as_str().unwrap().to_owned();
    scene.wait_for_tool();
    power_failure(&scene);
    another_boot(&scene);
    let first = scene.launches();
    let _ = scene.agentctl(&["recover", "--yes", "--message", &endless]).ok();
    scene.wait_for_tool();
    power_failure(&scene);
    assert_eq!(scene.status(&id)["outcome"], "died");
    for folder in scene.launches().into_iter().filter(|folder| !first.contains(folder)) {
        fs::remove_dir_all(folder).unwrap();
    }
    assert!(offered(&scene).is_empty(), "it was resumed in this boot");
}

/// The id and the records of a session that died in the middle of a tool, put aside.
fn pattern(scene: &Scene) -> (String, PathBuf) {
    let launched = scene.launch(&format!("[[bash:{ENDLESS}]] [[hang]]"), &[]).ok().json();
    let id = launched["id"].as_str().unwrap().to_owned();
    scene.wait_for_tool();
    power_failure(scene);
    let kept = scene.home.path().join("pattern.jsonl");
    fs::rename(transcript_of(scene, &id), &kept).unwrap();
    (id, kept)
}

/// One session that died long ago, in a folder of its own, made of a recorded one.
fn died_long_ago(scene: &Scene, pattern: &str, from: &Path, number: usize) -> (String, PathBuf) {
    let cwd = scene.home.git_repo(&format!("round-{number}"));
    died_in(&cwd, scene, pattern, from, number)
}

/// The same in this folder.
fn died_in(cwd: &Path, scene: &Scene, pattern: &str, from: &Path, number: usize) -> (String, PathBuf) {
    let id = format!("dead0000-0000-4000-8000-{number:012}");
    let cwd = fs::canonicalize(cwd).unwrap();
    let text = fs::read_to_string(from).unwrap();
    let recorded = fs::canonicalize(&scene.cwd).unwrap();
    let year = "2020-11-15T";
    let mut lines = String::new();
    for line in text.lines() {
        let at = line.find("\"timestamp\":\"").map(|at| at + "\"timestamp\":\"".len());
        let old =
            at.map_or_else(|| line.to_owned(), |at| format!("{}{year}{}", &line[..at], &line[at + 11..]));
        lines.push_str(&old.replace(pattern, &id).replace(recorded.to_str().unwrap(), cwd.to_str().unwrap()));
        lines.push('\n');
    }
    let slug: String =
        cwd.to_str().unwrap().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let folder = scene.home.path().join(".claude/projects").join(slug);
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join(format!("{id}.jsonl"));
    fs::write(&file, lines).unwrap();
    (id, file)
}

/// Where a run is interrupted: at a fault point of the command, or at any moment, together with its runner or not.
fn interrupt(scene: &Scene, round: usize, id: &str, message: &str) -> bool {
    const POINTS: [&str; 6] = [
        "marks.renamed",
        "recover.noted",
        "launch.synced",
        "launch.renamed",
        "recover.launched",
        "launch.renamed#2",
    ];
    let mut command = scene.home.agentctl_command(&["recover", "--yes", id, "--message", message]);
    command.current_dir(&scene.cwd);
    let at_point = POINTS.get(round % 9);
    if let Some(point) = at_point {
        command.env("AGENTCTL_FAULT", point);
    }
    let mut run = Background::spawn(&scene.home, command);
    let Some(_) = at_point else {
        let pause = u64::try_from(round * 7919 % 2500).unwrap();
        // A random moment; nothing is concluded from the time.
        std::thread::sleep(Duration::from_millis(pause));
        run.signal(Signal::KILL);
        run.wait(TIMEOUT);
        let with_runner = round % 9 == 8;
        if with_runner {
            let own = scene.processes().into_iter().filter(|(_, line)| line.contains(" __run "));
            own.for_each(|(pid, _)| scene.home.signal(pid, Signal::KILL));
        }
        return with_runner;
    };
    run.wait(TIMEOUT);
    false
}

#[test]
fn nothing_is_resumed_twice_however_often_recover_is_interrupted() {
    if !agentctl_testkit::has_fault_points() {
        return agentctl_testkit::skip("only debug builds have fault points");
    }
    let Some(scene) = scene() else { return };
    let (pattern, kept) = pattern(&scene);

    for round in 0..count(9, 100) {
        let (id, file) = died_long_ago(&scene, &pattern, &kept, round);
        assert_eq!(offered(&scene), [id.as_str()], "round {round}");
        let words = format!("[[text:gone on]] message-{round}-end");
        let unsure = interrupt(&scene, round, &id, &words);
        // Others go on at once, several times, while the first runner may still be at work.
        for _ in 0..2 {
            let again = scene.agentctl(&["recover", "--yes", "--since", "all", "--message", &words]);
            assert!(matches!(again.code, Some(0 | 1 | 7)), "round {round}: {again:#?}");
        }
        until_seen(TIMEOUT, "the end of every turn", || match scene.processes() {
            left if left.is_empty() => Ok(()),
            left => Err(format!("{left:#?}")),
        });
        let last = scene.agentctl(&["recover", "--yes", "--since", "all", "--message", &words]).ok();
        scene.wait_for_silence();
        assert!(offered(&scene).is_empty(), "round {round}: {last:#?}");
        let times = told(&file, &format!("message-{round}-end"));
        assert!(times == 1 || (unsure && times == 0), "round {round}: told {times} times; {last:#?}");
    }
}

#[test]
fn only_so_many_start_at_once_and_one_that_fails_keeps_nobody() {
    let Some(scene) = scene() else { return };
    let (pattern, kept) = pattern(&scene);
    let lost: Vec<(String, PathBuf)> =
        (0..4).map(|number| died_long_ago(&scene, &pattern, &kept, number)).collect();
    // Somebody has locked the folder of one.
    let held = scene.home.work_dir("round-2");
    let _ = scene.agentctl(&["lock", held.to_str().unwrap(), "--by", "ann"]).ok();
    let words = "[[text:gone on]] to-all";
    let mut command = scene.home.agentctl_command(&[
        "recover",
        "--yes",
        "--since",
        "all",
        "--jobs",
        "2",
        "--message",
        words,
        "--json",
    ]);
    command.current_dir(&scene.cwd);
    let mut run = Background::spawn(&scene.home, command);
    let mut most = 0;
    while run.try_wait().is_none() {
        let records = scene.launches().into_iter().filter(|folder| !folder.join("exit.json").exists());
        let starting = records.filter(|folder| {
            let record = fs::read(folder.join("launch.json")).unwrap_or_default();
            serde_json::from_slice::<Value>(&record).is_ok_and(|record| record["settled"] == false)
        });
        most = most.max(starting.count());
        std::thread::sleep(Duration::from_millis(5));
    }
    let done: Value = serde_json::from_str(&run.stdout()).unwrap();
    assert!((1..=2).contains(&most), "{most} were starting at once");
    assert_eq!(done["sessions"].as_array().unwrap().len(), 3, "{done:#}");
    assert_eq!(done["failed"][0]["id"], lost[2].0.as_str(), "{done:#}");
    assert_eq!(run.wait(TIMEOUT).code(), Some(7));
    scene.wait_for_silence();
    assert_eq!(offered(&scene), [lost[2].0.as_str()], "what was refused stays");
    for (number, (_, file)) in lost.iter().enumerate() {
        assert_eq!(told(file, "to-all"), usize::from(number != 2));
    }

    // Of two in one folder one goes on, and as long as it is there the other does not.
    let _ = scene.agentctl(&["unlock", held.to_str().unwrap()]).ok();
    let (beside, of_beside) = died_in(&held, &scene, &pattern, &kept, 4);
    let recover = |more: &[&str]| {
        let all = ["recover", "--yes", "--since", "all", "--jobs", "2", "--json", "--message"];
        scene.agentctl(&[&all, more].concat())
    };
    let one_of_two = recover(&["[[hang]] to-one-of-two"]);
    assert_eq!(one_of_two.code, Some(7), "{one_of_two:#?}");
    let done = one_of_two.json();
    let ids = |of: &str| -> Vec<String> {
        done[of].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    };
    let (went_on, left) = (ids("sessions"), ids("failed"));
    let mut both = [went_on.clone(), left.clone()].concat();
    both.sort_unstable();
    assert_eq!((went_on.len(), both), (1, vec![lost[2].0.clone(), beside.clone()]), "{done:#}");
    assert_eq!(scene.status(&went_on[0])["status"], "running");
    assert_eq!(offered(&scene), left, "what was refused stays");
    let refused = recover(&["[[text:no]] while-it-is-there", &left[0]]);
    assert_eq!(refused.code, Some(7), "{refused:#?}");
    assert!(
        refused.json()["failed"][0]["error"].as_str().unwrap().contains(&went_on[0][..8]),
        "{refused:#?}"
    );
    let _ = scene.agentctl(&["stop", &went_on[0]]).ok();
    let _ = recover(&["[[text:gone on]] afterwards", &left[0]]).ok();
    scene.wait_for_silence();
    let file_of = |id: &str| if id == beside { &of_beside } else { &lost[2].1 };
    let times = |id: &str, words: &str| told(file_of(id), words);
    assert_eq!((times(&went_on[0], "to-one-of-two"), times(&left[0], "to-one-of-two")), (1, 0));
    assert_eq!((times(&left[0], "while-it-is-there"), times(&left[0], "afterwards")), (0, 1));
    assert!(offered(&scene).is_empty());
}

/// Somebody takes a session up while another one is being resumed: it is left alone, and the answer says so.
#[test]
fn what_somebody_took_up_meanwhile_is_left_alone() {
    let Some(scene) = scene() else { return };
    let (pattern, kept) = pattern(&scene);
    let lost: Vec<(String, PathBuf)> =
        (0..2).map(|number| died_long_ago(&scene, &pattern, &kept, number)).collect();
    let before = scene.launches();
    // Nobody can start in a folder whose lock another process has, so the first one waits for this test.
    let folders =
        [0, 1].map(|number| fs::File::open(scene.home.work_dir(&format!("round-{number}"))).unwrap());
    for folder in &folders {
        folder.lock().unwrap();
    }
    let words = "[[text:gone on]] to-one";
    let mut command = scene.home.agentctl_command(&["recover", "--yes", "--since", "all", "--jobs", "1"]);
    command.args(["--message", words, "--json"]).current_dir(&scene.cwd);
    let mut run = Background::spawn(&scene.home, command);
    let begun = until_seen(TIMEOUT, "the first launch", || {
        let new = scene.launches().into_iter().find(|folder| !before.contains(folder));
        let record = new.and_then(|folder| fs::read_to_string(folder.join("launch.json")).ok());
        record.ok_or_else(|| "none".to_owned())
    });
    let (_, (other, file)) = match &lost[..] {
        [one, two] if begun.contains(&one.0) => (one, two),
        [one, two] => (two, one),
        _ => unreachable!(),
    };
    let text = fs::read_to_string(file).unwrap();
    // Only records of the conversation say when it was last worked on.
    let newest = text.lines().rfind(|line| line.contains("\"type\":\"user\"")).unwrap();
    let taken_up = newest.replace("2020-11-15T", "2020-11-16T");
    assert_ne!(taken_up, newest);
    fs::write(file, format!("{text}{taken_up}\n")).unwrap();
    drop(folders);
    let code = run.wait(TIMEOUT).code();
    let done: Value = serde_json::from_str(&run.stdout()).unwrap();
    assert_eq!(code, Some(7), "{done:#}");
    assert_eq!(done["sessions"].as_array().unwrap().len(), 1, "{done:#}");
    assert_eq!(done["failed"][0]["id"], other.as_str(), "{done:#}");
    assert_eq!(done["failed"][0]["error"], "somebody has taken it up meanwhile", "{done:#}");
    scene.wait_for_silence();
    assert_eq!(told(file, "to-one"), 0);
}
