//! The parts that must outlive a command: the API on a socket, events, fuses, webhooks, metrics.
//!
//! The daemon holds no session state. Every answer is a fresh survey by the same function that the command
//! line uses, so the daemon can be killed and restarted at any moment without changing an answer. It never
//! acts on an agent unless a fuse of the user demands it.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests write what is read"))]

mod connect;
mod fuses;
mod home;
mod run;
mod serve;
mod settings;
mod shared;
mod tell;
mod watch;
pub mod wire;

pub use connect::{call, is_impostor};
pub use fuses::{FuseList, Fuses, SessionStopper, deadline};
pub use home::{DaemonLock, Home, HomeError};
pub use run::in_process::{InProcess, serve_in_process};
pub use run::{Ended, Options, RunError, run};
#[cfg(fuzzing)]
pub use serve::api::fuzzing;
pub use serve::api::{
    DaemonStatus, Messages, Planned, WebClosed, WebInvitation, document as openapi,
    document_text as openapi_text, timeline_pairs, usage_pairs,
};
pub use serve::problem::{Problem, ProblemObject};
pub use serve::query::{encode, joined, list_pairs};
pub use settings::{BusSettings, FarRequest, NotifySettings, Passed, Settings, WebhookSettings};
pub use tell::commands::{run_and_wait, show_and_wait};
pub use tell::events::EventMessage;
pub use tell::notices::presets;
pub use tell::webhooks::OutboxStatus;
