//! What waits for a person, over all agents. Pure: a view of one survey, never kept.

use agentctl_model::period::Since;
use agentctl_model::{Capability, Outcome, PendingKind, Session, SourceReport, Status, Survey};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Fleet, Question, Wanted};

/// How far back failures count unless somebody says otherwise.
pub const A_DAY: Since = Since::Back(std::time::Duration::from_hours(24));

/// What a person is needed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InboxKind {
    Approval,
    Question,
    Limit,
    /// The last turn failed, or its process died.
    Failure,
}

impl InboxKind {
    pub fn word(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Question => "question",
            Self::Limit => "limit",
            Self::Failure => "failure",
        }
    }
}

impl From<PendingKind> for InboxKind {
    fn from(kind: PendingKind) -> Self {
        match kind {
            PendingKind::Approval => Self::Approval,
            PendingKind::Question => Self::Question,
            PendingKind::Limit => Self::Limit,
        }
    }
}

/// One thing that waits for a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InboxItem {
    pub kind: InboxKind,
    /// Waits since; `null` if the agent does not say.
    pub since: Option<Timestamp>,
    pub summary: Option<String>,
    /// Whether `approve`, `deny` or `answer` can reach it.
    pub answerable: bool,
    /// Commands that go on from here, the most useful first.
    pub next: Vec<String>,
    pub session: Session,
}

/// What `inbox --json` prints and `GET /v1/inbox` answers.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Inbox {
    pub as_of: Timestamp,
    pub items: Vec<InboxItem>,
    pub sources: Vec<SourceReport>,
}

impl Fleet {
    /// What waits now. Failures of stopped sessions count as far back as `since` reaches.
    pub fn inbox(&self, since: Since, adapters: Vec<String>, now: Timestamp) -> Inbox {
        let since = since.start(now);
        let mut survey = self.survey(&Question { adapters, ..Question::new(Wanted::All { since }) });
        survey.fold_twins();
        Inbox { as_of: now, items: inbox(&survey, since), sources: survey.sources }
    }
}

/// Everything that waits, in the order of its need: those that are blocked now, longest first, then failures, longest first.
/// Failures of sessions that are not live count from `failures_since` on (`None`: all of them).
pub fn inbox(survey: &Survey, failures_since: Option<Timestamp>) -> Vec<InboxItem> {
    let sessions = survey.sessions.iter().map(|surveyed| &*surveyed.session);
    let own = sessions.filter(|session| !session.is_subagent());
    let mut items: Vec<InboxItem> = own.flat_map(|session| of(session, failures_since)).collect();
    items.sort_by(|a, b| {
        let key = |item: &InboxItem| (item.kind == InboxKind::Failure, item.since.is_none(), item.since);
        key(a).cmp(&key(b)).then_with(|| a.session.id.cmp(&b.session.id))
    });
    items
}

fn of(session: &Session, failures_since: Option<Timestamp>) -> Vec<InboxItem> {
    match session.status {
        Status::Waiting if session.pending.is_empty() => {
            vec![item(session, InboxKind::Question, session.since, session.status_detail.clone(), false)]
        }
        _ if !session.pending.is_empty() => {
            let pending = session.pending.iter().map(|pending| {
                let since = pending.since.or(session.since);
                let summary = pending.summary.clone().or_else(|| session.status_detail.clone());
                item(session, pending.kind.into(), since, summary, pending.answerable)
            });
            pending.collect()
        }
        Status::Idle | Status::Stopped
            if matches!(session.outcome, Some(Outcome::Failed | Outcome::Died)) =>
        {
            let when = session.since.or(session.stopped_at).or(session.updated_at);
            let recent = session.is_live() || when.is_none() || failures_since <= when;
            let failure = || item(session, InboxKind::Failure, when, session.status_detail.clone(), false);
            recent.then(failure).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

fn item(
    session: &Session,
    kind: InboxKind,
    since: Option<Timestamp>,
    summary: Option<String>,
    answerable: bool,
) -> InboxItem {
    InboxItem {
        kind,
        since,
        summary,
        answerable,
        next: next(session, kind, answerable),
        session: session.clone(),
    }
}

/// What can be answered from here is answered here; everything else where the agent runs.
fn next(session: &Session, kind: InboxKind, answerable: bool) -> Vec<String> {
    let id = &session.id;
    let command = |verb: &str| format!("agentctl {verb} {id}");
    let can = |capability| session.capabilities.contains(&capability);
    let live = session.is_live();
    let mut next = match kind {
        InboxKind::Approval if answerable => vec![command("approve"), command("deny")],
        InboxKind::Question if answerable => vec![format!("agentctl answer {id} TEXT")],
        InboxKind::Failure if !live && can(Capability::Resume) => {
            vec![format!("agentctl resume {id} MESSAGE")]
        }
        InboxKind::Failure if live && can(Capability::Send) => vec![format!("agentctl send {id} MESSAGE")],
        _ => Vec::new(),
    };
    next.push(command("attach"));
    next.push(command("peek"));
    next
}

#[cfg(test)]
mod tests {
    use agentctl_model::{Evidence, Pending, Relation, Rule, SessionKey, Surveyed, Witness};

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn session(id: &str, status: Status, outcome: Option<Outcome>) -> Session {
        let value = serde_json::json!({
            "id": id, "adapter": "pi", "configRoot": "/r", "status": status, "outcome": outcome, "pending": [],
            "updatedAt": "2026-11-15T11:00:00Z", "processes": [], "capabilities": ["peek", "resume", "send"],
            "evidence": [Evidence::said(Witness::Kernel, "looked", None)], "meta": {}
        });
        serde_json::from_value(value).unwrap()
    }

    fn waiting(id: &str, kind: PendingKind, since: Option<&str>, answerable: bool) -> Session {
        let pending = Pending { kind, summary: Some("rm -rf".into()), since: since.map(at), answerable };
        Session { pending: vec![pending], pid: Some(7), ..session(id, Status::Waiting, None) }
    }

    fn items(sessions: Vec<Session>) -> Vec<InboxItem> {
        let surveyed = sessions.into_iter().map(|session| {
            let key =
                SessionKey { adapter: "pi".into(), root: "/r".into(), id: session.id.clone(), slot: None };
            Surveyed {
                key,
                session: Box::new(session),
                place: "/x".into(),
                rule: Rule::TurnOpen,
                carriers: Vec::new(),
            }
        });
        let survey = Survey { sessions: surveyed.collect(), ..Survey::default() };
        inbox(&survey, Some(at("2026-11-15T10:00:00Z")))
    }

    fn ids(sessions: Vec<Session>) -> Vec<String> {
        items(sessions).into_iter().map(|item| item.session.id).collect()
    }

    #[test]
    fn who_is_blocked_comes_before_what_failed_and_the_longest_first() {
        let failed = |id: &str, updated: &str| Session {
            updated_at: Some(at(updated)),
            ..session(id, Status::Stopped, Some(Outcome::Failed))
        };
        let order = ids(vec![
            failed("failed-late", "2026-11-15T11:30:00Z"),
            waiting("waits-unknown", PendingKind::Approval, None, false),
            failed("failed-early", "2026-11-15T10:30:00Z"),
            waiting("waits-short", PendingKind::Question, Some("2026-11-15T11:59:00Z"), false),
            waiting("waits-long", PendingKind::Limit, Some("2026-11-15T09:00:00Z"), false),
        ]);
        assert_eq!(order, ["waits-long", "waits-short", "waits-unknown", "failed-early", "failed-late"]);
    }

    #[test]
    fn only_what_needs_a_person_is_in_it() {
        let old = Some(at("2026-11-15T09:59:00Z"));
        let failed = || session("x", Status::Stopped, Some(Outcome::Failed));
        assert_eq!(ids(vec![failed()]).len(), 1);
        assert!(ids(vec![Session { updated_at: old, ..failed() }]).is_empty(), "history");
        assert_eq!(ids(vec![Session { updated_at: None, ..failed() }]).len(), 1, "not shown to be old");
        let idle = |outcome| Session { pid: Some(7), updated_at: old, ..session("x", Status::Idle, outcome) };
        assert_eq!(ids(vec![idle(Some(Outcome::Failed))]).len(), 1, "a live one never is history");
        assert_eq!(ids(vec![idle(Some(Outcome::Died))]).len(), 1);
        for quiet in [
            idle(Some(Outcome::Completed)),
            idle(None),
            session("x", Status::Stopped, Some(Outcome::Interrupted)),
            session("x", Status::Running, Some(Outcome::Failed)),
            session("x", Status::Unknown, None),
            Session { relation: Some(Relation::Subagent), ..failed() },
        ] {
            assert!(ids(vec![quiet.clone()]).is_empty(), "{quiet:?}");
        }
        let wordless =
            Session { status_detail: Some("needs you".into()), ..session("x", Status::Waiting, None) };
        assert_eq!(items(vec![wordless])[0].summary.as_deref(), Some("needs you"));
    }

    #[test]
    fn the_next_step_is_where_it_can_be_answered() {
        let first = |session: Session| items(vec![session])[0].next[0].clone();
        assert_eq!(first(waiting("x", PendingKind::Approval, None, true)), "agentctl approve x");
        assert_eq!(first(waiting("x", PendingKind::Question, None, true)), "agentctl answer x TEXT");
        assert_eq!(first(waiting("x", PendingKind::Approval, None, false)), "agentctl attach x");
        assert_eq!(first(session("x", Status::Stopped, Some(Outcome::Died))), "agentctl resume x MESSAGE");
        let dumb = Session { capabilities: vec![], ..session("x", Status::Stopped, Some(Outcome::Died)) };
        assert_eq!(first(dumb), "agentctl attach x");
        let live = Session { pid: Some(7), ..session("x", Status::Idle, Some(Outcome::Failed)) };
        assert_eq!(first(live), "agentctl send x MESSAGE");
    }
}
