//! A snapshot: what an answer about some sessions rests on, as one file that can be given to others.
//!
//! [`take`](take::take) asks the same questions as `list`, `status` and `logs`, keeps every record that was read for them and
//! every answer of the kernel, and replaces all text that no reader needs. [`Replay`] unpacks such a file into a private
//! folder and builds a fleet from it that answers about that moment. A file from others is only data: it is bounded,
//! and its paths lead nowhere but into that folder.

pub mod archive;
mod kernel;
mod manifest;
pub mod redact;
mod replay;
pub mod take;

pub use manifest::{FileEntry, Manifest, NotCarried};
pub use replay::Replay;
