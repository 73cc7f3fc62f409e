//! The daemon as users meet it: the built binary, real sockets, real processes.
#![allow(clippy::disallowed_methods, reason = "tests run the binary")]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up must stop")]

mod attacks;
mod budgets;
mod conformance;
mod descriptors;
mod dice;
mod events;
mod far;
mod feeds;
mod fuses;
mod gateway;
mod ghosts;
mod hard_places;
mod hints;
mod hostile_checkout;
mod hostile_repository;
mod house;
mod judges;
mod launch_body;
mod launched;
mod life;
mod limits;
mod load;
mod locks;
mod manner;
mod memory;
mod notices;
mod published;
mod remembered;
mod searched;
mod service;
mod silence;
mod soak;
mod stand_in;
mod storm;
mod strangers;
mod troupe;
mod twins;
mod unwritten;
mod web;
mod webhooks;
mod writes;
