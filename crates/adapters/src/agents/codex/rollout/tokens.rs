//! Converts token counters to the contract's fields. Pure.

use agentctl_model::Tokens;

use super::records::Usage;

impl Usage {
    /// Subtracts what `other` counted.
    pub(crate) fn less(&self, other: &Self) -> Self {
        let part =
            |own: Option<u64>, other: Option<u64>| own.map(|own| own.saturating_sub(other.unwrap_or(0)));
        Self {
            input_tokens: self.input_tokens.saturating_sub(other.input_tokens),
            cached_input_tokens: part(self.cached_input_tokens, other.cached_input_tokens),
            cache_write_input_tokens: part(self.cache_write_input_tokens, other.cache_write_input_tokens),
            output_tokens: self.output_tokens.saturating_sub(other.output_tokens),
            ..*self
        }
    }

    /// Whether no counter is smaller than in `other`.
    pub(crate) fn is_at_least(&self, other: &Self) -> bool {
        self.input_tokens >= other.input_tokens && self.output_tokens >= other.output_tokens
    }

    /// The agent counts cached input, both read and written, as part of its input.
    pub(crate) fn tokens(&self) -> Tokens {
        let (read, written) = (self.cached_input_tokens, self.cache_write_input_tokens);
        let cached = read.unwrap_or(0).saturating_add(written.unwrap_or(0));
        Tokens {
            input: Some(self.input_tokens.saturating_sub(cached)),
            output: Some(self.output_tokens),
            cache_read: read,
            cache_write: written,
        }
    }
}

/// The session's own tokens. The counters of a fork start at its parent's total, and those of a sub-agent may; what
/// such a thread spent is not known before a reply of its own tells where it began.
pub(crate) fn own(total: Option<Usage>, may_inherit: bool, inherited: Option<Usage>) -> Option<Tokens> {
    let total = total?;
    if may_inherit {
        inherited.map(|inherited| total.less(&inherited).tokens())
    } else {
        Some(total.tokens())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input: u64, cached: u64, output: u64) -> Usage {
        let text =
            format!(r#"{{"input_tokens":{input},"cached_input_tokens":{cached},"output_tokens":{output}}}"#);
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn cached_input_is_part_of_the_input() {
        let tokens = usage(1006, 100, 50).tokens();
        assert_eq!((tokens.input, tokens.output, tokens.cache_read), (Some(906), Some(50), Some(100)));
        assert_eq!(tokens.cache_write, None, "a part that is not reported is unknown");
    }

    #[test]
    fn a_fork_has_only_what_it_did_itself() {
        let (total, first_total, first_reply) =
            (usage(3110, 300, 150), usage(2073, 200, 100), usage(1037, 100, 50));
        let own_tokens = own(Some(total), true, Some(first_total.less(&first_reply))).unwrap();
        assert_eq!((own_tokens.input, own_tokens.output), (Some(1874), Some(100)));
        assert_eq!(own(Some(total), true, None), None, "no reply of its own yet");
        assert_eq!(own(None, false, None), None);
    }
}
