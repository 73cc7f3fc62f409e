//! Deeds: launching, steering, stopping and cleaning up. Whoever acts first asks `read`, and proves whom it touches.

pub(crate) mod caller;
pub(crate) mod gateways;
pub mod hook_variables;
pub mod launch;
pub(crate) mod orphans;
pub(crate) mod prune;
pub mod runner;
pub mod steer;
pub mod stop;
