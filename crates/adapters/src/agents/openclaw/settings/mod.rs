//! Which gateway is meant, with its address and its credentials, read from OpenClaw's own files and variables.

pub(super) mod address;
mod config;
pub(super) mod discovery;
mod dotenv;
mod json5;
#[cfg(test)]
mod scene;
mod target;
