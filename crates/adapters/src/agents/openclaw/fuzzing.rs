//! The gateway's answers and the files of its settings, for the fuzzer alone (fuzz/README.md).

use agentctl_model::Environ;
use serde_json::Value;

use super::client::rows::{Agents, Approval, History, Jobs, Page};
use super::client::weight;
use super::conversation::fold::Fold;
use super::conversation::history;
use super::settings::{address, config, dotenv, json5};

/// The payload of an answer, as each of those that are asked for.
pub fn answer(json: &[u8]) {
    // Whatever is heavier is refused before it is parsed.
    if weight::values(json) > weight::MOST_VALUES {
        return;
    }
    if let Ok(page) = serde_json::from_slice::<Page>(json) {
        for row in &page.sessions {
            let _ = (row.is_automation(), row.is_idle(), row.job_id(), row.runtime());
        }
    }
    if let Ok(history) = serde_json::from_slice::<History>(json) {
        let _ = history::entries(&history, true);
        let mut fold = Fold::default();
        fold.add(&history);
        fold.add(&history);
        let _ = fold.whole();
    }
    let _ = serde_json::from_slice::<Jobs>(json);
    let _ = serde_json::from_slice::<Vec<Approval>>(json);
    let _ = serde_json::from_slice::<Agents>(json);
}

/// Everything that is JSON is JSON5, and means the same.
pub fn settings(text: &str) {
    let read = json5::parse(text);
    if let Ok(json) = serde_json::from_str::<Value>(text) {
        // They differ in how deep a value may be.
        assert!(
            read.as_ref().is_ok_and(|read| *read == json) || text.matches(['[', '{']).count() > 100,
            "{text:?}"
        );
    }
    let settings = read.unwrap_or_default();
    let environ: Environ = dotenv::parse(text).into_iter().collect();
    let _ = config::substituted(text, &settings, &environ);
    let _ = address::Address::parse(text);
}
