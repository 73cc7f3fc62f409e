//! What the fake model does: replies, and the directives in a prompt that describe them.
//!
//! A prompt such as `[[bash:echo hi]] [[text:done]]` is a whole script: the first model request of the turn gets the
//! first reply, the second request the second one. Every session thus has its own script, and two sessions that share one
//! server cannot race for replies. This file is pure: it only parses.
//!
//! | directive | reply |
//! |---|---|
//! | `[[text:hello]]` | the text `hello` |
//! | `[[slow:5]]`, `[[slow:5\|1000]]` | 5 parts, one each 200 ms (or each 1000 ms) |
//! | `[[bash:echo hi]]` | the agent's own shell tool with this command (the command must not contain `]]`) |
//! | `[[tool:NAME\|{"json":1}]]` | any tool by name |
//! | `[[hang]]`, `[[hang:gate]]` | the stream opens and stays silent until [`FakeModel::open`](super::FakeModel::open) |
//! | `[[drop]]` | the stream opens and the connection is cut |
//! | `[[err:500]]`, `[[err:429\|slow down]]` | an HTTP error in the protocol's own shape |
//! | `[[limit:20]]` | a 429 as the provider sends it when a quota is used up, which resets in 20 seconds |
//! | `[[usage:100,10,20,5]]` | input, output, cache read, cache write of all replies after it in this prompt |

use std::time::Duration;

use serde_json::Value;

/// The pause between the parts of a `[[slow:n]]` reply.
const SLOW_GAP: Duration = Duration::from_millis(200);

/// The tokens that a reply reports. `input` excludes both cache numbers, as in the Anthropic protocol; protocols that count
/// cached tokens as part of the input get the sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
}

impl Default for Usage {
    /// Four different numbers, so that a test notices when two of them are mixed up.
    fn default() -> Self {
        Self { input: 100, output: 10, cache_read: 20, cache_write: 5 }
    }
}

impl Usage {
    /// All input tokens, cached or not.
    pub fn prompt_total(self) -> u64 {
        self.input + self.cache_read + self.cache_write
    }
}

/// What the model does with one request.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    Text(String),
    SlowText {
        parts: Vec<String>,
        gap: Duration,
    },
    /// A command for the shell tool, with the name and the schema that this agent offers.
    Shell(String),
    Tool {
        name: String,
        input: Value,
    },
    /// Opens the stream and stays silent until the gate of this name is opened or the server is dropped.
    Hang(String),
    /// Opens the stream and cuts the connection.
    Drop,
    /// An HTTP error with this message, marked as not retryable where the protocol has such a mark.
    Status(u16, String),
    /// The refusal of a provider whose quota is used up for this long, with its own headers and body.
    Limit(Duration),
}

/// One scripted answer with the tokens it reports.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    pub act: Act,
    pub usage: Usage,
}

impl Reply {
    pub fn new(act: Act) -> Self {
        Self { act, usage: Usage::default() }
    }

    pub fn text(text: impl Into<String>) -> Self {
        Self::new(Act::Text(text.into()))
    }

    /// `count` parts, one each `gap`.
    pub fn slow(count: usize, gap: Duration) -> Self {
        let parts = (1..=count).map(|n| format!("part {n} ")).collect();
        Self::new(Act::SlowText { parts, gap })
    }

    pub fn shell(command: impl Into<String>) -> Self {
        Self::new(Act::Shell(command.into()))
    }

    pub fn tool(name: impl Into<String>, input: Value) -> Self {
        Self::new(Act::Tool { name: name.into(), input })
    }

    pub fn hang(gate: impl Into<String>) -> Self {
        Self::new(Act::Hang(gate.into()))
    }

    pub fn cut() -> Self {
        Self::new(Act::Drop)
    }

    pub fn status(code: u16, message: impl Into<String>) -> Self {
        Self::new(Act::Status(code, message.into()))
    }

    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }
}

/// The replies of the directives in `prompt`, in order. A misspelt directive is not skipped but becomes a 400 that says so,
/// because a silently ignored one could let a test pass for the wrong reason.
pub fn parse(prompt: &str) -> Vec<Reply> {
    let mut replies = Vec::new();
    let mut usage = Usage::default();
    let mut rest = prompt;
    while let Some(start) = rest.find("[[") {
        let after = &rest[start + 2..];
        // A tool's input is JSON and may itself contain `]]`, so it ends where its object ends.
        let end =
            if after.starts_with("tool:") { after.find("}]]").map(|at| at + 1) } else { after.find("]]") };
        let Some(end) = end else { break };
        match directive(&after[..end]) {
            Some(Directive::Say(act)) => replies.push(Reply { act, usage }),
            Some(Directive::Count(numbers)) => usage = numbers,
            None => {
                let message = format!("testkit: unknown directive [[{}]]", &after[..end]);
                replies.push(Reply::status(400, message));
            }
        }
        rest = &after[end + 2..];
    }
    replies
}

enum Directive {
    Say(Act),
    Count(Usage),
}

fn directive(inside: &str) -> Option<Directive> {
    let (verb, argument) = inside.split_once(':').unwrap_or((inside, ""));
    let (first, second) = argument.split_once('|').map_or((argument, None), |(a, b)| (a, Some(b)));
    let act = match verb {
        "text" => Act::Text(argument.to_owned()),
        "bash" => Act::Shell(argument.to_owned()),
        "hang" => Act::Hang(argument.to_owned()),
        "drop" => Act::Drop,
        "limit" => Act::Limit(Duration::from_secs(argument.parse().ok()?)),
        "err" => Act::Status(first.parse().ok()?, second.unwrap_or("scripted error").to_owned()),
        "tool" => Act::Tool { name: first.to_owned(), input: serde_json::from_str(second?).ok()? },
        "slow" => {
            let gap = match second {
                Some(millis) => Duration::from_millis(millis.parse().ok()?),
                None => SLOW_GAP,
            };
            Reply::slow(first.parse().ok()?, gap).act
        }
        "usage" => {
            let numbers: Vec<u64> =
                argument.split(',').map(|n| n.trim().parse().ok()).collect::<Option<_>>()?;
            let [input, output, cache_read, cache_write] = numbers[..] else { return None };
            return Some(Directive::Count(Usage { input, output, cache_read, cache_write }));
        }
        _ => return None,
    };
    Some(Directive::Say(act))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn acts(prompt: &str) -> Vec<Act> {
        parse(prompt).into_iter().map(|reply| reply.act).collect()
    }

    #[test]
    fn a_prompt_is_a_script_in_order() {
        assert_eq!(
            acts("please [[bash:echo a|b]] and then\n[[text:all: done]] thanks"),
            [Act::Shell("echo a|b".into()), Act::Text("all: done".into())]
        );
    }

    #[test]
    fn every_directive_is_understood() {
        assert_eq!(acts("[[hang]][[hang:door]]"), [Act::Hang(String::new()), Act::Hang("door".into())]);
        assert_eq!(acts("[[drop]]"), [Act::Drop]);
        assert_eq!(acts("[[err:429|slow down]]"), [Act::Status(429, "slow down".into())]);
        let slow =
            Act::SlowText { parts: vec!["part 1 ".into(), "part 2 ".into()], gap: Duration::from_millis(7) };
        assert_eq!(acts("[[slow:2|7]]"), [slow]);
    }

    #[test]
    fn tool_input_may_hold_closing_brackets() {
        let tool = Act::Tool { name: "Read".into(), input: json!({"a": [[1]]}) };
        assert_eq!(acts(r#"[[tool:Read|{"a":[[1]]}]] [[drop]]"#), [tool, Act::Drop]);
    }

    #[test]
    fn usage_holds_for_the_replies_after_it() {
        let replies = parse("[[text:a]][[usage:1,2,3,4]][[text:b]]");
        assert_eq!(replies[0].usage, Usage::default());
        assert_eq!(replies[1].usage, Usage { input: 1, output: 2, cache_read: 3, cache_write: 4 });
    }

    #[test]
    fn a_misspelt_directive_is_loud() {
        assert!(
            matches!(&acts("[[txt:hello]]")[..], [Act::Status(400, message)] if message.contains("txt:hello"))
        );
        assert!(acts("no script [here] at all").is_empty());
    }
}
