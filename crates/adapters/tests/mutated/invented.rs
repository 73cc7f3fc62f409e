//! What is told of sessions and stands nowhere in the bytes that were read. The fuzzer asks it too (fuzz/README.md).

use agentctl_model::Found;
use agentctl_model::text::clean_cut;

/// The sum of every number in the bytes: no correct total is larger.
fn largest_total(bytes: &[u8]) -> u64 {
    let numbers = bytes.split(|byte| !byte.is_ascii_digit());
    let values = numbers.filter_map(|digits| std::str::from_utf8(digits).ok()?.parse::<u64>().ok());
    values.fold(0, u64::saturating_add)
}

/// The first fact that was invented. `contents` are all bytes that were read, and all paths.
pub(crate) fn invented(found: &[Found], contents: &[u8]) -> Option<String> {
    let contains = |text: &str| memchr::memmem::find(contents, text.as_bytes()).is_some();
    // Either literally or in JSON spelling.
    let is_written = |text: &str| {
        let quoted = serde_json::to_string(text).unwrap_or_default();
        contains(text) || contains(quoted.trim_matches('"'))
    };
    let shown = clean_cut(&String::from_utf8_lossy(contents), None);
    let folded = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    for session in found {
        if !is_written(&session.id) {
            return Some(format!("id {:?}", session.id));
        }
        if let Some(cwd) = &session.facts.cwd {
            // Bytes that are not text, and escapes, are read as other characters, control characters are not
            // shown, and YAML joins the lines of a value.
            let plain = cwd.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
            let written = is_written(cwd) || shown.contains(cwd) || folded.contains(cwd) || contains("\\u");
            if plain && !written {
                return Some(format!("cwd {cwd}"));
            }
        }
        if let Some(tokens) = session.facts.tokens {
            let largest = largest_total(contents);
            let parts = [tokens.input, tokens.output, tokens.cache_read, tokens.cache_write];
            if parts.iter().any(|part| part.unwrap_or(0) > largest) {
                return Some(format!("{tokens:?}"));
            }
        }
    }
    None
}
