//! The roads to other machines. Everything that a host can be asked is its API: the same routes and the same JSON
//! as on the unix socket of its daemon. A road only carries requests and answers.
//!
//! A host that cannot be asked is never silently left out: every failure says at which step the road ended, and what
//! a person can do about it.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start what stands in for ssh"))]

mod connection;
mod failure;
mod greeting;
mod here;
mod instance;
mod name;
pub mod nats;
mod pipe;
mod road;
pub mod ssh;

pub use failure::{RoadFailure, Step};
#[cfg(fuzzing)]
pub use greeting::fuzz as fuzz_greeting;
pub use greeting::{Greeting, MARK};
pub use here::LocalRoad;
pub use instance::instance;
pub use name::{HostName, LOCAL};
pub use road::{Answer, Ask, Connection, Events, Host};
