//! What the tests of agentctl share. It is never part of the product.
//!
//! - [`model`]: a fake model on loopback that real agents talk to, scripted from within the prompt.
//! - [`TestHome`]: a separate home, environment and working directories, and a way to run `agentctl` in them.
//! - [`Background`], [`Pty`]: programs that run beside the test, without and with a terminal.
//! - [`agents`]: real agents in pinned versions, set up in a test home.
//! - [`clients`]: clients of MCP and ACP that others wrote, in pinned versions.
//! - [`troupe`]: processes that look like agents.
//! - [`sessions`]: made-up sessions, for tests that need no storage.
//! - [`nats`]: a real server of the bus, and scripted hosts on it.
//! - [`Near`]: a real sshd, and a home that asks other machines over it.
//! - [`tools`]: validators and other checking programs from outside this project.
//! - [`until`], [`until_seen`]: wait for a condition with a deadline.
//! - [`costs_what_its_size_says`]: fails for work that is quadratic.
//! - [`skip`]: reports that a test cannot be run here. There is no other way to skip.
//!
//! A test with a real agent begins like this:
//!
//! ```no_run
//! use agentctl_testkit::{Claude, FakeModel, TestHome, new_uuid, skip};
//!
//! let model = FakeModel::start();
//! let mut home = TestHome::new(); // or with_agentctl(env!("CARGO_BIN_EXE_agentctl"))
//! let claude = match Claude::settle(&mut home, &model.url()) {
//!     Ok(claude) => claude,
//!     Err(reason) => return skip(reason),
//! };
//! let cwd = home.git_repo("project");
//! let mut run = claude.headless(&home, &cwd, &new_uuid(), "[[bash:echo hi]] [[text:done]]", &[]);
//! ```

#![allow(
    clippy::disallowed_methods,
    reason = "the product reads clock and environment and starts processes in few places; doing so is this crate's job"
)]

pub mod agents;
mod background;
mod browser;
mod cache;
pub mod clients;
mod cost;
mod home;
pub mod model;
pub mod nats;
mod pty;
pub mod sessions;
mod skip;
mod ssh;
pub mod tools;
pub mod troupe;
mod wait;

pub use agents::claude::Claude;
pub use agents::codex::Codex;
pub use agents::node_agents::NodeAgent;
pub use agents::openclaw::OpenClaw;
pub use agents::opencode::OpenCode;
pub use agents::pi::Pi;
pub use agents::pi_rust::PiRust;
pub use background::Background;
pub use browser::{Browser, Tab};
pub use cache::folder as cache_folder;
pub use cost::costs_what_its_size_says;
pub use home::{Output, TestHome, has_fault_points, tested};
pub use model::{Act, Ask, FakeModel, Reply, Usage};
pub use nats::NatsServer;
pub use pty::Pty;
/// For [`Background::signal`].
pub use rustix::process::Signal;
pub use skip::{Skip, skip};
pub use ssh::Near;
pub use wait::{until, until_seen};

/// A new random UUID, for session ids.
pub fn new_uuid() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/uuid").expect("read a random uuid");
    id.trim().to_owned()
}
