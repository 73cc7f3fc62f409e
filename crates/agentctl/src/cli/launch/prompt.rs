//! The prompt of an agent, with the files and the issue that are attached to it.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use agentctl_fleet::Caller;
use agentctl_fleet::act::launch::{Attachments, Issue, MAX_FILE, check_words, text};
use agentctl_model::ErrorKind;

use crate::failure::Failure;
use crate::surroundings::Surroundings;

/// A larger prompt is a mistake: no agent accepts it.
const MAX_PROMPT: u64 = 64 << 20;

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Prompt {
    /// What to say to the agent; - reads it from standard input
    #[arg(short = 'p', long = "prompt", value_name = "TEXT", allow_hyphen_values = true)]
    text: Option<String>,
    /// The same as -p
    #[arg(value_name = "PROMPT", conflicts_with = "text")]
    word: Option<String>,
    /// A specification to work by, appended to the prompt
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    spec: Option<PathBuf>,
    /// A file to append to the prompt, repeatable
    #[arg(long = "file", value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// The largest --file or --spec, as in 500k or 2m
    #[arg(long, value_name = "SIZE", default_value = "256k", value_parser = size)]
    max_file_size: u64,
    /// Append this issue to the prompt, fetched with the `gh` CLI
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

    pub(super) fn issue(&self) -> (Option<u64>, Option<&str>) {
        (self.issue, self.repo.as_deref())
    }

    pub(super) fn max_file_size(&self) -> u64 {
        self.max_file_size
    }

    /// What was typed or listed, without what another machine attaches to it.
    pub(super) fn alone(&self, listed: Option<&str>) -> Result<Option<String>, Failure> {
        let typed = self.text.as_deref().or(self.word.as_deref());
        let prompt = match typed.or(listed) {
            // In a file a dash has no special meaning.
            Some("-") if typed.is_some() => Some(from_stdin()?),
            other => other.map(str::to_owned),
        };
        if prompt.is_none() && self.spec.is_none() && self.issue.is_none() {
            return Err(Failure::new(ErrorKind::Usage, "there is no prompt")
                .hint("give one with -p, or -p - for standard input"));
        }
        Ok(prompt)
    }

    /// The whole prompt as one text. `listed` is a prompt from a file, which counts when none was typed.
    pub(super) fn words(
        &self,
        listed: Option<&str>,
        caller: &Caller,
        surroundings: &Surroundings,
    ) -> Result<String, Failure> {
        let prompt = self.alone(listed)?;
        let attachments = Attachments {
            issue: self.issue.map(|number| Issue { number, repo: self.repo.clone() }),
            spec: self.spec.as_ref().map(|spec| surroundings.meant(spec)),
            files: self.files.iter().map(|file| surroundings.meant(file)).collect(),
            most: if self.max_file_size == 0 { MAX_FILE } else { self.max_file_size },
        };
        let cwd = surroundings.cwd.as_deref().unwrap_or(Path::new("/"));
        Ok(attachments.behind(prompt, caller, cwd)?)
    }
}

/// Checks that the text can be sent at all.
pub(crate) fn checked(words: String) -> Result<String, Failure> {
    check_words(&words).map_err(|why| Failure::new(ErrorKind::Usage, why))?;
    Ok(words)
}

pub(crate) fn from_stdin() -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let failed =
        |error: io::Error| Failure::new(ErrorKind::Failed, format!("cannot read standard input: {error}"));
    io::stdin().lock().take(MAX_PROMPT + 1).read_to_end(&mut bytes).map_err(failed)?;
    Ok(text(bytes, "standard input", MAX_PROMPT)?)
}

/// The text of a file, which must be valid text.
pub(crate) fn text_of(path: &Path, limit: u64) -> Result<String, Failure> {
    Ok(agentctl_fleet::act::launch::text_of(path, limit)?)
}

/// Parses "500k", "2m", or a number of bytes.
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
    }
}
