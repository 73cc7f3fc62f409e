//! What one record of the active branch means for the last turn. Pure.

use agentctl_model::text::{clean_cut, one_line};
use agentctl_model::{Limit, TurnState};

use super::records::{Message, Record};

/// The error that Pi records for a turn whose tool was cancelled.
const CANCELLED: &str = "This operation was aborted";

/// The state in which this record leaves the turn, if it concerns the turn. `taken_back` means that a later
/// `context_edit` targets this record; Pi writes one before it retries.
pub(crate) fn state(record: &Record<'_>, taken_back: bool) -> Option<TurnState> {
    let message = record.message.as_ref().filter(|_| record.kind == "message")?;
    match message.role.as_ref() {
        "user" | "toolResult" => Some(TurnState::Open),
        "assistant" => Some(reply(message, taken_back)),
        _ => None,
    }
}

fn reply(message: &Message<'_>, taken_back: bool) -> TurnState {
    match message.stop_reason.as_deref() {
        Some("stop" | "length") => TurnState::Finished,
        Some("toolUse" | "deferred" | "pauseTurn") => TurnState::Open,
        Some("error") if taken_back => TurnState::Open,
        Some("error") if message.error_message.as_deref() == Some(CANCELLED) => TurnState::Interrupted,
        Some("error") => TurnState::Failed,
        Some("aborted") => TurnState::Interrupted,
        // The value comes from a newer version; a tool call shows that the agent continues.
        _ if message.blocks().iter().any(|block| block.kind == "toolCall") => TurnState::Open,
        _ => TurnState::Ended,
    }
}

/// The detail for a person: the error, or the running tool.
pub(crate) fn detail(record: &Record<'_>, state: TurnState) -> Option<String> {
    let message = record.message.as_ref()?;
    match state {
        TurnState::Failed => message.error_message.as_deref().map(|error| clean_cut(error, Some(500))),
        TurnState::Open if message.role == "assistant" => match message.error_message.as_deref() {
            Some(error) => Some(clean_cut(&format!("trying again after: {error}"), Some(500))),
            None => tool_call(message),
        },
        _ => None,
    }
}

/// The refusal of the provider for a quota, which the agent records as the HTTP status and the provider's words.
pub(crate) fn limit(record: &Record<'_>, state: TurnState) -> Option<Limit> {
    let error = record.message.as_ref()?.error_message.as_deref()?;
    (state == TurnState::Failed && error.starts_with("429")).then(Limit::default)
}

/// Describes the tool that a message calls, such as `bash: make test`.
fn tool_call(message: &Message<'_>) -> Option<String> {
    let blocks = message.blocks();
    let call = blocks.iter().rfind(|block| block.kind == "toolCall")?;
    let input: serde_json::Value = serde_json::from_str(call.arguments?.get()).ok()?;
    let keys = ["command", "path", "file_path", "pattern", "url", "query", "description", "prompt"];
    let what = keys.iter().find_map(|key| input.get(key)?.as_str()).map(one_line).unwrap_or_default();
    Some(clean_cut(&format!("{}: {what}", call.name.as_deref().unwrap_or("tool")), Some(160)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_for_a_quota_is_a_limit_without_an_end() {
        let limit = |words: &str| {
            let line = format!(
                r#"{{"type":"message","message":{{"role":"assistant","stopReason":"error","errorMessage":"{words}"}}}}"#
            );
            limit(&Record::parse(line.as_bytes()).unwrap(), TurnState::Failed)
        };
        assert_eq!(limit("429: Please try again in 600s."), Some(Limit::default()));
        assert_eq!(limit("500: 429 problems"), None);
    }

    fn told(message: &str, taken_back: bool) -> Option<(TurnState, Option<String>)> {
        let line = format!(r#"{{"type":"message","message":{message}}}"#);
        let record = Record::parse(line.as_bytes()).unwrap();
        let state = state(&record, taken_back)?;
        Some((state, detail(&record, state)))
    }

    #[test]
    fn replies_end_a_turn_or_leave_it_open() {
        use TurnState as T;
        let reply = |rest: &str| format!(r#"{{"role":"assistant","content":[],{rest}}}"#);
        let error = reply(r#""stopReason":"error","errorMessage":"500: no""#);
        let call = r#"{"role":"assistant","stopReason":"toolUse","content":[{"type":"toolCall","name":"bash",
            "arguments":{"command":"make\n test"}}]}"#
            .replace('\n', " ");
        let cases = [
            (r#"{"role":"user","content":"x"}"#.to_owned(), false, Some((T::Open, None))),
            (r#"{"role":"toolResult","isError":true}"#.to_owned(), false, Some((T::Open, None))),
            (r#"{"role":"bashExecution","command":"ls"}"#.to_owned(), false, None),
            (r#"{"role":"system"}"#.to_owned(), false, None),
            (reply(r#""stopReason":"stop""#), false, Some((T::Finished, None))),
            (reply(r#""stopReason":"length""#), true, Some((T::Finished, None))),
            (call, false, Some((T::Open, Some("bash: make test".to_owned())))),
            (error.clone(), false, Some((T::Failed, Some("500: no".to_owned())))),
            (error, true, Some((T::Open, Some("trying again after: 500: no".to_owned())))),
            (reply(r#""stopReason":"aborted","errorMessage":"x""#), false, Some((T::Interrupted, None))),
            (
                reply(r#""stopReason":"error","errorMessage":"This operation was aborted""#),
                false,
                Some((T::Interrupted, None)),
            ),
            (reply(r#""stopReason":"brand-new""#), false, Some((T::Ended, None))),
        ];
        for (message, taken_back, expected) in cases {
            assert_eq!(told(&message, taken_back), expected, "{message}");
        }
    }
}
