//! What must outlive a command: the API on a socket, events, fuses, webhooks, metrics.
//!
//! The daemon holds no session state. Every answer is a fresh look through the same function that the command line uses,
//! so it can be killed at any moment and started again, and every answer is what it was. It never touches an agent
//! unless a fuse of the user says so.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests write what is read"))]

mod fuses;
mod home;
mod knock;
mod run;
mod serve;
mod settings;
mod shared;
mod tell;
mod watch;
pub mod wire;

pub use fuses::{FuseList, Fuses, Hands, deadline};
pub use home::{Held, Home, HomeError};
pub use knock::{call, is_impostor};
pub use run::{Ended, Options, RunError, run};
pub use serve::api::{DaemonStatus, Messages, document as openapi, document_text as openapi_text};
pub use serve::problem::{Problem, ProblemObject};
pub use serve::query::{encode, joined, list_pairs};
pub use settings::{NotifySettings, Settings, WebhookSettings};
pub use tell::events::EventMessage;
pub use tell::webhooks::OutboxStatus;
