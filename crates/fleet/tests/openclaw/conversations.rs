//! Reading a conversation: at once, as it grows, and its usage added up.

use std::collections::HashMap;
use std::ops::ControlFlow;

use agentctl_adapters::search::Pattern;
use agentctl_fleet::{Purpose, SearchQuery, Selector, Since, Told};
use agentctl_model::Entry;
use serde_json::{Value, json};

use super::{PATIENT, Scene, everything, fleet, root, session};

fn texts(entries: Vec<Entry>) -> Vec<String> {
    entries.into_iter().map(|entry| entry.text).collect()
}

#[test]
fn peek_and_follow_show_the_conversation_and_what_is_being_said() {
    let scene = Scene::set();
    let key = "agent:main:x";
    let said =
        |id: &str, role: &str, words: &str| json!({"role": role, "content": words, "__openclaw": {"id": id}});
    scene.ledger().rows = vec![json!({"key": key, "hasActiveRun": true, "workspaceDir": "/w"})];
    scene.ledger().messages = HashMap::from([(key.to_owned(), vec![said("1", "user", "go")])]);
    scene.ledger().in_flight = HashMap::from([(key.to_owned(), json!({"runId": "r", "text": "so far"}))]);
    let fleet = fleet(vec![root(&scene.gateway)], PATIENT);
    let (found, _) =
        fleet.find(&Selector { text: key.into(), ..Selector::default() }, Purpose::Show).unwrap();
    assert_eq!(found.session.prompt.as_deref(), Some("go"));
    assert_eq!(found.session.last_message.as_deref(), Some("so far"));
    assert_eq!(texts(fleet.read(&found, 5).unwrap()), ["go", "so far"]);
    assert_eq!(texts(fleet.read(&found, 1).unwrap()), ["so far"]);
    let mut follow = fleet.follow(&found, 5).unwrap().unwrap();
    assert_eq!(texts(follow.next().unwrap()), ["go"]);
    assert!(follow.next().unwrap().is_empty());
    scene.ledger().messages.get_mut(key).unwrap().push(said("2", "assistant", "so far so good"));
    assert_eq!(texts(follow.next().unwrap()), ["so far so good"]);
}

/// Messages to which the gateway gives no id: their position in the window changes, they themselves do not.
#[test]
fn nothing_is_told_twice_or_skipped_when_the_window_moves() {
    let scene = Scene::set();
    let key = "agent:main:x";
    let said = |number: usize| json!({"role": "user", "content": format!("message {number}"), "timestamp": 1000 + number / 2});
    scene.ledger().rows = vec![json!({"key": key, "hasActiveRun": true, "workspaceDir": "/w"})];
    scene.ledger().messages = HashMap::from([(key.to_owned(), (0..5).map(said).collect())]);
    // A page has less than was asked for, so each new message moves all the others.
    scene.ledger().history_page = Some(5);
    let fleet = fleet(vec![root(&scene.gateway)], PATIENT);
    let (found, _) =
        fleet.find(&Selector { text: key.into(), ..Selector::default() }, Purpose::Show).unwrap();
    let mut follow = fleet.follow(&found, 2).unwrap().unwrap();
    assert_eq!(texts(follow.next().unwrap()), ["message 3", "message 4"]);
    for number in 5..30 {
        scene.ledger().messages.get_mut(key).unwrap().push(said(number));
        assert_eq!(texts(follow.next().unwrap()), [format!("message {number}")]);
        assert!(follow.next().unwrap().is_empty(), "after message {number}");
    }
}

/// Pages go by the gateway's own offsets, which count stored messages; a page can have more rows than that.
#[test]
fn a_long_conversation_is_added_up_page_by_page() {
    let scene = Scene::set();
    let key = "agent:main:x";
    let row = |number: usize| -> Value {
        let usage = json!({"input": 1, "output": 2, "cost": {"total": 0.5}});
        // Each stored message has two rows.
        json!({"role": "assistant", "content": format!("answer {number}"), "usage": usage,
            "__openclaw": {"id": format!("m{}", number / 2), "seq": number / 2}})
    };
    let mut messages = vec![json!({"role": "user", "content": "the prompt", "__openclaw": {"id": "p"}})];
    messages.extend((0..40).map(row));
    scene.ledger().rows = vec![json!({"key": key, "hasActiveRun": false, "workspaceDir": "/w"})];
    scene.ledger().messages = HashMap::from([(key.to_owned(), messages)]);
    for page in [1000, 7, 1] {
        scene.ledger().history_page = Some(page);
        let survey = fleet(vec![root(&scene.gateway)], PATIENT).survey(&everything());
        let told = session(&survey, key).unwrap();
        assert_eq!(survey.sources[0].warnings, [""; 0], "pages of {page}");
        let tokens = told.tokens.unwrap();
        assert_eq!(
            (tokens.input, tokens.output, told.cost),
            (Some(20), Some(40), Some(10.0)),
            "pages of {page}"
        );
        assert_eq!(told.prompt.as_deref(), Some("the prompt"));
        assert_eq!(told.last_message.as_deref(), Some("answer 39"));
    }
}

/// A gateway is searched page by page, every hit opens where it stands, and what is too far back is not called searched.
#[test]
fn a_conversation_of_a_gateway_is_searched_as_far_back_as_it_is_read() {
    let scene = Scene::set();
    let key = "agent:main:x";
    let said = |number: usize| {
        json!({"role": if number.is_multiple_of(2) { "user" } else { "assistant" }, "content": format!("message {number}"),
            "timestamp": 1000 + number, "__openclaw": {"id": format!("m{number}")}})
    };
    scene.ledger().rows = vec![json!({"key": key, "hasActiveRun": false, "workspaceDir": "/w"})];
    scene.ledger().messages = HashMap::from([(key.to_owned(), (0..60).map(said).collect())]);
    let fleet = fleet(vec![root(&scene.gateway)], PATIENT);
    let search = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        let asked = SearchQuery {
            pattern: Pattern::new(&words, false, false).unwrap(),
            roles: Vec::new(),
            adapters: Vec::new(),
            folders: Vec::new(),
            group: None,
            since: Since::Ever,
            limit: 1000,
            around: 0,
            once: false,
        };
        let mut hits = Vec::new();
        let end = fleet.search(&asked, &mut |told| {
            if let Told::Hit(hit) = told {
                hits.push(*hit);
            }
            ControlFlow::Continue(())
        });
        (hits, end)
    };
    let (found, _) =
        fleet.find(&Selector { text: key.into(), ..Selector::default() }, Purpose::Show).unwrap();
    for page in [1000, 7] {
        scene.ledger().history_page = Some(page);
        let (hits, end) = search(&["message"]);
        assert!(end.heard_all(), "pages of {page}: {:?}", end.sources);
        let lines: Vec<&str> = hits.iter().map(|hit| hit.line.as_str()).collect();
        let all: Vec<String> = (0..60).rev().map(|number| format!("message {number}")).collect();
        assert_eq!(lines, all, "pages of {page}, newest first");
        for hit in &hits {
            let (around, at) = fleet.read_around(&found, &hit.hit, (1, 1)).unwrap().unwrap();
            assert_eq!(around[at].text, hit.line, "pages of {page}: {}", hit.hit);
        }
    }
    assert_eq!(search(&["message", "59"]).0.len(), 1, "both words");
    // With one message a page the oldest ten are beyond what is read.
    scene.ledger().history_page = Some(1);
    let (hits, end) = search(&["message"]);
    assert_eq!((hits.len(), end.heard_all()), (50, false), "{:?}", end.sources);
    let (hits, end) = search(&["nowhere"]);
    assert_eq!((hits.len(), end.heard_all()), (0, false), "it may stand in what was not read");
    let words = end.sources[0].warnings.concat();
    assert_eq!(words, "agent:main:x: what is older than its newest 50 pages was not read");
}

/// Large messages are requested in smaller parts. A single one that is too large costs the totals of its session, and
/// affects no other.
#[test]
fn heavy_messages_are_read_a_few_at_a_time() {
    let scene = Scene::set();
    let keys = ["agent:main:heavy", "agent:main:hopeless"];
    let rows =
        keys.map(|key| json!({"key": key, "hasActiveRun": false, "status": "done", "workspaceDir": "/w"}));
    scene.ledger().rows = rows.to_vec();
    let said = |number: usize, values: usize| {
        json!({"role": "assistant", "content": [{"type": "text", "text": format!("message {number}")}],
            "usage": {"input": 1, "output": 2}, "much": vec![0; values], "__openclaw": {"id": number.to_string()}})
    };
    let of = |values: usize| (0..30).map(|number| said(number, values)).collect::<Vec<Value>>();
    scene.ledger().messages =
        HashMap::from([(keys[0].to_owned(), of(20_000)), (keys[1].to_owned(), vec![said(0, 400_000)])]);
    let survey = scene.survey();
    assert_eq!(survey.sources[0].coverage.as_str(), "complete", "{:?}", survey.sources);
    let heavy = session(&survey, keys[0]).unwrap();
    assert_eq!(heavy.last_message.as_deref(), Some("message 29"));
    assert_eq!(heavy.tokens.as_ref().and_then(|tokens| tokens.output), Some(60));
    assert_eq!(session(&survey, keys[1]).unwrap().tokens, None);
    let warnings = survey.sources[0].warnings.concat();
    assert!(warnings.contains("agent:main:hopeless: the conversation is too long"), "{warnings}");
}
