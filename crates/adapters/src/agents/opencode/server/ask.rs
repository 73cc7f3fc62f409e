//! Asks OpenCode's own server which sessions it works on and what they wait for.
//!
//! Only the process that runs a turn knows: other servers answer too, but not about that turn. So each process is
//! asked on its own port, about the directories of the sessions that it may run.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use agentctl_model::text::{clean_cut, one_line};
use agentctl_model::{
    Claim, Evidence, Joined, KernelView, LiveReport, OptionKind, OptionScope, Pending, PendingKind,
    PendingOption, Process, ProcessRef, Tie, Turn, TurnState, Witness,
};
use serde::Deserialize;
use serde_json::Value;

use super::http::{Door, SURVEY_TIMEOUT, get};
use crate::agents::opencode::conversation::turn::main_input;
use crate::control::offer::{Question, option, questions};
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
    /// The texts that would be allowed from then on.
    always: Vec<String>,
    questions: Vec<AskedQuestion>,
    /// The tool call that waits.
    tool: Option<CallId>,
    /// The call in words, once it was read from the server.
    #[serde(skip)]
    call: Option<String>,
    /// The call that waited has ended.
    #[serde(skip)]
    is_over: bool,
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
    /// `pending` and `running`, or how it ended.
    status: String,
    input: Value,
}

impl CallState {
    fn is_over(&self) -> bool {
        matches!(self.status.as_str(), "completed" | "error")
    }
}

impl CallPart {
    fn in_words(&self) -> Option<String> {
        Some(call::words(&self.tool, &main_input(&self.state.input)?))
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AskedQuestion {
    question: String,
    options: Vec<Choice>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Choice {
    label: String,
    description: String,
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
    /// It was started for one session alone, so what it remembers concerns no other.
    pub(crate) is_private: bool,
}

impl ServerReport {
    pub(crate) fn works_on(&self, id: &str) -> bool {
        self.doing.contains_key(id)
    }

    /// The first approval and the first question that a session waits for, or the one request with this id.
    pub(crate) fn waiting(&self, id: &str, named: Option<&str>) -> (Option<&Request>, Option<&Request>) {
        let is_meant = |request: &&Request| {
            request.session == id && named.is_none_or(|named| request.id == named) && self.works_on(id)
        };
        (self.approvals.iter().find(is_meant), self.questions.iter().find(is_meant))
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
            if let Some((mut report, door)) = report_of(process, &directory) {
                report.is_private = kernel.private_server_of(process).is_some();
                apply_report(&report, reference, &directory, &door, kernel, &mut joined.claims);
            }
        }
    }
}

fn report_of(process: &Process, directory: &str) -> Option<(ServerReport, Door)> {
    let mut doors = Door::all_of(process).into_iter();
    doors.find_map(|door| Some((report_at(&door, directory, SURVEY_TIMEOUT)?, door)))
}

/// What the server behind a door reports about a directory; `None` if it is not an OpenCode server.
pub(crate) fn report_at(door: &Door, directory: &str, timeout: Duration) -> Option<ServerReport> {
    let query = format!("?directory={}", escaped(directory));
    let json = |path: &str| get(door, &format!("{path}{query}"), timeout);
    let mut report = ServerReport {
        doing: serde_json::from_slice(&json("/session/status")?).ok()?,
        ..ServerReport::default()
    };
    if !report.doing.is_empty() {
        let requests = |path| json(path).and_then(|body| serde_json::from_slice::<Vec<Request>>(&body).ok());
        report.approvals = requests("/permission").unwrap_or_default();
        report.questions = requests("/question").unwrap_or_default();
        for request in report.approvals.iter_mut().chain(&mut report.questions) {
            let part = waiting_call(request, &json);
            // The server keeps the requests of an aborted turn for ever, and an answer to one does nothing.
            request.is_over = part.as_ref().is_some_and(|part| part.state.is_over());
            request.call = part.and_then(|part| part.in_words());
            request.session = main_session(&request.session, &report.doing, &json);
        }
        report.approvals.retain(|request| !request.is_over);
        report.questions.retain(|request| !request.is_over);
    }
    Some(report)
}

/// The call that a request is about, as the model made it.
fn waiting_call(request: &Request, json: &dyn Fn(&str) -> Option<Vec<u8>>) -> Option<CallPart> {
    let asked = request.tool.as_ref()?;
    let is_safe = |id: &str| id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let path = format!("/session/{}/message/{}", request.session, asked.message);
    let body = (is_safe(&request.session) && is_safe(&asked.message)).then(|| json(&path)).flatten()?;
    let message: Calls = serde_json::from_slice(&body).ok()?;
    message.parts.into_iter().find(|part| part.call == asked.call)
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
    door: &Door,
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
                evidence: vec![said(format!("the server at {door} does not work on it"))],
                ..LiveReport::default()
            });
            continue;
        };
        claim.tie = Tie::Exact;
        claim.live_report = Some(live_report(report, doing, &claim.id, |state| {
            said(format!("the server at {door} says: {state}"))
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
        mine.map(|request| pending(request, kind, report.is_private)).collect()
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

fn pending(request: &Request, kind: PendingKind, is_private: bool) -> Pending {
    let (summary, options) = match kind {
        PendingKind::Question => {
            let (words, options) = questions(&in_words(&request.questions), Some(rejection()));
            (Some(words), options)
        }
        _ => (summary(request), permission_options(request, is_private)),
    };
    Pending {
        answerable: !request.id.is_empty(),
        id: Some(request.id.clone()).filter(|id| !id.is_empty()),
        options,
        ..Pending::new(kind, summary, None)
    }
}

fn in_words(questions: &[AskedQuestion]) -> Vec<Question<'_>> {
    questions
        .iter()
        .map(|asked| Question {
            words: &asked.question,
            choices: asked.options.iter().map(|one| (one.label.as_str(), one.description.as_str())).collect(),
        })
        .collect()
}

/// What is allowed always stays in the memory of the server, for all sessions that it runs.
fn permission_options(request: &Request, is_private: bool) -> Vec<PendingOption> {
    let scope = if is_private { OptionScope::Session } else { OptionScope::Unknown };
    let always = call::words("Allow always", &request.always.join(", "));
    vec![
        option("once", "Allow once", OptionKind::AllowOnce, OptionScope::Once),
        option("always", &always, OptionKind::AllowAlways, scope),
        rejection(),
    ]
}

fn rejection() -> PendingOption {
    option("reject", "Reject", OptionKind::Deny, OptionScope::Once)
}

/// If the call itself is not known, the texts that the rules were matched against, one per line.
fn summary(request: &Request) -> Option<String> {
    let matched = || Some(call::words(request.permission.as_deref()?, &request.patterns.join("\n")));
    request.call.clone().or_else(matched)
}
