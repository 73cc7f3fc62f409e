//! `words.txt` and `keys.txt` name everything that a redacted snapshot leaves readable: the words that the readers of
//! agents' records compare with, and the keys that they know. They are taken from those readers, so that no word is
//! missing and none is there without a reason. `AGENTCTL_UPDATE_DOCS=1` writes them anew.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests read the sources")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The readers, seen from this crate.
const READERS: [&str; 3] = ["../adapters/src", "../fleet/src/keep/launches", "../model/src"];

#[derive(Default)]
struct Known {
    words: BTreeSet<String>,
    keys: BTreeSet<String>,
}

#[test]
fn what_stays_readable_is_what_a_reader_reads() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut known = Known::default();
    for reader in READERS {
        for path in sources(&here.join(reader)) {
            read(&fs::read_to_string(path).unwrap(), &mut known);
        }
    }
    for (file, now) in [("src/words.txt", known.words), ("src/keys.txt", known.keys)] {
        let text: String = now.iter().flat_map(|word| [word.as_str(), "\n"]).collect();
        let path = here.join(file);
        if std::env::var_os("AGENTCTL_UPDATE_DOCS").is_some() {
            fs::write(path, text).unwrap();
        } else {
            let written = fs::read_to_string(path).unwrap_or_default();
            assert!(
                written == text,
                "{file} is not what the readers read; AGENTCTL_UPDATE_DOCS=1 writes it anew"
            );
        }
    }
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = entry.file_name().unwrap().to_string_lossy().into_owned();
        if entry.is_dir() && name != "tests" {
            found.extend(sources(&entry));
        } else if entry.extension().is_some_and(|extension| extension == "rs")
            && !name.ends_with("tests.rs")
            // What only the fuzzer reaches reads nothing.
            && name != "fuzzing.rs"
        {
            found.push(entry);
        }
    }
    found
}

fn read(text: &str, known: &mut Known) {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let text: String = lines.flat_map(|line| [line, "\n"]).collect();
    let (literals, rest) = literals(&text);
    for literal in literals.iter().filter(|literal| is_word(literal)) {
        known.words.insert(literal.clone());
        known.keys.insert(literal.clone());
    }
    // Some readers look for pieces of JSON: `"isSidechain":false,"attachment":`.
    for quoted in literals.iter().flat_map(|literal| literal.split('"').skip(1).step_by(2)) {
        let is_plain = quoted.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
        if is_plain && is_word(quoted) {
            known.words.insert(quoted.to_owned());
            known.keys.insert(quoted.to_owned());
        }
    }
    if !text.contains("Deserialize") {
        return;
    }
    let names = rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|name| is_word(name));
    // A constant is no name in a record.
    for name in names.filter(|name| name.bytes().any(|byte| byte.is_ascii_lowercase())) {
        let forms = forms(name);
        if name.starts_with(|c: char| c.is_ascii_uppercase()) {
            known.words.extend(forms.iter().cloned());
        }
        known.keys.extend(forms);
    }
}

fn is_word(literal: &str) -> bool {
    let is_plain = literal.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'{' && byte != b'}');
    is_plain && literal.len() <= 64 && literal.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// The ways in which serde writes a name.
fn forms(name: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for part in name.split('_').filter(|part| !part.is_empty()) {
        for c in part.chars() {
            if c.is_ascii_uppercase() || parts.is_empty() {
                parts.push(String::new());
            }
            parts.last_mut().unwrap().push(c.to_ascii_lowercase());
        }
        parts.push(String::new());
    }
    parts.retain(|part| !part.is_empty());
    let upper = |part: &String| format!("{}{}", part[..1].to_ascii_uppercase(), &part[1..]);
    let pascal: String = parts.iter().map(upper).collect();
    let camel =
        parts.first().cloned().unwrap_or_default() + &parts.iter().skip(1).map(upper).collect::<String>();
    vec![name.to_owned(), parts.join("_"), parts.join("-"), parts.concat(), pascal, camel]
}

/// The string literals of a source, and the source without them.
fn literals(text: &str) -> (Vec<String>, String) {
    let (mut found, mut rest) = (Vec::new(), String::new());
    let chars: Vec<char> = text.chars().collect();
    let mut at = 0;
    while at < chars.len() {
        match chars[at] {
            // A character, not a lifetime.
            '\'' if chars.get(at + 1) == Some(&'\\') => at += 4,
            '\'' if chars.get(at + 2) == Some(&'\'') => at += 3,
            'r' if matches!(chars.get(at + 1), Some('"' | '#')) && raw_marks(&chars[at + 1..]).is_some() => {
                let marks = raw_marks(&chars[at + 1..]).unwrap();
                let end: String = format!("\"{}", "#".repeat(marks));
                let body: String = chars[at + 2 + marks..].iter().collect();
                let length = body.find(&end).unwrap_or(body.len());
                found.push(body[..length].to_owned());
                at += 2 + marks + body[..length].chars().count() + end.len();
            }
            '"' => {
                let mut literal = String::new();
                at += 1;
                while at < chars.len() && chars[at] != '"' {
                    if chars[at] == '\\' {
                        at += 1;
                    }
                    literal.push(chars[at]);
                    at += 1;
                }
                found.push(literal);
                at += 1;
            }
            other => {
                rest.push(other);
                at += 1;
            }
        }
    }
    (found, rest)
}

fn raw_marks(after: &[char]) -> Option<usize> {
    let marks = after.iter().take_while(|c| **c == '#').count();
    (after.get(marks) == Some(&'"')).then_some(marks)
}
