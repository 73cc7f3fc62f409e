//! Machines that are asked over a real nats-server: their answers, what they refuse, and what is said of those that answer
//! badly or not at all.
#![allow(clippy::disallowed_methods, reason = "tests start processes and write what is read")]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up must stop")]

mod acting;
mod conformance;
mod faults;
#[path = "../daemon/house.rs"]
#[allow(dead_code, reason = "another test's room, of which a part is used")]
mod house;
mod many;
mod refusals;
mod rights;
mod scene;
mod secure;
#[path = "../daemon/stand_in.rs"]
#[allow(dead_code, reason = "another test's room, of which a part is used")]
mod stand_in;
mod streams;
