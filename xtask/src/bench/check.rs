//! Compares a listing with the manifest, because a fast wrong answer is not a valid measurement.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::corpus::Manifest;
use crate::corpus::filler::folded_prefix;

/// The differences between a `list --json` and the manifest, one line each. Tokens are compared only with `usage`.
pub(crate) fn differences(manifest: &Manifest, listing: &Value, usage: bool) -> Vec<String> {
    let Some(sessions) = listing["sessions"].as_array() else {
        return vec!["no `sessions` in the answer".to_owned()];
    };
    let mut found = Vec::new();
    let mut listed: BTreeMap<&str, &Value> = BTreeMap::new();
    for session in sessions {
        let id = session["id"].as_str().unwrap_or("");
        if listed.insert(id, session).is_some() {
            found.push(format!("{id}: listed twice"));
        }
    }
    // A plain list does not show sub-agents.
    let rows: Vec<_> = manifest.rows.iter().filter(|row| row.expected["relation"] != "subagent").collect();
    if sessions.len() != rows.len() {
        found.push(format!("{} sessions listed, {} written", sessions.len(), rows.len()));
    }
    for row in rows {
        let Some(session) = listed.remove(row.id.as_str()) else {
            found.push(format!("{}: not listed", row.id));
            continue;
        };
        for (field, expected) in row.expected.as_object().into_iter().flatten() {
            if field == "tokens" && !usage {
                continue;
            }
            if let Some(got) = disagreement(session, field, expected) {
                found.push(format!("{}: {field}: expected {expected}, got {got}", row.id));
            }
        }
    }
    found.extend(listed.keys().map(|id| format!("{id}: listed, but never written")));
    found
}

/// The differences between a `usage --by session --json` and the tokens of the manifest, one line each.
pub(crate) fn usage_differences(manifest: &Manifest, report: &Value) -> Vec<String> {
    let Some(rows) = report["rows"].as_array() else { return vec!["no `rows` in the answer".to_owned()] };
    let counted: BTreeMap<&str, &Value> =
        rows.iter().filter_map(|row| Some((row["key"].as_str()?, &row["tokens"]))).collect();
    let is_spent = |tokens: &Value| {
        tokens.as_object().is_some_and(|parts| parts.values().any(|part| part.as_u64() > Some(0)))
    };
    let expected = manifest.rows.iter().filter(|row| is_spent(&row.expected["tokens"]));
    let wrong = expected.filter(|row| counted.get(row.id.as_str()) != Some(&&row.expected["tokens"]));
    wrong
        .map(|row| {
            let got = counted.get(row.id.as_str());
            format!("{} {}: expected {}, counted {got:?}", row.adapter, row.id, row.expected["tokens"])
        })
        .collect()
}

/// The session's value if it differs from `expected`.
fn disagreement<'a>(session: &'a Value, field: &str, expected: &Value) -> Option<&'a Value> {
    let (got, agrees) = match field {
        "promptPrefix" => (&session["prompt"], same_prefix(&session["prompt"], expected)),
        "lastMessagePrefix" => (&session["lastMessage"], same_prefix(&session["lastMessage"], expected)),
        "startedAt" => (&session[field], same_time(&session[field], expected)),
        _ => (&session[field], &session[field] == expected),
    };
    (!agrees).then_some(got)
}

fn same_prefix(got: &Value, expected: &Value) -> bool {
    let (Some(got), Some(expected)) = (got.as_str(), expected.as_str()) else { return got == expected };
    folded_prefix(got, expected.chars().count()) == expected
}

/// Whether two times are within two seconds of each other.
fn same_time(got: &Value, expected: &Value) -> bool {
    let at =
        |value: &Value| value.as_str()?.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond);
    matches!((at(got), at(expected)), (Some(got), Some(expected)) if got.abs_diff(expected) <= 2000)
}

/// The differences between a plain `list --json` and the processes that are alive.
pub(crate) fn live_differences(live: &[(String, u32)], listing: &Value) -> Vec<String> {
    let shown = |session: &Value| {
        (session["id"].as_str().unwrap_or("").to_owned(), session["pid"].as_u64(), session["status"].clone())
    };
    let mut got: Vec<_> = listing["sessions"].as_array().into_iter().flatten().map(shown).collect();
    let mut expected: Vec<_> =
        live.iter().map(|(id, pid)| (id.clone(), Some(u64::from(*pid)), Value::from("running"))).collect();
    got.sort_by(|a, b| a.0.cmp(&b.0));
    expected.sort_by(|a, b| a.0.cmp(&b.0));
    if got == expected {
        Vec::new()
    } else {
        vec![format!("live sessions: expected {expected:?}, got {got:?}")]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{differences, live_differences};
    use crate::corpus::{Manifest, Row};

    fn manifest() -> Manifest {
        let expected = json!({"outcome": "completed", "tokens": {"in": 1, "out": 2}, "promptPrefix": "fix it",
                              "startedAt": "2026-11-15T07:00:00.000Z", "name": null});
        let row = Row {
            adapter: "claude-code".to_owned(),
            id: "a".to_owned(),
            bytes: 1,
            updated_ms: 0,
            subagents: 0,
            expected,
        };
        Manifest { seed: 1, now_ms: 0, rows: vec![row] }
    }

    fn session() -> Value {
        json!({"id": "a", "outcome": "completed", "tokens": {"in": 1, "out": 2}, "prompt": "fix\n it all",
               "startedAt": "2026-11-15T07:00:01Z", "name": null})
    }

    #[test]
    fn the_truth_has_no_differences() {
        assert_eq!(differences(&manifest(), &json!({"sessions": [session()]}), true), Vec::<String>::new());
    }

    #[test]
    fn every_lie_is_named() {
        for (field, lie) in [
            ("outcome", json!("died")),
            ("tokens", json!(null)),
            ("prompt", json!("fi")),
            ("startedAt", json!("2026-11-15T07:01:00Z")),
            ("name", json!("")),
        ] {
            let mut session = session();
            session[field] = lie;
            let found = differences(&manifest(), &json!({"sessions": [session]}), true);
            assert_eq!(found.len(), 1, "{field}: {found:?}");
        }
        assert_eq!(differences(&manifest(), &json!({"sessions": [session(), session()]}), true).len(), 2);
        assert_eq!(differences(&manifest(), &json!({"sessions": []}), true).len(), 2);
        assert_eq!(differences(&manifest(), &json!({}), true).len(), 1);
        let mut ghost = session();
        ghost["id"] = json!("b");
        assert_eq!(differences(&manifest(), &json!({"sessions": [session(), ghost]}), true).len(), 2);
    }

    #[test]
    fn tokens_only_count_when_asked_for() {
        let mut session = session();
        session["tokens"] = json!(null);
        assert!(differences(&manifest(), &json!({"sessions": [session]}), false).is_empty());
    }

    #[test]
    fn live_ones_must_be_exactly_these() {
        let live = [("a".to_owned(), 7)];
        let good = json!({"id": "a", "pid": 7, "status": "running"});
        assert!(live_differences(&live, &json!({"sessions": [good]})).is_empty());
        assert_eq!(live_differences(&live, &json!({"sessions": []})).len(), 1);
        assert_eq!(
            live_differences(&live, &json!({"sessions": [{"id": "a", "pid": 8, "status": "running"}]})).len(),
            1
        );
    }
}
