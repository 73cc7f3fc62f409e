//! The tokens that the agent reported last.

use serde::{Deserialize, Serialize};

use super::agent::Counts;
use super::wire::TokenUsage;

/// What is known of the tokens. It is kept only where it is certain what the numbers cover.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    pub tokens: Option<Tokens>,
    pub context: Option<Context>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Tokens {
    pub input: u64,
    pub output: u64,
    pub of: Counts,
}

/// How full the model's window is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    pub used: u64,
    pub size: u64,
}

impl Usage {
    pub(super) fn take_tokens(&mut self, said: Option<TokenUsage>, of: Counts) {
        let Some(TokenUsage { input_tokens: Some(input), output_tokens: Some(output) }) = said else {
            return;
        };
        // Some agents report nothing but zeros for a turn that was interrupted.
        if of != Counts::Unknown && (input, output) != (0, 0) {
            self.tokens = Some(Tokens { input, output, of });
        }
    }

    pub(super) fn take_context(&mut self, used: Option<u64>, size: Option<u64>) {
        if let (Some(used), Some(size)) = (used, size)
            && used > 0
        {
            self.context = Some(Context { used, size });
        }
    }
}
