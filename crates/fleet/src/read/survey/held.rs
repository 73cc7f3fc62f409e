//! Asks the runners that hold sessions what their agents said last. All are asked at once.

use agentctl_adapters::agents::acp;
use agentctl_adapters::hold::{About, Request, TurnEnd};
use agentctl_model::way::OF_HELD_SESSIONS;
use agentctl_model::{
    Capability, Claim, Evidence, Facts, Found, Joined, LiveReport, Pending, PendingOption, Session, Turn,
    TurnState, Witness, text,
};
use jiff::Timestamp;
use serde_json::Map;

use crate::Source;
use crate::hold::{self, Report};
use crate::keep::launches::{LaunchFolder, Ledger};
use crate::read::query::LIST_TEXT;

/// Under which name the extras of a session have what its agent said over ACP.
const ACP: &str = "acp";

/// Adds what each holder says to the claims of its session. A holder that does not answer changes nothing: then the
/// records say what they say.
pub(super) fn ask_holders(sources: &[Source], joined: &mut [Joined], as_of: Timestamp, ledger: &Ledger) {
    if ledger.is_empty() {
        return;
    }
    std::thread::scope(|threads| {
        for (source, joined) in sources.iter().zip(joined) {
            let root = source.root.path.to_string_lossy();
            let is_only_acp = acp::is_name(source.name());
            if is_only_acp {
                joined.claims.retain_mut(|claim| add_launched(claim, source.name(), &root, ledger));
            }
            for claim in &mut joined.claims {
                if let Some(folder) = ledger.holder_of(source.name(), &root, &claim.id) {
                    threads.spawn(move || ask(claim, folder, as_of, is_only_acp));
                }
            }
        }
    });
}

/// Adds what the launch records know of a session that only ACP knows. It exists while it is held.
fn add_launched(claim: &mut Claim, adapter: &str, root: &str, ledger: &Ledger) -> bool {
    let Some(launches) = ledger.held_launches(adapter, root, &claim.id) else { return false };
    let ((first_folder, first), (folder, newest)) = (launches.first, launches.newest);
    let cwd = newest.made.as_ref().map_or(&newest.order.cwd, |made| &made.path);
    // The first words of a session that began elsewhere are not known.
    let is_whole = first.order.is_new();
    let facts = Facts {
        prompt: is_whole.then(|| first_folder.first_words(LIST_TEXT)).flatten(),
        cwd: Some(cwd.to_string_lossy().into_owned()),
        model: newest.order.model.clone(),
        started_at: is_whole.then_some(first.launched_at),
        ..Facts::default()
    };
    claim.found = Some(Found {
        id: claim.id.clone(),
        variant: None,
        place: folder.path().to_owned(),
        stamp: None,
        facts,
        evidence: Vec::new(),
    });
    true
}

/// What the agent of a held session said that it offers.
pub(super) fn offered(session: &Session) -> Option<Capability> {
    let can = session.meta.get(ACP)?.get("capabilities")?;
    let goes_on = ["resume", "load"].iter().any(|key| can.get(key).is_some_and(|can| *can == true));
    goes_on.then_some(Capability::Resume)
}

/// What can be done with a session that is held, in the usual order.
pub(crate) fn capabilities(of_agent: &[Capability]) -> Vec<Capability> {
    let is_there =
        |capability: &Capability| of_agent.contains(capability) || OF_HELD_SESSIONS.contains(capability);
    Capability::ALL.into_iter().filter(is_there).collect()
}

fn ask(claim: &mut Claim, folder: &LaunchFolder, as_of: Timestamp, is_only_acp: bool) {
    let Ok(report) = hold::state(folder.path()) else { return };
    // A line that was lost says nothing about what its agent does now.
    if report.state.lost.is_some() || report.state.session.as_ref() != Some(&claim.id) {
        return;
    }
    claim.owner.headless = false;
    claim.live_report = Some(live_report(&report, as_of));
    // Elsewhere the agent's own records say it.
    if let (Some(found), Some(about)) = (claim.found.as_mut().filter(|_| is_only_acp), &report.about) {
        tell(&mut found.facts, about);
        found.facts.updated_at = report.since;
    }
}

/// Adds what the agent says of itself and of the session.
pub(super) fn tell(facts: &mut Facts, about: &About) {
    facts.name.clone_from(&about.title);
    facts.model = about.model.clone().or_else(|| facts.model.take());
    facts.cost = about.cost;
    let mut acp = Map::new();
    if let Some(agent) = &about.agent {
        let said = serde_json::to_value(agent).unwrap_or_default();
        acp.extend(said.as_object().cloned().unwrap_or_default());
        acp.remove("logins");
    }
    acp.extend(about.mode.as_ref().map(|mode| ("mode".to_owned(), mode.as_str().into())));
    let context = about.context.and_then(|context| serde_json::to_value(context).ok());
    acp.extend(context.map(|context| ("context".to_owned(), context)));
    facts.meta.insert(ACP.to_owned(), acp.into());
}

/// What a holder says, as a live report. Pure.
fn live_report(report: &Report, as_of: Timestamp) -> LiveReport {
    let state = &report.state;
    let first = state.pending.first();
    let turn = match (first, state.turn_open, &state.last_end) {
        (Some(request), ..) => TurnState::waiting_for(request.kind),
        (None, true, _) => TurnState::Open,
        (None, false, None) => TurnState::NotBegun,
        // Some agents report an error as an ordinary end, so the records say how it ended.
        (None, false, Some(TurnEnd::Ended)) => TurnState::Ended,
        (None, false, Some(TurnEnd::Interrupted)) => TurnState::Interrupted,
        (None, false, Some(TurnEnd::Failed { .. })) => TurnState::Failed,
    };
    let detail = match (first, &state.last_end) {
        (Some(request), _) => request.summary.as_deref().map(text::visible),
        (None, Some(TurnEnd::Failed { words })) if !state.turn_open => Some(text::clean(words)),
        _ => None,
    };
    let asked_at = report.asked_at.iter().copied().map(Some).chain(std::iter::repeat(None));
    let words = format!("the runner that holds it says: {}", turn.describe());
    LiveReport {
        // It is the turn of this very process, whatever the clock said at its beginning.
        turn: Some(Turn { detail: detail.clone(), ..Turn::new(turn, None) }),
        detail,
        pending: state.pending.iter().zip(asked_at).map(|(request, since)| pending(request, since)).collect(),
        since: report.asked_at.first().copied().or(report.since),
        evidence: vec![Evidence::said(Witness::Launch, words, Some(as_of))],
    }
}

/// A person decides by these words, so what cannot be seen is spelled out.
fn pending(request: &Request, since: Option<Timestamp>) -> Pending {
    let option =
        |option: &PendingOption| PendingOption { label: text::visible(&option.label), ..option.clone() };
    Pending {
        kind: request.kind,
        summary: request.summary.as_deref().map(text::visible),
        since,
        answerable: true,
        id: Some(request.id.clone()),
        options: request.options.iter().map(option).collect(),
        limited_until: None,
    }
}

#[cfg(test)]
mod tests {
    use agentctl_adapters::hold::HeldState;
    use agentctl_model::{OptionKind, OptionScope, PendingKind};

    use super::*;

    fn report(request: Option<Request>) -> Report {
        let state = HeldState {
            session: Some("s".into()),
            turn_open: true,
            last_end: None,
            pending: request.into_iter().collect(),
            queued: 0,
            lost: None,
        };
        let since = Some(Timestamp::UNIX_EPOCH);
        Report { asked_at: vec![Timestamp::UNIX_EPOCH], since, ..Report::of(state, false) }
    }

    #[test]
    fn what_a_person_decides_by_hides_nothing() {
        let option = PendingOption {
            id: "a".into(),
            label: "No\u{202e}seY".into(),
            kind: OptionKind::AllowOnce,
            scope: OptionScope::Once,
        };
        let request = Request {
            id: "r".into(),
            kind: PendingKind::Approval,
            summary: Some("rm -rf /\u{1b}[2K  x".into()),
            options: vec![option],
        };
        let told = live_report(&report(Some(request)), Timestamp::UNIX_EPOCH);
        assert_eq!(told.pending[0].summary.as_deref(), Some("rm -rf /⟨U+001B⟩[2K  x"));
        assert_eq!(told.detail, told.pending[0].summary);
        assert_eq!(told.pending[0].options[0].label, "No⟨U+202E⟩seY");
    }

    /// A clock that was set back between the start of the process and its turn decides nothing.
    #[test]
    fn the_turn_of_a_holder_is_older_than_nobody() {
        let turn = live_report(&report(None), Timestamp::UNIX_EPOCH).turn.unwrap();
        assert_eq!((turn.state, turn.last), (TurnState::Open, None));
    }
}
