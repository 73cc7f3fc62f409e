//! Totals that need the whole file: tokens, cost, and the title wherever it occurs. Pure.

use agentctl_model::Tokens;
use jiff::Timestamp;
use serde::Deserialize;

use super::records::Record;
use super::tail::TITLE_MARK;
use crate::transcript::jsonl::quick;
use crate::transcript::memory::Counted;
use crate::transcript::read::{Calls, Recorded, Sum};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Usage {
    input: Option<u64>,
    output: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
    cost: Option<Cost>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cost {
    total: Option<f64>,
}

/// Sums usage over the records of all branches.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    /// A fork begins with copies of its parent's records: older usage is not its own.
    own_since: Option<Timestamp>,
    calls: Calls,
    /// The model of the last reply, for records that name none.
    model: Option<String>,
    /// The last title; empty if it was removed.
    title: Option<String>,
    only_title: bool,
}

impl Totals {
    pub(crate) fn new(own_since: Option<Timestamp>) -> Self {
        Self { own_since, ..Self::default() }
    }

    /// Searches only for the title, wherever in the file it occurs.
    pub(crate) fn only_title() -> Self {
        Self { only_title: true, ..Self::default() }
    }
}

impl Sum for Totals {
    fn marks(&self) -> &'static [&'static str] {
        if self.only_title { &[TITLE_MARK] } else { &["\"usage\"", TITLE_MARK] }
    }

    fn line(&mut self, line: &[u8], _: usize) {
        let Some(record) = Record::parse(line) else { return };
        let usage = match (record.kind.as_ref(), record.role()) {
            ("session_info", _) => {
                self.title = record.title();
                return;
            }
            ("message", "assistant" | "toolResult") => {
                record.message.as_ref().and_then(|message| message.usage)
            }
            ("compaction" | "branch_summary" | "usage", _) => record.usage,
            _ => return,
        };
        let copied = record.at().is_some_and(|at| self.own_since.is_some_and(|since| at < since));
        if let (Some(usage), false) = (usage.and_then(|usage| quick::from_str(usage.get()).ok()), copied) {
            self.add(&record, &usage);
        }
    }

    fn counted(self, _: bool) -> Counted {
        Counted { title: self.title.map(Into::into), ..self.calls.counted() }
    }
}

impl Totals {
    fn add(&mut self, record: &Record<'_>, usage: &Usage) {
        let tokens = Tokens {
            input: usage.input,
            output: usage.output,
            cache_read: usage.cache_read,
            cache_write: usage.cache_write,
        };
        let message = record.message.as_ref();
        let provider = message.and_then(|message| message.provider.as_deref()).or(record.provider.as_deref());
        let model = message.and_then(|message| message.model.as_deref()).or(record.model.as_deref());
        if let Some((provider, model)) = provider.zip(model) {
            self.model = Some(format!("{provider}/{model}"));
        }
        let cost = usage.cost.as_ref().and_then(|cost| cost.total);
        let (at, model) = (record.at(), self.model.as_deref());
        // A fork's copies have the ids and times of the originals.
        let name = record.id.as_deref().zip(at).map(|(id, at)| format!("{id} {at}"));
        self.calls.add(name.as_deref(), Recorded { at, model, tokens, cost, agent: None });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(own_since: Option<&str>, lines: &[&str]) -> Counted {
        let mut totals = Totals::new(own_since.map(|time| time.parse().unwrap()));
        for line in lines {
            totals.line(line.as_bytes(), 0);
        }
        totals.counted(false)
    }

    #[test]
    fn every_kind_of_usage_counts_on_every_branch() {
        let lines = [
            r#"{"type":"message","id":"a","message":{"role":"assistant","usage":{"input":1,"output":2,"cost":{"total":0.5}}}}"#,
            r#"{"type":"message","id":"b","parentId":"x","message":{"role":"toolResult","usage":{"input":10}}}"#,
            r#"{"type":"compaction","usage":{"input":100,"cacheRead":7}}"#,
            r#"{"type":"branch_summary","usage":{"input":1000}}"#,
            r#"{"type":"usage","kind":"cache_warm","usage":{"input":10000,"cost":{"total":0.25}}}"#,
            r#"{"type":"message","message":{"role":"user","content":"\"usage\"","usage":{"input":5}}}"#,
            r#"{"type":"message","message":{"role":"assistant","usage":"none"}}"#,
        ];
        let sum = totals(None, &lines);
        let tokens = sum.tokens.unwrap();
        assert_eq!((tokens.input, tokens.output), (Some(11111), Some(2)));
        assert_eq!((tokens.cache_read, tokens.cache_write), (Some(7), None), "not reported is not zero");
        assert_eq!(sum.cost, Some(0.75));
    }

    #[test]
    fn a_fork_counts_only_what_it_did_itself() {
        let at = |time: &str| {
            format!(r#"{{"type":"usage","timestamp":"2026-11-15T07:04:{time}Z","usage":{{"input":1}}}}"#)
        };
        let (before, same, after) = (at("10.762"), at("10.763"), at("11.000"));
        let fork = totals(Some("2026-11-15T07:04:10.763Z"), &[&before, &same, &after]);
        assert_eq!(fork.tokens.unwrap().input, Some(2));
    }

    #[test]
    fn nothing_recorded_is_not_zero_and_the_last_title_wins() {
        let none = totals(
            None,
            &[r#"{"type":"session_info","name":"a"}"#, r#"{"type":"session_info","name":" b "}"#],
        );
        assert_eq!((none.tokens, none.cost, none.title.as_deref()), (None, None, Some("b")));
    }
}
