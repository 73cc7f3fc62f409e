//! Which sessions went down with the machine: their turn was open, nobody carries them, and what was written of them
//! belongs to an earlier boot. This is asked of the same survey as everything else; nothing about it is stored.

use std::collections::BTreeMap;
use std::time::Instant;

use agentctl_model::text::period::Since;
use agentctl_model::{
    Conversation, Error, HostReport, Outcome, Session, SessionKey, SourceReport, Status, Surveyed, Witness,
    text,
};
use agentctl_process::Boot;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::act::launch::{ResumeRequest, Stay};
use crate::keep::launches::{LaunchFolder, LaunchOrder, Ledger, ProcessMark, Record};
use crate::keep::marks::{Marks, RecoverMarks};
use crate::{Fleet, Query, Wanted};

/// What a recovered session is told unless the caller says something else.
pub const MESSAGE: &str = "The machine went down in the middle of this turn. \
     See what is already done, and go on from there.";

/// Why a session counts as one that went down with the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LostBy {
    /// Its last record is older than this boot.
    OlderThanBoot,
    /// agentctl started its process in another boot.
    LaunchedInAnotherBoot,
}

impl LostBy {
    pub fn words(self) -> &'static str {
        match self {
            Self::OlderThanBoot => "its last record is older than this boot",
            Self::LaunchedInAnotherBoot => "it was launched in another boot",
        }
    }
}

/// A session object, with what `recover` adds to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Recoverable {
    #[serde(flatten)]
    pub session: Session,
    /// Why it counts as one that went down with the machine.
    pub lost_by: LostBy,
    /// What was being done when the machine went down, as far as the records say.
    pub doing: Option<String>,
    /// The command that resumes it with the message.
    pub command: String,
    /// Why it cannot be resumed as it is; `null` if it can.
    pub problem: Option<String>,
}

/// What `recover --json` prints and `GET /v1/recover` answers.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Recovery {
    pub as_of: Timestamp,
    /// Since when this machine runs; `null` where the platform does not say.
    pub booted_at: Option<Timestamp>,
    /// What a recovered session is told.
    pub message: String,
    pub sessions: Vec<Recoverable>,
    pub sources: Vec<SourceReport>,
    /// What could not be read of the marks: sessions that were put away may be among these.
    pub warnings: Vec<String>,
    /// The machines that were asked.
    #[serde(default)]
    pub hosts: Vec<HostReport>,
}

/// A session that went down with the machine, as it was surveyed.
#[derive(Debug, Clone)]
pub struct Lost {
    pub surveyed: Surveyed,
    pub by: LostBy,
    /// How its last launch was asked to be, if agentctl launched it.
    order: Option<LaunchOrder>,
}

/// Which sessions are looked at.
#[derive(Debug, Clone)]
pub struct RecoverQuery {
    pub since: Since,
    /// Only these adapters; empty means all.
    pub adapters: Vec<String>,
}

/// One look at everything that went down.
#[derive(Debug)]
pub struct LostSessions {
    pub lost: Vec<Lost>,
    pub boot: Boot,
    pub sources: Vec<SourceReport>,
    pub warnings: Vec<String>,
}

impl Lost {
    /// How it is to go on: as it was launched, where agentctl launched it, and only where nobody else works.
    pub fn request(&self) -> ResumeRequest {
        let Some(order) = &self.order else {
            return ResumeRequest { unshared: true, ..ResumeRequest::default() };
        };
        let idle_timeout = order.idle_timeout_ms.map(std::time::Duration::from_millis);
        ResumeRequest {
            model: order.model.clone(),
            permission: order.permission,
            stay: Stay { hold: order.hold, idle_timeout, ..Stay::default() },
            via: order.via.clone(),
            unshared: true,
            ..ResumeRequest::default()
        }
    }
}

impl Fleet {
    /// Returns what `recover` offers. Looking uses nothing up.
    pub fn recovery(&self, query: &RecoverQuery, marks: &Marks, now: Timestamp) -> Result<Recovery, Error> {
        let began = Instant::now();
        let LostSessions { lost, boot, sources, warnings } = self.lost(query, marks)?;
        let all: Vec<Surveyed> = lost.iter().map(|lost| lost.surveyed.clone()).collect();
        let hosts = vec![self.own_report(now, &all, &sources, began)];
        let sessions = lost.iter().map(|lost| self.recoverable(lost)).collect();
        let message = MESSAGE.to_owned();
        Ok(Recovery { as_of: now, booted_at: boot.at, message, sessions, sources, warnings, hosts })
    }

    /// Returns the sessions that went down with the machine and were neither resumed nor put away since, newest first.
    pub fn lost(&self, query: &RecoverQuery, marks: &Marks) -> Result<LostSessions, Error> {
        let boot = self.kernel().boot();
        if boot == Boot::default() {
            return Err(Error::failed("this platform does not say since when it runs"));
        }
        let mut survey = self.survey(&Query {
            adapters: query.adapters.clone(),
            ..Query::new(Wanted::All { since: query.since })
        });
        survey.fold_twins();
        // If the marks cannot be read, nothing counts as put away: showing too much is better than showing too little.
        let (marks, warnings) = match marks.recovered() {
            Ok(marks) => (marks, Vec::new()),
            Err(error) => (RecoverMarks::default(), vec![error.to_string()]),
        };
        // The launch records are read after the sessions, so that a session that was resumed meanwhile is not offered.
        let (ledger, mut lost) = (self.ledger(), Vec::new());
        for surveyed in survey.sessions {
            if was_cut_off(&surveyed.session) && !self.is_in_gateway(&surveyed) {
                lost.extend(went_down(surveyed, boot, &ledger, &marks));
            }
        }
        lost.sort_by_key(|lost| std::cmp::Reverse(lost.surveyed.session.updated_at));
        Ok(LostSessions { lost, boot, sources: survey.sources, warnings })
    }

    fn recoverable(&self, lost: &Lost) -> Recoverable {
        let session = Session::clone(&lost.surveyed.session);
        let problem = self.resume_order(&lost.surveyed, &lost.request(), &BTreeMap::new()).err();
        let said = [&session.status_detail, &session.last_message, &session.prompt];
        let doing = said.into_iter().flatten().find(|words| !words.trim().is_empty()).cloned();
        Recoverable {
            doing,
            lost_by: lost.by,
            command: format!("agentctl recover --yes {}", text::shell_word(&session.id)),
            problem: problem.map(|error| error.message),
            session,
        }
    }
}

/// Whether its turn was open when its process went away. A machine that shuts down in order ends its processes with a
/// signal first; a runner that saw this wrote it down.
fn was_cut_off(session: &Session) -> bool {
    let launch = session.launch.as_ref();
    let by_a_signal = || {
        let unasked = launch.is_some_and(|launch| launch.exited_at.is_some() && launch.ended_by.is_none());
        unasked && session.evidence.iter().any(|evidence| evidence.source == Witness::Launch)
    };
    let was_open = match session.outcome {
        Some(Outcome::Died) => true,
        Some(Outcome::Interrupted) => by_a_signal(),
        _ => false,
    };
    session.status == Status::Stopped && was_open && !session.is_subagent()
}

fn went_down(surveyed: Surveyed, boot: Boot, ledger: &Ledger, marks: &RecoverMarks) -> Option<Lost> {
    // What failed has taken nothing up.
    let counts = |(folder, record): &&(LaunchFolder, Record)| {
        is_of(record, &surveyed.key) && (folder.is_held() || folder.failed().is_none())
    };
    let launches: Vec<&(LaunchFolder, Record)> = ledger.entries().iter().filter(counts).collect();
    if launches.iter().any(|(folder, record)| folder.is_held() || began_now(record, boot)) {
        return None;
    }
    if marks.covers(&surveyed.key, &surveyed.session, boot) {
        return None;
    }
    let newest = launches.iter().rev().find(|(_, record)| record.process.is_some());
    let began_before =
        |record: &Record| process_boot(record).zip(boot.id).is_some_and(|(theirs, ours)| theirs != ours);
    let by = if newest.is_some_and(|(_, record)| began_before(record)) {
        LostBy::LaunchedInAnotherBoot
    } else {
        let is_older = surveyed.session.updated_at.zip(boot.at).is_some_and(|(last, boot)| last < boot);
        is_older.then_some(LostBy::OlderThanBoot)?
    };
    let order = newest.map(|(_, record)| record.order.clone());
    Some(Lost { surveyed, by, order })
}

/// Whether this launch made the session or was to take it up.
pub fn is_of(record: &Record, key: &SessionKey) -> bool {
    let order = &record.order;
    let stored = match &order.conversation {
        Conversation::Stored { id, .. } => Some(id),
        Conversation::New | Conversation::ForkOf { .. } => None,
    };
    let is_its_id = record.session_id.as_ref() == Some(&key.id) || stored == Some(&key.id);
    order.adapter == key.adapter && order.root == key.root && is_its_id
}

/// Whether the launch began in this boot: somebody has taken the session up, whatever became of it.
fn began_now(record: &Record, boot: Boot) -> bool {
    match (process_boot(record), boot.id) {
        (Some(theirs), Some(ours)) => theirs == ours,
        _ => record.process.is_some() && boot.at.is_some_and(|boot| record.launched_at >= boot),
    }
}

fn process_boot(record: &Record) -> Option<u128> {
    record.process.as_ref().and_then(ProcessMark::process).map(|process| process.boot)
}
