//! A conversation from the gateway, as entries for `peek`. Pure.

use std::hash::{DefaultHasher, Hash, Hasher};

use agentctl_model::text::{clean, clean_cut, one_line};
use agentctl_model::{Entry, EntryKind, Role};
use jiff::Timestamp;
use serde_json::Value;

use super::fold::stored_as;
use crate::agents::openclaw::client::rows::History;

/// One entry, under a name that stays the same when the history is requested again.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Named {
    pub(crate) key: String,
    pub(crate) entry: Entry,
}

/// All entries, oldest first; with the reply in progress, if that is wanted.
pub(crate) fn entries(history: &History, with_partial: bool) -> Vec<Named> {
    let mut entries = Vec::new();
    // One stored message may arrive as several rows with one id, so entries are numbered within an id. Only rows that
    // follow each other are counted together.
    let mut last = (String::new(), 0);
    for message in &history.messages {
        let id = stored_as(message).unwrap_or_else(|| by_content(message));
        for entry in of_message(message) {
            if last.0 != id {
                last = (id.clone(), 0);
            }
            entries.push(Named { key: format!("{id}/{}", last.1), entry });
            last.1 += 1;
        }
    }
    let partial = history.in_flight_run.as_ref().filter(|run| with_partial && !run.text.trim().is_empty());
    if let Some(run) = partial {
        let at = run.started_at.map(|at| at.0);
        let entry =
            Entry { at, role: Role::Agent, kind: EntryKind::Message, text: clean(&run.text), tool: None };
        entries.push(Named { key: format!("{}/partial", run.run_id), entry });
    }
    entries
}

/// A name for a message that has none: its position changes with every new message, its content does not.
fn by_content(message: &Value) -> String {
    let mut hasher = DefaultHasher::new();
    for part in ["role", "timestamp", "content"] {
        message[part].to_string().hash(&mut hasher);
    }
    format!("={:016x}", hasher.finish())
}

fn of_message(message: &Value) -> Vec<Entry> {
    let at = moment(&message["timestamp"]);
    let entry = |role, kind, text: String, tool: Option<String>| Entry { at, role, kind, text, tool };
    let tool = |name: &Value| name.as_str().map(|name| clean_cut(&one_line(name), Some(200)));
    match message["role"].as_str().unwrap_or_default() {
        "user" => {
            says(message).map(|text| entry(Role::User, EntryKind::Message, text, None)).into_iter().collect()
        }
        "assistant" => {
            let failed = message["stopReason"] == "error";
            let mut entries = Vec::new();
            if let Some(text) = says(message) {
                let kind = if failed { EntryKind::Error } else { EntryKind::Message };
                entries.push(entry(Role::Agent, kind, text, None));
            }
            for block in blocks(message).filter(|block| block["type"] == "toolCall") {
                let input = clean(&block["arguments"].to_string());
                entries.push(entry(Role::Tool, EntryKind::ToolCall, input, tool(&block["name"])));
            }
            entries
        }
        "toolResult" => {
            let failed = message["isError"] == true;
            let kind = if failed { EntryKind::Error } else { EntryKind::ToolResult };
            let text = says(message).unwrap_or_default();
            vec![entry(Role::Tool, kind, text, tool(&message["toolName"]))]
        }
        "custom" if message["display"] != false => {
            let failed = message["customType"].as_str().is_some_and(|kind| kind.contains("failed"));
            let kind = if failed { EntryKind::Error } else { EntryKind::Notice };
            says(message).map(|text| entry(Role::System, kind, text, None)).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

fn blocks(message: &Value) -> impl Iterator<Item = &Value> {
    message["content"].as_array().into_iter().flatten()
}

/// The text of a message; `None` when it has none.
pub(crate) fn says(message: &Value) -> Option<String> {
    let text = if let Value::String(text) = &message["content"] {
        text.clone()
    } else {
        let texts = blocks(message).filter(|block| block["type"] == "text");
        texts.filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
    };
    Some(clean(text.trim_end())).filter(|text| !text.is_empty())
}

pub(crate) fn moment(value: &Value) -> Option<Timestamp> {
    value.as_i64().and_then(|millis| Timestamp::from_millisecond(millis).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentctl_testkit::costs_what_its_size_says;
    use serde_json::json;
    use std::collections::HashSet;

    fn history(value: Value) -> History {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn every_role_is_told_and_the_partial_answer_comes_last() {
        let told = history(json!({
            "messages": [
                {"role": "user", "content": "go\u{1b}", "timestamp": 1000, "__openclaw": {"id": "a"}},
                {"role": "assistant", "content": [{"type": "text", "text": "Running."}], "__openclaw": {"id": "b"}},
                {"role": "assistant", "content": [{"type": "toolCall", "name": "exec", "arguments": {"command": "ls"}}],
                 "usage": {"input": 2, "output": 3, "cost": {"total": 0.5}}, "__openclaw": {"id": "b"}},
                {"role": "toolResult", "toolName": "exec", "content": [{"type": "text", "text": "no"}], "isError": true},
                {"role": "custom", "customType": "run-failed-before-reply", "content": "ended", "display": true},
                {"role": "custom", "content": "hidden", "display": false},
                {"role": "assistant", "content": [{"type": "text", "text": "bad key"}], "stopReason": "error"},
                {"role": "later", "content": 7}, 9,
            ],
            "inFlightRun": {"runId": "r", "text": "part0 part1", "startedAt": 5},
        }));
        let all = entries(&told, true);
        let shown: Vec<(Role, EntryKind, &str)> =
            all.iter().map(|named| (named.entry.role, named.entry.kind, named.entry.text.as_str())).collect();
        assert_eq!(
            shown,
            [
                (Role::User, EntryKind::Message, "go"),
                (Role::Agent, EntryKind::Message, "Running."),
                (Role::Tool, EntryKind::ToolCall, r#"{"command":"ls"}"#),
                (Role::Tool, EntryKind::Error, "no"),
                (Role::System, EntryKind::Error, "ended"),
                (Role::Agent, EntryKind::Error, "bad key"),
                (Role::Agent, EntryKind::Message, "part0 part1"),
            ]
        );
        let keys: HashSet<&str> = all.iter().map(|named| named.key.as_str()).collect();
        assert_eq!(keys.len(), all.len());
        assert_eq!(entries(&told, false).len(), 6);
    }

    /// One answer may hold a hundred thousand. Who compares each entry with all before it takes minutes for them.
    #[test]
    fn one_message_with_very_many_calls_is_read_at_once() {
        let told = |count: usize| {
            let calls = vec![json!({"type": "toolCall"}); count];
            history(json!({"messages": [
                {"role": "assistant", "content": calls, "__openclaw": {"id": "a/b"}},
                {"role": "user", "content": "and now", "__openclaw": {"id": "c"}},
                {"role": "user", "content": "again", "__openclaw": {"id": "a/b"}},
            ]}))
        };
        let all = entries(&told(1000), false);
        let names = [0, 1, 999, 1000, 1001].map(|at: usize| all[at].key.as_str());
        assert_eq!(names, ["a/b/0", "a/b/1", "a/b/999", "c/0", "a/b/0"]);
        costs_what_its_size_says(1000, told, |told| entries(told, false));
    }

    #[test]
    fn a_message_without_an_id_has_the_same_name_wherever_it_stands() {
        let said = |words: &str, at: i64| json!({"role": "user", "content": words, "timestamp": at});
        let names = |messages: &[Value]| -> Vec<String> {
            let told = history(json!({"messages": messages}));
            entries(&told, false).into_iter().map(|named| named.key).collect()
        };
        let all = [said("a", 1), said("b", 2), said("b", 3), said("c", 3)];
        let whole = names(&all);
        assert_eq!(whole.iter().collect::<HashSet<_>>().len(), 4);
        assert_eq!(names(&all[1..]), whole[1..]);
        let numbered = |seq: u64| json!({"role": "user", "content": "same", "__openclaw": {"seq": seq}});
        assert_eq!(names(&[numbered(1), numbered(2)])[1..], names(&[numbered(2)]));
    }
}
