//! The built `agentctl` with real Claude Code sessions that talk to a fake model: every verdict of the
//! contract, reached as users reach it. Nothing here waits for time to pass, and every listing that must be
//! right is started after the fact that it must show.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests start processes and stop at surprises"
)]

mod background_job;
mod churn;
mod headless;
mod relatives;
mod reused_pid;
mod scene;
mod terminal;
