//! OpenClaw for tests: a scripted gateway ([`ScriptedGateway`]), the real one ([`OpenClaw`]), and a plain client for both
//! ([`Rpc`]). None of them uses the product's own client.

mod day;
mod ledger;
mod manners;
mod real;
mod rpc;
mod scripted;
pub mod tls;
mod wire;

pub use day::BusyDay;
pub use ledger::Ledger;
pub use manners::{Act, frame};
pub use real::{CAREFUL, OpenClaw};
pub use rpc::{Present, Rpc};
pub use scripted::{ScriptedGateway, Step};
