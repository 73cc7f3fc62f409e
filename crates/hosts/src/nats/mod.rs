//! The road over a NATS server: every daemon serves its API as requests, and whoever asks needs no daemon of his own.
//!
//! * [`subjects`] names every subject, and [`message`] the form of what is sent. Both are pure.
//! * [`settings`] and [`dial`] are how both sides come to the server.
//! * [`key`] makes the key of a new user.
//! * [`roster`] is who should answer: a key-value bucket of the server.
//! * [`bus`], [`direct`] and [`gather`] are the side that asks: one host, or all of them at once.

pub mod bus;
pub mod dial;
pub mod direct;
pub mod gather;
pub mod key;
pub mod message;
pub mod roster;
pub mod settings;
pub mod subjects;

pub use bus::{Bus, BusDoor};
pub use direct::NatsRoad;
pub use gather::{Gathered, Heard};
pub use settings::{NatsSettings, Serve, TlsFiles};
