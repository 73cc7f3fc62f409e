//! What a record says about the turn and when, for the timeline. Pure.

use agentctl_model::timeline::{Mark, Step};

use super::records::{Record, Said, is_certainly_bulk, said};
use crate::transcript::marks::{mark, number};

/// The tools that only ask a person. Other approvals are not recorded.
const ASK_A_PERSON: [&str; 2] = ["AskUserQuestion", "ExitPlanMode"];

pub(super) fn marks(line: &[u8]) -> Vec<Mark> {
    if is_certainly_bulk(line) {
        return Vec::new();
    }
    let Some(record) = Record::parse(line) else { return Vec::new() };
    let at = record.at();
    let is_talk = matches!(record.kind.as_ref(), "user" | "assistant");
    if record.is_sidechain {
        // A sub-agent works within a turn of the main conversation.
        return if is_talk { mark(at, Step::Work) } else { Vec::new() };
    }
    match said(&record, false) {
        Said::Nothing => Vec::new(),
        Said::Prompt => mark(at, Step::Said),
        Said::ToolResult => {
            let blocks = record.blocks();
            let results = blocks.iter().filter(|block| block.kind == "tool_result");
            results.flat_map(|block| mark(at, Step::Answered(number(block.tool_use_id.as_deref())))).collect()
        }
        Said::AgentGoesOn => {
            let blocks = record.blocks();
            let asks = |name: Option<&str>| name.is_some_and(|name| ASK_A_PERSON.contains(&name));
            let asked = blocks.iter().find(|block| block.kind == "tool_use" && asks(block.name.as_deref()));
            let step = asked.map_or(Step::Work, |block| Step::Asked(number(block.id.as_deref())));
            mark(at, step)
        }
        Said::AgentEnded | Said::Interrupted | Said::TurnClosed => mark(at, Step::Ended),
        Said::Error => mark(at, Step::Closing),
    }
}
