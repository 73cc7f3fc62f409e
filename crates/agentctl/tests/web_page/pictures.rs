//! The pictures of the README: `cargo xtask pictures` makes them again, from real agents in a demo home.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use agentctl_testkit::{Ask, FakeModel, Reply, until_seen};
use serde_json::json;

use crate::work::with_claude;
use crate::{PATIENCE, Said, Stage, row, store_at};

/// What each agent of the demo home is told, where it works, and what the model does then.
const WAITING: &str = "Fix the login form, it loses the session";
const RUNNING: &str = "Make the rate limiter fair";
const READY: &str = "Describe the API";

fn rule(ask: &Ask) -> Reply {
    match ask.prompt.as_str() {
        WAITING => Reply::shell("rm -rf build && npm run build"),
        RUNNING => Reply::hang("the picture is taken"),
        _ => Reply::text(
            "The API has four routes; each is described in `docs/api.md`, with an example that was tried.",
        ),
    }
}

/// People keep their work below their home, where paths are short.
fn below_home(place: &str) -> String {
    format!("../home/code/{place}")
}

#[test]
fn pictures_for_people() {
    let Some(folder) = std::env::var_os("AGENTCTL_PICTURES").map(PathBuf::from) else {
        return agentctl_testkit::skip("`cargo xtask pictures` asks for them");
    };
    fs::create_dir_all(&folder).unwrap();
    let model = FakeModel::with_rule(rule);
    let Some(stage) = with_claude(&model) else { return };
    let stored: [(&str, &[Said]); 2] = [
        (
            "mono",
            &[
                (3300, "user", "Why is the nightly red?"),
                (2700, "assistant", "A test looks at the clock. Shall I mend it?"),
                (2000, "user", "Yes"),
                (1300, "assistant", "A test needs a clock; it is mended."),
            ],
        ),
        (
            "web",
            &[
                (2400, "user", "Upgrade the router"),
                (700, "assistant", "Done: all 41 routes answer as before."),
            ],
        ),
    ];
    for (number, (place, said)) in stored.into_iter().enumerate() {
        let cwd = stage.home.git_repo(&below_home(place)).canonicalize().unwrap();
        store_at(&stage.home, &format!("44444444-0000-4000-8000-{number:012}"), &cwd, said);
    }
    let ready = stage.hold(&below_home("docs"), READY);
    let waiting = stage.hold(&below_home("site"), WAITING);
    let _running = stage.hold(&below_home("api"), RUNNING);
    for (width, scheme) in
        [(1440, "light"), (1440, "dark"), (768, "light"), (768, "dark"), (390, "light"), (390, "dark")]
    {
        let tab = stage.browser.open_as(&format!("{width} {scheme}"), &stage.address(&[]), width, scheme);
        tab.sees(&format!("{} .c-status", row(&waiting)), "waiting");
        tab.sees(&format!("{} .c-status", row(&ready)), "idle");
        tab.shot(&folder.join(format!("page-list-{width}-{scheme}.png")));
        tab.click_on(&format!("{} a", row(&waiting)));
        tab.sees(".request pre", "rm -rf build");
        tab.sees(".conversation .entry", "login form");
        tab.sees(".request button:enabled", "Approve");
        tab.shot(&folder.join(format!("page-session-{width}-{scheme}.png")));
    }
    let tab = stage.browser.open_as("timeline", &stage.address(&[]), 1440, "light");
    tab.go("#/timeline");
    tab.click("hour");
    tab.sees(".lane a", "Fix the login form");
    tab.shot(&folder.join("page-timeline.png"));
    for (width, height) in [(80, 24), (160, 40)] {
        top(&stage, &folder, width, height);
    }
    stage.browser.assert_no_trouble();
}

/// The screen of `agentctl top` in a real tmux, as a picture that Chromium paints.
fn top(stage: &Stage, folder: &Path, width: u32, height: u32) {
    let socket = stage.home.path().join(format!("tmux-{width}"));
    let tmux = |arguments: &[&str]| {
        let mut command = stage.home.command("tmux");
        command.arg("-S").arg(&socket).args(arguments).stdin(Stdio::null());
        command.env_remove("TMUX").env("TERM", "xterm-256color");
        command
    };
    let program = env!("CARGO_BIN_EXE_agentctl");
    let (x, y) = (width.to_string(), height.to_string());
    let mut start = tmux(&["-f", "/dev/null", "new-session", "-d", "-x", &x, "-y", &y]);
    let started = start
        .args(["env", "-u", "NO_COLOR", "-u", "AGENTCTL_NO_DAEMON", program, "--color", "always", "top"])
        .status();
    assert!(started.unwrap().success(), "tmux starts");
    let screen = until_seen(PATIENCE, "the list in top", || {
        let text = output(tmux(&["capture-pane", "-p", "-e"]));
        // The conversation beside the list begins with what the person said.
        if text.contains("rm -rf") && text.matches("Fix the login").count() > 2 {
            Ok(text)
        } else {
            Err(text)
        }
    });
    let _ = tmux(&["kill-server"]).status();
    let page = stage.home.path().join("screen.html");
    fs::write(&page, html(&screen)).unwrap();
    let name = format!("top {width}");
    let tab = stage.browser.open_as(&name, &format!("file://{}", page.display()), 1440, "dark");
    let size = tab.js(
        "(({ width, height }) => [width, height])(document.querySelector('pre').getBoundingClientRect())",
    );
    let size = |at: usize| size[at].as_f64().unwrap().ceil() + 40.0;
    stage.browser.ask("size", json!({ "tab": name, "width": size(0), "height": size(1) })).unwrap();
    tab.shot(&folder.join(format!("top-{width}x{height}.png")));
}

fn output(mut command: Command) -> String {
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

/// A terminal's screen as HTML: the colours and weights of SGR, and text.
fn html(screen: &str) -> String {
    const COLOURS: [&str; 8] =
        ["#1d2021", "#e06c75", "#7fb77e", "#d19a66", "#61afef", "#b48ead", "#56b6c2", "#c8ccd4"];
    let mut page = "<!doctype html><meta charset=utf-8><style>body{margin:20px;background:#16181d}\
        pre{margin:0;display:inline-block;font:16px/1.3 'DejaVu Sans Mono',monospace;color:#c8ccd4}.b{font-weight:700}.d{opacity:.6}\
        .r{background:#c8ccd4;color:#16181d}</style><pre>"
        .to_owned();
    let (mut bold, mut dim, mut reversed) = (false, false, false);
    let (mut colour, mut back) = (None::<usize>, None::<usize>);
    for (index, part) in screen.split("\u{1b}[").enumerate() {
        let text = match (index, part.split_once('m')) {
            (0, _) => part,
            (_, Some((codes, text))) => {
                // A colour may also be written as one of 256, of which the first are those of old.
                let codes = codes.replace("38;5;", "3").replace("48;5;", "4");
                for code in codes.split(';').map(|code| code.parse::<usize>().unwrap_or(0)) {
                    match code {
                        0 => (bold, dim, reversed, colour, back) = (false, false, false, None, None),
                        1 => bold = true,
                        2 => dim = true,
                        7 => reversed = true,
                        22 => (bold, dim) = (false, false),
                        27 => reversed = false,
                        30..=37 => colour = Some(code - 30),
                        39 => colour = None,
                        40..=47 => back = Some(code - 40),
                        49 => back = None,
                        90..=97 => colour = Some(code - 90),
                        _ => {}
                    }
                }
                text
            }
            (_, None) => continue,
        };
        let marks = [(bold, "b"), (dim, "d"), (reversed, "r")];
        let class: Vec<&str> = marks.into_iter().filter(|(on, _)| *on).map(|(_, class)| class).collect();
        let colours = [("color", colour), ("background", back)];
        let paint: String = colours
            .iter()
            .filter(|_| !reversed)
            .filter_map(|(what, at)| Some(format!("{what}:{};", COLOURS[(*at)?])))
            .collect();
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        let class = class.join(" ");
        page.extend(["<span class=\"", &class, "\" style=\"", &paint, "\">", &text, "</span>"]);
    }
    page + "</pre>"
}
