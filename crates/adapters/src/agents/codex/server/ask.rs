//! Asks a live app-server about its threads. The rollout does not distinguish a running tool from one that
//! waits for a person; the server that owns the thread does.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use agentctl_model::{
    Claim, Evidence, Joined, KernelView, LiveReport, Pending, PendingKind, Process, ProcessRef, ProcessRole,
    Turn, TurnState, Witness,
};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use super::requests::{self, Asked};
use super::{Server, socket_of};

/// A local server answers within milliseconds; a server that does not is skipped.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(700);
/// Adds the answer of every reachable server to the claims of its threads.
pub(crate) fn ask_servers(
    root: &Path,
    kernel: &KernelView,
    joined: &mut Joined,
    ours: impl Fn(&Process) -> bool,
) {
    let mut by_server: BTreeMap<ProcessRef, Vec<&mut Claim>> = BTreeMap::new();
    for claim in joined.claims.iter_mut().filter(|claim| claim.role == ProcessRole::Server) {
        by_server.entry(claim.owner.process).or_default().push(claim);
    }
    for (server, claims) in by_server {
        let process = kernel.processes.iter().find(|process| process.head.process == server && ours(process));
        if let Some(socket) = process.and_then(|process| socket_of(root, process)) {
            // A server that does not answer leaves the claims unchanged.
            let _ = ask(&socket, kernel.as_of, claims);
        }
    }
}

fn ask(socket: &Path, as_of: Timestamp, claims: Vec<&mut Claim>) -> io::Result<()> {
    let mut server = Server::connect(socket, ANSWER_TIMEOUT)?;
    for claim in claims {
        let question = json!({"threadId": claim.id, "includeTurns": false});
        let answer = server.call("thread/read", &question)?;
        claim.live_report = live_report(&answer, &claim.id, as_of);
        let waits = |report: &&mut LiveReport| !report.pending.is_empty();
        let Some(report) = claim.live_report.as_mut().filter(waits) else { continue };
        // Without its id a request cannot be answered; that something waits is known all the same.
        if let Ok(asked) = requests::join(&mut server, &claim.id)?
            && !asked.is_empty()
        {
            report.pending = asked.iter().map(Asked::pending).collect();
            report.detail = report.pending.first().and_then(|first| first.summary.clone());
        }
    }
    Ok(())
}

#[derive(Deserialize)]
struct Answer {
    result: Reading,
}

#[derive(Deserialize)]
struct Reading {
    thread: Thread,
}

#[derive(Deserialize)]
struct Thread {
    id: String,
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    active_flags: Vec<String>,
}

/// Converts an answer to `thread/read` into a live report. Pure. Returns `None` when the answer contains no
/// state: the server also answers for threads that it does not own, and then it knows only their files.
fn live_report(answer: &[u8], id: &str, as_of: Timestamp) -> Option<LiveReport> {
    let thread = serde_json::from_slice::<Answer>(answer).ok()?.result.thread;
    if thread.id != id {
        return None;
    }
    let status = thread.status;
    let flagged = |flag: &str| status.active_flags.iter().any(|set| set == flag);
    let (state, pending) = match status.kind.as_str() {
        "active" if flagged("waitingOnApproval") => (TurnState::Approval, Some(PendingKind::Approval)),
        "active" if flagged("waitingOnUserInput") => (TurnState::Question, Some(PendingKind::Question)),
        "active" => (TurnState::Open, None),
        // The records show how the last turn ended.
        "idle" | "systemError" => (TurnState::Ended, None),
        _ => return None,
    };
    let mut words = format!("app-server says {}", status.kind);
    for flag in &status.active_flags {
        words = format!("{words}, {flag}");
    }
    let pending = pending.map(|kind| Pending::new(kind, None, None)).into_iter().collect();
    Some(LiveReport {
        turn: Some(Turn::new(state, None)),
        detail: Some(state.describe().to_owned()),
        pending,
        since: None,
        evidence: vec![Evidence::said(
            Witness::Gateway,
            agentctl_model::text::clean_cut(&words, Some(200)),
            Some(as_of),
        )],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(status: &str) -> Option<TurnState> {
        let answer = format!(r#"{{"id":1,"result":{{"thread":{{"id":"t","status":{status}}}}}}}"#);
        let report = live_report(answer.as_bytes(), "t", Timestamp::UNIX_EPOCH)?;
        assert_eq!(report.pending.len(), usize::from(answer.contains("waiting")));
        report.turn.map(|turn| turn.state)
    }

    #[test]
    fn the_servers_words_become_a_turn() {
        assert_eq!(
            state(r#"{"type":"active","activeFlags":["waitingOnApproval"]}"#),
            Some(TurnState::Approval)
        );
        assert_eq!(
            state(r#"{"type":"active","activeFlags":["waitingOnUserInput"]}"#),
            Some(TurnState::Question)
        );
        assert_eq!(state(r#"{"type":"active","activeFlags":[]}"#), Some(TurnState::Open));
        assert_eq!(state(r#"{"type":"idle"}"#), Some(TurnState::Ended));
        assert_eq!(state(r#"{"type":"systemError"}"#), Some(TurnState::Ended));
        assert_eq!(state(r#"{"type":"notLoaded"}"#), None, "owned by somebody else: that is not stopped");
    }

    #[test]
    fn another_answer_says_nothing() {
        let other = br#"{"id":1,"result":{"thread":{"id":"x","status":{"type":"idle"}}}}"#;
        assert_eq!(live_report(other, "t", Timestamp::UNIX_EPOCH), None);
        assert_eq!(live_report(br#"{"id":1,"error":{"code":-1}}"#, "t", Timestamp::UNIX_EPOCH), None);
    }
}
