//! What a started agent says on its stdout: one JSON event a line. Pure.

use serde_json::Value;

/// The events, newest first. What is no JSON, or no whole line yet, is passed over.
pub(crate) fn newest_first(stdout: &str) -> impl Iterator<Item = Value> {
    stdout.lines().rev().filter_map(|line| serde_json::from_str(line).ok())
}

/// The events in the order in which they were said.
pub(crate) fn in_order(stdout: &str) -> impl Iterator<Item = Value> {
    stdout.lines().filter_map(|line| serde_json::from_str(line).ok())
}

/// The words at this place of an event, if there are any.
pub(crate) fn words_at(event: &Value, pointer: &str) -> Option<String> {
    event.pointer(pointer)?.as_str().filter(|words| !words.is_empty()).map(str::to_owned)
}
