//! What waits for a person, over all agents. This is a pure view of one survey and is never stored.

use std::time::Instant;

use agentctl_model::text::period::Since;
use agentctl_model::{
    Error, Fuse, HostReport, Outcome, PendingKind, Session, SourceReport, Status, Survey, Surveyed, text,
};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::keep::marks::{DoneMarks, Marks};
use crate::read::offers::place;
use crate::{Fleet, Offer, Query, Wanted};

/// How far back failures count by default.
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
    pub fn as_str(self) -> &'static str {
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
    /// Commands that go on from here, the most useful first. Each works for this session as it is.
    pub next: Vec<String>,
    /// Where it can be answered, in words, where no command can; else `null`.
    pub only_in: Option<String>,
    pub session: Session,
}

/// What `inbox --json` prints and `GET /v1/inbox` answers.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Inbox {
    pub as_of: Timestamp,
    pub items: Vec<InboxItem>,
    /// Budgets that are spent, and budgets of which not everything is known.
    #[serde(default)]
    pub fuses: Vec<Fuse>,
    pub sources: Vec<SourceReport>,
    /// What could not be read of the marks: failures that were put away may be among the items.
    pub warnings: Vec<String>,
    /// The machines that were asked.
    #[serde(default)]
    pub hosts: Vec<HostReport>,
}

/// What `inbox --done ID` prints with --json and `POST /v1/inbox/{id}/done` answers.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PutAwayReport {
    pub id: String,
    pub adapter: String,
    /// It is out of the inbox until its session writes again.
    pub done: bool,
}

impl Fleet {
    /// Returns what waits now. Failures of stopped sessions count as far back as `since` reaches; failures that a
    /// person put away do not count.
    pub fn inbox(&self, since: Since, adapters: Vec<String>, marks: &Marks, now: Timestamp) -> Inbox {
        let began = Instant::now();
        let mut survey = self.survey(&Query { adapters, ..Query::new(Wanted::All { since }) });
        let since = since.start(now);
        survey.fold_twins();
        // If the marks cannot be read, nothing counts as put away: showing too much is better than showing too little.
        let (put_away, warnings) = match marks.put_away() {
            Ok(put_away) => (put_away, Vec::new()),
            Err(error) => (DoneMarks::default(), vec![error.to_string()]),
        };
        let items = inbox(&survey, since, &put_away, |surveyed| self.offers(surveyed));
        let hosts = vec![self.own_report(now, &survey.sessions, &survey.sources, began)];
        let fuses = self.fuses_in_need(now);
        Inbox { as_of: now, items, fuses, sources: survey.sources, warnings, hosts }
    }

    /// Puts the failure of a session away until its next turn. Nothing about its status is written down.
    pub fn put_failure_away(
        &self,
        target: &Surveyed,
        marks: &Marks,
        now: Timestamp,
    ) -> Result<PutAwayReport, Error> {
        let (session, key) = (&target.session, &target.key);
        if !has_failed(session) {
            let look = session.outcome.map_or(session.status.as_str(), Outcome::as_str);
            let reason = format!("session {} has no failure to put away: it is {look}", session.id);
            return Err(Error::refused(reason).hint("`agentctl inbox` shows what can be"));
        }
        marks.put_failure_away(key, session, now)?;
        Ok(PutAwayReport { id: key.id.clone(), adapter: key.adapter.clone(), done: true })
    }
}

/// Its last turn failed or its process died, and no turn has begun since.
fn has_failed(session: &Session) -> bool {
    matches!(session.status, Status::Idle | Status::Stopped)
        && matches!(session.outcome, Some(Outcome::Failed | Outcome::Died))
}

/// Returns everything that waits, most urgent first: sessions that are blocked now, then failures, each with the
/// longest wait first. Failures of sessions that are not live count from `failures_since` on (`None` counts all of
/// them).
fn inbox(
    survey: &Survey,
    failures_since: Option<Timestamp>,
    put_away: &DoneMarks,
    offers: impl Fn(&Surveyed) -> Vec<Offer>,
) -> Vec<InboxItem> {
    let own = survey.sessions.iter().filter(|surveyed| !surveyed.session.is_subagent());
    let own = own.filter(|surveyed| {
        !(has_failed(&surveyed.session) && put_away.covers(&surveyed.key, &surveyed.session))
    });
    let mut items: Vec<InboxItem> = own
        .flat_map(|surveyed| {
            let mut items = of(&surveyed.session, failures_since);
            if !items.is_empty() {
                let offers = offers(surveyed);
                let requests = requests(&surveyed.session);
                for (index, item) in items.iter_mut().enumerate() {
                    suggest_commands(item, requests.get(index).copied(), &offers);
                }
            }
            items
        })
        .collect();
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
        _ if has_failed(session) => {
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
    InboxItem { kind, since, summary, answerable, next: Vec::new(), only_in: None, session: session.clone() }
}

/// The ids of the requests of a session that has several, in their order: an answer must name the one that it means.
fn requests(session: &Session) -> Vec<&str> {
    let ids: Option<Vec<&str>> = session.pending.iter().map(|pending| pending.id.as_deref()).collect();
    ids.filter(|ids| ids.len() > 1).unwrap_or_default()
}

/// Lists the commands that answer the item from here. If there are none, it names the process in which the agent runs.
fn suggest_commands(item: &mut InboxItem, request: Option<&str>, offers: &[Offer]) {
    let id = &item.session.id;
    let answers: &[Offer] = match item.kind {
        InboxKind::Approval if item.answerable => &[Offer::Approve, Offer::Deny],
        InboxKind::Question if item.answerable => &[Offer::Answer],
        InboxKind::Failure | InboxKind::Limit => &[Offer::Resume, Offer::Send],
        InboxKind::Approval | InboxKind::Question => &[],
    };
    let others = [Offer::Attach, Offer::Open, Offer::Peek];
    let works: Vec<Offer> =
        answers.iter().chain(&others).filter(|offer| offers.contains(offer)).copied().collect();
    let command = |offer: &Offer| match request.filter(|_| answers.contains(offer)) {
        Some(request) => format!("{} --request {}", offer.command(id), text::shell_word(request)),
        None => offer.command(id),
    };
    item.next = works.iter().map(command).collect();
    if item.kind == InboxKind::Failure || (item.kind == InboxKind::Limit && has_failed(&item.session)) {
        let behind = item.next.len().saturating_sub(usize::from(works.last() == Some(&Offer::Peek)));
        item.next.insert(behind, format!("agentctl inbox --done {id}"));
    } else if answers.is_empty() && !works.contains(&Offer::Attach) {
        item.only_in = place(&item.session);
    }
}

#[cfg(test)]
mod tests {
    use agentctl_model::{Capability, Pending, Relation};
    use agentctl_testkit::sessions;

    use super::*;
    use crate::read::offers;
    use crate::read::offers::Reachability;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn session(id: &str, status: Status, outcome: Option<Outcome>) -> Session {
        Session {
            adapter: "pi".into(),
            config_root: "/r".into(),
            updated_at: Some(at("2026-11-15T11:00:00Z")),
            capabilities: vec![Capability::Peek, Capability::Resume, Capability::Send],
            ..sessions::session(id, status, outcome)
        }
    }

    fn waiting(id: &str, kind: PendingKind, since: Option<&str>, answerable: bool) -> Session {
        let pending = Pending::new(kind, Some("rm -rf".into()), since.map(at)).answerable(answerable);
        Session { pending: vec![pending], pid: Some(7), ..session(id, Status::Waiting, None) }
    }

    fn items(sessions: Vec<Session>) -> Vec<InboxItem> {
        let surveyed = sessions.into_iter().map(sessions::surveyed);
        let survey = Survey { sessions: surveyed.collect(), ..Survey::default() };
        inbox(&survey, Some(at("2026-11-15T10:00:00Z")), &DoneMarks::default(), |surveyed| {
            let served = surveyed.session.status != Status::Stopped;
            let ways_in = Reachability {
                accepts_messages: served,
                can_continue: true,
                can_be_opened: true,
                ..Reachability::default()
            };
            offers::offers(&surveyed.session, ways_in)
        })
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
        let next = |session: Session| items(vec![session])[0].next.clone();
        assert_eq!(first(waiting("x", PendingKind::Approval, None, true)), "agentctl approve x");
        assert_eq!(first(waiting("x", PendingKind::Question, None, true)), "agentctl answer x TEXT");
        let closed = items(vec![waiting("x", PendingKind::Approval, None, false)]).remove(0);
        assert_eq!((closed.next, closed.only_in), (vec!["agentctl peek x".into()], Some("process 7".into())));
        assert_eq!(first(session("x", Status::Stopped, Some(Outcome::Died))), "agentctl resume x MESSAGE");
        let dumb = Session { capabilities: vec![], ..session("x", Status::Stopped, Some(Outcome::Died)) };
        assert_eq!(next(dumb), ["agentctl attach x", "agentctl inbox --done x"]);
        let live = Session { pid: Some(7), ..session("x", Status::Idle, Some(Outcome::Failed)) };
        assert_eq!(first(live), "agentctl send x MESSAGE");
        // Of several requests each command names its own.
        let mut several = waiting("x", PendingKind::Approval, None, true);
        several.pending[0].id = Some("early".into());
        several.pending.push(Pending { id: Some("late".into()), ..several.pending[0].clone() });
        let steps: Vec<String> = items(vec![several]).into_iter().map(|item| item.next[0].clone()).collect();
        assert_eq!(steps, ["agentctl approve x --request early", "agentctl approve x --request late"]);
    }
}
