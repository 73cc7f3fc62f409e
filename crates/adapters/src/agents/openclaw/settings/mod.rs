//! Which gateway is meant, with its address and its credentials, read from OpenClaw's own files and variables.

pub(super) mod address;
pub(super) mod config;
pub(super) mod discovery;
pub(super) mod dotenv;
pub(super) mod json5;
#[cfg(test)]
mod scene;
mod target;
