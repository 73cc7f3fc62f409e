//! Reads the end of a transcript: the turn, the last message, the model. Pure.

use agentctl_model::text::clean_cut;
use agentctl_model::{Turn, TurnState};

use super::records::{KNOWN_TYPES, NO_MODEL, Record, Said, is_certainly_bulk, said};
use crate::transcript::call;
use crate::transcript::read::{self, Directory, Latest, Line, WORDS_REACH, keep};

/// The agent repeats titles close to the end, and its registry names live sessions, so the first window is
/// enough.
const TITLE_REACH: u64 = 14 << 10;
/// A killed session has not repeated its title. When the whole file is read anyway, the title is searched as
/// far back as the agent itself searches.
const TITLE_REACH_WHOLE: u64 = 64 << 10;
/// Lines longer than this are checked by cheap means before they are parsed.
const LONG: usize = 4 << 10;

/// Reads records newest first until nothing more is needed.
#[derive(Debug, Clone, Default)]
pub(super) struct Tail {
    /// The file belongs to a sub-agent, so its own records are the side chain.
    sidechain: bool,
    title_reach: u64,
    pub(super) latest: Latest,
    turn_closed: bool,
    pub(super) directory: Directory,
    pub(super) version: Option<String>,
    pub(super) session_id: Option<String>,
    pub(super) custom_title: Option<String>,
    pub(super) ai_title: Option<String>,
    pub(super) cost: Option<f64>,
    cost_outdated: bool,
}

impl Tail {
    /// `whole` means that the file is read to its beginning for other reasons.
    pub(super) fn new(sidechain: bool, whole: bool) -> Self {
        let title_reach = if whole { TITLE_REACH_WHOLE } else { TITLE_REACH };
        Self { sidechain, title_reach, ..Self::default() }
    }

    fn essentials_known(&self) -> bool {
        self.latest.turn.is_some()
            && self.directory.cwd.is_some()
            && (self.latest.model.is_some() || self.failed_at_once())
    }

    /// Whether the turn is known and this long line is neither the agent's message nor the prompt that began
    /// the turn.
    fn turn_needs_no(&self, line: &[u8]) -> bool {
        let contains = |word: &[u8]| memchr::memmem::find(line, word).is_some();
        self.directory.cwd.is_some()
            && self
                .latest
                .turn
                .as_ref()
                .is_some_and(|turn| turn.state != TurnState::Open || contains(b"\"tool_result\""))
            && !contains(b"\"assistant\"")
    }

    /// Whether the only reply is an error, in which case there may be no model at all.
    fn failed_at_once(&self) -> bool {
        self.latest.turn.as_ref().is_some_and(|turn| turn.state == TurnState::Failed)
    }

    fn take(&mut self, record: &Record<'_>) {
        if self.latest.updated_at.is_none() {
            self.latest.updated_at = record.at();
        }
        self.directory.keep(record.cwd.as_deref(), record.branch());
        keep(&mut self.version, record.version.as_deref());
        if self.sidechain {
            keep(&mut self.session_id, record.session_id.as_deref());
        }
        match record.kind.as_ref() {
            "custom-title" => {
                keep(&mut self.custom_title, record.custom_title.as_deref());
            }
            "ai-title" => keep(&mut self.ai_title, record.ai_title.as_deref()),
            "cost-state" if !self.cost_outdated && self.cost.is_none() && !record.has_unknown_model_cost => {
                self.cost = record.total_cost_usd;
            }
            "assistant" => self.take_words(record),
            "user" | "system" => {}
            other if !KNOWN_TYPES.contains(&other) => {
                self.latest.drifted(other);
            }
            _ => {}
        }
        self.take_turn(record);
    }

    fn take_words(&mut self, record: &Record<'_>) {
        // A reply after the running total makes that total too small.
        self.cost_outdated = true;
        if record.is_sidechain != self.sidechain {
            return;
        }
        let model = record.message.as_ref().and_then(|message| message.model.as_deref());
        self.latest.used(model.filter(|model| *model != NO_MODEL));
        if self.latest.last_message.is_none() && !record.is_api_error_message && !record.is_filler() {
            self.latest.said(record.text());
        }
    }

    fn take_turn(&mut self, record: &Record<'_>) {
        let said = said(record, self.sidechain);
        if self.latest.turn.is_some() {
            // Only the beginning of the open turn is still needed.
            if said == Said::Prompt {
                self.latest.began(record.at());
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
        turn.detail = match said {
            Said::Error => record.text().map(|text| clean_cut(&text, Some(500))),
            Said::AgentGoesOn => tool_call(record),
            _ => None,
        };
        turn.limit = record.limit().filter(|_| said == Said::Error);
        self.latest.turn = Some(turn);
        if said == Said::Prompt {
            self.latest.began(record.at());
        }
    }
}

/// The tool that a record calls, such as `Bash: make test`.
fn tool_call(record: &Record<'_>) -> Option<String> {
    let blocks = record.blocks();
    let tool = blocks.iter().rfind(|block| block.kind == "tool_use")?;
    let input: serde_json::Value = serde_json::from_str(tool.input?.get()).ok()?;
    let keys = ["command", "file_path", "path", "pattern", "url", "description", "prompt"];
    let what = call::argument(&input, &keys).unwrap_or_default();
    Some(call::words(tool.name.as_deref().unwrap_or("tool"), &what))
}

impl read::Tail for Tail {
    fn line(&mut self, line: &[u8], _: u64) -> Line {
        // This is a long tool result; only the agent's own messages and short notes are still needed.
        if is_certainly_bulk(line) || (line.len() > LONG && self.turn_needs_no(line)) {
            return Line::Record;
        }
        if self.essentials_known() && self.latest.last_message.is_some() {
            // Only a title is still needed, and titles are short.
            if line.len() < 4096
                && memchr::memmem::find(line, b"-title").is_some()
                && let Some(record) = Record::parse(line)
            {
                self.take(&record);
            }
            return Line::Record;
        }
        Line::is_record(Record::parse(line).inspect(|record| self.take(record)).is_some())
    }

    fn enough(&mut self, distance: u64) -> bool {
        let words = self.latest.last_message.is_some() || distance > WORDS_REACH;
        let title = self.custom_title.is_some() || distance >= self.title_reach;
        self.essentials_known() && words && title
    }

    fn latest(&mut self) -> &mut Latest {
        &mut self.latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::read::read_back;

    /// Takes lines oldest first, in file order.
    fn read(lines: &[&str]) -> Tail {
        let mut tail = Tail::new(false, true);
        let bytes = lines.join("\n") + "\n";
        read_back(&mut tail, (bytes.as_bytes(), bytes.len() as u64)).unwrap();
        tail
    }

    #[test]
    fn the_branch_is_the_one_of_the_last_directory() {
        let before = r#"{"type":"user","cwd":"/repo","gitBranch":"main","message":{"content":"one"}}"#;
        let after = r#"{"type":"user","cwd":"/else","gitBranch":"HEAD","message":{"content":"two"}}"#;
        let tail = read(&[before, after]);
        assert_eq!((tail.directory.cwd.as_deref(), tail.directory.branch), (Some("/else"), None));
        assert_eq!(read(&[after, before]).directory.branch.as_deref(), Some("main"));
    }

    #[test]
    fn a_refusal_for_a_quota_says_when_it_ends_if_it_is_that_of_a_plan() {
        let limit = |more: &str| {
            let error = r#"{"type":"assistant","isApiErrorMessage":true,"message":{"stop_reason":"stop_sequence","content":"no"}"#;
            let tail = read(&[&format!("{error},{more}}}")]);
            let turn = tail.latest.turn.unwrap();
            assert_eq!(turn.state, TurnState::Failed, "{more}");
            turn.limit.map(|limit| limit.until.map(|until| until.to_string()))
        };
        let plan = r#""apiErrorStatus":429,"quotaLimits":{"status":"rejected","resetsAt":1794852443}"#;
        assert_eq!(limit(plan), Some(Some("2026-11-16T18:07:23Z".to_owned())));
        assert_eq!(limit(r#""apiErrorStatus":429"#), Some(None));
        assert_eq!(limit(r#""apiErrorStatus":429,"quotaLimits":{"resetsAt":"soon"}"#), Some(None));
        assert_eq!(limit(r#""apiErrorStatus":529"#), None);
        assert_eq!(limit(r#""apiErrorStatus":"429?""#), None);
    }

    #[test]
    fn a_title_is_found_behind_a_long_turn() {
        let title = r#"{"type":"custom-title","customTitle":"mine"}"#;
        let long = "x".repeat(30 << 10);
        let words = format!(
            r#"{{"type":"assistant","cwd":"/w","message":{{"model":"m","stop_reason":"end_turn","content":"{long}"}}}}"#
        );
        assert_eq!(read(&[title, &words]).custom_title.as_deref(), Some("mine"));
    }

    #[test]
    fn words_that_fill_a_gap_end_no_turn_and_are_nobodys() {
        let words = r#"{"type":"assistant","message":{"model":"m","stop_reason":"tool_use","content":"so"}}"#;
        let stop = r#"{"type":"user","message":{"content":"[Request interrupted by user]"}}"#;
        let filler = r#"{"type":"assistant","message":{"model":"<synthetic>","stop_reason":"stop_sequence","content":"No response requested."}}"#;
        let tail = read(&[words, stop, filler]);
        assert_eq!(tail.latest.turn.map(|turn| turn.state), Some(TurnState::Interrupted));
        assert_eq!(tail.latest.last_message.as_deref(), Some("so"));
    }
}
