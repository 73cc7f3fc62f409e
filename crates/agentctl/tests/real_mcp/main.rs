//! `agentctl mcp` with clients that others wrote: the MCP inspector of both eras, the client of Python, and the real
//! Claude Code, which supervises another agent through it.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests run processes and stop at surprises"
)]

mod asks;
mod claude;
mod dies;
mod judges;
mod line;
