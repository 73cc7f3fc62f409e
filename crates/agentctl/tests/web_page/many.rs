//! Many sessions, many tabs.

use std::time::{Duration, Instant};

use agentctl_testkit::{FakeModel, TestHome};
use serde_json::json;

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
