//! What real agents said, heard again. The client of the recordings asked for more than this machine does, so ids are
//! translated, and what only that client asked for is answered to an id that was never used.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;
use crate::hold::HeldState;

/// What was done with the machine.
#[derive(Debug, Clone)]
enum Deed {
    Hear(Vec<u8>),
    Tell(Ticket, Verb),
    Withdraw(Ticket),
}

fn agent_of(recording: &Path) -> Agent {
    let folder = recording.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap();
    match folder {
        // The recorded client loaded sessions by their id alone.
        "gemini" => Agent { before_loaded: "", ..agent::GEMINI },
        "qwen" => agent::QWEN,
        "copilot" => agent::COPILOT,
        "kimi" => agent::KIMI,
        "opencode" => agent::OPENCODE,
        "claude" => agent::CLAUDE_AGENT_ACP,
        "codex" => agent::CODEX_ACP,
        other => panic!("{other} is not known"),
    }
}

fn recordings() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recorded");
    let folders = fs::read_dir(root.join("acp")).unwrap().map(|entry| entry.unwrap().path());
    let held = ["gemini", "qwen", "copilot"].map(|agent| root.join("holding").join(agent));
    let mut files = Vec::new();
    for folder in folders.filter(|path| path.is_dir()).chain(held) {
        files.extend(fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()));
    }
    files.retain(|path| path.extension().is_some_and(|end| end == "jsonl"));
    files.sort();
    assert_eq!(files.len(), 33, "recordings");
    files
}

/// The messages of both directions: `true` for those of the client.
fn messages(recording: &Path) -> Vec<(bool, Value)> {
    let text = fs::read_to_string(recording).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let message = |mut line: Value| {
        let is_ours = match line["dir"].as_str()? {
            "c2a" | ">" => true,
            "a2c" | "<" => false,
            _ => return None,
        };
        let key = if line.get("msg").is_some() { "msg" } else { "line" };
        let message = line[key].take();
        message.is_object().then_some((is_ours, message))
    };
    lines.filter_map(message).collect()
}

/// Plays one recording and notes what was done and what came of it.
struct Play {
    acp: Acp,
    tickets: u64,
    deeds: Vec<Deed>,
    said: Vec<Said>,
    written: Vec<u8>,
    /// Our ids of the requests that the recorded client made under these.
    ours: HashMap<u64, u64>,
    /// Prompts of the recording that were told and not sent yet.
    unsent: VecDeque<(u64, Ticket)>,
    /// The recorded request that opens the session.
    opener: Value,
}

impl Play {
    fn new(recording: &Path) -> Self {
        let messages = messages(recording);
        let opener = messages.iter().map(|(_, message)| message).find(|message| {
            matches!(message["method"].as_str(), Some("session/new" | "session/load" | "session/resume"))
        });
        let opener = opener.expect("the recording opens a session").clone();
        let start = match opener["params"]["sessionId"].as_str() {
            Some(session) => Start::Continue { session: session.into(), may_load: true },
            None => Start::New,
        };
        let cwd = opener["params"]["cwd"].as_str().unwrap().into();
        let mut acp = Acp::new(agent_of(recording), Opening { cwd, start, ..super::opening() });
        let written = acp.open().write;
        let mut play = Self {
            acp,
            tickets: 0,
            deeds: Vec::new(),
            said: Vec::new(),
            written,
            ours: HashMap::from([(1, 1)]),
            unsent: VecDeque::new(),
            opener,
        };
        for (at, (is_ours, message)) in messages.iter().enumerate() {
            if *is_ours {
                play.tell_as(message);
            } else {
                play.hear_as(message.clone(), &messages[at..]);
            }
        }
        play
    }

    fn took(&mut self, step: Step) -> Vec<Value> {
        let frames = frames(&step);
        for frame in &frames {
            match frame["method"].as_str() {
                Some("session/new" | "session/load" | "session/resume") => {
                    assert_eq!(frame["method"], self.opener["method"]);
                    assert_eq!(frame["params"], self.opener["params"]);
                    self.ours.insert(self.opener["id"].as_u64().unwrap(), frame["id"].as_u64().unwrap());
                }
                Some("session/prompt") => {
                    let (recorded, _) = self.unsent.pop_front().expect("a prompt nobody told");
                    self.ours.insert(recorded, frame["id"].as_u64().unwrap());
                }
                _ => {}
            }
        }
        self.said.extend(step.said);
        self.written.extend(step.write);
        frames
    }

    fn tell(&mut self, verb: Verb, prompt: Option<u64>) -> Vec<Value> {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.unsent.extend(prompt.map(|id| (id, ticket)));
        self.deeds.push(Deed::Tell(ticket, verb.clone()));
        let step = self.acp.tell(ticket, verb);
        self.took(step)
    }

    /// Does what the recorded client did, and compares the frames.
    fn tell_as(&mut self, message: &Value) {
        match message["method"].as_str() {
            Some("session/prompt") if message["params"]["sessionId"] == json!(self.acp.state().session) => {
                let words = message["params"]["prompt"][0]["text"].as_str().unwrap().into();
                let frames = self.tell(Verb::Send { words, as_command: false }, message["id"].as_u64());
                if let [frame, ..] = &frames[..] {
                    assert_eq!(frame["params"], message["params"]);
                }
            }
            Some("session/cancel") => {
                let frames = self.tell(Verb::Interrupt, None);
                assert_eq!(frames.first(), Some(message));
            }
            None if message.get("result").is_some() => self.answer_as(message),
            _ => {}
        }
    }

    fn answer_as(&mut self, message: &Value) {
        let Some(asked) = self.acp.asked.iter().find(|asked| asked.rpc == message["id"]) else {
            return assert!(message["result"].get("messages").is_some(), "nothing waits for {message}");
        };
        let request = asked.request.id.clone();
        let decision = match message["result"]["outcome"]["optionId"].as_str() {
            _ if message["result"].get("answers").is_some() => {
                Decision::Text(message["result"]["answers"]["0"].as_str().unwrap().into())
            }
            Some("proceed_once" | "allow_once" | "allow-once" | "approve_once") => Decision::AllowOnce,
            Some("proceed_always" | "approve_always") => Decision::AllowAlways,
            Some("cancel" | "reject" | "reject_once") => Decision::Deny { reason: None },
            other => panic!("{other:?} is not known"),
        };
        let frames = self.tell(Verb::Answer { request, decision }, None);
        assert_eq!(frames[0], *message);
        assert_eq!((frames.len(), &frames[1]["method"]), (2, &json!("_agentctl/echo")));
    }

    fn hear_as(&mut self, mut message: Value, rest: &[(bool, Value)]) {
        let is_request = message["method"].is_string();
        if !is_request && let Some(id) = message["id"].as_u64() {
            if let Some((_, ticket)) = self.unsent.iter().find(|(recorded, _)| *recorded == id).copied() {
                // The recorded client sent it in the middle of the turn, which this machine does not do here.
                self.unsent.retain(|(recorded, _)| *recorded != id);
                assert!(self.acp.withdraw(ticket));
                self.deeds.push(Deed::Withdraw(ticket));
            }
            message["id"] = json!(self.ours.get(&id).copied().unwrap_or(id + 100_000));
            // What was loaded is loaded again, even where the agent could resume it.
            if id == 1 && self.opener["method"] == "session/load" {
                let capabilities = &mut message["result"]["agentCapabilities"]["sessionCapabilities"];
                if let Some(capabilities) = capabilities.as_object_mut() {
                    capabilities.remove("resume");
                }
            }
        }
        if message["method"] == "craft/drainMidTurnQueue" {
            let reply = rest.iter().find(|(is_ours, reply)| *is_ours && reply["id"] == message["id"]);
            let messages = reply.and_then(|(_, reply)| reply["result"]["messages"].as_array().cloned());
            for words in messages.into_iter().flatten() {
                let words = words.as_str().unwrap().into();
                assert_eq!(self.tell(Verb::Send { words, as_command: false }, None), Vec::<Value>::new());
            }
        }
        let bytes = format!("{message}\n").into_bytes();
        self.deeds.push(Deed::Hear(bytes.clone()));
        let step = self.acp.hear(&bytes);
        self.took(step);
    }
}

/// Does the deeds again with a new machine, with what is heard cut where `cut` says. A piece ends at a cut, at a deed of
/// ours, and nowhere else.
fn again(
    recording: &Path,
    play: &Play,
    cut: &mut impl FnMut(usize) -> usize,
) -> (Vec<Said>, Vec<u8>, HeldState) {
    let mut acp = Acp::new(agent_of(recording), play.acp.opening.clone());
    let mut written = acp.open().write;
    let mut said = Vec::new();
    let mut heard = Vec::new();
    let mut steps = Vec::new();
    for deed in &play.deeds {
        if let Deed::Hear(bytes) = deed {
            heard.extend_from_slice(bytes);
            continue;
        }
        hear_cut(&mut acp, &mut heard, cut, &mut steps);
        match deed.clone() {
            Deed::Tell(ticket, verb) => steps.push(acp.tell(ticket, verb)),
            Deed::Withdraw(ticket) => assert!(acp.withdraw(ticket)),
            Deed::Hear(_) => {}
        }
    }
    hear_cut(&mut acp, &mut heard, cut, &mut steps);
    for step in steps {
        said.extend(step.said);
        written.extend(step.write);
    }
    (said, written, acp.state())
}

fn hear_cut(acp: &mut Acp, heard: &mut Vec<u8>, cut: &mut impl FnMut(usize) -> usize, steps: &mut Vec<Step>) {
    let mut rest = &heard[..];
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(cut(rest.len()).clamp(1, rest.len()));
        steps.push(acp.hear(piece));
        rest = after;
    }
    heard.clear();
}

/// Everything that was said, one line each, and how the line stood at the end.
fn told(play: &Play) -> String {
    let mut text = String::new();
    for said in &play.said {
        match said {
            Said::Asked(request) => {
                let options = request
                    .options
                    .iter()
                    .map(|option| format!("{} ({:?}, {:?})", option.id, option.kind, option.scope));
                let options = options.collect::<Vec<_>>().join(", ");
                writeln!(text, "Asked {} {:?} {:?}: {options}", request.id, request.kind, request.summary)
                    .unwrap();
            }
            other => writeln!(text, "{other:?}").unwrap(),
        }
    }
    writeln!(text, "{:?}", play.acp.usage()).unwrap();
    let state = play.acp.state();
    writeln!(text, "open: {}, pending: {}, lost: {:?}", state.turn_open, state.pending.len(), state.lost)
        .unwrap();
    text
}

#[test]
fn every_recording_says_what_happened() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recorded");
    let mut text = String::new();
    for recording in recordings() {
        let name = recording.strip_prefix(&root).unwrap().display().to_string();
        writeln!(text, "== {name}\n{}", told(&Play::new(&recording))).unwrap();
    }
    insta::assert_snapshot!(text);
}

#[test]
fn what_initialize_said_can_be_read() {
    for (agent, name, version) in [
        ("gemini", "gemini-cli", "0.61.0"),
        ("kimi", "Kimi Code CLI", "2.1.0"),
        ("copilot", "Copilot", "1.0.102"),
    ] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recorded/acp");
        let play = Play::new(&root.join(agent).join("main.jsonl"));
        let greeting = play.acp.greeting().unwrap();
        assert_eq!((greeting.name.as_deref(), greeting.version.as_deref()), (Some(name), Some(version)));
        let can = greeting.capabilities;
        let expected = match agent {
            "gemini" => (true, false, false, false),
            "kimi" => (true, true, true, true),
            _ => (true, false, true, true),
        };
        assert_eq!((can.load, can.resume, can.list, can.close), expected, "{agent}");
    }
}

#[test]
fn every_cut_of_a_recording_says_the_same() {
    for recording in recordings() {
        let play = Play::new(&recording);
        let expected = (play.said.clone(), play.written.clone(), play.acp.state());
        assert!(again(&recording, &play, &mut |length| length) == expected, "whole: {}", recording.display());
        let strategy = proptest::collection::vec(1usize..3000, 1..40);
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(6));
        let result = runner.run(&strategy, |cuts| {
            let mut cuts = cuts.into_iter().cycle();
            let got = again(&recording, &play, &mut |_| cuts.next().unwrap_or(1));
            prop_assert!(got == expected, "{}", recording.display());
            Ok(())
        });
        result.unwrap();
    }
}
