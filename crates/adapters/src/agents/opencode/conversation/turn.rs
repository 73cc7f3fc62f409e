//! The state in which the last message leaves the turn. Pure.

use agentctl_model::text::clean_cut;
use agentctl_model::{Turn, TurnState};

use super::records::{Message, Part, ToolState};
use crate::transcript::call;

/// The state of the turn, from its last message and that message's parts.
pub(crate) fn turn(message: &Message<'_>, parts: &[Part<'_>]) -> Turn {
    let last = parts.iter().filter_map(Part::latest).max().max(message.time.latest());
    let mut turn = Turn::new(state(message, parts), last);
    turn.detail = match turn.state {
        TurnState::Failed => message.error.as_ref().map(|error| clean_cut(&error.words(), Some(500))),
        TurnState::Open => parts.iter().rev().find_map(|part| Some(tool_words(part, part.tool_at_work()?))),
        _ => None,
    };
    if message.is_user() {
        turn.began = message.time.created();
    }
    turn
}

fn state(message: &Message<'_>, parts: &[Part<'_>]) -> TurnState {
    if !message.is_assistant() {
        // A prompt without an answer.
        return TurnState::Open;
    }
    if let Some(error) = &message.error {
        return if error.is_abort() { TurnState::Interrupted } else { TurnState::Failed };
    }
    if message.is_open() {
        return TurnState::Open;
    }
    match message.finish.as_deref() {
        // A person denied the call, which ends the turn.
        Some("tool-calls") if parts.iter().any(Part::was_denied) => TurnState::Interrupted,
        // The agent continues with the next step by itself; a missing step was never begun.
        Some("tool-calls" | "unknown") => TurnState::Open,
        Some("error") => TurnState::Failed,
        Some(_) => TurnState::Finished,
        // The turn was stopped while it waited to retry.
        None if parts.is_empty() => TurnState::Interrupted,
        // A shell command that the user typed.
        None if parts.iter().all(|part| part.kind == "tool" && part.tool_at_work().is_none()) => {
            TurnState::Finished
        }
        None => TurnState::Ended,
    }
}

/// The tool and what it works on: `bash: make test`.
pub(crate) fn tool_words(part: &Part<'_>, state: &ToolState<'_>) -> String {
    let input: Option<serde_json::Value> =
        state.input.and_then(|input| serde_json::from_str(input.get()).ok());
    call::words(
        part.tool.as_deref().unwrap_or("tool"),
        &input.as_ref().and_then(main_input).unwrap_or_default(),
    )
}

/// The part of a call's input that says most about it.
pub(crate) fn main_input(input: &serde_json::Value) -> Option<String> {
    let keys = ["command", "filePath", "path", "pattern", "url", "description", "prompt"];
    call::argument(input, &keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(message: &str, parts: &[&str]) -> Turn {
        let message = Message::parse(message.as_bytes()).unwrap();
        let parts: Vec<Part<'_>> = parts.iter().map(|part| Part::parse(part.as_bytes()).unwrap()).collect();
        turn(&message, &parts)
    }

    #[test]
    fn every_line_of_the_table() {
        let running = r#"{"type":"tool","tool":"bash","state":{"status":"running","input":{"command":"sleep 9"},"time":{"start":5000}}}"#;
        let shell = r#"{"type":"tool","tool":"bash","state":{"status":"completed","time":{"start":5000,"end":6000}}}"#;
        let done = |rest: &str| {
            format!(r#"{{"role":"assistant","time":{{"created":1000,"completed":2000}}{rest}}}"#)
        };
        let denied = r#"{"type":"tool","tool":"bash","state":{"status":"error","error":"The user rejected permission to use this specific tool call."}}"#;
        let dismissed = r#"{"type":"tool","tool":"question","state":{"status":"error","error":"Error: The user dismissed this question"}}"#;
        let corrected = r#"{"type":"tool","tool":"bash","state":{"status":"error","error":"The user rejected permission to use this specific tool call with the following feedback: no"}}"#;
        let cases: [(String, &[&str], TurnState); 14] = [
            (r#"{"role":"user","time":{"created":1000}}"#.into(), &[], TurnState::Open),
            (r#"{"role":"assistant","time":{"created":1000}}"#.into(), &[running], TurnState::Open),
            (done(r#","finish":"stop""#), &[], TurnState::Finished),
            (done(r#","finish":"length""#), &[], TurnState::Finished),
            (done(r#","finish":"tool-calls""#), &[shell], TurnState::Open),
            (done(r#","finish":"tool-calls""#), &[shell, denied], TurnState::Interrupted),
            (done(r#","finish":"tool-calls""#), &[dismissed], TurnState::Interrupted),
            (done(r#","finish":"tool-calls""#), &[corrected], TurnState::Open),
            (done(r#","finish":"unknown""#), &[], TurnState::Open),
            (done(r#","error":{"name":"MessageAbortedError","data":{}}"#), &[], TurnState::Interrupted),
            (done(r#","error":{"name":"APIError","data":{"message":"no"}}"#), &[], TurnState::Failed),
            (done(""), &[], TurnState::Interrupted),
            (done(""), &[shell], TurnState::Finished),
            (done(""), &[r#"{"type":"text","text":"x"}"#], TurnState::Ended),
        ];
        for (message, parts, state) in cases {
            assert_eq!(of(&message, parts).state, state, "{message} {parts:?}");
        }
    }

    #[test]
    fn the_running_tool_and_the_error_are_told_and_the_newest_time_counts() {
        let running = r#"{"type":"tool","tool":"bash","state":{"status":"running","input":{"command":"sleep\n 9"},"time":{"start":5000}}}"#;
        let open = of(r#"{"role":"assistant","time":{"created":1000}}"#, &[running]);
        assert_eq!(open.detail.as_deref(), Some("bash: sleep\n 9"), "byte for byte");
        let asking = r#"{"type":"tool","tool":"question","state":{"status":"running","input":{"questions":[{"question":"Which?"}]}}}"#;
        let asked = of(r#"{"role":"assistant","time":{"created":1000}}"#, &[asking]);
        assert_eq!(asked.detail.as_deref(), Some("question: Which?"));
        assert_eq!(open.last.map(jiff::Timestamp::as_millisecond), Some(5000));
        let failed = of(
            r#"{"role":"assistant","time":{"created":1},"error":{"name":"APIError","data":{"message":"bad key"}}}"#,
            &[],
        );
        assert_eq!((failed.state, failed.detail.as_deref()), (TurnState::Failed, Some("APIError: bad key")));
    }
}
