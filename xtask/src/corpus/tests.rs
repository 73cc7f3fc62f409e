use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::sizes::MeanScale;
use super::{Manifest, Options, shares, write};

fn options(home: &Path, sessions: usize, seed: u64) -> Options {
    Options {
        home: home.to_owned(),
        sessions,
        seed,
        scale: MeanScale::Factor(0.05),
        now_ms: 1_794_725_463_000,
        agents: vec!["claude".to_owned()],
    }
}

/// Every file below `home` with its bytes and modification time.
fn tree(home: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![home.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let inside = path.strip_prefix(home).unwrap().to_owned();
                // The modification time of the manifest is not part of the corpus.
                let modified = if inside == Path::new("manifest.json") {
                    std::time::SystemTime::UNIX_EPOCH
                } else {
                    path.metadata().unwrap().modified().unwrap()
                };
                found.insert(inside, (std::fs::read(&path).unwrap(), modified));
            }
        }
    }
    found
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let (one, two, other) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(&options(one.path(), 30, 1)).unwrap();
    write(&options(two.path(), 30, 1)).unwrap();
    write(&options(other.path(), 30, 2)).unwrap();
    assert!(tree(one.path()) == tree(two.path()), "two corpora of one seed differ");
    assert!(tree(one.path()) != tree(other.path()), "two seeds gave one corpus");
}

#[test]
fn the_manifest_tells_what_the_transcripts_hold() {
    let home = tempfile::tempdir().unwrap();
    let written = write(&options(home.path(), 120, 5)).unwrap();
    let manifest = Manifest::load(&home.path().join("manifest.json")).unwrap();
    assert_eq!(manifest, written);
    let files = tree(home.path());
    let mut outcomes = BTreeSet::new();
    let mut longest = 0;
    for row in &manifest.rows {
        let name = format!("{}.jsonl", row.id);
        let (_, (bytes, _)) = files.iter().find(|(path, _)| path.ends_with(&name)).unwrap();
        assert_eq!(bytes.len() as u64, row.bytes);
        let text = std::str::from_utf8(bytes).unwrap();
        let torn = !text.ends_with('\n');
        let lines: Vec<&str> = text.lines().collect();
        let whole = if torn { &lines[..lines.len() - 1] } else { &lines[..] };
        longest = whole.iter().map(|line| line.len()).max().unwrap_or(0).max(longest);
        let records: Vec<Value> = whole.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        // Each reply counts once, however many blocks it has.
        let replies: BTreeMap<&str, u64> = records
            .iter()
            .filter(|record| record["type"] == "assistant")
            .map(|record| {
                let message = &record["message"];
                (message["id"].as_str().unwrap(), message["usage"]["output_tokens"].as_u64().unwrap())
            })
            .collect();
        assert_eq!(replies.values().sum::<u64>(), row.expected["tokens"]["out"].as_u64().unwrap(), "{name}");
        assert!(records.iter().filter(|r| r["cwd"].is_string()).all(|r| r["cwd"] == row.expected["cwd"]));
        assert!(records.iter().any(|r| r["type"] == "attachment"));
        assert!(records.iter().any(|r| r["type"] == "api-request-shape"));
        outcomes.insert(row.expected["outcome"].as_str().unwrap().to_owned());
    }
    assert_eq!(outcomes.into_iter().collect::<Vec<_>>(), ["completed", "died", "failed", "interrupted"]);
    assert!(longest > 2_000_000, "the longest line has {longest} bytes");
    assert!(files.keys().any(|path| path.components().any(|part| part.as_os_str() == "subagents")));
}

#[test]
fn pi_sessions_are_told_by_their_manifest_too() {
    let home = tempfile::tempdir().unwrap();
    let options = Options { agents: vec!["pi".to_owned()], ..options(home.path(), 120, 5) };
    let manifest = write(&options).unwrap();
    let files = tree(home.path());
    let mut outcomes = BTreeSet::new();
    for row in &manifest.rows {
        let name = format!("_{}.jsonl", row.id);
        let of_row = |path: &Path| path.to_str().is_some_and(|path| path.ends_with(&name));
        let (_, (bytes, _)) = files.iter().find(|(path, _)| of_row(path)).unwrap();
        assert_eq!(bytes.len() as u64, row.bytes);
        let text = std::str::from_utf8(bytes).unwrap();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let records: Vec<Value> = whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(
            (&records[0]["type"], &records[0]["cwd"]),
            (&Value::from("session"), &row.expected["cwd"])
        );
        let outputs = records.iter().filter_map(|record| record["message"]["usage"]["output"].as_u64());
        assert_eq!(outputs.sum::<u64>(), row.expected["tokens"]["out"].as_u64().unwrap(), "{name}");
        let ids: BTreeSet<&str> = records.iter().filter_map(|record| record["id"].as_str()).collect();
        let parents = records.iter().filter_map(|record| record["parentId"].as_str());
        assert!(parents.into_iter().all(|parent| ids.contains(parent)), "a record has no parent");
        outcomes.insert(row.expected["outcome"].as_str().unwrap().to_owned());
    }
    assert_eq!(outcomes.into_iter().collect::<Vec<_>>(), ["completed", "died", "failed", "interrupted"]);
}

#[test]
fn the_agents_in_node_write_records_that_parse() {
    let home = tempfile::tempdir().unwrap();
    let mut options = options(home.path(), 90, 5);
    options.agents = ["copilot", "qwen", "gemini"].map(str::to_owned).to_vec();
    let manifest = write(&options).unwrap();
    let files = tree(home.path());
    for row in &manifest.rows {
        let begins = row.id[..8].to_owned();
        let (_, (bytes, _)) = files
            .iter()
            .find(|(path, _)| {
                path.extension().is_some_and(|kind| kind == "jsonl")
                    && path.to_str().unwrap().contains(&begins)
            })
            .unwrap();
        assert_eq!(bytes.len() as u64, row.bytes);
        let text = std::str::from_utf8(bytes).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let whole = if text.ends_with('\n') { &lines[..] } else { &lines[..lines.len() - 1] };
        assert!(whole.iter().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{}", row.id);
        assert!(text.contains(row.id.as_str()));
    }
    for adapter in ["copilot", "qwen", "gemini"] {
        assert_eq!(manifest.rows.iter().filter(|row| row.adapter == adapter).count(), 30);
    }
}

#[test]
fn an_existing_corpus_is_not_overwritten() {
    let home = tempfile::tempdir().unwrap();
    write(&options(home.path(), 3, 1)).unwrap();
    let error = write(&options(home.path(), 3, 1)).unwrap_err().to_string();
    assert!(error.contains("already holds a corpus"), "{error}");
}

#[test]
fn an_unknown_agent_is_named() {
    let home = tempfile::tempdir().unwrap();
    let mut options = options(home.path(), 3, 1);
    options.agents = vec!["clippy".to_owned()];
    let error = write(&options).unwrap_err().to_string();
    assert!(error.contains("clippy") && error.contains("claude"), "{error}");
}

#[test]
fn shares_add_up() {
    assert_eq!(shares(10, &[50]), [10]);
    assert_eq!(shares(10, &[50, 25, 15, 10]), [5, 2, 1, 2]);
    assert_eq!(shares(0, &[1, 1]), [0, 0]);
    assert!(shares(5, &[]).is_empty());
}

#[test]
fn codex_rollouts_hold_what_the_manifest_says() {
    let home = tempfile::tempdir().unwrap();
    let agents = vec!["codex".to_owned()];
    let manifest = write(&Options { agents, ..options(home.path(), 120, 5) }).unwrap();
    let files = tree(home.path());
    let mut outcomes = BTreeSet::new();
    for row in &manifest.rows {
        let name = format!("-{}.jsonl", row.id);
        let mut own = files.iter().filter(|(path, _)| path.to_string_lossy().ends_with(&name));
        let (_, (bytes, _)) = own.next().unwrap();
        assert!(own.next().is_none(), "one file a session");
        assert_eq!(bytes.len() as u64, row.bytes);
        let text = std::str::from_utf8(bytes).unwrap();
        let whole = text.rsplit_once('\n').unwrap().0;
        let records: Vec<Value> = whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(records[0]["payload"]["id"], row.id.as_str());
        let counters = records.iter().rfind(|record| record["type"] == "token_usage_record").unwrap();
        let total = &counters["payload"]["thread_token_usage"];
        assert_eq!(total["output_tokens"], row.expected["tokens"]["out"]);
        outcomes.insert(row.expected["outcome"].as_str().unwrap().to_owned());
    }
    assert_eq!(outcomes.len(), 4, "{outcomes:?}");
}
