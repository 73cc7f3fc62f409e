//! What must outlive a command: the API on a socket, events, fuses, webhooks, metrics.
//!
//! The daemon holds no session state. Every answer is a fresh look through the same function that the command line uses,
//! so it can be killed at any moment and started again, and every answer is what it was. It never touches an agent
//! unless a fuse of the user says so.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests write what is read"))]

mod api;
mod bodies;
mod caller;
mod clock;
mod commands;
mod descriptors;
mod events;
mod feeds;
mod fuses;
mod guard;
mod holders;
mod home;
mod knock;
mod launches;
mod live;
mod log;
mod metrics;
mod notices;
mod own_files;
mod pace;
mod problem;
mod query;
mod run;
mod sd_notify;
mod server;
mod settings;
mod shared;
mod single_flight;
mod token;
mod visitors;
mod watch;
mod webhooks;
pub mod wire;

pub use api::{DaemonStatus, Messages, document as openapi, document_text as openapi_text};
pub use events::{Event, TYPES as EVENT_TYPES};
pub use fuses::{Fuse, FuseList, Fuses, Hands, Stage, deadline};
pub use home::{Held, Home, HomeError};
pub use knock::knock;
pub use problem::{Problem, ProblemObject};
pub use query::{encode, joined, list_pairs};
pub use run::{Ended, Options, RunError, run};
pub use settings::{Launcher, NotifySettings, Settings, WebhookSettings};
pub use webhooks::OutboxStatus;
