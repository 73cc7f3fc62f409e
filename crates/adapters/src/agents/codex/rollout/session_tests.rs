use super::*;
use crate::Reach;
use crate::transcript::read::read_bytes;
use agentctl_model::{Relation, Tokens, TurnState};
use proptest::prelude::*;

const RECORDED: [(&str, &[u8]); 5] = [
    (
        "forked",
        include_bytes!(
            "../../../../../../tests/recorded/codex/forked/.codex/sessions/2026/11/15/rollout-2026-11-15T07-01-46-01a1de03-1376-79f2-be46-f24fa6665fb0.jsonl"
        ),
    ),
    (
        "interrupted",
        include_bytes!(
            "../../../../../../tests/recorded/codex/interrupted/.codex/sessions/2026/11/15/rollout-2026-11-15T07-00-51-01a1de02-3f69-7400-ad71-c7bf8fe9c780.jsonl"
        ),
    ),
    (
        "legacy-resumed",
        include_bytes!(
            "../../../../../../tests/recorded/codex/legacy-resumed/.codex/sessions/2026/11/15/rollout-2026-11-15T07-03-31-01a1de04-b013-73f0-800d-1311ccfceb75.jsonl"
        ),
    ),
    (
        "subagent",
        include_bytes!(
            "../../../../../../tests/recorded/codex/subagent/.codex/sessions/2026/11/15/rollout-2026-11-15T07-01-39-01a1de02-fb30-7300-a058-65de8f3326f0.jsonl"
        ),
    ),
    (
        "approval-killed",
        include_bytes!(
            "../../../../../../tests/recorded/codex/approval-killed/.codex/sessions/2026/11/15/rollout-2026-11-15T07-04-30-01a1de05-9712-72c2-8971-09b551054ebd.jsonl"
        ),
    ),
];

fn recorded(name: &str) -> &'static [u8] {
    RECORDED.iter().find(|(known, _)| *known == name).unwrap().1
}

fn ends_of(bytes: &[u8]) -> Option<(Head, Tail, Counted, Option<&'static str>)> {
    let scope = Scope { subagents: true, ..Scope::new(Reach::All { since: None }) };
    read_bytes(&Rollout { compressed: false, scope: &scope }, bytes, &scope).ok().flatten()
}

fn facts_with(id: &str, bytes: &[u8]) -> Facts {
    let (head, tail, counted, _) = ends_of(bytes).unwrap();
    let file = RolloutFile { id: id.into(), path: "/p".into(), compressed: false, archived: false };
    facts(head, tail, &counted, &file, false)
}

fn facts_of(bytes: &[u8]) -> Facts {
    facts_with("own", bytes)
}

fn state(bytes: &[u8]) -> Option<TurnState> {
    facts_of(bytes).turn.map(|turn| turn.state)
}

#[test]
fn a_fork_and_a_sub_agent_name_their_parents_and_count_their_own() {
    let fork = facts_of(recorded("forked"));
    let parent = fork.parent.unwrap();
    assert_eq!(
        (parent.id.as_str(), parent.relation),
        ("01a1de03-0fdf-70a2-8368-c4844de29a74", Relation::Fork)
    );
    let own = Tokens { input: Some(937), output: Some(50), cache_read: Some(100), cache_write: Some(0) };
    assert_eq!(fork.tokens, Some(own), "without the parent's");
    let child = facts_of(recorded("subagent"));
    assert_eq!(child.parent.unwrap().relation, Relation::Subagent);
    assert_eq!(child.name.as_deref(), Some("Feynman"));
}

#[test]
fn without_its_first_record_the_id_says_when_it_began() {
    let bytes = recorded("interrupted");
    let first = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    let facts = facts_with("01a1de02-3f69-7400-ad71-c7bf8fe9c780", &bytes[first + 1..]);
    assert_eq!(facts.started_at.unwrap().to_string(), "2026-11-15T07:00:51.689Z");
    assert_eq!(facts.cwd.as_deref(), Some("/home/dev/proj"), "of the last turn");
}

#[test]
fn an_odd_field_costs_neither_the_origin_nor_the_model() {
    let text = String::from_utf8_lossy(recorded("subagent"));
    let odd = text.replacen(r#""cli_version":""#, r#""cli_version":[],"was":""#, 1).replacen(
        r#""git":{"#,
        r#""git":7,"had":{"#,
        1,
    );
    let last = r#"{"type":"turn_context","payload":{"turn_id":"t","cwd":"/other","model":null}}"#;
    let facts = facts_of(format!("{odd}{last}\n").as_bytes());
    assert_eq!(facts.parent.unwrap().relation, Relation::Subagent);
    assert_eq!((facts.cwd.as_deref(), facts.model.as_deref()), (Some("/other"), Some("gpt-5-codex-test")));
}

#[test]
fn a_resumed_old_file_is_read_in_both_forms() {
    let facts = facts_of(recorded("legacy-resumed"));
    assert_eq!(facts.prompt.as_deref(), Some("Old version hello"));
    assert_eq!(facts.last_message.as_deref(), Some("Reply 60: done with the request."));
    assert_eq!(facts.turn.unwrap().state, TurnState::Finished);
}

#[test]
fn a_call_without_an_answer_is_what_an_open_turn_is_at() {
    let turn = facts_of(recorded("approval-killed")).turn.unwrap();
    assert_eq!(turn.state, TurnState::Open);
    assert_eq!(turn.detail.as_deref(), Some("exec_command: touch /home/dev/zz"));
    assert!(turn.began < turn.last);
}

/// Builds records from `began X, ended X, …`, one second apart.
fn turns(events: &[(&str, &str)]) -> Vec<u8> {
    let mut text = String::new();
    for (second, (kind, id)) in events.iter().enumerate() {
        let id = if id.is_empty() { String::new() } else { format!(r#","turn_id":"{id}""#) };
        let line = match *kind {
            "context" => format!(r#""turn_context","payload":{{"cwd":"/w"{id}}}"#),
            kind => format!(r#""event_msg","payload":{{"type":"{kind}"{id}}}"#),
        };
        let at = format!("2026-11-15T07:00:{second:02}Z");
        text += &(format!(r#"{{"timestamp":"{at}","type":{line}}}"#) + "\n");
    }
    text.into_bytes()
}

/// Events with the ids of their turns, and the resulting state of the last turn.
type Case<'c> = (&'c [(&'c str, &'c str)], Option<TurnState>);

#[test]
fn turns_are_matched_by_their_ids_and_by_order_where_there_are_none() {
    use TurnState::{Finished, Interrupted, NotBegun, Open};
    let (start, end, abort) = ("task_started", "task_complete", "turn_aborted");
    let cases: [Case<'_>; 9] = [
        (&[(start, "a"), (end, "a")], Some(Finished)),
        (&[(start, "a"), (end, "a"), (start, "b")], Some(Open)),
        (&[(start, "a"), (end, "a"), (start, "b"), ("item_completed", "a"), (abort, "b")], Some(Interrupted)),
        // The end of a replaced turn is written after the beginning of the next one.
        (&[(start, "a"), (start, "b"), ("context", "b"), (abort, "a")], Some(Open)),
        (&[(start, "a"), (start, "b"), (abort, "a"), (end, "b")], Some(Finished)),
        (&[(start, ""), (end, "")], Some(Finished)),
        (&[(start, ""), (end, ""), (start, "")], Some(Open)),
        (&[("thread_settings_applied", "")], Some(NotBegun)),
        (&[("context", "a")], Some(NotBegun)),
    ];
    for (events, expected) in cases {
        assert_eq!(state(&turns(events)), expected, "{events:?}");
    }
    let talk = br#"{"timestamp":"2026-11-15T07:00:00Z","type":"event_msg","payload":{"type":"user_message","message":"x"}}"#;
    assert_eq!(state(talk), None, "they talked, and nothing says whether a turn is open");
}

#[test]
fn a_refusal_for_a_quota_says_when_the_window_that_is_used_up_ends() {
    let limit = |limits: &str, info: &str| {
        let count = format!(r#""info":null,"rate_limits":{limits}"#);
        let end = format!(r#""turn_id":"a","error":{{"message":"no","codex_error_info":{info}}}"#);
        let event = |kind: &str, more: &str| {
            let payload = format!(r#"{{"type":"{kind}",{more}}}"#);
            format!(r#"{{"timestamp":"2026-11-15T07:00:00Z","type":"event_msg","payload":{payload}}}"#) + "\n"
        };
        let began = event("task_started", r#""turn_id":"a""#);
        let lines = began + &event("token_count", &count) + &event("task_complete", &end);
        let turn = facts_of(lines.as_bytes()).turn.unwrap();
        assert_eq!(turn.state, TurnState::Failed);
        turn.limit.map(|limit| limit.until.map(jiff::Timestamp::as_second))
    };
    let used = |first: &str, second: &str| {
        format!(
            r#"{{"primary":{{"used_percent":{first},"resets_at":100}},"secondary":{{"used_percent":{second},"resets_at":900}}}}"#
        )
    };
    let exceeded = r#""usage_limit_exceeded""#;
    assert_eq!(limit(&used("100.0", "40.0"), exceeded), Some(Some(100)));
    assert_eq!(limit(&used("100.0", "100.0"), exceeded), Some(Some(900)));
    assert_eq!(limit(&used("99.0", "40.0"), exceeded), Some(None), "nothing says which one it was");
    assert_eq!(limit("null", exceeded), Some(None));
    let too_many = r#"{"response_too_many_failed_attempts":{"http_status_code":429}}"#;
    assert_eq!(limit("null", too_many), Some(None));
    for other in
        [r#""internal_server_error""#, r#"{"http_connection_failed":{"http_status_code":401}}"#, "null"]
    {
        assert_eq!(limit(&used("100.0", "0.0"), other), None, "{other}");
    }
}

#[test]
fn opening_a_thread_does_not_make_its_old_turn_newer() {
    let reopened = turns(&[("task_started", "a"), ("item_completed", "a"), ("thread_settings_applied", "")]);
    let facts = facts_of(&reopened);
    assert_eq!(facts.turn.unwrap().last, Some("2026-11-15T07:00:01Z".parse().unwrap()));
    assert_eq!(facts.updated_at, Some("2026-11-15T07:00:02Z".parse().unwrap()));
}

#[test]
fn half_a_last_line_is_a_write_in_progress_and_a_broken_middle_is_damage() {
    let whole = recorded("interrupted");
    let warning = |bytes: &[u8]| ends_of(bytes).unwrap().3;
    assert_eq!(warning(&whole[..whole.len() - 40]), None);
    let middle = whole.len() / 2;
    let damaged = [&whole[..middle], b"\n{\"oops\n", &whole[middle..]].concat();
    assert_eq!(warning(&damaged), Some("has a damaged record"));
}

/// A recorded rollout that was cut, mutated, or concatenated with another one.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let one = || (0..RECORDED.len()).prop_map(|index| RECORDED[index].1.to_vec());
    let cut =
        (one(), any::<prop::sample::Index>(), any::<prop::sample::Index>()).prop_map(|(bytes, a, b)| {
            let (a, b) = (a.index(bytes.len()), b.index(bytes.len()));
            bytes[a.min(b)..a.max(b)].to_vec()
        });
    let mutated = (one(), prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..30))
        .prop_map(|(mut bytes, changes)| {
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes
        });
    prop_oneof![
        cut.clone(),
        mutated.clone(),
        (cut, mutated).prop_map(|(first, second)| [first, second].concat()),
    ]
}

/// Whether a text occurs in the bytes in JSON spelling. A text with escapes may be spelled differently.
fn stands_in(bytes: &[u8], text: &str) -> bool {
    let plain = text.chars().all(|c| c.is_ascii_graphic() && c != '\\' && c != '"' && c != '/');
    !plain || memchr::memmem::find(bytes, text.as_bytes()).is_some()
}

proptest! {
    #[test]
    fn damage_never_panics_and_never_invents(bytes in damaged()) {
        for line in bytes.split(|byte| *byte == b'\n') {
            let _ = super::super::entries::entries(line);
        }
        let Some((head, mut tail, ..)) = ends_of(&bytes) else { return Ok(()) };
        let _ = tail.turn();
        let origin = head.origin.unwrap_or_default();
        let parent = origin.parent.map(|parent| parent.id);
        for text in [tail.cwd.take(), tail.latest.model.take(), origin.cwd, origin.branch, parent].into_iter().flatten() {
            prop_assert!(stands_in(&bytes, &text), "{text}");
        }
        if let Some(total) = tail.total {
            let parts = [Some(total.input_tokens), Some(total.output_tokens), total.cached_input_tokens];
            for number in parts.into_iter().flatten() {
                prop_assert!(stands_in(&bytes, &number.to_string()), "{number}");
            }
        }
    }
}
