//! Launch records: `launches/<launch id>/` in agentctl's own directory, one directory for each launch.
//!
//! A record is joined to a session by adapter, root and the agent's own id. A record never makes a session, and nothing
//! that was derived is written into it.

mod ended;
mod folder;
mod ledger;
mod prune;
mod record;
mod screen;

pub use folder::{LaunchFolder, NewLaunch};
pub use ledger::Ledger;
pub use prune::{Expired, PruneReason, Retention, half_made};
pub use record::{
    Callback, CallbackOrder, Exit, Failed, LaunchOrder, ProcessMark, Record, VERSION, WorktreeOrder,
};
pub use screen::ScreenOrder;

/// The name of this directory in agentctl's own.
pub const FOLDER: &str = "launches";

pub use agentctl_adapters::control::LAUNCH_MARK as MARK;
