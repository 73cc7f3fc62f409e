//! Reads append-only files of JSON lines: the only I/O that transcripts need.
//!
//! The caller parses, which is pure; this module handles windows, lines, and files that misbehave.

pub mod follow;
pub mod head;
pub mod lenient;
pub mod open;
pub mod peek;
pub(crate) mod quick;
mod scan;
mod scratch;
pub mod text;
pub(crate) mod time;
pub mod walk;
pub mod whole;

pub use scan::{LINE_LIMIT, ReadAt, Scan, Seen, scan_back};
