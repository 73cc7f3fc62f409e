//! Token totals: each model reply counts once, however many lines repeat it. Pure.

use std::sync::LazyLock;

use agentctl_model::Tokens;
use memchr::memmem::Finder;

use super::records::{NO_MODEL, Usage};
use super::reply::Reply;
use crate::transcript::jsonl::time::time;
use crate::transcript::memory::Counted;
use crate::transcript::read::{Calls, Recorded, Sum};

/// Every record with usage contains this key, whatever its spacing; lines without it need not even be split.
const MARK: &str = "\"usage\"";

/// The name of the sub-agents whose replies are in the transcript of their session; the records do not tell them apart.
const SIDECHAIN: &str = "sub-agents";

/// The agent records each request before the reply to it, in the transcript of the session that sent the
/// request.
const REQUEST: &[u8] = b"\"api-request";

/// Whether one of these lines is a request, whatever its spacing. A request has its type first, so a type
/// inside a cut line or inside quoted text does not count.
fn hold_request(lines: &[u8]) -> bool {
    let is_first = |at: usize| {
        let key = lines[..at].trim_ascii_end().strip_suffix(b":").map(<[u8]>::trim_ascii_end);
        let record = key.and_then(|key| key.strip_suffix(b"\"type\"")).map(<[u8]>::trim_ascii_end);
        let before = record.and_then(|record| record.strip_suffix(b"{"));
        before.is_some_and(|before| before.rsplit(|byte| *byte == b'\n').next().is_none_or(<[u8]>::is_empty))
    };
    memchr::memmem::find_iter(lines, REQUEST).any(is_first)
}

/// A request has its type before any other key.
fn is_request(line: &[u8]) -> bool {
    hold_request(&line[..line.len().min(40)])
}

/// Sums usage over records, once per message id.
///
/// A forked session begins with copies of its parent's records. `/branch` marks the copies. `--fork-session`
/// does not, but it does not copy the requests: a reply that names a request and stands before the first
/// request of the file is a copy. A file without any request gives no information about copies.
#[derive(Default)]
pub(super) struct UsageSum {
    sidechain: bool,
    /// All following replies are this session's own.
    own: bool,
    /// The number of lines that contain usage but are not records, and whether the last line is one of them.
    broken: u64,
    last_broken: bool,
    calls: Calls,
    /// The message that was counted last and the raw text of its usage, because the message's next block
    /// repeats both.
    last: (String, Vec<u8>),
}

impl Sum for UsageSum {
    fn marks(&self) -> &'static [&'static str] {
        &[MARK]
    }

    fn line(&mut self, line: &[u8], at: usize) {
        self.last_broken = false;
        if !self.own && is_request(line) {
            self.begin_own();
        } else {
            self.reply(line, at);
        }
    }

    fn others(&mut self, lines: &[u8]) {
        self.last_broken &= lines.is_empty();
        if !self.own && hold_request(lines) {
            self.begin_own();
        }
    }

    fn counted(self, torn: bool) -> Counted {
        // A last line that is still being written is not damage.
        let damaged = self.broken > u64::from(self.last_broken && torn);
        Counted { damaged, ..self.calls.counted() }
    }
}

impl UsageSum {
    pub(super) fn new(sidechain: bool) -> Self {
        Self { sidechain, ..Self::default() }
    }

    /// Handles the first request: everything counted before it is a copy.
    fn begin_own(&mut self) {
        self.own = true;
        self.last.0.clear();
        self.calls.clear();
    }

    /// Handles a line whose first mention of usage is at `at`.
    fn reply(&mut self, line: &[u8], at: usize) {
        // The agent repeats a message's usage with each of its blocks; an identical repetition need not be
        // parsed again.
        let id = message_id(line);
        let repeats = id.is_some_and(|id| id == self.last.0) && line[at..].starts_with(&self.last.1);
        if repeats && line.ends_with(b"}") {
            return;
        }
        self.last.0.clear();
        let Some(reply) = Reply::parse(line) else {
            self.broken += 1;
            self.last_broken = true;
            return;
        };
        let written = reply.message.as_ref().and_then(|message| message.usage_as_written);
        if self.count(reply)
            && let (Some(id), Some(written)) = (id, written)
            // The first mention must be the message's own usage, not that of a text or a tool before it.
            && let Some(mention) = line[at..].get(..MARK.len() + 1 + written.len())
            && let own = &mention[MARK.len() + 1..]
            && std::ptr::eq(own, written)
        {
            self.last.0.push_str(id);
            self.last.1.clear();
            self.last.1.extend_from_slice(mention);
        }
    }

    /// Counts a reply and returns whether it was this session's own.
    fn count(&mut self, reply: Reply<'_>) -> bool {
        if reply.kind != "assistant" || reply.forked_from.is_some() {
            return false;
        }
        // Older versions write the replies to sub-agents into the transcript of the session.
        let agent = match (reply.is_sidechain, self.sidechain) {
            (true, false) => Some(SIDECHAIN),
            (false, true) => return false,
            _ => None,
        };
        let Some(message) = reply.message else { return false };
        let (Some(usage), false) = (message.usage, message.model.as_deref() == Some(NO_MODEL)) else {
            return false;
        };
        // A version that records no requests began this file, so no later request makes this reply a copy.
        self.own |= reply.request_ref.is_none();
        let at = reply.timestamp.as_deref().and_then(time);
        let model = message.model.as_deref();
        let call = Recorded { at, model, tokens: tokens(&usage), agent, ..Recorded::default() };
        self.calls.add(message.id.as_deref(), call);
        true
    }
}

fn tokens(usage: &Usage) -> Tokens {
    Tokens {
        input: Some(usage.input_tokens),
        output: Some(usage.output_tokens),
        cache_read: Some(usage.cache_read_input_tokens),
        cache_write: Some(usage.cache_creation_input_tokens),
    }
}

/// The message id, if the record begins exactly in the agent's spelling.
fn message_id(line: &[u8]) -> Option<&str> {
    let beginning = &line[..line.len().min(300)];
    let id = &beginning[ID.find(beginning)? + ID.needle().len()..];
    std::str::from_utf8(&id[..memchr::memchr(b'"', id)?]).ok()
}

static ID: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(",\"message\":{\"id\":\""));

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes lines in as the scan does.
    fn give(sum: &mut UsageSum, lines: &[u8]) {
        match memchr::memmem::find(lines, MARK.as_bytes()) {
            Some(at) => sum.line(lines, at),
            None => sum.others(lines),
        }
    }

    #[test]
    fn a_reply_counts_whatever_its_spelling_and_its_content() {
        let reply = |content: &str, model: &str, more: &str| {
            format!(
                r#"{{"parentUuid":"p","isSidechain":false,"message":{{"id":"m1","type":"message","role":"assistant","model":"{model}","content":[{content}],"stop_reason":"tool_use","stop_sequence":null,"usage":{{"input_tokens":7,"cache_creation_input_tokens":1,"cache_read_input_tokens":2,"output_tokens":3}},"stop_details":null}},"type":"assistant","uuid":"u"{more}}}"#
            )
        };
        let counted = |line: &str, sidechain| {
            let mut sum = UsageSum { own: true, ..UsageSum::new(sidechain) };
            give(&mut sum, line.as_bytes());
            sum.calls
                .counted()
                .tokens
                .map(|tokens| (tokens.input, tokens.output, tokens.cache_read, tokens.cache_write))
        };
        let whole = Some((Some(7), Some(3), Some(2), Some(1)));
        let plain = reply(r#"{"type":"text","text":"words"}"#, "x", "");
        assert_eq!(counted(&plain, false), whole);
        assert_eq!(counted(&plain, true), None, "not the sub-agent's");
        assert_eq!(counted(&plain.replacen(':', " : ", 1), false), whole, "another spelling is parsed");
        let quoting = reply(r#"{"type":"tool_use","input":{"usage":{"input_tokens":99}}}"#, "x", "");
        assert_eq!(counted(&quoting, false), whole, "what a tool is given is no usage");
        assert_eq!(counted(&reply("", "<synthetic>", ""), false), None);
        assert_eq!(counted(&reply("", "x", r#","forkedFrom":{"sessionId":"s"}"#), false), None);
        assert_eq!(counted(&plain[..plain.len() - 1], false), None, "half a line counts nothing");
        let mut sum = UsageSum { own: true, ..UsageSum::default() };
        let grown = plain.replace("\"output_tokens\":3", "\"output_tokens\":30");
        for line in [&plain, &plain, &grown, &plain, &grown] {
            give(&mut sum, line.as_bytes());
        }
        assert_eq!(
            sum.calls.counted().tokens.and_then(|tokens| tokens.output),
            Some(30),
            "the last block is of the whole message"
        );
    }

    #[test]
    fn repeated_lines_of_one_message_count_once_and_errors_not_at_all() {
        let mut sum = UsageSum::default();
        let reply = br#"{"type":"assistant","message":{"id":"m1","model":"x","usage":{"input_tokens":10,"output_tokens":3}}}"#;
        let spaced = br#"{ "type" : "assistant", "message" : {"id":"m2","model":"x", "usage" : {"input_tokens" : 1}}}"#;
        let grown = br#"{"parentUuid":"p","isSidechain":false,"message":{"id":"m1","type":"message","role":"assistant","model":"x","content":[],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":5}},"type":"assistant"}"#;
        let error = br#"{"type":"assistant","message":{"id":"m3","model":"<synthetic>","usage":{"input_tokens":99}}}"#;
        let other =
            br#"{"type":"assistant","isSidechain":true,"message":{"id":"m4","usage":{"input_tokens":99}}}"#;
        let block = br#"{"parentUuid":"p","isSidechain":false,"message":{"id":"m1","usage":{"input_tokens":10,"output_tokens":3}},"type":"assistant"}"#;
        for line in [&reply[..], reply, block, spaced, grown, error, other] {
            give(&mut sum, line);
        }
        let tokens = sum.calls.counted().tokens.unwrap();
        assert_eq!((tokens.input, tokens.output), (Some(11), Some(5)), "the last line has the whole figure");
        assert_eq!(UsageSum::default().calls.counted().tokens, None);
    }

    #[test]
    fn replies_copied_out_of_a_forked_session_are_its_parents() {
        let reply = |id: &str, more: &str| {
            format!(
                r#"{{"type":"assistant","message":{{"id":"{id}","usage":{{"input_tokens":5}}}},"requestRef":"r"{more}}}"#
            )
        };
        let request = "{\"type\":\"mode\"}\n{\"type\":\"api-request\",\"id\":\"r\"}\n";
        let input = |passages: &[&[u8]]| {
            let mut sum = UsageSum::default();
            for passage in passages {
                give(&mut sum, passage);
            }
            sum.calls.counted().tokens.and_then(|tokens| tokens.input)
        };
        let (copy, own) = (reply("m1", ""), reply("m2", ""));
        let marked = reply("m3", r#","forkedFrom":{"sessionId":"s"}"#);
        let [copy, own, marked] = [&copy, &own, &marked].map(String::as_bytes);
        let request = request.as_bytes();
        assert_eq!(input(&[copy, copy]), Some(5), "without a request nothing tells copies");
        assert_eq!(input(&[copy, request, own]), Some(5));
        assert_eq!(input(&[request, copy, own]), Some(10));
        assert_eq!(input(&[request, marked, own]), Some(5));
        let spaced = b"{ \"type\" : \"api-request\"}\n";
        assert_eq!(input(&[copy, spaced, own]), Some(5), "whatever its spacing");
        let quoted = br#"{"type":"user","text":"{\"type\":\"api-request\"}"}"#;
        assert_eq!(input(&[copy, quoted, own]), Some(10), "a text that quotes one is none");
        let quoting = br#"{"type":"api-request","tail":{"usage":1}}"#;
        assert_eq!(input(&[copy, quoting, own]), Some(5));
        let glued = b"{\"parentUuid\":\"e{\"type\":\"api-request\"}\n";
        assert_eq!(input(&[copy, glued, own]), Some(10), "half a line is not understood");
        let old = br#"{"type":"assistant","message":{"id":"m0","usage":{"input_tokens":7}}}"#;
        assert_eq!(input(&[old, copy]), Some(12), "begun by a version that writes no requests");
    }
}
