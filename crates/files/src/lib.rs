//! All file access goes through this crate; `clippy.toml` forbids the other crates to open a path. A path that agentctl did
//! not make may be a FIFO without a writer, an endless device, a link that another user has changed, or on a file system
//! that does not answer.
//!
//! * [`open_regular`], [`read_small`], [`entries`] and the other functions at the top level are for paths that are not
//!   agentctl's own: they never wait for another process, accept only regular files, and read no more than the given limit.
//! * [`within`] is for questions about paths whose file system may not answer at all; [`real_path_within`] and
//!   [`is_folder_within`] are the usual ones.
//! * [`own`] is for agentctl's own directory: it follows no link, and refuses what another user wrote or could have written.
//! * [`scratch`] makes private temporary directories.
//! * [`watch`] reports changes of files as the kernel announces them.
//! * [`trace`] lists what was read through these doors.
//! * [`kernel`] opens the few special files that the kernel provides.
#![allow(clippy::disallowed_methods, reason = "the door that everybody else goes through")]

pub mod kernel;
pub mod own;
pub mod scratch;
pub mod socket;
pub mod trace;
pub mod watch;

mod helper_process;
mod mounts;
mod outside;
mod path_question;

pub use helper_process::{HELPER_ARGUMENT, run_helper};
pub use outside::{
    Entries, copy_small, entries, is_served_here, open_folder, open_regular, read_beginning, read_small,
    read_text, real_path, write_anew, write_private,
};
pub use path_question::{
    IS_FOLDER, NoAnswer, Question, REAL_PATH, end_helpers, is_folder_within, real_path_within,
    use_helper_process, within,
};
