//! What a started agent prints on its stdout: one JSON event per line. Pure.

use serde_json::Value;

/// The events, newest first. Lines that are not JSON, or not complete yet, are skipped.
pub(crate) fn newest_first(stdout: &str) -> impl Iterator<Item = Value> {
    stdout.lines().rev().filter_map(|line| serde_json::from_str(line).ok())
}

/// The events in the order in which they were printed.
pub(crate) fn in_order(stdout: &str) -> impl Iterator<Item = Value> {
    stdout.lines().filter_map(|line| serde_json::from_str(line).ok())
}

/// The text at this place of an event, if there is any.
pub(crate) fn words_at(event: &Value, pointer: &str) -> Option<String> {
    event.pointer(pointer)?.as_str().filter(|words| !words.is_empty()).map(str::to_owned)
}
