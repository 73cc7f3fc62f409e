//! Reads conversations that agents keep in files: windows, heads, tails, counting. Every file-based agent is read
//! through this module.

pub(crate) mod call;
pub mod folder;
pub(crate) mod gather;
pub mod jsonl;
pub mod marks;
pub mod memory;
pub mod parallel;
pub(crate) mod read;
pub mod readings;
pub(crate) mod show;
