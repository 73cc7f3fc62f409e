//! Every recorded exchange with a real gateway gives the expected sessions after each step.

use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use agentctl_model::Survey;
use agentctl_model::text::one_line;
use agentctl_testkit::agents::openclaw::{Act, ScriptedGateway, Step};
use serde_json::{Value, json};

use super::recording::Playback;
use super::{PATIENT, Scene, everything, fleet, root};

fn recorded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recorded/openclaw")
}

fn expected() -> Value {
    serde_json::from_str(&std::fs::read_to_string(recorded().join("expected.json")).unwrap()).unwrap()
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Like the checker of the other recordings: `{"anyOf": […]}` allows several values.
fn agrees(field: &str, wanted: &Value, got: &Value) -> bool {
    if let Some(several) = wanted["anyOf"].as_array() {
        return several.iter().any(|one| agrees(field, one, got));
    }
    match (wanted, got) {
        (Value::String(wanted), Value::String(got)) if field.ends_with("Prefix") => {
            one_line(got).starts_with(&one_line(wanted))
        }
        (Value::String(wanted), Value::String(got)) if field == "startedAt" => {
            wanted.parse::<jiff::Timestamp>().unwrap() == got.parse::<jiff::Timestamp>().unwrap()
        }
        (Value::Object(wanted), got) => wanted.iter().all(|(part, count)| got[part] == *count),
        (wanted, got) => wanted == got,
    }
}

fn check(place: &str, wanted: &Value, survey: &Survey, problems: &mut Vec<String>) {
    let id = wanted["id"].as_str().unwrap();
    let Some(got) = super::session(survey, id) else {
        problems.push(format!("{place}: {id} is missing"));
        return;
    };
    let got = serde_json::to_value(got).unwrap();
    for (field, value) in wanted.as_object().unwrap() {
        let (name, value) = match field.as_str() {
            "promptPrefix" => ("prompt", value),
            "lastMessagePrefix" => ("lastMessage", value),
            "more" => ("meta", value),
            name => (name, value),
        };
        if !agrees(field, value, &got[name]) {
            problems.push(format!("{place}: {id}: {name} should be {value}, is {}", got[name]));
        }
    }
    if got["evidence"][0]["source"] != "gateway" {
        problems.push(format!("{place}: {id}: evidence {}", got["evidence"]));
    }
}

/// Surveys one case after each of its steps, and at its end.
fn play(name: &str, case: &Value, problems: &mut Vec<String>) {
    let mut playback = Playback::default();
    let scene = Scene::set();
    let ask = |playback: &Playback| {
        scene.ledger().clone_from(&playback.ledger);
        scene.survey()
    };
    for file in case["files"].as_array().unwrap() {
        playback.next_connection();
        let of_file = |step: &&Value| step["file"] == *file;
        for (index, line) in lines(&recorded().join(name).join(file.as_str().unwrap())).iter().enumerate() {
            playback.feed(line);
            for step in case["steps"].as_array().into_iter().flatten().filter(of_file) {
                if step["line"] != index + 1 {
                    continue;
                }
                let place = format!("{name} {} line {}", file.as_str().unwrap(), index + 1);
                if playback.closed || playback.mid_list {
                    // There is no gateway to ask, or the list is incomplete: `outages_give_no_verdict` and the client's
                    // paging cover this.
                    assert!(step["sessions"].as_array().unwrap().is_empty() || playback.closed, "{place}");
                    continue;
                }
                let survey = ask(&playback);
                for wanted in step["sessions"].as_array().unwrap() {
                    check(&place, wanted, &survey, problems);
                }
                if step["complete"] == true
                    && survey.sessions.len() != step["sessions"].as_array().unwrap().len()
                {
                    let ids: Vec<&str> = survey.sessions.iter().map(|one| one.session.id.as_str()).collect();
                    problems.push(format!("{place}: others too: {ids:?}"));
                }
                if survey.sources[0].coverage.as_str() != "complete" {
                    problems.push(format!("{place}: {:?}", survey.sources[0]));
                }
            }
        }
    }
    if playback.closed && case["coverage"] == "failed" {
        return;
    }
    let survey = ask(&playback);
    for wanted in case["sessions"].as_array().unwrap() {
        check(&format!("{name} at its end"), wanted, &survey, problems);
    }
    for absent in case["absent"].as_array().unwrap() {
        if super::session(&survey, absent.as_str().unwrap()).is_some() {
            problems.push(format!("{name}: {absent} should be gone"));
        }
    }
}

#[test]
fn every_recorded_exchange_gives_the_expected_sessions() {
    let mut problems = Vec::new();
    let expected = expected();
    for (name, case) in expected["cases"].as_object().unwrap() {
        play(name, case, &mut problems);
    }
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn the_recorded_list_is_the_same_in_pages_of_any_size() {
    let expected = expected();
    let scene = Scene::set();
    let mut playback = Playback::default();
    for line in lines(&recorded().join("paging/frames.jsonl")) {
        playback.feed(&line);
    }
    for page in [1, 40, 126, 127, 1000] {
        scene.ledger().clone_from(&playback.ledger);
        scene.ledger().page = Some(page);
        let question = agentctl_fleet::Query { usage: false, ..everything() };
        let survey = fleet(vec![root(&scene.gateway)], PATIENT).survey(&question);
        // A list with more pages than are read is not complete.
        let whole = page > 1;
        assert_eq!(survey.sources[0].coverage.as_str(), if whole { "complete" } else { "partial" }, "{page}");
        let count = expected["cases"]["paging"]["sessions"].as_array().unwrap().len();
        assert_eq!(survey.sessions.len(), if whole { count } else { 100 });
        assert_eq!(super::active(&survey), 0);
    }
}

/// Replays each recorded handshake from our side: our client receives what was recorded.
#[test]
fn every_recorded_handshake_ends_as_expected() {
    let expected = expected();
    for (file, wanted) in expected["cases"]["handshake"]["handshakes"].as_object().unwrap() {
        let recording = lines(&recorded().join("handshake").join(file));
        let answer = recording.iter().find(|line| line["frame"]["type"] == "res").unwrap()["frame"].clone();
        let closed = recording.iter().find(|line| line["dir"] == "close").map(|line| line["frame"].clone());
        let scene = Scene::set();
        let ledger = std::sync::Arc::clone(&scene.ledger);
        let gateway = ScriptedGateway::start(move |step| match step {
            Step::Request { method: "connect", .. } if answer["ok"] == true => {
                Act::Proper(answer["payload"].clone())
            }
            Step::Request { method: "connect", .. } => Act::Refuse(answer["error"].clone()),
            other => ledger.lock().unwrap_or_else(PoisonError::into_inner).answer(other),
        });
        let survey = fleet(vec![root(&gateway)], PATIENT).survey(&everything());
        let source = &survey.sources[0];
        assert_eq!(json!(source.coverage), wanted["coverage"], "{file}: {source:?}");
        let error = source.error.clone().unwrap_or_default();
        for told in [&wanted["code"], &wanted["requestId"]] {
            let told = told.as_str().unwrap_or_default();
            assert!(error.contains(told), "{file} should name {told}: {error}");
        }
        if wanted["connect"] == "ok" && wanted["coverage"] == "failed" {
            assert!(error.contains("operator.read"), "{file}: {error}");
        }
        assert!(!error.contains("s3cret-of-the-test"), "{file}: {error}");
        // The recording also contains how the gateway closes afterwards, which adds nothing.
        assert!(closed.is_some() || wanted["closeCode"].is_null(), "{file}");
        assert!(survey.sessions.is_empty());
    }
}
