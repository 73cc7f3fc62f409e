//! Everything the tests of agentctl stand on; never part of the product.
//!
//! - [`model`]: a fake model on loopback that real agents talk to, scripted from within the prompt.
//! - [`TestHome`]: an own home, environment, work folders, and a way to run `agentctl` in them.
//! - [`Background`], [`Pty`]: programs that run beside the test, without and with a terminal.
//! - [`agents`], [`claude`], [`codex`], [`pi`], [`opencode`], [`openclaw`], [`node_agents`]: real agents in pinned versions, moved into a
//!   test home.
//! - [`tools`]: judges from outside, such as validators.
//! - [`until`], [`until_seen`]: waiting for a condition with a deadline.
//! - [`skip`]: the one way to say that a test cannot be run here.
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
mod cache;
mod home;
pub mod model;
mod pty;
mod skip;
pub mod tools;
mod wait;

pub use agents::claude::Claude;
pub use agents::codex::Codex;
pub use agents::node_agents::NodeAgent;
pub use agents::openclaw::OpenClaw;
pub use agents::opencode::OpenCode;
pub use agents::pi::Pi;
pub use background::Background;
pub use home::{Output, TestHome};
pub use model::{Act, FakeModel, Reply, Usage};
pub use pty::Pty;
/// For [`Background::signal`].
pub use rustix::process::Signal;
pub use skip::{Skip, skip};
pub use wait::{until, until_seen};

/// A fresh random UUID, for session ids.
pub fn new_uuid() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/uuid").expect("read a random uuid");
    id.trim().to_owned()
}
