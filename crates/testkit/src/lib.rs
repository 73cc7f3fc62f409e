//! Everything the tests of agentctl stand on; never part of the product.
//!
//! - [`model`]: a fake model on loopback that real agents talk to, scripted from within the prompt.
//! - [`TestHome`]: an own home, environment, work folders, and a way to run `agentctl` in them.
//! - [`until`], [`until_seen`]: waiting for a condition with a deadline.

mod family;
mod home;
pub mod model;
mod wait;

pub use home::{Output, TestHome};
pub use model::{FakeModel, Reply, Usage};
pub use wait::{until, until_seen};
