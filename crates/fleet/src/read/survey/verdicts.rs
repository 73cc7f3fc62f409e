//! Turns what was found and the claims on it into sessions with a verdict. Pure.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use agentctl_adapters::Card;
use agentctl_model::{
    Claim, Coverage, EndedBy, Facts, Found, Harvest, Joined, LaunchExit, LiveReport, Liveness, Outcome,
    OwnerProcess, Owners, Pending, PendingKind, ProcessEntry, RemoteReport, Rule, SeenExit, Session,
    SessionKey, Status, Surveyed, Tie, Turn, TurnState, Verdict, derive, prevailing, text,
};
use jiff::Timestamp;

use crate::read::survey::visibility::UnseenOwners;

type Id = (String, Option<String>);

/// Everything that the verdicts on the sessions of one source need.
pub(crate) struct SourceVerdicts<'a> {
    pub(crate) card: &'a Card,
    pub(crate) root: &'a str,
    pub(crate) harvest: Harvest,
    pub(crate) joined: Joined,
    /// Sessions whose owner may exist where we cannot see it.
    pub(crate) unseen: UnseenOwners,
    /// How the launched processes of its sessions ended, by the id of the session.
    pub(crate) exits: HashMap<String, LaunchExit>,
    pub(crate) as_of: Timestamp,
    /// Why the process table could not be read, if it could not.
    pub(crate) blind: Option<String>,
}

impl SourceVerdicts<'_> {
    /// Returns the sessions of this source. A source that did not answer has none.
    pub(crate) fn sessions(mut self) -> Vec<Surveyed> {
        if !matches!(self.harvest.coverage, Coverage::Complete | Coverage::Partial) {
            return Vec::new();
        }
        let mut claims: HashMap<Id, Vec<Claim>> = HashMap::new();
        for claim in std::mem::take(&mut self.joined.claims) {
            claims.entry((claim.id.clone(), claim.variant.clone())).or_default().push(claim);
        }
        let remote = std::mem::take(&mut self.harvest.remote);
        let remote: HashMap<Id, RemoteReport> =
            remote.into_iter().map(|remote| ((remote.id.clone(), remote.variant.clone()), remote)).collect();
        let found = std::mem::take(&mut self.harvest.found);
        // Of ten thousand sessions hardly any has a claim or a remote state.
        if claims.is_empty() && remote.is_empty() {
            return self.unclaimed(found);
        }
        let mut sessions: Vec<Surveyed> = found
            .into_iter()
            .map(|found| {
                let id = (found.id.clone(), found.variant.clone());
                let claims = claims.remove(&id).unwrap_or_default();
                self.judge(found, &claims, remote.get(&id))
            })
            .collect();
        // These sessions are known only from a live process: an agent at its empty prompt has no storage yet.
        for (_, claims) in claims {
            if let Some(found) = claims.iter().find_map(|claim| claim.found.clone()) {
                sessions.push(self.judge(found, &claims, None));
            }
        }
        sessions
    }

    /// Sessions that nobody claims. Very many are judged on two cores.
    fn unclaimed(&self, mut found: Vec<Found>) -> Vec<Surveyed> {
        const WORTH_A_THREAD: usize = 1000;
        let judged = |found: Vec<Found>| -> Vec<Surveyed> {
            found.into_iter().map(|found| self.judge(found, &[], None)).collect()
        };
        if found.len() < WORTH_A_THREAD {
            return judged(found);
        }
        let further = Mutex::new(found.split_off(found.len() / 2));
        let judge_further =
            || judged(std::mem::take(&mut *further.lock().unwrap_or_else(PoisonError::into_inner)));
        std::thread::scope(|scope| {
            let beside = std::thread::Builder::new().spawn_scoped(scope, judge_further);
            let mut sessions = judged(found);
            sessions.append(&mut match beside {
                Ok(beside) => beside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                // No thread can be had.
                Err(_) => judge_further(),
            });
            sessions
        })
    }

    fn judge(&self, mut found: Found, claims: &[Claim], remote: Option<&RemoteReport>) -> Surveyed {
        let exit = self.exits.get(&found.id).filter(|exit| applies_to_records(exit, found.facts.updated_at));
        // A process that was seen to end is not running elsewhere. An exit that was not seen, or is not written yet,
        // proves nothing.
        let unseen = (!self.unseen.is_empty() && exit.and_then(LaunchExit::seen).is_none())
            .then(|| self.unseen.get(&(found.id.clone(), found.variant.clone())))
            .flatten();
        let (liveness, live_report) = match remote {
            Some(remote) => {
                let said = Liveness::Remote { state: remote.state, evidence: remote.evidence.clone() };
                (said, Some(&remote.live_report))
            }
            None => (self.liveness(claims, unseen), most_urgent(claims)),
        };
        for live in claims.iter().filter_map(|claim| claim.found.as_ref()) {
            fill(&mut found.facts, &live.facts);
        }
        let recorded = found.facts.turn.take();
        let said = live_report.and_then(|word| word.turn.as_ref());
        let turn = match &liveness {
            Liveness::Alive(owners) => prevailing(recorded.clone(), said.cloned(), owners).map(Cow::Owned),
            Liveness::Remote { .. } => said.or(recorded.as_ref()).map(Cow::Borrowed),
            Liveness::Gone { .. } | Liveness::Unobservable { .. } => recorded.as_ref().map(Cow::Borrowed),
        };
        let turn = turn.as_deref();
        let said = live_report.map(|word| word.evidence.as_slice()).unwrap_or_default();
        // The kernel's evidence is added last.
        let mut heard = Vec::with_capacity(said.len() + found.evidence.len() + 1);
        heard.extend_from_slice(said);
        heard.append(&mut found.evidence);
        let seen = exit.and_then(LaunchExit::seen);
        found.facts.stopped_at = found.facts.stopped_at.or(seen.map(|exit| exit.at));
        let verdict = derive(turn, &liveness, exit, heard);
        let rule = verdict.rule();
        let about = About {
            detail: detail(&verdict, turn, live_report, &liveness, seen),
            since: since(&verdict, turn, live_report),
            pending: pending(&verdict, recorded.as_ref(), live_report),
        };
        let key = SessionKey {
            adapter: self.card.name.to_owned(),
            root: self.root.to_owned(),
            id: found.id.clone(),
            variant: found.variant,
        };
        let firm = claims.iter().filter(|claim| claim.tie != Tie::OneOfSeveral);
        let owners = firm
            .map(|claim| OwnerProcess { process: claim.owner.process, role: claim.role, tie: claim.tie })
            .collect();
        let calls = found.facts.calls.take();
        let session = self.session(found.id, found.facts, verdict, claims, about);
        Surveyed { key, session: Box::new(session), place: found.place, rule, owners, calls }
    }

    fn liveness(&self, claims: &[Claim], unseen: Option<&String>) -> Liveness {
        let unobservable = |why: &str| Liveness::Unobservable { why: why.to_owned(), looked_at: self.as_of };
        let mut firm =
            claims.iter().filter(|claim| claim.tie != Tie::OneOfSeveral).map(|claim| claim.owner.clone());
        if let Some(first) = firm.next() {
            return Liveness::Alive(Owners { first, rest: firm.collect() });
        }
        if let Some(why) = self.blind.as_deref().or(self.joined.blind.as_deref()) {
            return unobservable(why);
        }
        match (claims, unseen) {
            ([], Some(why)) => unobservable(why),
            ([], None) => Liveness::Gone { looked_at: self.as_of },
            ([one], _) => unobservable(&one.owner.how.fact.to_string()),
            (several, _) => unobservable(&format!(
                "{} live processes may own this session or another one; nothing ties them to either",
                several.len()
            )),
        }
    }

    fn session(&self, id: String, facts: Facts, verdict: Verdict, claims: &[Claim], about: About) -> Session {
        let (status, outcome) = (verdict.status(), verdict.outcome());
        let firm = || claims.iter().filter(|claim| claim.tie != Tie::OneOfSeveral);
        Session {
            id,
            adapter: self.card.name.to_owned(),
            config_root: self.root.to_owned(),
            host: String::new(),
            status,
            outcome,
            status_detail: about.detail,
            since: about.since,
            pending: about.pending,
            name: facts.name,
            prompt: facts.prompt,
            last_message: facts.last_message,
            branch: facts.branch,
            cwd: facts.cwd,
            model: facts.model,
            started_at: facts.started_at,
            updated_at: facts.updated_at,
            stopped_at: facts.stopped_at.filter(|_| status == Status::Stopped),
            tokens: facts.tokens,
            cost: facts.cost,
            pid: firm().next().map(|claim| claim.owner.process.pid),
            processes: firm()
                .map(|claim| ProcessEntry {
                    pid: claim.owner.process.pid,
                    started_at: claim.owner.started_at,
                    role: claim.role,
                    command: claim.command.clone(),
                })
                .collect(),
            relation: facts.parent.as_ref().map(|parent| parent.relation),
            parent_id: facts.parent.map(|parent| parent.id),
            group: None,
            launch: None,
            capabilities: self.card.capabilities_of_sessions(),
            evidence: verdict.into_evidence(),
            meta: facts.meta,
        }
    }
}

/// What a session reports about its status beside the verdict.
struct About {
    detail: Option<String>,
    since: Option<Timestamp>,
    pending: Vec<Pending>,
}

/// Of several live owners, takes the report of the one that most needs a person, then of one that is working.
fn most_urgent(claims: &[Claim]) -> Option<&LiveReport> {
    let weight = |word: &&LiveReport| match word.turn.as_ref().map(|turn| turn.state) {
        Some(TurnState::Approval | TurnState::Question) => 3,
        Some(TurnState::Open) => 2,
        Some(_) => 1,
        None => 0,
    };
    let firm = claims.iter().filter(|claim| claim.tie != Tie::OneOfSeveral);
    firm.filter_map(|claim| claim.live_report.as_ref()).max_by_key(weight)
}

/// A live process fills the gaps of the records; only its present directory overrides them.
fn fill(facts: &mut Facts, live: &Facts) {
    facts.cwd = live.cwd.clone().or_else(|| facts.cwd.take());
    facts.name = facts.name.take().or_else(|| live.name.clone());
    facts.model = facts.model.take().or_else(|| live.model.clone());
    facts.started_at = facts.started_at.or(live.started_at);
    facts.updated_at = facts.updated_at.or(live.updated_at);
    facts.meta.native = facts.meta.native.take().or_else(|| live.meta.native.clone());
    for (key, value) in live.meta.iter() {
        facts.meta.entry(key.clone()).or_insert_with(|| value.clone());
    }
}

fn detail(
    verdict: &Verdict,
    turn: Option<&Turn>,
    live_report: Option<&LiveReport>,
    liveness: &Liveness,
    exit: Option<&SeenExit>,
) -> Option<String> {
    let recorded = || turn.and_then(|turn| turn.detail.clone());
    let by = || exit.and_then(|exit| exit.by.as_ref()).map(EndedBy::describe);
    match (verdict.status(), verdict.outcome()) {
        (Status::Unknown, _) => match liveness {
            Liveness::Unobservable { why, .. } => Some(why.clone()),
            _ => Some(verdict.rule().describe().to_owned()),
        },
        (Status::Waiting, _) => live_report.and_then(|word| word.detail.clone()).or_else(recorded),
        (Status::Stopped, Some(Outcome::Interrupted)) => by(),
        // An agent that was ended may record this as an error of its own.
        (Status::Stopped, Some(Outcome::Failed)) => {
            let words: Vec<String> = recorded().into_iter().chain(by()).collect();
            (!words.is_empty()).then(|| words.join("; "))
        }
        (Status::Stopped, None) if verdict.rule() == Rule::ExitNotWrittenYet => {
            Some(LaunchExit::UNWRITTEN.to_owned())
        }
        // The tool that is running. No person has to decide anything about it.
        (Status::Running, _) | (_, Some(Outcome::Died)) => recorded().map(|words| short(&words)),
        (_, Some(Outcome::Failed)) => recorded(),
        _ => None,
    }
}

/// A known exit tells something about the records only if nothing was written after it. One that is not written yet may
/// still turn out to be their end.
fn applies_to_records(exit: &LaunchExit, updated_at: Option<Timestamp>) -> bool {
    exit.seen().is_none_or(|exit| exit.is_the_end(updated_at))
}

/// The times come from the agent's own records only; no record says when a process exited.
fn since(verdict: &Verdict, turn: Option<&Turn>, live_report: Option<&LiveReport>) -> Option<Timestamp> {
    let said = live_report.and_then(|word| word.since);
    match verdict.status() {
        Status::Running | Status::Waiting => said.or_else(|| turn.and_then(|turn| turn.began)),
        Status::Idle => said.or_else(|| turn.and_then(|turn| turn.last)),
        Status::Stopped | Status::Unknown => None,
    }
}

/// A request can be long; a tool's work is described in a few words.
fn short(words: &str) -> String {
    const FEW: usize = 300;
    text::clean_cut(&text::one_line(words), Some(FEW))
}

/// Returns what it waits for. The summary comes from the records where they say more (the tool that wants to run).
fn pending(verdict: &Verdict, recorded: Option<&Turn>, live_report: Option<&LiveReport>) -> Vec<Pending> {
    let waiting = live_report.filter(|_| verdict.status() == Status::Waiting);
    let mut pending = waiting.map(|word| word.pending.clone()).unwrap_or_default();
    let tool = recorded.filter(|turn| turn.state == TurnState::Open).and_then(|turn| turn.detail.as_ref());
    if let [only] = pending.as_mut_slice() {
        let said = || waiting.and_then(|word| word.detail.clone());
        only.summary = only.summary.take().or_else(|| tool.cloned()).or_else(said);
    }
    // The turn that the provider refused is the last one, whether or not a process is still there.
    if verdict.outcome() == Some(Outcome::Failed)
        && let Some(turn) = recorded.filter(|turn| turn.state == TurnState::Failed)
        && let Some(limit) = turn.limit
    {
        let words = turn.detail.as_deref().map(short);
        let refused = Pending::new(PendingKind::Limit, words, turn.last);
        pending.push(Pending { limited_until: limit.until, ..refused });
    }
    pending
}
