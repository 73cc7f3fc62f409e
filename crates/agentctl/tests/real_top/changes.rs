//! While things change: a thousand changes a second, a machine that does not answer, and a need that begins.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use agentctl_testkit::{Background, TestHome, until_seen};
use serde_json::json;

use crate::machine::agent::Agent;
use crate::pane::{PATIENCE, Pane, is_whole};
use crate::stored;

/// A process that works on a session of Claude Code with this name.
fn at_work(home: &TestHome, number: usize) -> Agent {
    let cwd = home.work_dir("w");
    let id = format!("77777777-0000-4000-8000-{number:012}");
    let folder: String =
        cwd.to_str().unwrap().chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
    let folder = home.path().join(".claude/projects").join(folder);
    fs::create_dir_all(&folder).unwrap();
    let said = json!({"type": "user", "uuid": id, "parentUuid": null, "isSidechain": false, "sessionId": id, "cwd": cwd,
        "version": "2.1.0", "timestamp": jiff::Timestamp::now().to_string(),
        "message": {"role": "user", "content": format!("Task-{number:02}")}});
    fs::write(folder.join(format!("{id}.jsonl")), format!("{said}\n")).unwrap();
    Agent::start(&home.path(), &id, &cwd)
}

/// The rows of the list that stands beside the detail, by their names.
fn rows(screen: &str) -> Vec<(String, String)> {
    let lines = screen.lines().skip(1).filter_map(|line| line.split(" │ ").next());
    let named = lines.filter_map(|line| {
        let at = line.find("Task-")?;
        Some((line[at..at + 7].to_owned(), line.trim_start_matches('>').trim().to_owned()))
    });
    named.collect()
}

/// The daemon tells of each change. Every screen on the way has each session once, and the last one is what is so.
#[test]
fn a_thousand_changes_a_second_leave_no_wrong_row() {
    const AGENTS: usize = 12;
    const STATES: [(&str, char); 3] = [
        (r#""status":"busy""#, '●'),
        (r#""status":"idle""#, '○'),
        (r#""status":"waiting","waitingFor":"permission prompt""#, '◐'),
    ];
    let home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
    let agents: Vec<Agent> = (0..AGENTS).map(|number| at_work(&home, number)).collect();
    let Some(pane) = Pane::open(&home, 200, 50) else { return };
    let mut command = home.agentctl_command(&["daemon", "run"]);
    command.env_remove("AGENTCTL_NO_DAEMON");
    let _daemon = Background::spawn(&home, command);
    pane.types("unset AGENTCTL_NO_DAEMON");
    pane.top("");
    pane.until("every session", |screen| is_whole(screen) && rows(screen).len() == AGENTS);
    let length = Duration::from_secs(if std::env::var_os("AGENTCTL_LONG").is_some() { 60 } else { 3 });
    let begun = Instant::now();
    let mut looked = 0;
    std::thread::scope(|threads| {
        let storm = threads.spawn(|| {
            let mut changes: u32 = 0;
            while begun.elapsed() < length {
                for (number, agent) in agents.iter().enumerate() {
                    let (words, _) = STATES[(changes as usize + number) % STATES.len()];
                    agent.says(&home.path(), words);
                    changes += 1;
                }
                // A thousand a second, and no more where the machine could.
                std::thread::sleep(Duration::from_millis(u64::from(changes)).saturating_sub(begun.elapsed()));
            }
            changes
        });
        while !storm.is_finished() {
            pane.press(if looked % 2 == 0 { "j" } else { "k" });
            let screen = pane.until("a whole screen", is_whole);
            let mut names: Vec<String> = rows(&screen).into_iter().map(|(name, _)| name).collect();
            let shown = names.len();
            names.sort();
            names.dedup();
            assert_eq!((names.len(), shown), (AGENTS, AGENTS), "{screen}");
            looked += 1;
        }
        let changes = storm.join().unwrap();
        eprintln!("{changes} changes in {:?}, {looked} screens", begun.elapsed());
    });
    for (number, agent) in agents.iter().enumerate() {
        agent.says(&home.path(), STATES[number % STATES.len()].0);
    }
    pane.until("each row as it is", |screen| {
        let rows: BTreeMap<String, String> = rows(screen).into_iter().collect();
        let is_right = |number: usize| {
            let row = rows.get(&format!("Task-{number:02}"));
            row.is_some_and(|row| row.starts_with(STATES[number % STATES.len()].1))
        };
        is_whole(screen) && (0..AGENTS).all(is_right)
    });
    pane.press("q");
    pane.is_usable("changes");
}

/// A machine that does not answer has a row with the reason; nobody waits for it.
#[test]
fn a_machine_that_does_not_answer_has_its_row() {
    let home = stored();
    let script = home.work_dir("scripts").join("ssh");
    fs::write(&script, "#!/bin/sh\nexec sleep 600\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    home.put_on_path("ssh", &script);
    fs::create_dir_all(home.agentctl_home()).unwrap();
    fs::write(home.agentctl_home().join("config.toml"), "[hosts.box]\nssh = \"box\"\ntimeout = \"5s\"\n")
        .unwrap();
    let Some(pane) = Pane::open(&home, 100, 30) else { return };
    // The sessions of this machine are there before the other one has failed.
    let screen = pane.top("--host all");
    assert!(screen.contains('✕'), "{screen}");
    pane.until("its row", |screen| {
        let row = screen.lines().find(|line| line.starts_with(" ? box "));
        is_whole(screen) && row.is_some_and(|row| row.contains("not heard: ")) && screen.contains('✕')
    });
    pane.press("h");
    pane.until("why", |screen| screen.contains("hosts and sources") && screen.contains("box"));
    pane.press("q");
    pane.is_usable("slow");
}

/// `[notify] terminal`: the need that begins is told to the terminal, once, and not the one that was there before.
#[test]
fn a_need_is_told_to_the_terminal() {
    let home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
    fs::create_dir_all(home.agentctl_home()).unwrap();
    fs::write(home.agentctl_home().join("config.toml"), "[notify]\nterminal = true\n").unwrap();
    let waits = r#""status":"waiting","waitingFor":"permission prompt""#;
    let agents: Vec<Agent> = (0..3).map(|number| at_work(&home, number)).collect();
    agents[0].says(&home.path(), waits);
    let Some(pane) = Pane::open(&home, 100, 30) else { return };
    let raw = home.work_dir("raw").join("output");
    pane.tmux(&["pipe-pane", "-o", &format!("cat >> '{}'", raw.display())]);
    pane.top("");
    pane.shows("◐ 1 needs you");
    let told = |times: usize| {
        until_seen(PATIENCE, "the notices", || {
            let seen = String::from_utf8_lossy(&fs::read(&raw).unwrap_or_default()).matches("]9;").count();
            if seen == times { Ok(()) } else { Err(format!("{seen} notices")) }
        });
    };
    told(0);
    for (number, agent) in agents.iter().enumerate().skip(1) {
        agent.says(&home.path(), waits);
        pane.shows(&format!("◐ {} need you", number + 1));
        told(number);
    }
    pane.press("q");
    pane.is_usable("notices");
}
