//! Actions: launching, steering, stopping and cleaning up. Every action first asks `read`, and proves which processes
//! it touches.

pub mod asker;
pub(crate) mod caller;
pub(crate) mod gateways;
pub mod hook_variables;
pub mod launch;
pub(crate) mod offered;
pub(crate) mod orphans;
pub mod planned;
pub(crate) mod prune;
pub mod recover;
pub mod runner;
pub mod steer;
pub mod stop;
pub(crate) mod unattended;
mod worked_on;
