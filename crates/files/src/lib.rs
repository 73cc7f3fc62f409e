//! The one door to files. Everybody else is forbidden to open a path (`clippy.toml`): whatever lies there may be a FIFO
//! that nobody writes to, a device without an end, a link that somebody else turned, or a file system that is gone.
//!
//! * [`open_regular`], [`read_small`], [`entries`] and the others of this level are for paths that are not agentctl's own:
//!   they never wait for another process, take nothing but regular files, and read no more than they were told.
//! * [`within`] is for questions about paths whose file system may not answer at all; [`real_path_within`] and
//!   [`is_folder_within`] are the usual ones.
//! * [`own`] is for agentctl's own folder: no link is followed, and nothing is believed that somebody else wrote or could
//!   have written.
//! * [`scratch`] has private folders for what is needed for a moment.
//! * [`watch`] is told by the kernel when files change.
//! * [`kernel`] has the few files that the kernel itself makes up.
#![allow(clippy::disallowed_methods, reason = "the door that everybody else goes through")]

pub mod kernel;
pub mod own;
pub mod scratch;
pub mod watch;

mod looker;
mod mounts;
mod outside;
mod patience;

pub use looker::{LOOKER, answer};
pub use outside::{
    Entries, copy_small, entries, open_folder, open_regular, read_beginning, read_small, read_text,
    real_path, write_anew,
};
pub use patience::{
    IS_FOLDER, Question, REAL_PATH, Silent, is_folder_within, leave, look_by_another_process,
    real_path_within, within,
};
