//! What is searched: words that must all stand in one message, or regular expressions. Pure.

use std::ops::Range;
use std::sync::Arc;

use agentctl_model::{Entry, EntryKind};
use regex::{Regex, RegexBuilder};
use serde_json::Value;

use super::sieve::Sieve;

/// How many characters of the line that fits are kept, and of the lines around it.
const LONGEST_LINE: usize = 300;
/// How many characters stand before the first match at most when a line is cut.
const LEAD: usize = 80;
/// No regular expression of a person compiles to more.
const LARGEST_EXPRESSION: usize = 1 << 20;

/// Words or expressions. An entry fits if each of them is in it.
#[derive(Debug, Clone)]
pub struct Pattern {
    parts: Vec<Part>,
    ignores_case: bool,
    /// Made once: making it takes longer than passing over a small file.
    sieve: Arc<Sieve>,
}

#[derive(Debug, Clone)]
enum Part {
    /// Folded, if case is ignored.
    Words(String),
    Expression(Regex),
}

/// Why something cannot be searched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PatternError(String);

/// The line that fits, as it is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shown {
    pub line: String,
    /// Where the matches are, in characters of the line.
    pub matches: Vec<(usize, usize)>,
    pub before: Vec<String>,
    pub after: Vec<String>,
}

impl Pattern {
    /// Smart case: capital letters are told from small ones only if a word has one.
    pub fn new(words: &[String], is_regex: bool, ignores_case: bool) -> Result<Self, PatternError> {
        if words.iter().all(|word| word.trim().is_empty()) {
            return Err(PatternError("there is nothing to search for".to_owned()));
        }
        // A capital letter behind a backslash is a class of characters.
        let is_capital = |word: &String| {
            let mut escaped = false;
            word.chars().any(|c| {
                let counts = c.is_uppercase() && !(is_regex && escaped);
                escaped = c == '\\' && !escaped;
                counts
            })
        };
        let ignores_case = ignores_case || !words.iter().any(is_capital);
        let part = |word: &String| {
            if is_regex {
                let built = RegexBuilder::new(word)
                    .case_insensitive(ignores_case)
                    .multi_line(true)
                    .size_limit(LARGEST_EXPRESSION)
                    .build();
                return built.map(Part::Expression).map_err(|error| PatternError(error.to_string()));
            }
            Ok(Part::Words(if ignores_case { folded(word) } else { word.clone() }))
        };
        let parts: Vec<Part> =
            words.iter().filter(|word| !word.is_empty()).map(part).collect::<Result<_, _>>()?;
        // The texts that an entry must contain, as far as they are known letter by letter.
        let texts = parts.iter().filter_map(|part| match part {
            Part::Words(words) => Some(words.as_str()),
            Part::Expression(_) => None,
        });
        let sieve = Arc::new(Sieve::of(&texts.collect::<Vec<_>>(), ignores_case));
        Ok(Self { parts, ignores_case, sieve })
    }

    pub(super) fn sieve(&self) -> &Sieve {
        &self.sieve
    }

    /// The line of an entry that fits; `None` if the entry does not. The arguments of a tool are also searched as the
    /// texts that they contain.
    pub fn find(&self, entry: &Entry, around: usize) -> Option<Shown> {
        self.find_in(&entry.text, around).or_else(|| {
            let decoded = (entry.kind == EntryKind::ToolCall).then(|| texts_of(&entry.text)).flatten()?;
            self.find_in(&decoded, around)
        })
    }

    fn find_in(&self, text: &str, around: usize) -> Option<Shown> {
        let folded = self.ignores_case.then(|| Folded::of(text));
        let first = |part: &Part| match (part, &folded) {
            (Part::Words(words), Some(folded)) => folded.find(words),
            (Part::Words(words), None) => memchr::memmem::find(text.as_bytes(), words.as_bytes()),
            (Part::Expression(expression), _) => expression.find(text).map(|found| found.start()),
        };
        let firsts: Option<Vec<usize>> = self.parts.iter().map(first).collect();
        Some(self.shown(text, firsts?.first().copied()?, around))
    }

    fn shown(&self, text: &str, at: usize, around: usize) -> Shown {
        let begin = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let end = text[at..].find('\n').map_or(text.len(), |newline| at + newline);
        let whole = &text[begin..end];
        // A long line is shown around its first match.
        let lead = whole[..at - begin].chars().count().saturating_sub(LEAD);
        let skipped = if whole.chars().count() > LONGEST_LINE { lead } else { 0 };
        let line: String = whole.chars().skip(skipped).take(LONGEST_LINE).collect();
        let in_chars = |range: Range<usize>| {
            let start = line[..range.start].chars().count();
            (start, start + line[range].chars().count())
        };
        let mut matches: Vec<(usize, usize)> =
            self.parts.iter().flat_map(|part| self.all(part, &line)).map(in_chars).collect();
        matches.sort_unstable();
        matches.dedup();
        let cut = |line: &str| line.chars().take(LONGEST_LINE).collect::<String>();
        let mut before: Vec<String> = text[..begin].lines().rev().take(around).map(cut).collect();
        before.reverse();
        let after = text[end..].lines().skip(1).take(around).map(cut).collect();
        Shown { line, matches, before, after }
    }

    /// Every match of a part in a line.
    fn all(&self, part: &Part, line: &str) -> Vec<Range<usize>> {
        let words = match part {
            Part::Expression(expression) => {
                return expression.find_iter(line).map(|found| found.range()).collect();
            }
            Part::Words(words) => words,
        };
        if !self.ignores_case {
            return line.match_indices(words.as_str()).map(|(at, found)| at..at + found.len()).collect();
        }
        let folded = Folded::of(line);
        memchr::memmem::find_iter(folded.text.as_bytes(), words.as_bytes())
            .map(|at| folded.origin(at)..folded.origin(at + words.len()))
            .collect()
    }
}

/// A text in which case does not count. Letters of ASCII stay letters of ASCII, and no other letter becomes one.
fn folded(text: &str) -> String {
    text.chars().flat_map(fold).collect()
}

fn fold(letter: char) -> impl Iterator<Item = char> {
    let plain = letter.is_ascii() || letter.to_lowercase().any(|small| small.is_ascii());
    let kept = plain.then(|| letter.to_ascii_lowercase());
    kept.into_iter().chain((!plain).then(|| letter.to_lowercase()).into_iter().flatten())
}

/// A folded text that knows where its letters came from.
struct Folded<'t> {
    original: &'t str,
    text: String,
}

impl<'t> Folded<'t> {
    fn of(original: &'t str) -> Self {
        Self { original, text: folded(original) }
    }

    fn find(&self, words: &str) -> Option<usize> {
        memchr::memmem::find(self.text.as_bytes(), words.as_bytes()).map(|at| self.origin(at))
    }

    /// The place in the original text of a place in the folded one.
    fn origin(&self, folded_at: usize) -> usize {
        let mut passed = 0;
        for (at, letter) in self.original.char_indices() {
            if passed >= folded_at {
                return at;
            }
            passed += fold(letter).map(char::len_utf8).sum::<usize>();
        }
        self.original.len()
    }
}

/// The texts in the arguments of a tool, one per line, as they were meant and not as they are written.
fn texts_of(arguments: &str) -> Option<String> {
    fn collect(value: &Value, arguments: &str, texts: &mut Vec<String>) {
        match value {
            Value::String(text) => texts.push(text.clone()),
            Value::Array(values) => values.iter().for_each(|value| collect(value, arguments, texts)),
            Value::Object(values) => values.values().for_each(|value| collect(value, arguments, texts)),
            // One that was written in another way, such as `1e3`, is found as it was written and in no other way.
            Value::Number(number) => {
                texts.extend(Some(number.to_string()).filter(|number| arguments.contains(number)));
            }
            Value::Bool(_) | Value::Null => {}
        }
    }
    let value: Value = serde_json::from_str(arguments).ok()?;
    let mut texts = Vec::new();
    collect(&value, arguments, &mut texts);
    // Within an escape a character may hide that must not be shown.
    (!texts.is_empty()).then(|| agentctl_model::text::clean(&texts.join("\n")))
}
