//! A recorded home of Kimi Code 2.1.0, with damaged sessions among the good ones (system prompts and tool lists left out).

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};

use agentctl_adapters::agents::kimi::Kimi;
use agentctl_adapters::{Adapter, Progress, Reach, Root, Scope};
use agentctl_model::{Coverage, EntryKind, Found, Harvest, Relation, Tokens, TurnState};

const FINISHED: &str = "session_6e6bbe9e-84bf-41c1-a2c5-ab4a8118f2b8";
const FAILED: &str = "session_22c633db-65bd-4ad4-a560-308fff2f051f";
const KILLED: &str = "session_1b6e91de-a752-4e44-96c0-bd6b1b80d2f9";
const CANCELLED: &str = "session_d53524d9-643b-403a-9e84-a7ca7c298e29";
const APPROVAL: &str = "session_90d988f3-87c5-4d44-b1d3-1ec19a1f065e";
const FORK: &str = "session_6d16b19e-91db-4773-ac1d-54087170c1de";
const NO_RECORD: &str = "session_00000000-0000-4000-8000-00000000bad1";
const HALF_A_STATE: &str = "session_00000000-0000-4000-8000-00000000bad2";
const JUST_MADE: &str = "session_00000000-0000-4000-8000-0000000000e0";

fn home() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recorded/kimi/sessions-of-all-kinds/.kimi-code")
}

fn survey(reach: Reach<'_>, usage: bool) -> Harvest {
    let progress = Progress::default();
    let scope =
        Scope { reach, usage, calls: usage, subagents: true, text_limit: Some(200), progress, memory: None };
    Kimi.survey(&Root::at(home()), &scope)
}

fn one(id: &str) -> Found {
    let ids = [id.to_owned()];
    let harvest = survey(Reach::Ids(&ids), true);
    assert_eq!(harvest.found.len(), 1, "{harvest:?}");
    harvest.found.into_iter().next().unwrap()
}

#[test]
fn every_session_is_found_beside_the_damaged_ones() {
    let harvest = survey(Reach::All { since: None }, false);
    let mut ids: Vec<&str> = harvest.found.iter().map(|found| found.id.as_str()).collect();
    ids.sort_unstable();
    let mut expected = [FINISHED, FAILED, KILLED, CANCELLED, APPROVAL, FORK, HALF_A_STATE, JUST_MADE];
    expected.sort_unstable();
    assert_eq!(ids, expected);
    assert_eq!(harvest.coverage, Coverage::Partial, "one had to be left out");
    let warned = |id: &str| harvest.warnings.iter().filter(|warning| warning.contains(id)).count();
    assert_eq!((warned(NO_RECORD), warned(HALF_A_STATE), harvest.warnings.len()), (1, 1, 2));
    assert!(harvest.drift.is_empty(), "{:?}", harvest.drift);
}

#[test]
fn turns_are_what_the_records_say() {
    let denied = Some("401 no such key");
    for (id, state, detail) in [
        (FINISHED, TurnState::Finished, None),
        (FAILED, TurnState::Failed, denied),
        (KILLED, TurnState::Open, None),
        (CANCELLED, TurnState::Interrupted, None),
        (APPROVAL, TurnState::Approval, Some("Bash: touch started; rm -rf nothing")),
        (FORK, TurnState::NotBegun, None),
        (JUST_MADE, TurnState::NotBegun, None),
        (HALF_A_STATE, TurnState::Finished, None),
    ] {
        let turn = one(id).facts.turn.unwrap();
        assert_eq!((turn.state, turn.detail.as_deref()), (state, detail), "{id}");
    }
}

#[test]
fn the_facts_of_a_finished_session() {
    let facts = one(FINISHED).facts;
    assert_eq!(facts.cwd.as_deref(), Some("/home/dev/work2"));
    assert_eq!(facts.prompt.as_deref(), Some("[[bash:echo hi]] [[text:tool done]]"));
    assert_eq!(facts.last_message.as_deref(), Some("tool done"));
    assert_eq!((facts.model.as_deref(), facts.name, facts.parent), (Some("fake-model"), None, None));
    let times = [facts.started_at, facts.turn.unwrap().began, facts.updated_at];
    let millis: Vec<i64> = times.iter().map(|time| time.unwrap().as_millisecond()).collect();
    assert_eq!(millis, [1_794_769_949_801, 1_794_769_949_876, 1_794_769_950_030]);
    let two = Tokens { input: Some(210), output: Some(20), cache_read: Some(40), cache_write: Some(0) };
    assert_eq!(facts.tokens, Some(two));
    assert_eq!(one(KILLED).facts.tokens, None, "no call was ever answered");
    // An unreadable state removes only the facts that no other file contains.
    assert_eq!(one(HALF_A_STATE).facts.cwd.as_deref(), Some("/home/dev/work2"));
}

#[test]
fn a_fork_has_no_turn_and_no_tokens_of_its_own() {
    let facts = one(FORK).facts;
    let parent = facts.parent.unwrap();
    assert_eq!(parent.relation, Relation::Fork);
    assert_eq!(parent.id, "session_95f1749e-aa07-456a-95e5-f52c80247061");
    assert_eq!(facts.tokens, None);
    assert_eq!(facts.started_at.unwrap().as_millisecond(), 1_794_770_229_357);
}

#[test]
fn a_conversation_is_told_once() {
    let entries = |id: &str| Kimi.read(&one(id).place, id, 50).unwrap();
    let told: Vec<(EntryKind, String)> =
        entries(FINISHED).into_iter().map(|entry| (entry.kind, entry.text)).collect();
    let expected = [
        (EntryKind::Message, "[[bash:echo hi]] [[text:tool done]]"),
        (EntryKind::ToolCall, r#"{"command":"echo hi"}"#),
        (EntryKind::ToolResult, "hi\n"),
        (EntryKind::Message, "tool done"),
    ];
    assert_eq!(told, expected.map(|(kind, text)| (kind, text.to_owned())));
    let last = |id: &str| entries(id).pop().unwrap();
    assert_eq!((last(FAILED).kind, last(FAILED).text.as_str()), (EntryKind::Error, "401 no such key"));
    assert_eq!((last(CANCELLED).kind, last(CANCELLED).text.as_str()), (EntryKind::Notice, "interrupted"));
    assert!(entries(JUST_MADE).is_empty());
    let mut follow = Kimi.follow(&one(JUST_MADE).place, JUST_MADE, 10).unwrap();
    assert!(follow.next().unwrap().is_empty());
}
