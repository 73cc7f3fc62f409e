//! A fake model on loopback that real agents can be pointed at.
//!
//! It speaks Anthropic Messages, `OpenAI` Responses, `OpenAI` Chat Completions and Gemini, streamed and whole. The prompt
//! itself contains the answers (see [`script`]); a rule answers prompts without a script. The server must keep no state
//! that decides an answer: each request is answered from its own body alone.

mod ask;
mod schema;
pub mod script;
mod server;
mod wire;

pub use ask::{Ask, Tool, choose};
pub use script::{Act, Reply, Usage};
pub use server::{FakeModel, Seen};
pub use wire::Wire;
