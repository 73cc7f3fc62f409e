//! `state.json`: the agent's state of a whole session. Pure.
//!
//! Its `lastTurnReason` belongs to the last turn that *ended*: it stays while the next turn runs, and after a
//! kill. So the turn is read from the records, never from here.

use agentctl_model::text::{clean_cut, one_line};
use jiff::Timestamp;
use serde::Deserialize;

use crate::transcript::jsonl::text::Text;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct State<'a> {
    #[serde(borrow)]
    cwd: Option<Text<'a>>,
    created_at: Option<i64>,
    updated_at: Option<i64>,
    title: Option<Text<'a>>,
    is_custom_title: Option<bool>,
    forked_from: Option<Text<'a>>,
    archived: Option<bool>,
}

impl<'a> State<'a> {
    /// Returns `None` for an incomplete file or one of another shape.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    pub(super) fn cwd(&self) -> Option<String> {
        self.cwd.as_deref().filter(|cwd| !cwd.is_empty()).map(|cwd| clean_cut(cwd, None))
    }

    pub(super) fn created_at(&self) -> Option<Timestamp> {
        moment(self.created_at?)
    }

    pub(super) fn updated_at(&self) -> Option<Timestamp> {
        moment(self.updated_at?)
    }

    pub(super) fn forked_from(&self) -> Option<&str> {
        self.forked_from.as_deref().filter(|id| !id.is_empty())
    }

    pub(super) fn is_archived(&self) -> bool {
        self.archived == Some(true)
    }

    /// The name that a person chose, or else the agent's own unless that only repeats the first prompt.
    pub(super) fn name(&self, prompt: Option<&str>) -> Option<String> {
        let title = one_line(self.title.as_deref()?);
        let cut = title.trim_end_matches(['…', '.']).trim_end();
        let repeats = || prompt.is_some_and(|prompt| one_line(prompt).starts_with(cut));
        let is_name = !title.is_empty() && (self.is_custom_title == Some(true) || !repeats());
        is_name.then(|| clean_cut(&title, Some(200)))
    }
}

/// Converts a time in milliseconds.
pub(super) fn moment(millis: i64) -> Option<Timestamp> {
    Timestamp::from_millisecond(millis).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_that_repeats_the_prompt_is_no_name() {
        let name = |more: &str, prompt| {
            State::parse(format!(r#"{{"title":"Fix the{more}}}"#).as_bytes()).unwrap().name(prompt)
        };
        let plain = r#"","isCustomTitle":false"#;
        assert_eq!(name(plain, Some("Fix the bug")), None);
        assert_eq!(name(r#"…","isCustomTitle":false"#, Some("Fix the\nbug")), None);
        assert_eq!(name(plain, Some("Another")).as_deref(), Some("Fix the"));
        assert_eq!(name(plain, None).as_deref(), Some("Fix the"));
        assert_eq!(name(r#"","isCustomTitle":true"#, Some("Fix the bug")).as_deref(), Some("Fix the"));
        assert_eq!(State::parse(b"{}").unwrap().name(None), None);
        assert!(State::parse(b"{\"cwd\":").is_none());
    }
}
