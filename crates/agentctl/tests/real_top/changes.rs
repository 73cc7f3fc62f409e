//! While things change: a thousand changes a second, a machine that does not answer, and a need that begins.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use agentctl_testkit::{TestHome, until, until_seen};
use serde_json::json;

use crate::machine::agent::Agent;
use crate::pane::{PATIENCE, Pane, is_whole};
use crate::scripted::{self, Script, named};
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

/// A thousand changes a second from a daemon by script. Each screen on the way is one list that was told: every row in the
/// state that its change made, in the order of that list, or else with the mark that the order waits for the cursor, whose
/// row then stays where it is.
#[test]
fn a_thousand_changes_a_second_leave_no_wrong_row() {
    let home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
    let Some(pane) = Pane::open(&home, 200, 50) else { return };
    let script = Script::serve(&home);
    pane.types("unset AGENTCTL_NO_DAEMON");
    pane.top("");
    pane.until("every session", |screen| judge(screen) == Ok(Order::Shown));
    until(PATIENCE, "it listens", || (script.listeners() >= 1).then_some(()));
    let seconds = if std::env::var_os("AGENTCTL_LONG").is_some() { 60 } else { 3 };
    let (mut sorted, mut held) = (0, 0);
    // Where the machine was too busy for it, changes go on slowly until screens of both kinds were seen.
    let is_seen = Arc::new(AtomicBool::new(false));
    let (changing, is_over) = (script.clone(), is_seen.clone());
    let storm = std::thread::spawn(move || {
        let begun = Instant::now();
        let mut changes = 0;
        while changes < seconds * 1000 || !is_over.load(Ordering::SeqCst) {
            changing.change();
            changes += 1;
            // A thousand a second, and no more where the machine could.
            let rest = Duration::from_millis(changes).saturating_sub(begun.elapsed());
            std::thread::sleep(if changes < seconds * 1000 { rest } else { Duration::from_secs(1) });
        }
        (begun.elapsed(), changes)
    });
    let stops_at = Instant::now() + Duration::from_secs(seconds) + PATIENCE;
    while !storm.is_finished() {
        is_seen.store(sorted > 0 && held > 0, Ordering::SeqCst);
        assert!(Instant::now() < stops_at, "what is told is not taken in: {} changes", script.changes());
        let (place, before) = cursor(&pane.steady()).expect("a cursor");
        pane.press(if place > 12 { "k" } else { "j" });
        pane.until("another row", |screen| cursor(screen).is_some_and(|(_, now)| now != before));
        let screen = pane.steady();
        let mut see = |screen: &str| match judge(screen) {
            Ok(Order::Shown) => sorted += 1,
            Ok(Order::Waits) => held += 1,
            Err(wrong) => panic!("{wrong}\n{screen}"),
        };
        see(&screen);
        // The next list, while no key is pressed.
        let shown = newest(&screen);
        pane.until("the next list", |screen| newest(screen) > shown || storm.is_finished());
        let next = pane.steady();
        see(&next);
        assert_eq!(cursor(&next), cursor(&screen), "the row under the cursor stays:\n{screen}\n{next}");
    }
    let ((took, changes), lists) = (storm.join().unwrap(), script.asked());
    eprintln!("{changes} changes in {took:?}, {lists} lists, {sorted} sorted screens, {held} held");
    // The last list stands as soon as the cursor has left its row.
    let last = |screen: &str| newest(screen) == Some(script.changes());
    pane.until("the last change", last);
    pane.press("Home");
    pane.press("End");
    pane.until("the last list in its order", |screen| judge(screen) == Ok(Order::Shown) && last(screen));
    pane.press("q");
    pane.is_usable("changes");
}

/// Whether a screen has the rows in their order, or says that the order waits.
#[derive(Debug, PartialEq, Eq)]
enum Order {
    Shown,
    Waits,
}

/// What is wrong with a screen of the scripted list.
fn judge(screen: &str) -> Result<Order, String> {
    let rows = rows(screen);
    let newest = newest(screen).ok_or("no rows")?;
    let mut wanted = scripted::list(newest);
    let find = |row: &String| {
        let has = |shown: &scripted::Shown| {
            row.starts_with(shown.glyph) && row.contains(&shown.name) && row.ends_with(&shown.words)
        };
        wanted.iter().position(has).ok_or_else(|| format!("not a row of list {newest}: {row}"))
    };
    let order: Vec<usize> = rows.iter().map(find).collect::<Result<_, _>>()?;
    let mut each = order.clone();
    each.sort_unstable();
    each.dedup();
    if order.len() != wanted.len() || each.len() != wanted.len() {
        return Err(format!("{} rows, {} of {}", order.len(), each.len(), wanted.len()));
    }
    let waits = screen.contains("the order has changed");
    match (order.is_sorted(), waits) {
        (true, false) => Ok(Order::Shown),
        (false, true) => Ok(Order::Waits),
        (true, true) => Err("the mark is there without need".to_owned()),
        (false, false) => {
            wanted.truncate(3);
            Err(format!("the rows are not in their order, which begins with {wanted:?}"))
        }
    }
}

/// The newest change on a screen.
fn newest(screen: &str) -> Option<u64> {
    rows(screen).iter().filter_map(|row| named(row)).max()
}

/// The place of the cursor, and the session under it.
fn cursor(screen: &str) -> Option<(usize, String)> {
    let mut lines = screen.lines().enumerate();
    let (place, line) = lines.find(|(_, line)| line.starts_with('>'))?;
    let at = line.find("Task-")?;
    Some((place, line[at..at + 7].to_owned()))
}

/// The rows of the list that stands beside the detail.
fn rows(screen: &str) -> Vec<String> {
    let lines = screen.lines().skip(1).filter_map(|line| line.split(" │").next());
    let rows = lines.filter(|line| line.contains("Task-"));
    rows.map(|line| line.trim_start_matches('>').trim().to_owned()).collect()
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
