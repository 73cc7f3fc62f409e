//! Launches under bad conditions, with the real Claude Code: runners and agents that are killed, launches that race, tools
//! that survive their agent, agents that launch agents.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests start processes and stop at surprises"
)]

mod budgeted;
mod fused;
mod killed;
mod nested;
mod orphans;
mod race;
mod runner;
#[path = "../steer/mod.rs"]
mod steer;

use agentctl_testkit::Claude;
use steer::Scene;

fn scene() -> Option<Scene> {
    Scene::set("claude-code", |home, url| Claude::settle(home, url).map(drop))
}

/// The full count is for the long run.
fn count(short: usize, long: usize) -> usize {
    if std::env::var_os("AGENTCTL_LONG").is_some() { long } else { short }
}
