//! What is attached to a prompt: an issue, a specification, files. Each is appended to the prompt under its name.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use agentctl_model::Error;

use super::issue::{self, Issue};
use super::request::check_words;
use crate::Caller;

/// The default limit for the size of an attached file.
pub const MAX_FILE: u64 = 256 << 10;

#[derive(Debug, Clone)]
pub struct Attachments {
    pub issue: Option<Issue>,
    pub spec: Option<PathBuf>,
    pub files: Vec<PathBuf>,
    /// The size limit of each, in bytes.
    pub most: u64,
}

impl Default for Attachments {
    fn default() -> Self {
        Self { issue: None, spec: None, files: Vec::new(), most: MAX_FILE }
    }
}

impl Attachments {
    /// Returns the prompt and all attachments as one text. An issue or a specification alone is enough; `cwd` is where
    /// the issue's repository is looked up.
    pub fn behind(&self, prompt: Option<String>, caller: &Caller, cwd: &Path) -> Result<String, Error> {
        let mut words = match prompt {
            Some(prompt) => checked(prompt)?,
            None if self.spec.is_some() || self.issue.is_some() => String::new(),
            None => return Err(Error::usage("there is no prompt")),
        };
        if let Some(issue) = &self.issue {
            append(&mut words, "issue", &format!("#{}", issue.number), &issue::fetch(issue, caller, cwd)?);
        }
        let spec = self.spec.iter().map(|path| ("spec", path));
        for (kind, path) in spec.chain(self.files.iter().map(|path| ("file", path))) {
            append(&mut words, kind, &path.display().to_string(), &text_of(path, self.most)?);
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

/// Returns the prompt if an agent can be given it.
fn checked(words: String) -> Result<String, Error> {
    check_words(&words).map_err(Error::usage)?;
    Ok(words)
}

/// Returns the text of a file, which must be UTF-8 text.
pub fn text_of(path: &Path, most: u64) -> Result<String, Error> {
    let shown = path.display().to_string();
    let failed = |error: io::Error| Error::usage(format!("cannot read {shown}: {error}"));
    // Reading one byte more than allowed shows that the file is too large.
    let bytes = match agentctl_files::read_beginning(path, most.saturating_add(1)) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            return Err(Error::usage(format!("{shown} is not a file")));
        }
        read => read.map_err(failed)?,
    };
    text(bytes, &shown, most)
}

/// Converts bytes to text of at most this size.
pub fn text(bytes: Vec<u8>, shown: &str, most: u64) -> Result<String, Error> {
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > most {
        return Err(Error::usage(format!("{shown} has more than {most} bytes"))
            .hint("--max-file-size allows more, or name the file in the prompt"));
    }
    let refuse = |why: &str| Error::usage(format!("{shown} is no text: {why}"));
    if let Some(at) = bytes.iter().position(|byte| *byte == 0) {
        return Err(refuse(&format!("it holds a NUL at byte {at}")));
    }
    String::from_utf8(bytes).map_err(|error| {
        refuse(&format!("it is not UTF-8 from byte {} on", error.utf8_error().valid_up_to()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_or_too_large_is_refused() {
        assert!(text(vec![b'a', 0xff], "x", 10).is_err());
        assert!(text(vec![b'a', 0], "x", 10).is_err());
        assert!(text(vec![b'a'; 11], "x", 10).is_err());
        assert!(text(vec![b'a'; 10], "x", 10).is_ok());
    }

    #[test]
    fn what_goes_with_a_prompt_stands_behind_it() {
        let mut words = "Do it.".to_owned();
        append(&mut words, "file", "/a", "one\n");
        append(&mut words, "file", "/b", "two");
        assert_eq!(words, "Do it.\n\n<file name=\"/a\">\none\n</file>\n\n<file name=\"/b\">\ntwo\n</file>");
    }
}
