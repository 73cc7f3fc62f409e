//! What is said to the agent: the prompt, and the files and the issue that go with it.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use agentctl_fleet::launch::check_words;

use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::surroundings::Surroundings;

const MAX_FILE: u64 = 256 << 10;

/// A prompt larger than this is a mistake: no agent takes it.
const MAX_PROMPT: u64 = 64 << 20;

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Prompt {
    /// What to say to the agent; - reads it from standard input
    #[arg(short = 'p', long = "prompt", value_name = "TEXT", allow_hyphen_values = true)]
    text: Option<String>,
    /// A specification to work by, put behind the prompt
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    spec: Option<PathBuf>,
    /// A file to put behind the prompt, repeatable
    #[arg(long = "file", value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// The largest --file or --spec, as in 500k or 2m
    #[arg(long, value_name = "SIZE", default_value = "256k", value_parser = size)]
    max_file_size: u64,
    /// Put this issue behind the prompt, fetched with the `gh` CLI
    #[arg(long, value_name = "N")]
    issue: Option<u64>,
    /// The repository of --issue
    #[arg(long, value_name = "OWNER/NAME", requires = "issue")]
    repo: Option<String>,
}

impl Prompt {
    pub(super) fn spec(&self) -> Option<&PathBuf> {
        self.spec.as_ref()
    }

    pub(super) fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Everything that is said, in one text. `listed` is a prompt from elsewhere, for when none was typed.
    pub(super) fn words(&self, listed: Option<&str>, surroundings: &Surroundings) -> Result<String, Failure> {
        let mut words = match self.text.as_deref().or(listed) {
            // In a file a dash is only a dash.
            Some("-") if self.text.is_some() => from_stdin()?,
            Some(text) => text.to_owned(),
            None if self.spec.is_none() && self.issue.is_none() => {
                return Err(Failure::new(Exit::Usage, "there is no prompt")
                    .hint("give one with -p, or -p - for standard input"));
            }
            None => String::new(),
        };
        if self.text.is_some() || listed.is_some() {
            words = checked(words)?;
        }
        let limit = if self.max_file_size == 0 { MAX_FILE } else { self.max_file_size };
        if let Some(issue) = self.issue {
            append(
                &mut words,
                "issue",
                &format!("#{issue}"),
                &super::super::issue::fetch(issue, self.repo.as_deref(), surroundings)?,
            );
        }
        if let Some(spec) = &self.spec {
            let path = surroundings.meant(spec);
            append(&mut words, "spec", &path.display().to_string(), &text_of(&path, limit)?);
        }
        for file in &self.files {
            let path = surroundings.meant(file);
            append(&mut words, "file", &path.display().to_string(), &text_of(&path, limit)?);
        }
        checked(words)
    }
}

fn append(words: &mut String, kind: &str, name: &str, text: &str) {
    if !words.is_empty() {
        words.push_str("\n\n");
    }
    let end = if text.ends_with('\n') { "" } else { "\n" };
    // Writing into a string cannot fail.
    let _ = write!(words, "<{kind} name=\"{name}\">\n{text}{end}</{kind}>");
}

/// Words that can be said at all.
pub(crate) fn checked(words: String) -> Result<String, Failure> {
    check_words(&words).map_err(|why| Failure::new(Exit::Usage, why))?;
    Ok(words)
}

pub(crate) fn from_stdin() -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let failed =
        |error: io::Error| Failure::new(Exit::Failed, format!("cannot read standard input: {error}"));
    io::stdin().lock().take(MAX_PROMPT + 1).read_to_end(&mut bytes).map_err(failed)?;
    text(bytes, "standard input", MAX_PROMPT)
}

/// The text of a file, which must be one.
pub(crate) fn text_of(path: &Path, limit: u64) -> Result<String, Failure> {
    let shown = path.display().to_string();
    let failed = |error: io::Error| Failure::new(Exit::Usage, format!("cannot read {shown}: {error}"));
    let found = std::fs::metadata(path).map_err(failed)?;
    if !found.is_file() {
        return Err(Failure::new(Exit::Usage, format!("{shown} is not a file")));
    }
    let mut bytes = Vec::new();
    File::open(path).map_err(failed)?.take(limit + 1).read_to_end(&mut bytes).map_err(failed)?;
    text(bytes, &shown, limit)
}

fn text(bytes: Vec<u8>, shown: &str, limit: u64) -> Result<String, Failure> {
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit {
        let message = format!("{shown} has more than {limit} bytes");
        return Err(Failure::new(Exit::Usage, message)
            .hint("--max-file-size allows more, or name the file in the prompt"));
    }
    let refuse = |why: &str| Failure::new(Exit::Usage, format!("{shown} is no text: {why}"));
    if let Some(at) = bytes.iter().position(|byte| *byte == 0) {
        return Err(refuse(&format!("it holds a NUL at byte {at}")));
    }
    String::from_utf8(bytes).map_err(|error| {
        refuse(&format!("it is not UTF-8 from byte {} on", error.utf8_error().valid_up_to()))
    })
}

/// "500k", "2m", or bytes.
fn size(text: &str) -> Result<u64, String> {
    let refuse = || format!("`{text}` is not a size; write it like 65536, 500k or 2m");
    let lower = text.trim().to_ascii_lowercase();
    let (number, unit) = match lower.strip_suffix(['k', 'm']) {
        Some(number) if lower.ends_with('k') => (number, 1 << 10),
        Some(number) => (number, 1 << 20),
        None => (lower.as_str(), 1),
    };
    let bytes: u64 = number.parse().map_err(|_| refuse())?;
    bytes.checked_mul(unit).filter(|bytes| *bytes > 0).ok_or_else(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_words_that_are_none_are_refused() {
        assert_eq!((size("500k"), size("2M"), size("7")), (Ok(500 << 10), Ok(2 << 20), Ok(7)));
        assert!(size("0").is_err() && size("").is_err() && size("1g").is_err());
        assert!(checked(" \n".to_owned()).is_err());
        assert!(text(vec![b'a', 0xff], "x", 10).is_err());
        assert!(text(vec![b'a'; 11], "x", 10).is_err());
    }

    #[test]
    fn what_goes_with_a_prompt_stands_behind_it() {
        let mut words = "Do it.".to_owned();
        append(&mut words, "file", "/a", "one\n");
        append(&mut words, "file", "/b", "two");
        assert_eq!(words, "Do it.\n\n<file name=\"/a\">\none\n</file>\n\n<file name=\"/b\">\ntwo\n</file>");
    }
}
