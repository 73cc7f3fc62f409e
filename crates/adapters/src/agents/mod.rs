//! One folder for each agent: what it stores, how its processes are recognised, and how it is started and spoken to.

pub mod acp;
pub mod claude_code;
pub mod codex;
pub mod copilot;
pub mod gemini;
pub mod kimi;
pub mod openclaw;
pub mod opencode;
pub mod pi;
pub mod pi_rust;
pub mod qwen;
pub mod slate;
