//! The page in a real browser: Chromium opens the address that `agentctl web` prints. In every scene there is no error in the
//! console, nothing that the policy of the page forbids, and no request to another origin.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests start processes, write files and stop at surprises"
)]

mod attacks;
mod hosts;
mod looks;
#[path = "../machine/mod.rs"]
mod machine;
mod many;
mod pictures;
mod work;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentctl_testkit::{Background, Browser, Tab, TestHome, skip, until_seen};

pub(crate) const PATIENCE: Duration = Duration::from_mins(3);
/// A change that `list` would tell is on an open page within 3 seconds; a busy machine is ten times slower.
pub(crate) const SHOWN: Duration = Duration::from_secs(30);

/// A home with a daemon, and a browser beside it.
pub(crate) struct Stage {
    pub(crate) browser: Browser,
    daemon: Option<Background>,
    pub(crate) home: TestHome,
}

impl Stage {
    /// `None`, with a printed reason, where there is no browser.
    pub(crate) fn set(home: TestHome) -> Option<Self> {
        match Browser::start(&home) {
            Ok(browser) => {
                let mut stage = Self { browser, daemon: None, home };
                stage.start_daemon();
                Some(stage)
            }
            Err(reason) => {
                skip(reason);
                None
            }
        }
    }

    pub(crate) fn start_daemon(&mut self) {
        self.daemon = Some(Background::spawn(&self.home, self.home.agentctl_command(&["daemon", "run"])));
        until_seen(PATIENCE, "the daemon to serve", || {
            let status = self.run(&["daemon", "status"]);
            if status.code == Some(0) { Ok(()) } else { Err(format!("{status:?}")) }
        });
    }

    /// Ends the daemon as a crash does.
    pub(crate) fn kill_daemon(&mut self) {
        self.daemon = None;
    }

    /// A command that asks the daemon.
    pub(crate) fn run(&self, arguments: &[&str]) -> agentctl_testkit::Output {
        let mut command = self.home.agentctl_command(arguments);
        command.env_remove("AGENTCTL_NO_DAEMON");
        self.home.run(command)
    }

    /// An address that signs in one tab.
    pub(crate) fn address(&self, more: &[&str]) -> String {
        // A daemon that is starved of the processor is one that does not answer in time.
        let printed = until_seen(PATIENCE, "an address", || {
            let printed = self.run(&[&["web", "--print"], more].concat());
            if printed.code == Some(5) { Err(printed.stderr) } else { Ok(printed) }
        });
        let printed = printed.ok().stdout;
        assert_eq!(printed.lines().count(), 1, "{printed}");
        printed.trim().to_owned()
    }

    /// The bars of a session in the last hour are those that the command tells, each where its two times are.
    #[track_caller]
    pub(crate) fn draws_the_timeline(&self, tab: &Tab<'_>, id: &str) {
        let told = self.run(&["timeline", id, "--json"]).ok().json();
        let spans = &told["lanes"][0]["spans"];
        assert!(spans.as_array().is_some_and(|spans| !spans.is_empty()), "{told:#}");
        tab.click("hour");
        tab.becomes(
            &format!(
                "(spans => {{ const bars = [...document.querySelector('.lane a[title$=\"{id}\"]').parentElement.querySelectorAll('rect')]; \
                 const second = 1000 / 3600, ago = (time) => (Date.now() - (time ? Date.parse(time) : Date.now())) / 1000 * second; \
                 const isNear = (bar, name, wanted) => Math.abs(bar.getAttribute(name) - wanted) < 20 * second; \
                 return bars.length === spans.length && bars.every((bar, at) => {{ const {{ from, to, status }} = spans[at]; \
                 return bar.classList.contains(status) && isNear(bar, 'x', 1000 - ago(from)) && isNear(bar, 'width', ago(from) - ago(to)); }}) || bars.map(bar => bar.outerHTML); }})({spans})"
            ),
            true,
        );
    }

    /// A tab of the page, signed in, with its list.
    pub(crate) fn tab(&self, name: &str) -> Tab<'_> {
        let tab = self.browser.open(name, &self.address(&[]));
        tab.sees(".counts", "need");
        tab
    }
}

/// A stored session of Claude Code: its id, where it worked, and what was said, one entry a second, the last one now.
pub(crate) fn store(home: &TestHome, id: &str, cwd: &Path, said: &[(&str, &str)]) -> PathBuf {
    let ago = |at: usize| i64::try_from(said.len() - 1 - at).unwrap();
    let said: Vec<Said<'_>> =
        said.iter().enumerate().map(|(at, (role, text))| (ago(at), *role, *text)).collect();
    store_at(home, id, cwd, &said)
}

/// How many seconds ago something was said, by whom, and what.
pub(crate) type Said<'s> = (i64, &'s str, &'s str);

/// The same, with the time of each.
pub(crate) fn store_at(home: &TestHome, id: &str, cwd: &Path, said: &[Said<'_>]) -> PathBuf {
    let folder: String =
        cwd.to_str().unwrap().chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
    let folder = home.path().join(".claude/projects").join(folder);
    fs::create_dir_all(&folder).unwrap();
    let now = jiff::Timestamp::now();
    let back = |seconds: i64| now - jiff::SignedDuration::from_secs(seconds);
    let lines: Vec<String> = said
        .iter()
        .enumerate()
        .map(|(at, (ago, role, text))| {
            let message = if *role == "user" {
                serde_json::json!({"role": "user", "content": text})
            } else {
                serde_json::json!({"role": "assistant", "id": format!("{id} {at}"), "model": "claude-opus-5-5", "type": "message",
                    "content": [{"type": "text", "text": text}], "stop_reason": "end_turn",
                    "usage": {"input_tokens": 1000, "output_tokens": 100, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}})
            };
            serde_json::json!({"type": role, "uuid": format!("{id}-{at}"), "parentUuid": null, "isSidechain": false, "sessionId": id,
                "cwd": cwd, "version": "2.1.0", "timestamp": back(*ago).to_string(), "message": message})
            .to_string()
        })
        .collect();
    let path = folder.join(format!("{id}.jsonl"));
    fs::write(&path, lines.join("\n") + "\n").unwrap();
    path
}

/// The row of a session in the list.
pub(crate) fn row(id: &str) -> String {
    format!("tr.row[data-id=\"{id}\"]")
}
