//! Launches side by side, their hooks and their time limits, with the real Claude Code.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests start processes and stop at surprises"
)]

mod groups;
mod hooks;
#[path = "../steer/mod.rs"]
mod steer;

use agentctl_testkit::Claude;
use steer::Scene;

/// Only Claude Code and the system's own tools can be found.
fn scene() -> Option<Scene> {
    Scene::set("claude-code", |home, url| {
        Claude::settle(home, url)?;
        let own = home.path().with_file_name("bin");
        home.set_env("PATH", format!("{}:/usr/bin:/bin", own.display()));
        Ok(())
    })
}

/// The full count is for the long run.
fn count(short: usize, long: usize) -> usize {
    if std::env::var_os("AGENTCTL_LONG").is_some() { long } else { short }
}
