//! Replaces every text that no reader of records needs by filler of its length and shape.
//!
//! * What a reader compares with stays: a closed list of words and keys, taken from the readers (`words.txt`,
//!   `keys.txt`), a few phrases, times, ids of agents' records and small numbers.
//! * A string with white space is text: letters become `x`, digits `0`.
//! * Anything else is a path or a name. Each run of letters and digits in it becomes another one, always the same within
//!   one snapshot, and never the same for two. A name that an agent derives from a path keeps the runs, so it still fits.

mod lexer;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use jiff::Timestamp;
use ring::hmac;

/// Strings that are compared as a whole.
static WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| include_str!("../words.txt").lines().collect());
static KEYS: LazyLock<HashSet<&str>> = LazyLock::new(|| include_str!("../keys.txt").lines().collect());
/// The runs of letters and digits in them: names of files and programs are made of these.
static RUNS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    let all = include_str!("../words.txt").lines();
    all.flat_map(|word| word.split(|c: char| !c.is_ascii_alphanumeric()))
        .filter(|run| !run.is_empty())
        .collect()
});

/// What readers look for inside a longer text.
const PHRASES: [&str; 11] = [
    "New session - ",
    "Child session - ",
    "<hook_context>",
    "<session_context>",
    "[Request interrupted by user",
    "This operation was aborted",
    "working in the directory",
    "Workspace Directories:**",
    "Error: ",
    "missing scope",
    "claude bg-",
];

/// Why the sessions of a gateway are not in a snapshot.
pub(crate) const IN_A_SERVER: &str = "its sessions are in a server, which cannot be packed";

/// Why a live answer is not in a snapshot.
pub(crate) const LIVE_ANSWER: &str = "a live answer is in no record, so its status may differ";

/// Why something could not be read: words of ours, of the system and of the database library, without names.
const REASONS: [&str; 18] = [
    IN_A_SERVER,
    LIVE_ANSWER,
    "it is a database that no reader reads",
    "it is compressed and too large",
    "its name is no text",
    "is a directory, not a regular file",
    "is not a regular file",
    "holds no readable record",
    "database disk image is malformed",
    "file is not a database",
    "database is locked",
    "unable to open database file",
    "disk I/O error",
    "No such file or directory (os error 2)",
    "Input/output error (os error 5)",
    "Permission denied (os error 13)",
    "Not a directory (os error 20)",
    "Too many levels of symbolic links (os error 40)",
];

/// A name that is longer than this is no name.
const LONGEST_NAME: usize = 4096;

/// The longest number that stays: a process id.
const LONGEST_NUMBER: usize = 7;

/// Replaces texts consistently. The key is never written down.
pub struct Redactor {
    key: hmac::Key,
    runs: Mutex<Runs>,
}

#[derive(Default)]
struct Runs {
    replaced: BTreeMap<String, String>,
    taken: BTreeSet<String>,
}

impl Redactor {
    /// A redactor with a key that nobody else has.
    pub fn new(key: [u8; 32]) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, &key), runs: Mutex::default() }
    }

    /// The contents of a text file.
    pub fn contents(&self, text: &str) -> String {
        lexer::redact(text, self)
    }

    /// A cell of a database: what a file would hold, or the value of a string.
    pub fn cell(&self, text: &str) -> String {
        if text.starts_with(['{', '[']) { self.contents(text) } else { self.value(text) }
    }

    /// The value of a string.
    pub fn value(&self, value: &str) -> String {
        if WORDS.contains(value) || is_time(value) || is_number(value) {
            return value.to_owned();
        }
        if value.starts_with(['{', '[']) && serde_json::from_str::<serde::de::IgnoredAny>(value).is_ok() {
            return self.contents(value);
        }
        let is_path = value.starts_with('/') || value.starts_with("~/") || value.starts_with("file://");
        let is_text = value.len() > LONGEST_NAME || (!is_path && value.contains(char::is_whitespace));
        if is_text { self.text(value) } else { self.name(value) }
    }

    /// Filler of the same length and shape, around the phrases that are read. A path in it is replaced like one.
    pub(crate) fn text(&self, words: &str) -> String {
        let (mut out, mut rest) = (String::with_capacity(words.len()), words);
        let mut is_begin = true;
        while let Some(first) = rest.chars().next() {
            if let Some(phrase) = PHRASES.iter().find(|phrase| rest.starts_with(**phrase)) {
                out.push_str(phrase);
                rest = &rest[phrase.len()..];
                is_begin = phrase.ends_with(' ');
                continue;
            }
            if is_begin
                && let Some(time) = rest.split(char::is_whitespace).next().filter(|word| is_time(word))
            {
                out.push_str(time);
                rest = &rest[time.len()..];
            } else if is_begin && first == '/' {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len()).min(LONGEST_NAME);
                let end = (0..=end).rev().find(|end| rest.is_char_boundary(*end)).unwrap_or(rest.len());
                out.push_str(&self.name(&rest[..end]));
                rest = &rest[end..];
            } else {
                out.push(letter(first));
                rest = &rest[first.len_utf8()..];
            }
            is_begin = first.is_whitespace();
        }
        out
    }

    /// Why something was not read. A reason that is known stays, and what stands before it is replaced.
    pub(crate) fn reason(&self, words: &str) -> String {
        let known = REASONS.iter().find(|reason| words.ends_with(**reason));
        let about = known.and_then(|known| words.strip_suffix(*known)).unwrap_or(words);
        format!("{}{}", self.value(about), known.copied().unwrap_or_default())
    }

    /// A word of a command line: a switch that is read stays, and its value is replaced.
    pub(crate) fn argument(&self, word: &str) -> String {
        match word.split_once('=') {
            Some((switch, value)) if WORDS.contains(switch) => format!("{switch}={}", self.value(value)),
            _ => self.value(word),
        }
    }

    /// A key of an object.
    pub(crate) fn object_key(&self, key: &str) -> String {
        if KEYS.contains(key) { key.to_owned() } else { self.value(key) }
    }

    /// A path or a name.
    pub fn name(&self, name: &str) -> String {
        let (mut out, mut rest) = (String::with_capacity(name.len()), name);
        while let Some(first) = rest.chars().next() {
            if let Some(id) = uuid_at(rest) {
                out.push_str(id);
                // An agent may shorten it, in the name of a file.
                let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
                runs.replaced.entry(id[..8].to_owned()).or_insert_with(|| id[..8].to_owned());
                rest = &rest[id.len()..];
            } else if let Some(id) = sortable_id_at(rest) {
                out.push_str(id);
                rest = &rest[id.len()..];
            } else if first.is_ascii_alphanumeric() {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
                out.push_str(&self.run(&rest[..end]));
                rest = &rest[end..];
            } else {
                out.push(filler(first));
                rest = &rest[first.len_utf8()..];
            }
        }
        out
    }

    /// A path. One that is no text cannot be named.
    pub fn path(&self, path: &Path) -> Option<PathBuf> {
        path.to_str().map(|path| self.name(path).into())
    }

    fn run<'r>(&self, run: &'r str) -> Cow<'r, str> {
        let is_part_of_a_time = || {
            let digits = run.strip_suffix('Z').unwrap_or(run);
            let mut parts = digits.splitn(2, 'T');
            parts.all(|part| {
                !part.is_empty() && part.len() <= LONGEST_NUMBER && part.bytes().all(|b| b.is_ascii_digit())
            })
        };
        if RUNS.contains(run) || is_part_of_a_time() {
            return run.into();
        }
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = runs.replaced.get(run) {
            return known.clone().into();
        }
        // Two short ones may become the same at first. After many attempts there are no others left of this shape.
        let others = (0..1000_u32).map(|attempt| self.other(run, attempt));
        let is_free = |other: &String| !runs.taken.contains(other) && !RUNS.contains(other.as_str());
        let other = others.into_iter().find(is_free).unwrap_or_else(|| run.chars().map(letter).collect());
        runs.taken.insert(other.clone());
        runs.replaced.insert(run.to_owned(), other.clone());
        other.into()
    }

    /// Another run of the same shape.
    fn other(&self, run: &str, attempt: u32) -> String {
        let is_hex = run.len() >= 8
            && run.bytes().all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase())
            && run.bytes().any(|byte| byte.is_ascii_digit());
        let letters: &[u8] = if is_hex { b"abcdef" } else { b"abcdefghijklmnopqrstuvwxyz" };
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&attempt.to_le_bytes());
        context.update(run.as_bytes());
        let mut block = context.sign();
        let mut noise = block.as_ref().to_vec();
        // A run may be as long as a file, so it is read once, and not for every block.
        while noise.len() < run.len() {
            block = hmac::sign(&self.key, block.as_ref());
            noise.extend_from_slice(block.as_ref());
        }
        let pick = |from: &[u8], noise: u8| char::from(from[usize::from(noise) % from.len()]);
        let replace = |(byte, noise): (u8, u8)| match byte {
            b'0'..=b'9' => pick(b"0123456789", noise),
            b'A'..=b'Z' => pick(letters, noise).to_ascii_uppercase(),
            _ => pick(letters, noise),
        };
        run.bytes().zip(noise).map(replace).collect()
    }
}

/// Whether a reader reads this word.
pub(crate) fn is_known_word(word: &str) -> bool {
    WORDS.contains(word)
}

/// What stands for a character of a text.
fn letter(c: char) -> char {
    match c {
        'a'..='z' => 'x',
        'A'..='Z' => 'X',
        '0'..='9' => '0',
        other => filler(other),
    }
}

/// What stands for a character that is neither a letter nor a digit of ASCII: punctuation stays, and everything beyond
/// ASCII becomes one character of the same length. What already stands for bytes that are no text says nothing.
fn filler(c: char) -> char {
    match c.len_utf8() {
        _ if c == char::REPLACEMENT_CHARACTER => c,
        1 => c,
        2 => 'ø',
        3 => 'あ',
        _ => '𐌰',
    }
}

fn is_time(value: &str) -> bool {
    value.len() >= 10 && value.starts_with(|c: char| c.is_ascii_digit()) && value.parse::<Timestamp>().is_ok()
}

fn is_number(value: &str) -> bool {
    // A time in milliseconds is the longest that is read.
    let is_short = value.len() <= 13;
    is_short
        && value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        && value.parse::<f64>().is_ok()
}

/// The UUID at the beginning.
fn uuid_at(text: &str) -> Option<&str> {
    const LENGTH: usize = 36;
    let id = text.get(..LENGTH)?;
    let is_dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    let fits = id.bytes().enumerate().all(
        |(at, byte)| {
            if is_dash(at) { byte == b'-' } else { byte.is_ascii_hexdigit() }
        },
    );
    let ends = !text[LENGTH..].starts_with(|c: char| c.is_ascii_alphanumeric());
    (fits && ends).then_some(id)
}

/// The id of a session, a message or a part of OpenCode and its relatives at the beginning: a clock in hex, so that
/// they sort by time, and a random part. Records are put in order by it.
fn sortable_id_at(text: &str) -> Option<&str> {
    const CLOCK: usize = 4 + 12;
    const LENGTH: usize = CLOCK + 14;
    let id = text.get(..LENGTH)?;
    let is_kind = ["ses_", "msg_", "prt_"].iter().any(|kind| id.starts_with(kind));
    let is_clock =
        id.bytes().take(CLOCK).skip(4).all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    let is_random = id.bytes().skip(CLOCK).all(|byte| byte.is_ascii_alphanumeric());
    let ends = !text[LENGTH..].starts_with(|c: char| c.is_ascii_alphanumeric());
    (is_kind && is_clock && is_random && ends).then_some(id)
}

#[cfg(test)]
mod tests {
    use agentctl_testkit::costs_what_its_size_says;

    use super::*;

    fn redactor() -> Redactor {
        Redactor::new([7; 32])
    }

    #[test]
    fn text_becomes_filler_of_its_shape_and_what_is_read_stays() {
        let redactor = redactor();
        assert_eq!(redactor.value("Fix the Auth bug, 42!"), "Xxx xxx Xxxx xxx, 00!");
        assert_eq!(redactor.value("größer ist 好"), "xxøøxx xxx あ");
        assert_eq!(
            redactor.value("[Request interrupted by user for tool use]"),
            "[Request interrupted by user xxx xxxx xxx]"
        );
        for kept in [
            "assistant",
            "end_turn",
            "2026-11-15T07:00:51.123Z",
            "22889",
            "22222222-2222-4222-8222-222222222222",
        ] {
            assert_eq!(redactor.value(kept), kept);
        }
    }

    #[test]
    fn names_are_replaced_consistently_and_stay_different() {
        let redactor = redactor();
        let folder = redactor.value("/srv/acme/w/über dir");
        assert!(
            !folder.contains("acme") && folder.starts_with('/') && folder.matches('/').count() == 4,
            "{folder}"
        );
        let slug = |path: &str| {
            path.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect::<String>()
        };
        assert_eq!(
            redactor.name(&slug("/srv/acme/w/über dir")),
            slug(&folder),
            "a name that was derived from a path"
        );
        let letters: BTreeSet<String> = ('a'..='j').map(|c| redactor.name(&format!("/{c}"))).collect();
        assert_eq!(letters.len(), 10);
        let hex = redactor.name("0b6f1c7e");
        assert!(hex != "0b6f1c7e" && hex.bytes().all(|byte| byte.is_ascii_hexdigit()), "{hex}");
        assert_eq!(
            redactor.name("1e25c8ed-5bc7-4532-b273-9068f1554702 1e25c8ed"),
            "1e25c8ed-5bc7-4532-b273-9068f1554702 1e25c8ed"
        );
        let file = "rollout-2026-11-15T07-00-51-01a1de02-3f69-7400-ad71-c7bf8fe9c780.jsonl";
        assert_eq!(redactor.name(file), file);
        let record = "/storage/message/ses_e21eb765dffddj5A05nT7unfJR/msg_1de148a3b002e5CWA4VXT6K7xj.json";
        assert_eq!(redactor.name(record), record);
        for other in [
            "ses_e21eb765dffddj5A05nT7unfJRx",
            "xses_e21eb765dffddj5A05nT7unfJR",
            "ses_summerholidaysXT6K7xjABC",
        ] {
            assert_ne!(redactor.name(other), other);
        }
    }

    /// Who reads the run again for every few letters takes hours for it.
    #[test]
    fn a_word_as_long_as_a_file_is_replaced_at_once() {
        let word = |count: usize| "secret7".repeat(count);
        let replaced = |word: &String| redactor().contents(word);
        let other = replaced(&word(1000));
        assert_eq!(other.len(), 7000);
        assert!(!other.contains("secret"));
        costs_what_its_size_says(1 << 12, word, replaced);
    }

    #[test]
    fn json_inside_a_string_is_read_as_json() {
        let redactor = redactor();
        let inner = redactor.value(r#"{"command":"rm -rf secret","timeout":10}"#);
        assert_eq!(inner, r#"{"command":"xx -xx xxxxxx","timeout":10}"#);
    }
}
