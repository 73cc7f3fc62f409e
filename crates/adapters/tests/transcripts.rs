//! What every agent that stores conversations as JSON lines must share through the common reader: a line that
//! is too long is reported, an unchanged file is counted once, texts are cut where a limit is asked for, and bytes
//! that are not text lose nothing.

#![allow(clippy::disallowed_methods, reason = "tests write what is read")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentctl_adapters::agents::claude_code::ClaudeCode;
use agentctl_adapters::agents::codex::Codex;
use agentctl_adapters::agents::copilot::Copilot;
use agentctl_adapters::agents::gemini::Gemini;
use agentctl_adapters::agents::kimi::Kimi;
use agentctl_adapters::agents::pi::Pi;
use agentctl_adapters::agents::pi_rust::PiRust;
use agentctl_adapters::agents::qwen::Qwen;
use agentctl_adapters::{Adapter, Memory, Reach, Root, Scope};
use agentctl_model::{Found, Harvest, Relation};
use jiff::Timestamp;

/// Longer than any line that is read.
const TOO_LONG: usize = 33 << 20;
/// The number of replies with 1 output token each: more than any tail reads.
const REPLIES: usize = 4000;

/// How one agent writes a conversation.
struct Written {
    adapter: &'static dyn Adapter,
    place: &'static str,
    /// The lines before the first prompt.
    opening: &'static [&'static str],
    prompt: &'static str,
    /// Reply number N: 1 output token, or a running total of N.
    reply: fn(usize) -> String,
    ending: &'static [&'static str],
    /// The total is a running one, so no line between its first and its last record can make it too small.
    running: bool,
}

const ID: &str = "c2000000-1111-4111-8111-111111111111";

fn all() -> Vec<Written> {
    vec![
        Written {
            adapter: &ClaudeCode,
            place: "projects/-w/c2000000-1111-4111-8111-111111111111.jsonl",
            opening: &[r#"{"type":"mode"}"#],
            prompt: r#"{"type":"user","cwd":"/w","timestamp":"2026-11-15T07:00:00Z","message":{"content":"say PROMPT"}}"#,
            reply: |n| {
                format!(
                    r#"{{"type":"assistant","cwd":"/w","timestamp":"2026-11-15T07:00:01Z","message":{{"id":"m{n}","model":"m","stop_reason":"end_turn","content":"yes","usage":{{"input_tokens":2,"output_tokens":1}}}}}}"#
                )
            },
            ending: &[],
            running: false,
        },
        Written {
            adapter: &Codex,
            place: "sessions/2026/11/15/rollout-2026-11-15T07-01-35-c2000000-1111-4111-8111-111111111111.jsonl",
            opening: &[
                r#"{"timestamp":"2026-11-15T07:00:00Z","type":"session_meta","payload":{"id":"c2000000-1111-4111-8111-111111111111","cwd":"/w"}}"#,
                r#"{"timestamp":"2026-11-15T07:00:00Z","type":"event_msg","payload":{"type":"task_started","turn_id":"t"}}"#,
            ],
            prompt: r#"{"timestamp":"2026-11-15T07:00:00Z","type":"event_msg","payload":{"type":"user_message","message":"say PROMPT"}}"#,
            reply: |n| {
                format!(
                    r#"{{"timestamp":"2026-11-15T07:00:01Z","type":"event_msg","payload":{{"type":"token_count","info":{{"total_token_usage":{{"input_tokens":{n},"output_tokens":{n}}}}}}}}}"#
                )
            },
            ending: &[
                r#"{"timestamp":"2026-11-15T07:00:02Z","type":"turn_context","payload":{"turn_id":"t","cwd":"/w","model":"m"}}"#,
                r#"{"timestamp":"2026-11-15T07:00:02Z","type":"event_msg","payload":{"type":"agent_message","message":"yes"}}"#,
                r#"{"timestamp":"2026-11-15T07:00:03Z","type":"event_msg","payload":{"type":"task_complete","turn_id":"t","last_agent_message":"yes"}}"#,
                r#"{"timestamp":"2026-11-15T07:00:02Z","type":"turn_context","payload":{"turn_id":"t","cwd":"/w","model":"m"}}"#,
            ],
            running: true,
        },
        Written {
            adapter: &Copilot,
            place: "session-state/c2000000-1111-4111-8111-111111111111/events.jsonl",
            opening: &[
                r#"{"type":"session.start","data":{"context":{"cwd":"/w"}},"id":"s","timestamp":"2026-11-15T07:00:00Z"}"#,
            ],
            prompt: r#"{"type":"user.message","data":{"content":"say PROMPT"},"id":"p","timestamp":"2026-11-15T07:00:00Z"}"#,
            reply: |n| {
                format!(
                    r#"{{"type":"session.usage_record","data":{{"usage":{{"inputTokens":2,"outputTokens":1}}}},"id":"u{n}","timestamp":"2026-11-15T07:00:01Z"}}"#
                )
            },
            ending: &[
                r#"{"type":"assistant.message","data":{"content":"yes","model":"m","toolRequests":[]},"id":"a","timestamp":"2026-11-15T07:00:02Z"}"#,
                r#"{"type":"assistant.turn_end","data":{},"id":"e","timestamp":"2026-11-15T07:00:03Z"}"#,
            ],
            running: false,
        },
        Written {
            adapter: &Gemini,
            place: "tmp/w/chats/session-2026-11-15T07-05-c2000000.jsonl",
            opening: &[
                r#"{"sessionId":"c2000000-1111-4111-8111-111111111111","startTime":"2026-11-15T07:00:00Z","kind":"main"}"#,
            ],
            prompt: r#"{"id":"p","timestamp":"2026-11-15T07:00:00Z","type":"user","content":[{"text":"say PROMPT"}]}"#,
            reply: |n| {
                format!(
                    r#"{{"id":"r{n}","timestamp":"2026-11-15T07:00:01Z","type":"gemini","content":"yes","tokens":{{"input":2,"output":1,"cached":0}},"model":"m"}}"#
                )
            },
            ending: &[],
            running: false,
        },
        Written {
            adapter: &Qwen,
            place: "projects/-w/chats/c2000000-1111-4111-8111-111111111111.jsonl",
            opening: &[],
            prompt: r#"{"uuid":"p","type":"user","cwd":"/w","timestamp":"2026-11-15T07:00:00Z","message":{"parts":[{"text":"say PROMPT"}]}}"#,
            reply: |n| {
                format!(
                    r#"{{"uuid":"r{n}","type":"assistant","timestamp":"2026-11-15T07:00:01Z","model":"m","message":{{"parts":[{{"text":"yes"}}]}},"usageMetadata":{{"promptTokenCount":2,"candidatesTokenCount":1}}}}"#
                )
            },
            ending: &[],
            running: false,
        },
        kimi(),
        pi(&Pi, "sessions/--w--/2026-11-15T07-01-35-000Z_c2000000-1111-4111-8111-111111111111.jsonl"),
        pi(&PiRust, "sessions/--w--/2026-11-15T07-01-35.000Z_c2000000.jsonl"),
    ]
}

fn kimi() -> Written {
    Written {
        adapter: &Kimi,
        place: "sessions/wd_w_0/c2000000-1111-4111-8111-111111111111/agents/main/wire.jsonl",
        opening: &[r#"{"type":"metadata","created_at":1794700000000}"#],
        prompt: r#"{"type":"turn.prompt","agentId":"main","input":[{"type":"text","text":"say PROMPT"}],"origin":{"kind":"user"},"turnId":0,"time":1794700000000}"#,
        reply: |n| {
            format!(
                r#"{{"type":"usage.record","agentId":"main","model":"m","usage":{{"inputOther":2,"output":1}},"time":{}}}"#,
                1_794_700_000_000 + n
            )
        },
        ending: &[
            r#"{"type":"llm.request","agentId":"main","model":"m","time":1794700009000}"#,
            r#"{"type":"context.append_loop_event","agentId":"main","event":{"type":"content.part","part":{"type":"text","text":"yes"}},"time":1794700009000}"#,
            r#"{"type":"turn.prompt","agentId":"main","input":[{"type":"text","text":"more"}],"origin":{"kind":"user"},"turnId":1,"time":1794700009000}"#,
            r#"{"type":"turn.ended","agentId":"main","turnId":0,"reason":"completed","time":1794700009001}"#,
        ],
        running: false,
    }
}

fn pi(adapter: &'static dyn Adapter, place: &'static str) -> Written {
    Written {
        adapter,
        place,
        opening: &[
            r#"{"type":"session","version":3,"id":"c2000000-1111-4111-8111-111111111111","timestamp":"2026-11-15T07:00:00Z","cwd":"/w"}"#,
        ],
        prompt: r#"{"type":"message","timestamp":"2026-11-15T07:00:00Z","message":{"role":"user","content":"say PROMPT"}}"#,
        reply: |_| {
            r#"{"type":"message","timestamp":"2026-11-15T07:00:01Z","message":{"role":"assistant","provider":"p","model":"m","stopReason":"stop","content":[{"type":"text","text":"yes"}],"usage":{"input":2,"output":1,"cost":{"total":0.5}}}}"#.to_owned()
        },
        ending: &[],
        running: false,
    }
}

impl Written {
    fn name(&self) -> &'static str {
        self.adapter.card().name
    }

    fn file(&self, root: &Path) -> PathBuf {
        let file = root.join(self.place);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        file
    }

    /// The conversation, with `between` inserted after its first reply.
    fn lines(&self, between: &[u8]) -> Vec<u8> {
        let first = [self.opening, &[self.prompt]].concat().join("\n");
        let mut bytes = format!("{first}\n{}\n", (self.reply)(1)).into_bytes();
        bytes.extend_from_slice(between);
        for number in 2..=REPLIES {
            bytes.extend((self.reply)(number).bytes());
            bytes.push(b'\n');
        }
        for line in self.ending {
            bytes.extend(line.bytes());
            bytes.push(b'\n');
        }
        bytes
    }

    fn survey(&self, root: &Path, memory: Option<&Arc<Memory>>) -> Harvest {
        let scope = Scope {
            usage: true,
            subagents: true,
            text_limit: Some(200),
            memory: memory.cloned(),
            ..Scope::new(Reach::All { since: None })
        };
        self.adapter.survey(&Root::at(root), &scope)
    }
}

fn only(harvest: &Harvest) -> &Found {
    assert_eq!(harvest.found.len(), 1, "{harvest:?}");
    &harvest.found[0]
}

/// How many bytes this thread has read so far.
fn bytes_read() -> u64 {
    let io = fs::read_to_string("/proc/thread-self/io").unwrap();
    let line = io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap();
    line.parse().unwrap()
}

fn later() -> Timestamp {
    Timestamp::MAX
}

#[test]
fn a_line_too_long_to_count_is_told_of_everywhere() {
    let mut too_long = vec![b'm'; TOO_LONG];
    too_long.push(b'\n');
    for written in all() {
        let place = tempfile::tempdir().unwrap();
        let file = written.file(place.path());
        fs::write(&file, written.lines(&too_long)).unwrap();
        let memory = Arc::new(Memory::new(later));
        // A remembered result reports the line as well.
        for asked in 0..2 {
            let harvest = written.survey(place.path(), Some(&memory));
            let tokens = only(&harvest).facts.tokens.unwrap();
            assert_eq!(tokens.output, Some(REPLIES as u64), "{}", written.name());
            let told = format!("{}: has a line too long to read", file.display());
            let expected: &[String] = if written.running { &[] } else { &[told] };
            assert_eq!(harvest.warnings, expected, "{} asked {asked}", written.name());
        }
        // Who reads every line for single calls does not change what others are told.
        let (all, memory) = (Scope::new(Reach::All { since: None }), Arc::new(Memory::new(later)));
        let calls = Scope { usage: true, calls: true, memory: Some(memory.clone()), ..all };
        written.adapter.survey(&Root::at(place.path()), &calls);
        let (warm, cold) = (written.survey(place.path(), Some(&memory)), written.survey(place.path(), None));
        assert_eq!(warm, cold, "{} after calls", written.name());
        // A running total is not certain either if such a line is at the end of the file.
        fs::write(&file, [written.lines(b""), too_long.clone()].concat()).unwrap();
        let harvest = written.survey(place.path(), None);
        assert_eq!(harvest.warnings.len(), 1, "{}: {:?}", written.name(), harvest.warnings);
    }
}

#[test]
fn texts_are_cut_where_a_limit_is_asked_for_and_whole_otherwise() {
    for written in all() {
        let place = tempfile::tempdir().unwrap();
        fs::write(written.file(place.path()), written.lines(b"")).unwrap();
        let lengths = |text_limit| {
            let scope = Scope { text_limit, ..Scope::new(Reach::All { since: None }) };
            let harvest = written.adapter.survey(&Root::at(place.path()), &scope);
            let facts = &only(&harvest).facts;
            let length = |text: &Option<String>| text.as_ref().map(|text| text.chars().count());
            (length(&facts.prompt), length(&facts.last_message))
        };
        assert_eq!(lengths(Some(2)), (Some(2), Some(2)), "{}", written.name());
        assert_eq!(lengths(None), (Some("say PROMPT".len()), Some("yes".len())), "{}", written.name());
    }
}

#[test]
fn a_file_that_did_not_change_is_counted_once() {
    for written in all() {
        let place = tempfile::tempdir().unwrap();
        let file = written.file(place.path());
        fs::write(&file, written.lines(b"")).unwrap();
        let size = file.metadata().unwrap().len();
        assert!(size > 300_000, "{}: the body is more than both ends", written.name());
        let memory = Arc::new(Memory::new(later));
        let asked = |memory: &Arc<Memory>| {
            let before = bytes_read();
            let harvest = written.survey(place.path(), Some(memory));
            (bytes_read() - before, only(&harvest).clone())
        };
        let (read, first) = asked(&memory);
        let (read_again, second) = asked(&memory);
        assert!(written.running || read >= size, "{}: {read} of {size}", written.name());
        // What a file says is remembered only where this kernel alone serves it.
        let is_remembered = agentctl_files::is_served_here(&fs::File::open(&file).unwrap());
        let most = if is_remembered { 4096 } else { size / 3 };
        assert!(read_again < most, "{} read {read_again} of {size} again", written.name());
        assert_eq!(format!("{first:?}"), format!("{second:?}"), "{}", written.name());
        // One more reply is one more token.
        fs::write(&file, [written.lines(b""), (written.reply)(REPLIES + 1).into_bytes()].concat()).unwrap();
        let (_, third) = asked(&memory);
        assert_eq!(third.facts.tokens.unwrap().output, Some(REPLIES as u64 + 1), "{}", written.name());
    }
}

/// What one question made known about a file is no part of the answer to another one.
#[test]
fn what_another_question_counted_changes_no_answer() {
    for written in all() {
        let place = tempfile::tempdir().unwrap();
        // Damage that is beyond both ends: only who reads everything sees it.
        let mut bytes = written.lines(b"");
        let middle =
            bytes.len() / 2 + bytes[bytes.len() / 2..].iter().position(|byte| *byte == b'\n').unwrap();
        bytes.splice(middle..middle, *b"\nno record");
        fs::write(written.file(place.path()), bytes).unwrap();
        let ask = |memory: Option<Arc<Memory>>, [usage, calls]: [bool; 2]| {
            let all = Scope::new(Reach::All { since: None });
            let scope = Scope { usage, calls, subagents: true, text_limit: Some(200), memory, ..all };
            written.adapter.survey(&Root::at(place.path()), &scope)
        };
        for first in [[true, true], [true, false], [false, false]] {
            let memory = Arc::new(Memory::new(later));
            ask(Some(memory.clone()), first);
            for then in [[false, false], [true, false], [true, true]] {
                let warm = ask(Some(memory.clone()), then);
                assert_eq!(warm, ask(None, then), "{}: {then:?} after {first:?}", written.name());
            }
        }
    }
}

#[test]
fn half_a_last_line_is_a_write_in_progress_and_any_other_broken_line_is_damage() {
    for written in all() {
        let place = tempfile::tempdir().unwrap();
        let file = written.file(place.path());
        let whole = written.lines(b"");
        let warned = |bytes: Vec<u8>| {
            fs::write(&file, bytes).unwrap();
            !written.survey(place.path(), None).warnings.is_empty()
        };
        let name = written.name();
        assert!(!warned([&whole[..], b"{\"type\":\"ha"].concat()), "{name}: it is being written");
        assert!(warned([&whole[..], b"{\"type\":\"ha\n"].concat()), "{name}: nobody goes on with this line");
        let first = written.opening.iter().flat_map(|line| [*line, "\n"]).collect::<String>();
        let begun = format!("{first}{{\"oops\n{}\n", written.prompt);
        assert!(warned(begun.clone().into_bytes()), "{name}: it is between two records");
        assert!(!warned(begun.replace("{\"oops\n", "").into_bytes()), "{name}");
    }
}

#[test]
fn bytes_that_are_no_text_are_replaced_and_lose_nothing() {
    for written in all() {
        let place = tempfile::tempdir().unwrap();
        let file = written.file(place.path());
        let lines = String::from_utf8(written.lines(b"")).unwrap();
        let (before, behind) = lines.split_once("PROMPT").unwrap();
        fs::write(&file, [before.as_bytes(), b"\xff!", behind.as_bytes()].concat()).unwrap();
        let harvest = written.survey(place.path(), None);
        assert_eq!(only(&harvest).facts.prompt.as_deref(), Some("say \u{fffd}!"), "{}", written.name());
        assert!(harvest.warnings.is_empty(), "{}: {:?}", written.name(), harvest.warnings);
        let prompts = |entries: Vec<agentctl_model::Entry>| {
            entries.iter().filter(|entry| entry.text == "say \u{fffd}!").count()
        };
        // Kimi shows what it sends to the model, which these lines leave out.
        let shown = usize::from(written.name() != "kimi");
        let read = written.adapter.read(&file, ID, 10_000).unwrap();
        assert_eq!(prompts(read), shown, "{}", written.name());
        let followed = written.adapter.follow(&file, ID, 10_000).unwrap().next().unwrap();
        assert_eq!(prompts(followed), shown, "{}", written.name());
    }
}

#[test]
fn a_sub_agent_of_gemini_that_lies_among_its_parents_is_found() {
    let place = tempfile::tempdir().unwrap();
    let chats = place.path().join("tmp/w/chats");
    fs::create_dir_all(&chats).unwrap();
    let write = |id: &str, more: &str| {
        let lines = format!(
            r#"{{"sessionId":"{id}","startTime":"2026-11-15T07:00:00Z",{more}}}
{{"id":"p","timestamp":"2026-11-15T07:00:00Z","type":"user","content":[{{"text":"look"}}]}}
"#
        );
        fs::write(chats.join(format!("session-2026-11-15T07-05-{}.jsonl", &id[..8])), lines).unwrap();
    };
    write("aaaaaaaa-1", r#""kind":"main""#);
    write("bbbbbbbb-2", r#""kind":"subagent","parentSessionId":"aaaaaaaa-1""#);
    write("cccccccc-3", r#""kind":"subagent""#);
    let ids = |subagents| {
        let scope = Scope { subagents, ..Scope::new(Reach::All { since: None }) };
        let mut found = Gemini.survey(&Root::at(place.path()), &scope).found;
        found.sort_by(|a, b| a.id.cmp(&b.id));
        let told = found.into_iter().map(|found| {
            let parent = found.facts.parent.map(|parent| (parent.id, parent.relation));
            (found.id, parent, found.facts.meta.get("kind").cloned())
        });
        told.collect::<Vec<_>>()
    };
    let main = ("aaaaaaaa-1".to_owned(), None, None);
    let child = Some(("aaaaaaaa-1".to_owned(), Relation::Subagent));
    let kind = Some("subagent".into());
    assert_eq!(ids(false), std::slice::from_ref(&main));
    assert_eq!(
        ids(true),
        [main, ("bbbbbbbb-2".to_owned(), child, None), ("cccccccc-3".to_owned(), None, kind)]
    );
}

#[test]
fn a_reply_of_gemini_that_stands_in_two_files_of_its_session_counts_once() {
    let place = tempfile::tempdir().unwrap();
    let chats = place.path().join("tmp/w/chats");
    fs::create_dir_all(&chats).unwrap();
    let reply = |id: &str| {
        format!(
            r#"{{"id":"{id}","timestamp":"2026-11-15T07:00:01Z","type":"gemini","content":"yes","tokens":{{"input":2,"output":1,"cached":0}},"model":"m"}}"#
        )
    };
    let header = r#""sessionId":"aaaaaaaa-1","startTime":"2026-11-15T07:00:00Z","kind":"main""#;
    // The older file is one document, spread over several lines.
    let document = format!("{{\n {header},\n \"messages\": [\n  {},\n  {}\n ]\n}}\n", reply("a"), reply("b"));
    fs::write(chats.join("session-2026-11-15T07-00-aaaaaaaa.json"), document).unwrap();
    let lines = format!("{{{header}}}\n{}\n{}\n", reply("b"), reply("c"));
    fs::write(chats.join("session-2026-11-15T07-05-aaaaaaaa.jsonl"), lines).unwrap();
    let memory = Arc::new(Memory::new(later));
    for _ in 0..2 {
        let memory = Some(Arc::clone(&memory));
        let scope = Scope { usage: true, memory, ..Scope::new(Reach::All { since: None }) };
        let harvest = Gemini.survey(&Root::at(place.path()), &scope);
        assert_eq!(only(&harvest).facts.tokens.unwrap().output, Some(3), "{harvest:?}");
        assert!(harvest.warnings.is_empty(), "{harvest:?}");
    }
}
