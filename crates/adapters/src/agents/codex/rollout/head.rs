//! Reads the beginning of a rollout: its identity, its origin and the first prompt. Pure.

use agentctl_model::text::clean_cut;
use agentctl_model::{Parent, Relation};
use jiff::Timestamp;

use super::super::storage::made_at;
use super::records::{Beginning, Meta, Record, Said, Usage, beginning, without_instructions};
use crate::transcript::read::{self, First, Line};

#[derive(Debug, Clone, Default)]
pub(crate) struct Head {
    pub(crate) first: First,
    pub(crate) origin: Option<Origin>,
    /// The value of the token counters when the thread began.
    pub(crate) inherited: Option<Usage>,
}

/// The contents of the first record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) cwd: Option<String>,
    pub(crate) branch: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) originator: Option<String>,
    pub(crate) source: Option<String>,
    pub(crate) thread_source: Option<String>,
    pub(crate) nickname: Option<String>,
    pub(crate) parent: Option<Parent>,
    /// When the thread was made, by its id.
    made: Option<Timestamp>,
    /// The thread's counters may start at those of another one: it is a fork or a sub-agent.
    pub(crate) may_inherit: bool,
}

impl Origin {
    fn of(meta: &Meta<'_>) -> Self {
        let text =
            |value: Option<&str>| value.filter(|text| !text.is_empty()).map(|text| clean_cut(text, None));
        let source = meta.source();
        let is_subagent = meta.is_subagent();
        let root = text(meta.session_id.as_deref()).filter(|root| meta.id.as_deref() != Some(root.as_str()));
        let spawned_by = text(meta.parent_thread_id.as_deref()).or(source.parent).or(root);
        let forked_from = text(meta.forked_from_id.as_deref());
        let parent = match spawned_by.filter(|_| is_subagent) {
            Some(id) => Some(Parent { id, relation: Relation::Subagent }),
            None => forked_from.clone().map(|id| Parent { id, relation: Relation::Fork }),
        };
        Self {
            started_at: meta.at(),
            cwd: text(meta.cwd.as_deref()),
            branch: meta.branch(),
            version: text(meta.cli_version.as_deref()),
            originator: text(meta.originator.as_deref()),
            source: source.name,
            thread_source: text(meta.thread_source.as_deref()),
            nickname: text(meta.agent_nickname.as_deref()),
            parent,
            made: meta.made(),
            may_inherit: is_subagent || forked_from.is_some(),
        }
    }
}

impl read::Head for Head {
    /// The first record alone, with its instructions, is longer than the usual window.
    const WINDOW: usize = 16 << 10;
    /// The first prompt is within the first dozen records; a fork's first counter follows a few tools later.
    const LINES: u32 = 400;

    fn line(&mut self, line: &[u8]) -> Line {
        let beginning = beginning(line);
        let is_first = beginning.as_ref().is_some_and(|beginning| beginning.kind == b"session_meta");
        if is_first && self.origin.is_none() {
            self.origin = Meta::parse(&without_instructions(line)).map(|meta| Origin::of(&meta));
            return Line::is_record(self.origin.is_some());
        }
        if beginning.is_some_and(|beginning| !self.wants(&beginning)) {
            return Line::Record;
        }
        Line::is_record(Record::parse(line).inspect(|record| self.take(record)).is_some())
    }

    fn first(&mut self) -> &mut First {
        &mut self.first
    }

    fn is_known(&mut self) -> bool {
        let origin = self.origin.as_ref();
        let counted = |origin: &Origin| !origin.may_inherit || self.inherited.is_some();
        self.first.prompt.is_some() && origin.is_some_and(counted)
    }
}

impl Head {
    /// Whether a record with this beginning may contain something that is still needed.
    fn wants(&self, beginning: &Beginning<'_>) -> bool {
        match (beginning.kind, beginning.inner) {
            (b"token_usage_record", _) => self.origin.as_ref().is_none_or(|origin| origin.may_inherit),
            (b"event_msg", b"item_completed" | b"user_message") => !beginning.is_bulk(),
            _ => false,
        }
    }

    fn take(&mut self, record: &Record<'_>) {
        // Only the first such record is the thread's own: forks by old versions repeat their parent's.
        if self.origin.is_none()
            && let Some(meta) = record.meta()
        {
            self.origin = Some(Origin::of(&meta));
            return;
        }
        let payload = record.payload();
        match record.said(&payload) {
            Said::Prompt(text) => self.first.asked(Some(text)),
            Said::Total { total, reply: Some(reply) }
                if self.inherited.is_none() && !self.is_copied(payload.turn_id.as_deref()) =>
            {
                self.inherited = Some(total.less(&reply));
            }
            _ => {}
        }
    }

    /// A turn that began before the thread was made is one of the thread that it was made from.
    fn is_copied(&self, turn: Option<&str>) -> bool {
        let made = self.origin.as_ref().and_then(|origin| origin.made);
        turn.and_then(made_at).zip(made).is_some_and(|(began, made)| began < made)
    }
}
