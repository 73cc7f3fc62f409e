//! The records of a Codex rollout. Only the fields in use are declared, and all are optional. Pure.
//!
//! Every line is `{timestamp, ordinal?, type, payload}`. Old files have no `ordinal` and store messages as
//! `user_message` / `agent_message` events; new files write them as `item_completed` items. Both are read.

use std::borrow::Cow;

use agentctl_model::TurnState;
use agentctl_model::text::clean_cut;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::agents::codex::storage::made_at;
use crate::transcript::call;
use crate::transcript::jsonl::lenient::lenient;
use crate::transcript::jsonl::quick;
use crate::transcript::jsonl::text::Text;
use crate::transcript::jsonl::time::time;
use crate::transcript::jsonl::walk::{Walk, walk_line};

/// One line of a rollout.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Record<'a> {
    #[serde(borrow)]
    timestamp: Option<Text<'a>>,
    #[serde(rename = "type")]
    pub(crate) kind: Text<'a>,
    payload: Option<&'a RawValue>,
}

/// The payload of a record: the fields of all record types side by side.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Payload<'a> {
    #[serde(borrow, rename = "type")]
    pub(crate) kind: Text<'a>,
    pub(crate) turn_id: Option<Text<'a>>,
    pub(crate) cwd: Option<Text<'a>>,
    pub(crate) model: Option<Text<'a>>,
    last_agent_message: Option<Text<'a>>,
    error: Option<&'a RawValue>,
    rate_limits: Option<&'a RawValue>,
    message: Option<&'a RawValue>,
    item: Option<&'a RawValue>,
    info: Option<&'a RawValue>,
    usage: Option<&'a RawValue>,
    thread_token_usage: Option<&'a RawValue>,
    pub(crate) name: Option<Text<'a>>,
    arguments: Option<&'a RawValue>,
    input: Option<&'a RawValue>,
    output: Option<&'a RawValue>,
    pub(crate) call_id: Option<Text<'a>>,
    pub(crate) response_id: Option<Text<'a>>,
}

/// The first record of a rollout.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Meta<'a> {
    #[serde(borrow)]
    pub(crate) id: Option<Text<'a>>,
    /// The root thread; for a sub-agent this is its parent.
    pub(crate) session_id: Option<Text<'a>>,
    timestamp: Option<Text<'a>>,
    pub(crate) cwd: Option<Text<'a>>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) originator: Option<Text<'a>>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) cli_version: Option<Text<'a>>,
    source: Option<&'a RawValue>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) thread_source: Option<Text<'a>>,
    pub(crate) parent_thread_id: Option<Text<'a>>,
    pub(crate) forked_from_id: Option<Text<'a>>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) agent_nickname: Option<Text<'a>>,
    #[serde(deserialize_with = "lenient")]
    git: Option<Git>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Git {
    branch: Option<String>,
}

/// The origin of a thread: a keyword (`exec`, `cli`, `vscode`), or the thread whose sub-agent it is.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) name: Option<String>,
    pub(crate) is_subagent: bool,
    pub(crate) parent: Option<String>,
}

/// A token counter of the agent. Cached input is part of the input. A counter without input or output does
/// not count as one.
#[expect(clippy::struct_field_names, reason = "the agent's own names")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) struct Usage {
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) cached_input_tokens: Option<u64>,
    pub(crate) cache_write_input_tokens: Option<u64>,
    pub(crate) total_tokens: Option<u64>,
}

impl Usage {
    /// After a context overflow the agent sets the total to the window size and everything else to 0.
    fn is_overflow_mark(&self) -> bool {
        self.input_tokens == 0 && self.output_tokens == 0 && self.total_tokens > Some(0)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Info<'a> {
    #[serde(borrow)]
    total_token_usage: Option<&'a RawValue>,
    last_token_usage: Option<&'a RawValue>,
}

/// What a record says that counts, read in one walk: no other records are so many where calls are counted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Count<'a> {
    total: Option<Usage>,
    reply: Option<Usage>,
    /// The id of the reply and of its turn, where they are written.
    pub(crate) response_id: Option<&'a str>,
    pub(crate) turn_id: Option<&'a str>,
}

impl<'a> Count<'a> {
    /// A `token_count` event or a `token_usage_record`. `None` for a record with anything odd in it, which [`Record`] reads
    /// part by part.
    pub(crate) fn glance(line: &'a [u8]) -> Option<Self> {
        let mut count = Self::default();
        let mut is_read = false;
        walk_line(line, |walk, key| {
            if key != b"payload" {
                return walk.value().map(drop);
            }
            (!std::mem::replace(&mut is_read, true)).then_some(())?;
            walk.members(|walk, key| match key {
                b"info" if !walk.is_null() => walk.members(|walk, key| match key {
                    b"total_token_usage" => Usage::walk(walk, &mut count.total),
                    b"last_token_usage" => Usage::walk(walk, &mut count.reply),
                    _ => walk.value().map(drop),
                }),
                b"thread_token_usage" => Usage::walk(walk, &mut count.total),
                b"usage" => Usage::walk(walk, &mut count.reply),
                b"response_id" => text(walk, &mut count.response_id),
                b"turn_id" => text(walk, &mut count.turn_id),
                _ => walk.value().map(drop),
            })
        })?;
        Some(count)
    }

    /// The total and the reply that raised it; `None` if it tells of no total.
    pub(crate) fn totals(&self) -> Option<(Usage, Option<Usage>)> {
        let total = self.total.filter(|total| !total.is_overflow_mark())?;
        Some((total, self.reply))
    }
}

impl Usage {
    /// Puts the counter at this position into an empty place.
    fn walk(walk: &mut Walk<'_>, place: &mut Option<Self>) -> Option<()> {
        if place.is_some() {
            return None;
        }
        if walk.is_null() {
            return walk.value().map(drop);
        }
        let (mut input, mut output, mut cached, mut written, mut total) = (None, None, None, None, None);
        walk.members(|walk, key| {
            let place = match key {
                b"input_tokens" => &mut input,
                b"output_tokens" => &mut output,
                b"cached_input_tokens" => &mut cached,
                b"cache_write_input_tokens" => &mut written,
                b"total_tokens" => &mut total,
                _ => return walk.value().map(drop),
            };
            place.replace(walk.count()?).is_none().then_some(())
        })?;
        *place = Some(Self {
            input_tokens: input?,
            output_tokens: output?,
            cached_input_tokens: cached,
            cache_write_input_tokens: written,
            total_tokens: total,
        });
        Some(())
    }
}

/// Puts the text at this position into an empty place.
fn text<'a>(walk: &mut Walk<'a>, place: &mut Option<&'a str>) -> Option<()> {
    if walk.is_null() {
        return walk.value().map(drop);
    }
    place.replace(std::str::from_utf8(walk.plain()?).ok()?).is_none().then_some(())
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ErrorNote<'a> {
    #[serde(borrow)]
    message: Option<Text<'a>>,
}

/// A completed item of a new rollout.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Item<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    content: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Part<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
}

/// What one record means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    /// The context of a turn: its directory and model.
    Context {
        cwd: Option<String>,
        model: Option<String>,
    },
    TurnBegan,
    /// How a turn ended, with the error message if any, and the agent's last message where this record
    /// repeats it.
    TurnEnded {
        state: TurnState,
        detail: Option<String>,
        words: Option<String>,
        /// The provider refused for a quota.
        is_limit: bool,
    },
    /// A person's message.
    Prompt(String),
    /// The agent's message.
    Reply(String),
    /// The agent's running total, and the share of this one reply where the record has it.
    Total {
        total: Usage,
        reply: Option<Usage>,
    },
    /// A tool call, with the call's id.
    Call {
        id: Option<String>,
        words: String,
    },
    /// A tool result.
    Output {
        id: Option<String>,
    },
    /// Part of a turn, with nothing to show.
    Work,
    /// Not part of any turn: settings, bookkeeping, the first record.
    Nothing,
    /// A record type that this adapter does not know.
    Unknown(String),
}

impl<'a> Record<'a> {
    /// Returns `None` for an incomplete line or anything else that is not a record.
    pub(crate) fn parse(line: &'a [u8]) -> Option<Self> {
        quick::from_slice(line).ok()
    }

    pub(crate) fn at(&self) -> Option<Timestamp> {
        self.timestamp.as_deref().and_then(time)
    }

    pub(crate) fn payload(&self) -> Payload<'a> {
        self.payload.and_then(|raw| quick::from_str(raw.get()).ok()).unwrap_or_default()
    }

    pub(crate) fn meta(&self) -> Option<Meta<'a>> {
        if self.kind != "session_meta" {
            return None;
        }
        quick::from_str(self.payload?.get()).ok()
    }

    pub(crate) fn said(&self, payload: &Payload<'a>) -> Said {
        match self.kind.as_ref() {
            "turn_context" => {
                let keep = |value: &Option<Text<'_>>| value.as_deref().map(|text| clean_cut(text, None));
                Said::Context { cwd: keep(&payload.cwd), model: keep(&payload.model) }
            }
            "event_msg" => payload.event(),
            "response_item" => payload.model_item(),
            "token_usage_record" => total_of(payload.thread_token_usage, payload.usage).unwrap_or(Said::Work),
            "compacted" => Said::Work,
            // Records of the oldest files have no type.
            "session_meta" | "world_state" | "" => Said::Nothing,
            other => Said::Unknown(clean_cut(other, Some(60))),
        }
    }
}

fn total_of(total: Option<&RawValue>, reply: Option<&RawValue>) -> Option<Said> {
    let counter = |raw: &RawValue| serde_json::from_str::<Usage>(raw.get()).ok();
    let total = total.and_then(counter).filter(|total| !total.is_overflow_mark())?;
    Some(Said::Total { total, reply: reply.and_then(counter) })
}

impl Payload<'_> {
    fn event(&self) -> Said {
        match self.kind.as_ref() {
            "task_started" | "turn_started" => Said::TurnBegan,
            "task_complete" | "turn_complete" => {
                let error = self.error.filter(|error| error.get() != "null");
                Said::TurnEnded {
                    state: if error.is_some() { TurnState::Failed } else { TurnState::Finished },
                    detail: error.and_then(error_words),
                    is_limit: error.is_some_and(is_limit),
                    words: self.last_agent_message.as_deref().and_then(spoken),
                }
            }
            "turn_aborted" => {
                Said::TurnEnded { state: TurnState::Interrupted, detail: None, words: None, is_limit: false }
            }
            "item_completed" => self.finished_item(),
            "user_message" => self.message_text().map_or(Said::Work, Said::Prompt),
            "agent_message" => self.message_text().map_or(Said::Work, Said::Reply),
            "token_count" => self
                .info
                .and_then(|info| quick::from_str::<Info<'_>>(info.get()).ok())
                .and_then(|info| total_of(info.total_token_usage, info.last_token_usage))
                .unwrap_or(Said::Work),
            // An event without a type is damaged.
            "" => Said::Nothing,
            kind if OUTSIDE_TURNS.contains(&kind) => Said::Nothing,
            kind if WITHIN_TURNS.contains(&kind) => Said::Work,
            other => Said::Unknown(clean_cut(&format!("event_msg/{other}"), Some(60))),
        }
    }

    fn finished_item(&self) -> Said {
        let Some(item) = self.item.and_then(|raw| quick::from_str::<Item<'_>>(raw.get()).ok()) else {
            return Said::Work;
        };
        let text = || item.content.and_then(text_of).and_then(|text| spoken(&text));
        match item.kind.as_ref() {
            "UserMessage" => text().map_or(Said::Work, Said::Prompt),
            "AgentMessage" => text().map_or(Said::Work, Said::Reply),
            _ => Said::Work,
        }
    }

    fn message_text(&self) -> Option<String> {
        let text: String = quick::from_str(self.message?.get()).ok()?;
        spoken(&text)
    }

    /// Classifies raw items of the model. Its messages are not read here, because they include injected text
    /// and summaries.
    fn model_item(&self) -> Said {
        match self.kind.as_ref() {
            "function_call" | "custom_tool_call" | "local_shell_call" => {
                Said::Call { id: self.call_id.as_deref().map(str::to_owned), words: self.call_words() }
            }
            "function_call_output" | "custom_tool_call_output" => {
                Said::Output { id: self.call_id.as_deref().map(str::to_owned) }
            }
            _ => Said::Work,
        }
    }

    /// Describes the call, such as `exec_command: make test`.
    fn call_words(&self) -> String {
        let input = self.call_input();
        let arguments: Option<serde_json::Value> = serde_json::from_str(&input).ok();
        let keys = ["cmd", "command", "path", "query", "question", "message", "prompt"];
        let what = arguments.as_ref().and_then(|arguments| call::argument(arguments, &keys));
        let what = what.unwrap_or(if arguments.is_some() { String::new() } else { input });
        call::words(self.name.as_deref().unwrap_or("tool"), &what)
    }

    /// The arguments of a tool call: JSON in a string, or plain text.
    pub(crate) fn call_input(&self) -> String {
        let Some(raw) = self.arguments.or(self.input) else { return String::new() };
        quick::from_str::<String>(raw.get()).unwrap_or_else(|_| raw.get().to_owned())
    }

    /// When the windows of the plan that are used up are free again.
    pub(crate) fn resets_at(&self) -> Option<Timestamp> {
        #[derive(Deserialize)]
        struct Window {
            used_percent: f64,
            resets_at: Option<i64>,
        }
        #[derive(Deserialize)]
        struct Limits {
            primary: Option<Window>,
            secondary: Option<Window>,
        }
        let limits: Limits = quick::from_str(self.rate_limits?.get()).ok()?;
        let windows = [limits.primary, limits.secondary].into_iter().flatten();
        let used_up = windows.filter(|window| window.used_percent >= 100.0);
        Timestamp::from_second(used_up.filter_map(|window| window.resets_at).max()?).ok()
    }

    /// The result of a tool: a string, or a list of parts.
    pub(crate) fn output_text(&self) -> String {
        let Some(raw) = self.output else { return String::new() };
        text_of(raw).unwrap_or_else(|| raw.get().to_owned())
    }
}

/// Whether an error is the refusal of the provider for a quota.
fn is_limit(error: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Note {
        codex_error_info: Value,
    }
    let info = quick::from_str::<Note>(error.get()).map(|note| note.codex_error_info);
    info.is_ok_and(|info| {
        let status = info.as_object().and_then(|kinds| kinds.values().next()?.get("http_status_code"));
        info == "usage_limit_exceeded" || status.is_some_and(|status| *status == 429)
    })
}

fn error_words(error: &RawValue) -> Option<String> {
    let message = quick::from_str::<ErrorNote<'_>>(error.get()).ok().and_then(|note| note.message);
    let text = message.map(Text::into_owned).or_else(|| quick::from_str::<String>(error.get()).ok())?;
    Some(clean_cut(&text, Some(500)))
}

/// The text of a `content` value: a string, or the text parts of a list.
fn text_of(content: &RawValue) -> Option<String> {
    if let Ok(text) = quick::from_str::<String>(content.get()) {
        return Some(text);
    }
    let parts: Vec<Part<'_>> = quick::from_str(content.get()).ok()?;
    let texts: Vec<&str> = parts.iter().filter_map(|part| part.text.as_deref()).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

fn spoken(text: &str) -> Option<String> {
    (!text.trim().is_empty()).then(|| text.to_owned())
}

impl<'a> Meta<'a> {
    /// Parses the whole line in one pass.
    pub(crate) fn parse(line: &'a [u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Line<'a> {
            #[serde(borrow)]
            payload: Meta<'a>,
        }
        quick::from_slice::<Line<'a>>(line).ok().map(|line| line.payload)
    }

    pub(crate) fn at(&self) -> Option<Timestamp> {
        self.timestamp.as_deref().and_then(time)
    }

    /// When the thread was made. One clock makes its id and those of its turns, so these can be compared.
    pub(crate) fn made(&self) -> Option<Timestamp> {
        self.id.as_deref().and_then(made_at).or_else(|| self.at())
    }

    /// Another thread started this one. Its file may begin with that thread's records, also where it does not say
    /// that it was forked.
    pub(crate) fn is_subagent(&self) -> bool {
        self.parent_thread_id.is_some()
            || self.thread_source.as_deref() == Some("subagent")
            || self.source().is_subagent
    }

    pub(crate) fn branch(&self) -> Option<String> {
        self.git.as_ref()?.branch.as_deref().filter(|name| !name.is_empty()).map(|name| clean_cut(name, None))
    }

    pub(crate) fn source(&self) -> Source {
        let Some(raw) = self.source else { return Source::default() };
        match serde_json::from_str::<serde_json::Value>(raw.get()) {
            Ok(serde_json::Value::String(name)) => {
                Source { name: Some(clean_cut(&name, Some(60))), ..Source::default() }
            }
            Ok(record) => {
                let of = record.get("subagent");
                let parent = of
                    .and_then(|of| of.get("thread_spawn"))
                    .and_then(|spawn| spawn.get("parent_thread_id"))
                    .and_then(|id| id.as_str())
                    .map(|id| clean_cut(id, Some(200)));
                let name = of.is_some().then(|| "subagent".to_owned());
                Source { name, is_subagent: of.is_some(), parent }
            }
            Err(_) => Source::default(),
        }
    }
}

/// Events that are also written between turns (for example when a thread is merely opened), so they do not
/// show that a turn continues.
const OUTSIDE_TURNS: [&str; 8] = [
    "thread_settings_applied",
    "thread_name_updated",
    "thread_rolled_back",
    "thread_goal_updated",
    "session_configured",
    "shutdown_complete",
    "background_event",
    "warning",
];

/// Events within a turn that contribute nothing to a session object.
const WITHIN_TURNS: [&str; 26] = [
    "agent_reasoning",
    "agent_reasoning_raw_content",
    "agent_reasoning_section_break",
    "context_compacted",
    "entered_review_mode",
    "exited_review_mode",
    "error",
    "stream_error",
    "exec_command_begin",
    "exec_command_end",
    "patch_apply_begin",
    "patch_apply_end",
    "mcp_tool_call_begin",
    "mcp_tool_call_end",
    "web_search_begin",
    "web_search_end",
    "view_image_tool_call",
    "image_generation_end",
    "dynamic_tool_call_request",
    "dynamic_tool_call_response",
    "plan_update",
    "turn_diff",
    "item_started",
    "undo_completed",
    "collab_agent_spawn_end",
    "collab_waiting_end",
];

/// Removes the instructions from the first record: they are nine tenths of it and contain nothing about the
/// session. A record with an unexpected spelling is returned unchanged.
pub(crate) fn without_instructions(line: &[u8]) -> Cow<'_, [u8]> {
    let mark = b"\"base_instructions\":{\"text\":\"";
    let Some(from) = memchr::memmem::find(line, mark).map(|at| at + mark.len()) else { return line.into() };
    // A quote ends the text unless an odd number of backslashes precedes it.
    let ends = |quote: &usize| {
        let escapes = line[from..*quote].iter().rev().take_while(|byte| **byte == b'\\').count();
        escapes % 2 == 0
    };
    match memchr::memchr_iter(b'"', &line[from..]).map(|at| from + at).find(ends) {
        Some(to) => [&line[..from], &line[to..]].concat().into(),
        None => line.into(),
    }
}

/// The beginning of a line in the agent's exact spelling: its type, and the payload's type when that comes
/// first.
pub(crate) struct Beginning<'l> {
    pub(crate) at: &'l str,
    pub(crate) kind: &'l [u8],
    pub(crate) inner: &'l [u8],
    rest: &'l [u8],
}

/// Returns `None` for any other spelling; such a line is parsed slowly, and nothing is lost.
pub(crate) fn beginning(line: &[u8]) -> Option<Beginning<'_>> {
    let rest = line.strip_prefix(b"{\"timestamp\":\"")?;
    let (at, rest) = upto_quote(rest)?;
    let rest = match rest.strip_prefix(b",\"ordinal\":") {
        Some(rest) => &rest[rest.iter().position(|byte| !byte.is_ascii_digit())?..],
        None => rest,
    };
    let (kind, rest) = upto_quote(rest.strip_prefix(b",\"type\":\"")?)?;
    let (inner, rest) = match rest.strip_prefix(b",\"payload\":{\"type\":\"") {
        Some(rest) => upto_quote(rest)?,
        None => (&b""[..], rest),
    };
    Some(Beginning { at: std::str::from_utf8(at).ok()?, kind, inner, rest })
}

/// Reads a short string without escapes, and returns it with what follows its closing quote.
fn upto_quote(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(b'"', &bytes[..bytes.len().min(64)])?;
    (!bytes[..end].contains(&b'\\')).then(|| (&bytes[..end], &bytes[end + 1..]))
}

impl Beginning<'_> {
    /// Whether this is part of a turn and certainly nothing more: messages as the model sees them, and
    /// finished commands.
    pub(crate) fn is_bulk(&self) -> bool {
        match (self.kind, self.inner) {
            (b"response_item", b"message" | b"reasoning") | (b"compacted", _) => true,
            (b"event_msg", b"item_completed") => {
                let near = &self.rest[..self.rest.len().min(300)];
                let marker = b"\"item\":{\"type\":\"";
                memchr::memmem::find(near, marker).is_some_and(|found| {
                    let kind = &near[found + marker.len()..];
                    !kind.starts_with(b"UserMessage\"")
                        && !kind.starts_with(b"AgentMessage\"")
                        && kind.contains(&b'"')
                })
            }
            _ => false,
        }
    }

    /// Whether this is a large record between turns.
    pub(crate) fn is_bookkeeping(&self) -> bool {
        self.kind == b"world_state"
    }

    pub(crate) fn time(&self) -> Option<Timestamp> {
        time(self.at)
    }
}

#[cfg(test)]
#[path = "records_tests.rs"]
mod tests;
