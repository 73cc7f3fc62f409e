//! Every view at three widths, in the light and in the dark: nothing overflows, and axe-core finds nothing serious.

use std::path::PathBuf;

use agentctl_testkit::TestHome;

use crate::{Stage, store, store_at};

const VIEWS: [&str; 8] =
    ["#/", "#/inbox", "#/groups", "#/timeline", "#/usage", "#/hosts", "#/launch", "SESSION"];

#[test]
fn every_view_fits_and_can_be_used_by_everybody() {
    let home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
    let cwd = home.work_dir("a-project-with-a-long-name-that-has-to-be-cut-somewhere");
    let talk = [
        ("user", "Describe the API, with all its parts"),
        ("assistant", "Here:\n```\nfn main() {}\n```\nThat is all."),
    ];
    let id = |number: usize| format!("33333333-0000-4000-8000-{number:012}");
    for number in 1..12 {
        store(&home, &id(number), &cwd, &talk);
    }
    let [(_, asked), (_, said)] = talk;
    store_at(&home, &id(0), &cwd, &[(3000, "user", asked), (1200, "assistant", said)]);
    let config = home.agentctl_home().join("config.toml");
    std::fs::create_dir_all(home.agentctl_home()).unwrap();
    // Nobody listens there: the machine has its row, with the reason.
    std::fs::write(config, "[hosts.box]\nssh = \"nobody@127.0.0.1\"\ntimeout = \"2s\"\n").unwrap();
    let Some(stage) = Stage::set(home) else { return };
    let pictures = std::env::var_os("AGENTCTL_PICTURES").map(PathBuf::from);
    let is_long = std::env::var_os("AGENTCTL_LONG").is_some();
    for scheme in ["light", "dark"] {
        for width in [390, 768, 1440] {
            let tab = stage.browser.open_as(&format!("{scheme} {width}"), &stage.address(&[]), width, scheme);
            tab.sees(".row", "Describe the API");
            let session = tab.js("document.querySelector('tr.row a').getAttribute('href')");
            for view in VIEWS {
                tab.go(if view == "SESSION" { session.as_str().unwrap() } else { view });
                tab.sees(if view == "SESSION" { ".conversation .entry" } else { "h1, .row" }, "");
                let over = tab.js("document.documentElement.scrollWidth - innerWidth");
                assert!(over.as_i64() <= Some(0), "{view} at {width} is {over} px too wide");
                // Colours differ by scheme and layout by width, so not every pair is judged each time.
                if is_long || width == 1440 || (width == 390 && scheme == "light") {
                    tab.assert_accessible();
                }
                if let Some(folder) = &pictures {
                    let name = view.trim_matches(|c| c == '#' || c == '/');
                    tab.shot(&folder.join(format!(
                        "{}-{width}-{scheme}.png",
                        if name.is_empty() { "list" } else { name }
                    )));
                }
            }
            tab.go("#/");
            tab.key("?");
            tab.sees("dialog", "approve");
            tab.assert_accessible();
            tab.key("Escape");
            tab.misses("dialog", "approve");
        }
    }
    // The machine that is not heard has its place in the list and in the doctor's view.
    let tab = stage.tab("last");
    tab.sees(".note", "box");
    tab.sees(".note", "not heard");
    tab.key("h");
    tab.sees("section[aria-label=Machines], [aria-label=Machines]", "box");
    tab.key("u");
    tab.sees(".total", "12 sessions");
    // By day they are two bars for as long as the one that ended before midnight is of another day.
    tab.sees(".total", "13.2k tokens");
    tab.click("model");
    tab.sees(".bars", "13.2k");
    tab.key("g");
    tab.sees("h1", "Groups");
    // The times of the axis are those of the reader's clock: a day begins at midnight.
    tab.key("t");
    tab.sees(".lane a", "Describe the API");
    tab.sees(".legend", "stopped");
    stage.draws_the_timeline(&tab, &id(0));
    tab.click("week");
    tab.becomes(
        "[...document.querySelectorAll('.tick')].map(tick => { \
         const at = new Date(Date.now() - 7 * 864e5 * (1 - parseFloat(tick.style.left) / 100) + 6e4); \
         return [at.getHours(), at.getMinutes() < 2, at.toLocaleString(undefined, { month: 'short', day: 'numeric' }) === tick.textContent].join(); }).join(' ')",
        ["0,true,true"; 7].join(" "),
    );
    stage.browser.assert_no_trouble();
}
