//! Many sessions, many tabs.

use std::io::Write;
use std::time::{Duration, Instant};

use agentctl_testkit::{FakeModel, TestHome};
use serde_json::json;

use crate::machine::agent::Agent;
use crate::work::with_claude;
use crate::{SHOWN, Stage, row, store};

fn id(number: usize) -> String {
    format!("22222222-0000-4000-8000-{number:012}")
}

#[test]
fn a_long_list_is_drawn_in_parts() {
    let many = if std::env::var_os("AGENTCTL_LONG").is_some() { 10_000 } else { 1000 };
    let home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
    let cwd = home.work_dir("w");
    for number in 0..many {
        store(&home, &id(number), &cwd, &[("user", &format!("Task {number}")), ("assistant", "done")]);
    }
    let Some(stage) = Stage::set(home) else { return };
    let begun = Instant::now();
    let tab = stage.tab("one");
    tab.sees_within(Duration::from_mins(1), ".section .count", &many.to_string());
    eprintln!("{many} sessions are in the list after {:?} (with the start of the tab)", begun.elapsed());
    let rows = tab.js("document.querySelectorAll('tr.row').length").as_u64().unwrap();
    assert!((10..200).contains(&rows), "only what can be seen is in the document, not {rows} rows");
    assert!(
        tab.js("document.querySelector('table').getAttribute('aria-rowcount')")
            .as_str()
            .unwrap()
            .parse::<usize>()
            .unwrap()
            > many
    );

    // To the end and back, and the filter finds one. The header is the first row, the section the second.
    let shown =
        |which: &str| format!("document.querySelector('tr.row:{which}')?.getAttribute('aria-rowindex')");
    tab.js("document.querySelector('.list .scroll').scrollTop = 1e9");
    tab.becomes(&shown("last-child"), (many + 2).to_string());
    tab.becomes("document.querySelectorAll('tr.row').length < 200", true);
    tab.js("document.querySelector('.list .scroll').scrollTop = 0");
    tab.becomes(&shown("nth-child(2)"), "3");
    tab.fill("Filter", &format!("task {}", many - 1));
    tab.becomes("document.querySelectorAll('tr.row').length", 1);
    tab.sees(".row", &format!("Task {}", many - 1));
    stage.browser.assert_no_trouble();
}

/// A browser has six connections for one origin, and one of them is the stream of events.
#[test]
fn seven_tabs_are_live_at_once() {
    let model = FakeModel::start();
    let Some(stage) = with_claude(&model) else { return };
    let tabs: Vec<_> = (0..7).map(|number| stage.tab(&format!("tab {number}"))).collect();
    let first = stage.hold("first", "[[bash:touch allowed]] [[text:went on]] One");
    for tab in &tabs {
        tab.sees_within(SHOWN, &format!("{} .c-status", row(&first)), "waiting");
        tab.click_on(&format!("{} a", row(&first)));
    }
    // The first one leads; when it is closed, another one does.
    stage.browser.ask("close", json!({"tab": "tab 0"})).unwrap();
    tabs[3].sees(".request button:enabled", "Approve");
    tabs[3].click("Approve");
    for tab in &tabs[1..] {
        tab.sees(".conversation", "went on");
        tab.sees(&format!("{} .c-status", row(&first)), "idle");
    }
    // One stream for all tabs; that of the closed one ends when the daemon notices.
    tabs[1].becomes("fetch('/v1/daemon', {headers: {Authorization: `Bearer ${sessionStorage.getItem('token')}`}}).then(answer => answer.json()).then(daemon => daemon.listeners)", 1);
    stage.browser.assert_no_trouble();
}

/// Ten sessions at work write all the time, for ten minutes with `--long`: each row is right in the end, the tab needs no
/// more memory than it did at first, and how smooth the page was is printed.
#[test]
fn ten_sessions_stream_at_once() {
    let rounds = if std::env::var_os("AGENTCTL_LONG").is_some() { 6000 } else { 20 };
    let home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
    let streams: Vec<_> = (0..10)
        .map(|number| {
            let cwd = home.work_dir(&format!("w{number}"));
            let path = store(&home, &id(number), &cwd, &[("user", &format!("Stream {number}"))]);
            (path, Agent::start(&home.path(), &id(number), &cwd))
        })
        .collect();
    let Some(stage) = Stage::set(home) else { return };
    let tab = stage.tab("one");
    tab.sees(&format!("{} .c-status", row(&id(9))), "running");
    tab.click_on(&format!("{} a", row(&id(0))));
    let count = "new Promise(done => { const begun = performance.now(); let frames = 0; const next = () => { frames += 1; const passed = performance.now() - begun; if (passed < 2000) requestAnimationFrame(next); else done([Math.round(frames * 1000 / passed), Math.round(performance.memory.usedJSHeapSize / 1e5) / 10, document.querySelectorAll('*').length]); }; next(); })";
    let say = |round: usize| {
        for (number, (path, _)) in streams.iter().enumerate() {
            let said = serde_json::json!({"type": "assistant", "uuid": format!("{number}-{round}"), "parentUuid": null,
                "isSidechain": false, "sessionId": id(number), "version": "2.1.0", "timestamp": jiff::Timestamp::now().to_string(),
                "message": {"role": "assistant", "id": format!("{number} {round}"), "model": "claude-opus-5-5", "type": "message",
                    "content": [{"type": "text", "text": format!("line {round} of {number}")}], "stop_reason": null}});
            let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
            writeln!(file, "{said}").unwrap();
        }
    };
    // In megabytes, without what is garbage already.
    let heap = || stage.browser.ask("heap", json!({"tab": "one"})).unwrap().as_f64().unwrap() / 1e6;
    // The first lines are on the page: what comes after them must not make it grow.
    say(0);
    tab.sees(".conversation", "line 0 of 0");
    let at_first = heap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|threads| {
        let writer = threads.spawn(|| {
            for round in 1..=rounds {
                say(round);
                std::thread::sleep(Duration::from_millis(100));
            }
            done.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        while !done.load(std::sync::atomic::Ordering::SeqCst) {
            eprintln!("frames a second, MB of heap, elements: {}", tab.js(count));
        }
        writer.join().unwrap();
    });
    tab.sees(".conversation", &format!("line {rounds} of 0"));
    let in_the_end = heap();
    eprintln!("MB of heap after the first seconds {at_first}, in the end {in_the_end}");
    assert!(in_the_end < 1.5 * at_first + 1.0, "the tab grew from {at_first} to {in_the_end} MB");
    for number in 1..10 {
        tab.click_on(&format!("{} a", row(&id(number))));
        tab.sees(".conversation", &format!("line {rounds} of {number}"));
    }
    stage.browser.assert_no_trouble();
}
