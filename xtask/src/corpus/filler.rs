//! Filler text, cut from one pool, so that gigabytes of it cost little more than copying.

use super::rng::Rng;

const WORDS: &[&str] = &[
    "the",
    "reader",
    "keeps",
    "an",
    "offset",
    "for",
    "every",
    "file",
    "and",
    "a",
    "broken",
    "tail",
    "is",
    "not",
    "a failure",
    "branch",
    "merge",
    "panic",
    "retry",
    "deadline",
    "socket",
    "buffer",
    "index",
    "lock",
    "path",
    "cache",
    "stream",
    "reply",
    "request",
    "tool",
    "result",
    "patch",
    "review",
    "rename",
    "module",
    "function",
    "struct",
    "field",
    "match",
    "await",
    "queue",
    "event",
    "state",
    "session",
    "naïve",
    "größe",
    "日本語",
    "let x = 1;",
    "if ok {",
    "}",
    "https://example.invalid/a?b=c",
    "src/main.rs:42",
    "0x7fff",
    "--verbose",
];

const POOL_WORDS: usize = 60_000;

/// Text for the inside of a JSON string: quotes and newlines are already escaped.
pub(crate) struct Filler {
    pool: String,
    /// The positions at which words start. A piece starts and ends only there, so that no escape or character is cut.
    starts: Vec<usize>,
}

impl Filler {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::for_stream(seed, "filler", 0);
        let mut pool = String::new();
        let mut starts = Vec::with_capacity(POOL_WORDS + 1);
        for n in 0..POOL_WORDS {
            starts.push(pool.len());
            pool.push_str(rng.pick(WORDS));
            pool.push_str(match n % 34 {
                11 => ".\\n ",
                23 => ", \\\"quoted\\\" ",
                31 => "\\t ",
                _ => " ",
            });
        }
        starts.push(pool.len());
        Self { pool, starts }
    }

    /// About `bytes` bytes of escaped text in several lines: never more, and at most one word less.
    pub(crate) fn prose(&self, rng: &mut Rng, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes);
        while text.len() < bytes {
            let from = rng.index(self.starts.len() - 1);
            let begin = self.starts[from];
            let room = begin + (bytes - text.len());
            let to = self.starts.partition_point(|&start| start <= room) - 1;
            if to <= from {
                break;
            }
            text.push_str(&self.pool[begin..self.starts[to]]);
        }
        text
    }

    /// Text on one line that JSON does not escape, for prompts and titles.
    pub(crate) fn line(&self, rng: &mut Rng, bytes: usize) -> String {
        let text = self.prose(rng, bytes.max(24)).replace("\\n", "").replace("\\t", "").replace("\\\"", "'");
        let text = text.trim();
        if text.is_empty() { "look at this".to_owned() } else { text.to_owned() }
    }
}

/// What a reader should show for escaped text: the first `chars` characters, with white space folded.
pub(crate) fn visible_prefix(escaped: &str, chars: usize) -> String {
    // Only the beginning is processed, because a giant prompt has megabytes.
    let head: String = escaped.chars().take(chars * 4 + 16).collect();
    let plain = head.replace("\\n", "\n").replace("\\t", "\t").replace("\\\"", "\"");
    folded_prefix(&plain, chars)
}

/// The first `chars` characters of `text`, with each run of white space as one space.
pub(crate) fn folded_prefix(text: &str, chars: usize) -> String {
    let folded = text.split_whitespace().take(chars).collect::<Vec<_>>().join(" ");
    folded.chars().take(chars).collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::{Filler, folded_prefix, visible_prefix};
    use crate::corpus::rng::Rng;

    #[test]
    fn prose_is_valid_inside_a_json_string() {
        let filler = Filler::new(1);
        let mut rng = Rng::for_stream(1, "t", 0);
        for bytes in [0, 1, 30, 400, 5_000, 2_200_000] {
            let text = filler.prose(&mut rng, bytes);
            assert!(text.len() <= bytes && text.len() + 64 > bytes, "{bytes}: {}", text.len());
            let parsed: String = serde_json::from_str(&format!("\"{text}\"")).unwrap();
            assert_eq!(visible_prefix(&text, 40), folded_prefix(&parsed, 40));
        }
    }

    #[test]
    fn a_line_needs_no_escape() {
        let filler = Filler::new(1);
        let mut rng = Rng::for_stream(1, "t", 0);
        for bytes in 0..500 {
            let line = filler.line(&mut rng, bytes);
            assert!(!line.is_empty() && !line.contains(['\\', '"', '\n']), "{line:?}");
        }
    }
}
