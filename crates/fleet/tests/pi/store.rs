//! The store that both agents share: which agent a file belongs to, where it lies, and what is read from it.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use agentctl_adapters::Adapter;
use agentctl_adapters::agents::pi::Pi;
use agentctl_adapters::agents::pi_rust::PiRust;
use agentctl_fleet::{FindError, Fleet, Purpose, Query, Selector, Since, Source, Wanted};
use agentctl_model::{Environ, Outcome, Relation, Status};
use agentctl_process::fake::Scripted;

use crate::home::{A, B, Home, Tree, minute, name, session, verdict};

#[test]
fn one_id_in_two_folders_is_two_sessions() {
    let home = Home::new();
    home.put_in("--w--", &name("same"), &Tree::new("same", "/w", 1).user(2).reply(3, "stop"));
    let there = home.put_in("--v--", &name("same"), &Tree::new("same", "/v", 1).user(2).reply(3, "toolUse"));
    let kernel = Scripted::new().process(home.pi(42, 0).cwd("/v")).process(home.tool(43, 42, "same", &there));
    let fleet = home.fleet(kernel);
    let survey = fleet.survey(&Query::new(Wanted::All { since: Since::Ever }));
    let mut rows: Vec<_> =
        survey.sessions.iter().map(|one| (one.session.cwd.clone(), one.session.status)).collect();
    rows.sort();
    assert_eq!(rows, [(Some("/v".to_owned()), Status::Running), (Some("/w".to_owned()), Status::Stopped)]);
    assert_ne!(survey.sessions[0].key, survey.sessions[1].key);
    let selector = Selector { text: "same".into(), ..Selector::default() };
    assert!(
        matches!(fleet.find(&selector, Purpose::Read), Err(FindError::Ambiguous { candidates, .. }) if candidates.len() == 2)
    );
    let narrowed = Selector { cwd: Some("/v".into()), ..selector };
    assert_eq!(fleet.find(&narrowed, Purpose::Read).unwrap().0.session.status, Status::Running);
}

#[test]
fn the_two_agents_share_a_store_and_no_session_appears_twice() {
    let home = Home::new();
    let rust = |id: &str, more: &str| {
        Tree::with_header(&format!(
            r#"{{"type":"session","version":3,"id":"{id}","timestamp":"{}","cwd":"/w","provider":"p","modelId":"m"{more}}}"#,
            minute(1)
        ))
    };
    home.put(&name(A), &Tree::new(A, "/w", 1).user(2).reply(3, "stop"));
    home.put("2026-02-22T16-29-54.096Z_bbbbbbbb.jsonl", &rust(B, "").user(2));
    home.put("mine.jsonl", &rust("by-header", "").user(2));
    home.put("node.jsonl", &Tree::new("node-by-header", "/w", 1).user(2).reply(3, "stop"));
    // Pi Rust continued a session of Pi and wrote its own header into it: it stays Pi's.
    home.put(&name("continued"), &rust("continued", "").user(2).reply(3, "stop"));
    fs::write(home.store().join("--w--/2026-02-22T16-29-54.096Z_bbbbbbbb.jsonl.lock"), "").unwrap();
    fs::write(home.store().join("session-index.sqlite"), "index").unwrap();
    let survey = home.all(Scripted::new());
    let mut rows: Vec<(&str, &str)> =
        survey.sessions.iter().map(|one| (one.key.adapter.as_str(), one.key.id.as_str())).collect();
    rows.sort_unstable();
    let expected =
        [("pi", A), ("pi", "continued"), ("pi", "node-by-header"), ("pi-rust", B), ("pi-rust", "by-header")];
    assert_eq!(rows, expected);
    assert!(
        survey.sources.iter().all(|source| source.coverage.as_str() == "complete"),
        "{:?}",
        survey.sources
    );
    assert_eq!(session(&survey, B).model.as_deref(), Some("p/m"), "from the header, before any reply");

    fs::write(home.store().join("--w--/2026-02-22T16-29-54.096Z_cccccccc.sqlite"), "x").unwrap();
    let survey = home.all(Scripted::new());
    let coverage: Vec<&str> = survey.sources.iter().map(|source| source.coverage.as_str()).collect();
    assert_eq!(
        coverage,
        ["complete", "partial"],
        "a session that is not read is named, by its own agent only"
    );
}

#[test]
fn pi_rust_is_tied_by_its_arguments_and_may_continue_a_session_of_pis() {
    let home = Home::new();
    let header = format!(
        r#"{{"type":"session","version":3,"id":"{B}","timestamp":"{}","cwd":"/w","provider":"p","modelId":"m"}}"#,
        minute(1)
    );
    let file = home.put("2026-02-22T16-29-54.096Z_bbbbbbbb.jsonl", &Tree::with_header(&header).user(12));
    let args = ["--session", file.to_str().unwrap(), "-p", "go on"];
    let survey = home.all(Scripted::new().process(home.pi_rust(42, 10, &args)));
    assert_eq!((verdict(&survey, B), session(&survey, B).pid), ((Status::Running, None), Some(42)));
    // It is a headless run, so an older turn does not make it idle.
    let survey = home.all(Scripted::new().process(home.pi_rust(42, 20, &args)));
    assert_eq!(verdict(&survey, B), (Status::Running, None));
    assert_eq!(survey.strays.len(), 0);

    let pis = home.put(&name(A), &Tree::new(A, "/w", 1).user(2).reply(3, "stop").user(12));
    let args = ["--session", pis.to_str().unwrap()];
    let survey = home.all(Scripted::new().process(home.pi_rust(42, 10, &args)));
    assert_eq!((verdict(&survey, A), session(&survey, A).pid), ((Status::Running, None), Some(42)));
    assert_eq!(verdict(&survey, B), (Status::Stopped, Some(Outcome::Died)));
    assert_eq!(survey.strays.len(), 0);
}

#[test]
fn a_directory_pairs_an_agent_only_with_sessions_of_its_own_making() {
    let home = Home::new();
    home.put(&name(A), &Tree::new(A, "/w", 1).user(2).reply(3, "stop"));
    let survey = home.all(Scripted::new().process(home.pi_rust(42, 0, &[])));
    assert_eq!(verdict(&survey, A), (Status::Stopped, Some(Outcome::Completed)));
    assert_eq!(survey.strays.iter().map(|(adapter, _)| adapter.as_str()).collect::<Vec<_>>(), ["pi-rust"]);
    // With the turn open, the other agent may be working on it, so there is no verdict.
    home.put(&name(A), &Tree::new(A, "/w", 1).user(2));
    let survey = home.all(Scripted::new().process(home.pi_rust(42, 0, &[])));
    assert_eq!(verdict(&survey, A), (Status::Unknown, None));
}

#[test]
fn the_active_branch_ends_at_the_headers_leaf_or_at_the_last_record() {
    let home = Home::new();
    let header = |leaf: &str| {
        format!(
            r#"{{"type":"session","version":3,"id":"{B}","timestamp":"{}","cwd":"/w","provider":"p","modelId":"m","leafId":"{leaf}"}}"#,
            minute(1)
        )
    };
    let tree =
        |leaf: &str| Tree::with_header(&header(leaf)).user(2).reply(3, "stop").user(4).reply(5, "error");
    let file = "2026-02-22T16-29-54.096Z_bbbbbbbb.jsonl";
    for (leaf, outcome, words) in [
        ("r2", Outcome::Completed, "words 3"),
        ("r4", Outcome::Failed, "words 5"),
        ("gone", Outcome::Failed, "words 5"),
    ] {
        let place = home.put(file, &tree(leaf));
        let survey = home.all(Scripted::new());
        assert_eq!(verdict(&survey, B), (Status::Stopped, Some(outcome)), "{leaf}");
        assert_eq!(session(&survey, B).last_message.as_deref(), Some(words));
        let peeked = PiRust.read(&place, B, 20).unwrap();
        assert_eq!(peeked.iter().rfind(|entry| entry.text.starts_with("words")).unwrap().text, words);
    }
}

#[test]
fn moved_stores_are_read_flat_and_say_whose_they_are() {
    let home = Home::new();
    home.put(&name(A), &Tree::new(A, "/w", 1).user(2));
    let flat = home.path().join("flat");
    fs::create_dir(&flat).unwrap();
    fs::write(flat.join(name(B)), Tree::new(B, "/w", 1).user(2).text()).unwrap();
    let moved = [("PI_CODING_AGENT_SESSION_DIR", flat.to_str().unwrap())];
    let there = home.pi(42, 0).variable(moved[0].0, moved[0].1);
    for wanted in [Wanted::Live, Wanted::All { since: Since::Ever }] {
        let kernel = Scripted::new().process(there.clone()).process(home.pi(43, 0));
        let survey = home.fleet_with(&moved, kernel).survey(&Query::new(wanted));
        let rows: Vec<_> = survey
            .sessions
            .iter()
            .map(|one| (one.key.id.as_str(), one.session.status, one.session.pid))
            .collect();
        assert_eq!(rows, [(B, Status::Running, Some(42))]);
    }
    // The setting affects new sessions only: the old ones stay where they were and are listed too.
    fs::write(home.path().join(".pi/agent/settings.json"), r#"{"sessionDir":"~/flat"}"#).unwrap();
    let survey = home.all(Scripted::new().process(home.pi(43, 0)));
    assert_eq!(verdict(&survey, A), (Status::Unknown, None), "one process, and two sessions that fit");
    assert_eq!(verdict(&survey, B), (Status::Unknown, None));
}

#[test]
fn what_cannot_be_read_gives_no_verdict() {
    let home = Home::new();
    home.put(&name(A), &Tree::new(A, "/w", 1).user(2));
    home.put(&name(B), &Tree { lines: vec!["not a header".into(), "{}".into()] });
    fs::write(home.store().join("--w--").join(name("empty")), "").unwrap();
    let fleet = home.fleet(Scripted::new());
    let survey = fleet.survey(&Query::new(Wanted::All { since: Since::Ever }));
    let coverage: Vec<&str> = survey.sources.iter().map(|source| source.coverage.as_str()).collect();
    assert_eq!((survey.sessions.len(), coverage), (1, vec!["partial", "complete"]));
    let selector = Selector { text: B.into(), ..Selector::default() };
    assert!(
        matches!(fleet.find(&selector, Purpose::Read), Err(FindError::NotHeard { .. })),
        "silence is no verdict"
    );

    let nobody = tempfile::tempdir().unwrap();
    let environ = Environ::from_iter([("HOME", nobody.path())]);
    let root = Pi.root(&environ).unwrap();
    let source = Source { adapter: &Pi, root, timeout: Duration::from_secs(20) };
    let survey = Fleet::new(vec![source], Arc::new(Scripted::new())).survey(&Query::new(Wanted::Live));
    assert_eq!(survey.sources[0].coverage.as_str(), "not-installed");
}

#[test]
fn odd_files_are_read_for_what_they_hold() {
    let home = Home::new();
    // Version 0.73.1 writes the header twice; a killed process leaves half a line; a disk error leaves garbage in the
    // middle.
    let mut tree = Tree::new(A, "/w", 1).user(2).reply(3, "stop").record("label", 4, r#""label":"x""#);
    tree.lines.insert(3, "\u{0}\u{0}garbage".into());
    tree.lines.insert(1, tree.lines[0].clone());
    tree.lines.insert(0, String::new());
    let path = home.put("any name.jsonl", &tree);
    let torn = fs::read_to_string(&path).unwrap() + r#"{"type":"message","id":"r9","par"#;
    fs::write(&path, torn).unwrap();
    let parent = home.put(&name("the-parent"), &Tree::new("the-parent", "/w", -2).user(-1));
    let fork = format!(
        r#"{{"type":"session","version":3,"id":"{B}","timestamp":"{}","cwd":"/w","parentSession":"{}"}}"#,
        minute(3),
        parent.display()
    );
    let fork = Tree::with_header(&fork).user(1).reply(2, "stop").user(4).reply(5, "stop");
    home.put(&name(B), &fork.record("session_info", 6, r#""name":" the title ""#));

    let question = Query { usage: true, ..Query::new(Wanted::All { since: Since::Ever }) };
    let survey = home.fleet(Scripted::new()).survey(&question);
    assert_eq!(verdict(&survey, A), (Status::Stopped, Some(Outcome::Completed)));
    let damaged = session(&survey, A);
    assert_eq!(
        (damaged.prompt.as_deref(), damaged.last_message.as_deref()),
        (Some("do it"), Some("words 3"))
    );
    assert_eq!((survey.sources[0].coverage.as_str(), survey.sources[0].warnings.len()), ("complete", 1));
    let fork = session(&survey, B);
    assert_eq!((fork.parent_id.as_deref(), fork.relation), (Some("the-parent"), Some(Relation::Fork)));
    assert_eq!(fork.tokens.unwrap().input, Some(1), "copies are the parent's");
    assert_eq!(fork.name.as_deref(), Some("the title"));
    assert_eq!(fork.started_at, Some(minute(3)));
}
