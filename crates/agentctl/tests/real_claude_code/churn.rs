//! An agent that is started and ended again and again, while another thread lists all the time.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use agentctl_testkit::{Background, Claude, Signal, new_uuid, until};
use serde_json::Value;

use crate::scene::{Scene, TIMEOUT, is_alive, verdict, wait_number};

/// The full count is for the long run.
fn rounds() -> usize {
    if std::env::var_os("AGENTCTL_LONG").is_some() { 200 } else { 7 }
}

/// What the test itself knows about one session.
struct Life {
    pid: u32,
    /// How it will end, where the agent itself records its end before it exits: no listing may ever show
    /// another outcome.
    outcome: Option<&'static str>,
    /// Registered and with records: from here on it may not be called stopped while its process lives.
    at_work: Option<Instant>,
    /// The moment before it was told to end or released: until here it runs.
    ending: Option<Instant>,
    /// It was reaped: from here on it may not be called alive.
    reaped: Option<Instant>,
}

struct Listing {
    began: Instant,
    ended: Instant,
    rows: Vec<Value>,
    /// The processes that were alive when the listing was over, and so all the time before.
    alive: Vec<u32>,
}

impl Listing {
    fn take(scene: &Scene, reach: &[&str], lives: &Mutex<BTreeMap<String, Life>>) -> Self {
        let began = Instant::now();
        let rows = scene.rows(reach);
        let ended = Instant::now();
        let unreaped = |life: &&Life| life.reaped.is_none() && is_alive(life.pid);
        let alive = lives.lock().unwrap().values().filter(unreaped).map(|life| life.pid).collect();
        Self { began, ended, rows, alive }
    }
}

#[test]
fn a_list_beside_an_agent_that_comes_and_goes_is_never_wrong() {
    let Some(scene) = Scene::open() else { return };
    let cwd = scene.home.git_repo("project");
    let lives: Mutex<BTreeMap<String, Life>> = Mutex::default();
    let over = AtomicBool::new(false);
    let listings = std::thread::scope(|scope| {
        let lister = scope.spawn(|| {
            let mut checked = 0;
            while !over.load(Ordering::Relaxed) {
                // In turns: only live sessions, and everything stored.
                let reach: &[&str] = if checked % 2 == 0 { &[] } else { &["--since", "all"] };
                let listing = Listing::take(&scene, reach, &lives);
                check(&listing, &lives.lock().unwrap());
                checked += 1;
            }
            checked
        });
        for round in 0..rounds() {
            // A wrong verdict is reported at once, not only in the last round.
            if lister.is_finished() {
                break;
            }
            live_and_die(&scene, &cwd, round, &lives);
        }
        over.store(true, Ordering::Relaxed);
        lister.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    println!("{} rounds, {listings} listings", rounds());
    assert!(listings >= rounds(), "only {listings} listings looked at {} lives", rounds());
    let stored = scene.rows(&["--since", "all"]);
    assert!(stored.iter().all(|row| row["status"] == "stopped"), "{stored:#?}");
}

/// One session, ended in one of four ways at one of several moments.
fn live_and_die(scene: &Scene, cwd: &Path, round: usize, lives: &Mutex<BTreeMap<String, Life>>) {
    let id = new_uuid();
    let change = |change: fn(&mut Life, Instant)| {
        change(lives.lock().unwrap().get_mut(&id).unwrap(), Instant::now());
    };
    let gate = format!("gate-{round}");
    // It is ended while the model is silent, or in the middle of a tool, which some ends leave running for
    // two seconds.
    let in_tool = round % 8 == 5 || round % 8 == 6;
    let loops = if in_tool { 20 } else { 0 };
    let tool = format!("echo $$ > tool-{round}; for i in $(seq {loops}); do sleep 0.1; done");
    let prompt = format!("[[bash:{tool}]] [[hang:{gate}]]");
    let mut run = {
        // No listing is checked between the start and the entry in this map.
        let mut lives = lives.lock().unwrap();
        let run = scene.run(cwd, &id, &prompt);
        let outcome = [None, None, Some("interrupted"), Some("completed")][round % 4];
        let life = Life { pid: run.pid(), outcome, at_work: None, ending: None, reaped: None };
        lives.insert(id.clone(), life);
        run
    };
    let end = |run: &mut Background| {
        change(|life, now| life.ending = Some(now));
        match round % 4 {
            0 => run.signal(Signal::KILL),
            1 => run.signal(Signal::TERM),
            2 => run.signal(Signal::INT),
            _ => scene.model.open(&gate),
        }
        run.wait(TIMEOUT);
        change(|life, now| life.reaped = Some(now));
    };
    // In some rounds before it has written anything at all.
    if round % 8 == 4 {
        until(TIMEOUT, "a registry entry", || Claude::registry(&scene.home, run.pid()));
        return end(&mut run);
    }
    if in_tool {
        wait_number(&cwd.join(format!("tool-{round}")));
    } else {
        scene.model.wait_turn(&gate, 1);
    }
    let slug: String =
        cwd.to_str().unwrap().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let transcript = scene.home.path().join(format!(".claude/projects/{slug}/{id}.jsonl"));
    until(TIMEOUT, "a transcript", || transcript.metadata().ok().filter(|file| file.len() > 0));
    until(TIMEOUT, "a registry entry", || Claude::registry(&scene.home, run.pid()));
    change(|life, now| life.at_work = Some(now));
    // Long enough for some listings to fall into its life; their number does not matter.
    std::thread::sleep(Duration::from_millis(37 * (round as u64 % 11)));
    end(&mut run);
}

/// Compares one listing with what is known of every session. Only what was true during the whole listing
/// counts.
fn check(listing: &Listing, lives: &BTreeMap<String, Life>) {
    let during = |from: Option<Instant>, to: Option<Instant>| {
        from.is_some_and(|from| from <= listing.began) && to.is_none_or(|to| listing.ended <= to)
    };
    let mut seen: Vec<&str> = Vec::new();
    for row in &listing.rows {
        let id = row["id"].as_str().unwrap();
        assert!(!seen.contains(&id), "two rows for {id}: {:#?}", listing.rows);
        seen.push(id);
        let life = lives.get(id).unwrap_or_else(|| panic!("nobody started {id}: {row:#}"));
        let verdict = verdict(row);
        let stopped = row["status"] == "stopped";
        if during(life.at_work, life.ending) {
            assert_eq!(verdict, "running", "it was alive and at work: {row:#}");
        }
        if life.at_work.is_some_and(|from| from <= listing.began) && listing.alive.contains(&life.pid) {
            assert!(!stopped, "its process lived all the time: {row:#}");
        }
        if let Some(outcome) = life.outcome.filter(|_| stopped) {
            assert_eq!(row["outcome"], outcome, "its end was recorded before it went: {row:#}");
        }
        if during(life.reaped, None) {
            assert!(stopped, "it was gone before the listing began: {row:#}");
            assert!(row["pid"].is_null(), "{row:#}");
        }
    }
    for (id, life) in lives {
        let missing = !seen.contains(&id.as_str());
        assert!(!(missing && during(life.at_work, life.ending)), "{id} was at work and is not listed");
    }
}
