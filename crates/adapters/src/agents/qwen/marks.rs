//! What a record says about the turn and when, for the timeline. Pure.

use agentctl_model::timeline::{Mark, Step};

use super::records::{ASKS_A_PERSON, Record};
use crate::transcript::marks::{mark, number};

pub(super) fn marks(line: &[u8]) -> Vec<Mark> {
    let Some(record) = Record::parse(line) else { return Vec::new() };
    step(&record).map(|step| mark(record.at(), step)).unwrap_or_default()
}

fn step(record: &Record<'_>) -> Option<Step> {
    Some(match record.kind.as_ref() {
        "user" if record.prompt().is_some() => Step::Said,
        "user" => Step::Work,
        "assistant" => match record.call().map(|call| call.name.as_deref()) {
            Some(name) if name == Some(ASKS_A_PERSON) => Step::Asked(number(name)),
            Some(_) => Step::Work,
            None => Step::Closing,
        },
        // The agent names the tool and not the call in its answer; it asks one question at a time.
        "tool_result" => {
            let mut answers = record.message.parts.iter().filter_map(|part| part.function_response.as_ref());
            Step::Answered(number(answers.next().and_then(|answer| answer.name.as_deref())))
        }
        "system" => match record.subtype.as_deref()? {
            "turn_result" | "rewind" => Step::Ended,
            "ui_telemetry" => {
                let event = &record.system_payload.ui_event;
                let is_error = event.name.as_deref() == Some("qwen-code.api_error") && event.is_main();
                is_error.then_some(Step::Closing)?
            }
            _ => return None,
        },
        _ => return None,
    })
}
