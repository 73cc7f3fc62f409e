//! What the end of a transcript says: the turn, the last words, the model. Pure.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use agentctl_model::text::clean_cut;
use agentctl_model::{Turn, TurnState};
use jiff::Timestamp;

use super::records::{KNOWN_TYPES, NO_MODEL, Record, Said, is_certainly_bulk, said};
use crate::transcript::call;
use crate::transcript::jsonl::Scan;

/// The agent repeats titles close to the end, and its registry names live sessions: the first window is enough.
const TITLE_REACH: u64 = 14 << 10;
/// A killed session repeated nothing: where the whole file is read anyway, its title is looked for as far back as the
/// agent itself does.
const TITLE_REACH_WHOLE: u64 = 64 << 10;
/// Longer lines are looked at for what they cannot be before they are parsed.
const LONG: usize = 4 << 10;
/// How far back the last words are looked for once everything else is known.
const WORDS_REACH: u64 = 8 << 20;

/// Reads records newest first until nothing more is wanted.
#[expect(clippy::struct_excessive_bools, reason = "each is one thing already heard")]
#[derive(Default)]
pub(super) struct Tail {
    /// The file belongs to a sub-agent: its own records are the side chain.
    pub(super) sidechain: bool,
    pub(super) text_limit: Option<usize>,
    title_reach: u64,

    pub(super) turn: Option<Turn>,
    turn_began_known: bool,
    turn_closed: bool,
    pub(super) updated_at: Option<Timestamp>,
    pub(super) last_message: Option<String>,
    pub(super) model: Option<String>,
    pub(super) cwd: Option<String>,
    pub(super) branch: Option<String>,
    pub(super) version: Option<String>,
    pub(super) session_id: Option<String>,
    pub(super) custom_title: Option<String>,
    pub(super) ai_title: Option<String>,
    pub(super) cost: Option<f64>,
    cost_outdated: bool,
    pub(super) records: u64,
    lines: u64,
    /// Lines that are no records, but for the last one.
    pub(super) broken: u64,
    /// The last line is no record: damaged, or still being written.
    pub(super) last_broken: bool,
    pub(super) drift: BTreeMap<String, u64>,
}

impl Tail {
    /// `whole`: the file is read to its beginning for other reasons.
    pub(super) fn new(sidechain: bool, text_limit: Option<usize>, whole: bool) -> Self {
        let title_reach = if whole { TITLE_REACH_WHOLE } else { TITLE_REACH };
        Self { sidechain, text_limit, title_reach, ..Self::default() }
    }

    pub(super) fn title(&self) -> Option<String> {
        self.custom_title.clone().or_else(|| self.ai_title.clone())
    }

    fn essentials_known(&self) -> bool {
        self.turn.is_some() && self.cwd.is_some() && (self.model.is_some() || self.failed_at_once())
    }

    /// The turn is known, and this long line is neither the agent's nor the prompt that began it.
    fn turn_needs_no(&self, line: &[u8]) -> bool {
        let contains = |word: &[u8]| memchr::memmem::find(line, word).is_some();
        self.cwd.is_some()
            && self
                .turn
                .as_ref()
                .is_some_and(|turn| turn.state != TurnState::Open || contains(b"\"tool_result\""))
            && !contains(b"\"assistant\"")
    }

    /// The only reply is an error: there may be no model at all.
    fn failed_at_once(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.state == TurnState::Failed)
    }

    fn enough(&self, distance: u64) -> bool {
        let words = self.last_message.is_some() || distance > WORDS_REACH;
        let title = self.custom_title.is_some() || distance >= self.title_reach;
        self.essentials_known() && words && title
    }

    fn take(&mut self, record: &Record<'_>) {
        self.records += 1;
        if self.updated_at.is_none() {
            self.updated_at = record.at();
        }
        let keep = |slot: &mut Option<String>, value: Option<&str>| {
            if slot.is_none() {
                *slot = value.map(|text| clean_cut(text, None));
            }
        };
        // The branch is the one of the directory it was recorded with.
        if self.cwd.is_none() {
            keep(&mut self.branch, record.branch());
        }
        keep(&mut self.cwd, record.cwd.as_deref());
        keep(&mut self.version, record.version.as_deref());
        if self.sidechain {
            keep(&mut self.session_id, record.session_id.as_deref());
        }
        match record.kind.as_ref() {
            "custom-title" => {
                keep(&mut self.custom_title, record.custom_title.as_deref().filter(|t| !t.is_empty()));
            }
            "ai-title" => keep(&mut self.ai_title, record.ai_title.as_deref().filter(|t| !t.is_empty())),
            "cost-state" if !self.cost_outdated && self.cost.is_none() && !record.has_unknown_model_cost => {
                self.cost = record.total_cost_usd;
            }
            "assistant" => self.take_words(record),
            "user" | "system" => {}
            other if !KNOWN_TYPES.contains(&other) => {
                *self.drift.entry(clean_cut(other, Some(60))).or_default() += 1;
            }
            _ => {}
        }
        self.take_turn(record);
    }

    fn take_words(&mut self, record: &Record<'_>) {
        // A reply after the running total makes the total too small.
        self.cost_outdated = true;
        if record.is_sidechain != self.sidechain {
            return;
        }
        let model = record.message.as_ref().and_then(|message| message.model.as_deref());
        if self.model.is_none() {
            self.model = model.filter(|model| *model != NO_MODEL).map(str::to_owned);
        }
        if self.last_message.is_none() && !record.is_api_error_message && !record.is_filler() {
            self.last_message =
                record.text().filter(|text| !text.trim().is_empty()).map(|t| clean_cut(&t, self.text_limit));
        }
    }

    fn take_turn(&mut self, record: &Record<'_>) {
        let said = said(record, self.sidechain);
        if self.turn.is_some() {
            // Only where the open turn began is still wanted.
            if said == Said::Prompt && !self.turn_began_known {
                self.turn_began_known = true;
                if let Some(turn) = &mut self.turn {
                    turn.began = record.at();
                }
            }
            return;
        }
        let state = match said {
            Said::Nothing => return,
            Said::TurnClosed => {
                self.turn_closed = true;
                return;
            }
            Said::AgentGoesOn if self.turn_closed => TurnState::Finished,
            Said::Prompt | Said::ToolResult | Said::AgentGoesOn => TurnState::Open,
            Said::AgentEnded => TurnState::Finished,
            Said::Error => TurnState::Failed,
            Said::Interrupted => TurnState::Interrupted,
        };
        let mut turn = Turn::new(state, record.at());
        if said == Said::Prompt {
            turn.began = record.at();
            self.turn_began_known = true;
        }
        turn.detail = match said {
            Said::Error => record.text().map(|text| clean_cut(&text, Some(500))),
            Said::AgentGoesOn => tool_call(record),
            _ => None,
        };
        self.turn = Some(turn);
    }
}

/// The tool a record calls: `Bash: make test`.
fn tool_call(record: &Record<'_>) -> Option<String> {
    let blocks = record.blocks();
    let tool = blocks.iter().rfind(|block| block.kind == "tool_use")?;
    let input: serde_json::Value = serde_json::from_str(tool.input?.get()).ok()?;
    let telling = ["command", "file_path", "path", "pattern", "url", "description", "prompt"];
    let what = call::argument(&input, &telling).unwrap_or_default();
    Some(call::words(tool.name.as_deref().unwrap_or("tool"), &what))
}

impl Scan for Tail {
    fn line(&mut self, line: &[u8], distance: u64) -> ControlFlow<()> {
        self.lines += 1;
        if is_certainly_bulk(line) {
            self.records += 1;
        } else if line.len() > LONG && self.turn_needs_no(line) {
            // A long answer of a tool: only the agent's own words and short notes are still wanted.
            self.records += 1;
        } else if self.essentials_known() && self.last_message.is_some() {
            // Only a title is still wanted, and titles are short.
            if line.len() < 4096
                && memchr::memmem::find(line, b"-title").is_some()
                && let Some(record) = Record::parse(line)
            {
                self.take(&record);
            }
        } else if let Some(record) = Record::parse(line) {
            self.take(&record);
        } else if self.lines == 1 {
            self.last_broken = true;
        } else {
            self.broken += 1;
        }
        if self.enough(distance) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn wants_more(&self, distance: u64) -> bool {
        !self.enough(distance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::jsonl::scan_back;

    /// Lines oldest first, as a file holds them.
    fn read(lines: &[&str]) -> Tail {
        let mut tail = Tail::new(false, None, true);
        let bytes = lines.join("\n") + "\n";
        scan_back(bytes.as_bytes(), bytes.len() as u64, &mut tail).unwrap();
        tail
    }

    #[test]
    fn the_branch_is_the_one_of_the_last_directory() {
        let before = r#"{"type":"user","cwd":"/repo","gitBranch":"main","message":{"content":"one"}}"#;
        let after = r#"{"type":"user","cwd":"/else","gitBranch":"HEAD","message":{"content":"two"}}"#;
        let tail = read(&[before, after]);
        assert_eq!((tail.cwd.as_deref(), tail.branch), (Some("/else"), None));
        assert_eq!(read(&[after, before]).branch.as_deref(), Some("main"));
    }

    #[test]
    fn a_title_is_found_behind_a_long_turn() {
        let title = r#"{"type":"custom-title","customTitle":"mine"}"#;
        let long = "x".repeat(30 << 10);
        let words = format!(
            r#"{{"type":"assistant","cwd":"/w","message":{{"model":"m","stop_reason":"end_turn","content":"{long}"}}}}"#
        );
        assert_eq!(read(&[title, &words]).title().as_deref(), Some("mine"));
    }

    #[test]
    fn words_that_fill_a_gap_end_no_turn_and_are_nobodys() {
        let words = r#"{"type":"assistant","message":{"model":"m","stop_reason":"tool_use","content":"so"}}"#;
        let stop = r#"{"type":"user","message":{"content":"[Request interrupted by user]"}}"#;
        let filler = r#"{"type":"assistant","message":{"model":"<synthetic>","stop_reason":"stop_sequence","content":"No response requested."}}"#;
        let tail = read(&[words, stop, filler]);
        assert_eq!(tail.turn.map(|turn| turn.state), Some(TurnState::Interrupted));
        assert_eq!(tail.last_message.as_deref(), Some("so"));
    }
}
