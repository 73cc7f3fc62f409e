//! Which gateway is meant, with its address and its credentials, read from OpenClaw's own files and variables.

pub(super) mod address;
mod config;
mod dotenv;
mod json5;
pub(super) mod places;
mod target;
