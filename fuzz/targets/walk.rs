//! The quick walk over a line of JSON accepts nothing that `serde_json` refuses, and finds the same values.
#![no_main]

use agentctl_adapters::transcript::jsonl::walk::walk_line;
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};

fuzz_target!(|line: &[u8]| {
    let mut found = Vec::new();
    let walked = walk_line(line, |walk, key| {
        found.push((key, walk.value()?));
        Some(())
    });
    if walked.is_none() {
        return;
    }
    // Numbers out of range and halves of surrogates are for the slower parser to judge, which reads bytes that are no text as
    // replacement characters.
    let Ok(text) = std::str::from_utf8(line) else { return };
    let Ok(whole) = serde_json::from_str::<Map<String, Value>>(text) else {
        let judged = serde_json::from_str::<&serde_json::value::RawValue>(text);
        assert!(judged.is_ok(), "the walk accepted what serde refuses: {text}");
        return;
    };
    for (key, written) in &found {
        let key = std::str::from_utf8(key).unwrap();
        let value: Value = serde_json::from_slice(written).unwrap();
        // Of a key that is there twice, the last value counts.
        let last = found.iter().rfind(|(other, _)| *other == key.as_bytes()).unwrap().1;
        assert!(last != *written || whole.get(key) == Some(&value), "{key}: {value}");
    }
});
