//! Asks OpenCode's own server which sessions it works on and what they wait for.
//!
//! Only the process that runs a turn knows: other servers answer too, but not about that turn. So each process is
//! asked on its own port, about the directories of the sessions that it may run.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::time::Duration;

use agentctl_model::text::{clean_cut, one_line, visible};
use agentctl_model::{
    Claim, Evidence, Joined, KernelView, LiveReport, Pending, PendingKind, Process, ProcessRef, Tie, Turn,
    TurnState, Witness,
};
use serde::Deserialize;
use serde_json::Value;

use super::http::{SURVEY_TIMEOUT, get};
use crate::agents::opencode::conversation::turn::main_input;
use crate::transcript::call;
use crate::wire::http::escaped;

/// What a session does right now: `busy`, `retry`; an idle session is not in the list.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Activity {
    #[serde(rename = "type")]
    kind: String,
    message: Option<String>,
}

/// What a session waits for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Request {
    id: String,
    #[serde(rename = "sessionID")]
    session: String,
    /// What the user is asked to permit: `bash`, `edit`, …
    permission: Option<String>,
    /// The texts that permission rules are matched against. For a command these are only its parts, without what
    /// joins them.
    patterns: Vec<String>,
    questions: Vec<AskedQuestion>,
    /// The tool call that waits.
    tool: Option<CallId>,
    /// The call in words, once it was read from the server.
    #[serde(skip)]
    call: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CallId {
    #[serde(rename = "messageID")]
    message: String,
    #[serde(rename = "callID")]
    call: String,
}

/// A message, of which only the tool calls are wanted.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Calls {
    parts: Vec<CallPart>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CallPart {
    #[serde(rename = "callID")]
    call: String,
    tool: String,
    state: CallState,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CallState {
    input: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AskedQuestion {
    question: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Parentage {
    #[serde(rename = "parentID")]
    parent: Option<String>,
}

impl Request {
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// How many questions it asks at once.
    pub(crate) fn questions(&self) -> usize {
        self.questions.len()
    }
}

/// What one server reports about one directory.
#[derive(Debug, Default)]
pub(crate) struct ServerReport {
    doing: HashMap<String, Activity>,
    approvals: Vec<Request>,
    questions: Vec<Request>,
}

impl ServerReport {
    pub(crate) fn works_on(&self, id: &str) -> bool {
        self.doing.contains_key(id)
    }

    /// The first approval and the first question that a session waits for.
    pub(crate) fn waiting(&self, id: &str) -> (Option<&Request>, Option<&Request>) {
        let first = |requests: &'_ [Request]| requests.iter().position(|request| request.session == id);
        (
            first(&self.approvals).map(|at| &self.approvals[at]),
            first(&self.questions).map(|at| &self.questions[at]),
        )
    }
}

/// Adds the servers' reports to the claims. A server that does not answer leaves its claims as they are.
pub(crate) fn ask(kernel: &KernelView, joined: &mut Joined) {
    let mut wanted: BTreeMap<ProcessRef, BTreeSet<String>> = BTreeMap::new();
    for claim in &joined.claims {
        if let Some(directory) = claim.found.as_ref().and_then(|found| found.facts.cwd.clone()) {
            wanted.entry(claim.owner.process).or_default().insert(directory);
        }
    }
    for (reference, directories) in wanted {
        let Some(process) = kernel.processes.iter().find(|process| process.head.process == reference) else {
            continue;
        };
        for directory in directories {
            if let Some((report, address)) = report_of(process, &directory) {
                apply_report(&report, reference, &directory, address, kernel, &mut joined.claims);
            }
        }
    }
}

fn report_of(process: &Process, directory: &str) -> Option<(ServerReport, SocketAddr)> {
    process
        .listening
        .seen()?
        .iter()
        .find_map(|address| Some((report_at(*address, directory, SURVEY_TIMEOUT)?, *address)))
}

/// What the server at an address reports about a directory; `None` if it is not an OpenCode server.
pub(crate) fn report_at(address: SocketAddr, directory: &str, timeout: Duration) -> Option<ServerReport> {
    let query = format!("?directory={}", escaped(directory));
    let json = |path: &str| get(address, &format!("{path}{query}"), timeout);
    let mut report = ServerReport {
        doing: serde_json::from_slice(&json("/session/status")?).ok()?,
        ..ServerReport::default()
    };
    if !report.doing.is_empty() {
        let requests = |path| json(path).and_then(|body| serde_json::from_slice::<Vec<Request>>(&body).ok());
        report.approvals = requests("/permission").unwrap_or_default();
        report.questions = requests("/question").unwrap_or_default();
        for request in report.approvals.iter_mut().chain(&mut report.questions) {
            request.call = waiting_call(request, &json);
            request.session = main_session(&request.session, &report.doing, &json);
        }
    }
    Some(report)
}

/// The call that a request is about, as the model made it.
fn waiting_call(request: &Request, json: &dyn Fn(&str) -> Option<Vec<u8>>) -> Option<String> {
    let asked = request.tool.as_ref()?;
    let is_safe = |id: &str| id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let path = format!("/session/{}/message/{}", request.session, asked.message);
    let body = (is_safe(&request.session) && is_safe(&asked.message)).then(|| json(&path)).flatten()?;
    let message: Calls = serde_json::from_slice(&body).ok()?;
    let part = message.parts.iter().find(|part| part.call == asked.call)?;
    Some(call::words(&part.tool, &main_input(&part.state.input)?))
}

/// A sub-agent's question keeps its parent waiting, and people see the parent.
fn main_session(
    id: &str,
    doing: &HashMap<String, Activity>,
    json: &dyn Fn(&str) -> Option<Vec<u8>>,
) -> String {
    let mut id = id.to_owned();
    for _ in 0..8 {
        let safe = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let body = safe.then(|| json(&format!("/session/{id}"))).flatten();
        let parent = body.and_then(|body| serde_json::from_slice::<Parentage>(&body).ok()?.parent);
        match parent {
            Some(parent) if doing.contains_key(&parent) => id = parent,
            _ => break,
        }
    }
    id
}

fn apply_report(
    report: &ServerReport,
    process: ProcessRef,
    directory: &str,
    address: SocketAddr,
    kernel: &KernelView,
    claims: &mut Vec<Claim>,
) {
    let concerns = |claim: &Claim| {
        let there = claim.found.as_ref().and_then(|found| found.facts.cwd.as_deref());
        claim.owner.process == process && there == Some(directory)
    };
    // A server that could run a turn but reports that it does not is not an owner of the session.
    claims.retain(|claim| {
        !concerns(claim) || claim.tie != Tie::OneOfSeveral || report.doing.contains_key(&claim.id)
    });
    for claim in claims.iter_mut().filter(|claim| concerns(claim)) {
        let said = |words: String| Evidence::said(Witness::Gateway, words, Some(kernel.as_of));
        let Some(doing) = report.doing.get(&claim.id) else {
            claim.live_report = Some(LiveReport {
                turn: Some(Turn::new(TurnState::Ended, None)),
                evidence: vec![said(format!("the server at {address} does not work on it"))],
                ..LiveReport::default()
            });
            continue;
        };
        claim.tie = Tie::Exact;
        claim.live_report = Some(live_report(report, doing, &claim.id, |state| {
            said(format!("the server at {address} says: {state}"))
        }));
    }
}

fn live_report(
    report: &ServerReport,
    doing: &Activity,
    id: &str,
    said: impl Fn(&str) -> Evidence,
) -> LiveReport {
    let of_this = |requests: &'_ [Request], kind| -> Vec<Pending> {
        let mine = requests.iter().filter(|request| request.session == id);
        mine.map(|request| Pending::new(kind, summary(request), None).answerable(true)).collect()
    };
    let approvals = of_this(&report.approvals, PendingKind::Approval);
    let questions = of_this(&report.questions, PendingKind::Question);
    let (state, words) = if !approvals.is_empty() {
        (TurnState::Approval, "waits for an approval")
    } else if !questions.is_empty() {
        (TurnState::Question, "waits for an answer")
    } else {
        (TurnState::Open, doing.kind.as_str())
    };
    let mut turn = Turn::new(state, None);
    if doing.kind == "retry" {
        let message = doing.message.as_deref().map(one_line).unwrap_or_default();
        turn.detail = Some(clean_cut(&format!("retrying: {message}"), Some(300)));
    }
    let pending: Vec<Pending> = approvals.into_iter().chain(questions).collect();
    let detail = pending.first().and_then(|pending| pending.summary.clone());
    LiveReport { turn: Some(turn), detail, pending, since: None, evidence: vec![said(words)] }
}

/// If the call itself is not known, the texts that the rules were matched against, one per line.
fn summary(request: &Request) -> Option<String> {
    if !request.questions.is_empty() {
        let questions: Vec<&str> = request.questions.iter().map(|asked| asked.question.as_str()).collect();
        return Some(visible(&questions.join("\n")));
    }
    let matched = || Some(call::words(request.permission.as_deref()?, &request.patterns.join("\n")));
    request.call.clone().or_else(matched)
}
