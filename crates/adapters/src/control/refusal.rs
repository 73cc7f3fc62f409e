//! Why an agent cannot do what is wanted, in words that several agents share. Pure.

use std::path::Path;

use agentctl_model::{Error, Permission};

/// The agent has no equivalent of this permission mode.
pub(crate) fn no_permission_mode(agent: &str, wanted: Permission, takes: &[Permission]) -> Error {
    let takes: Vec<&str> = takes.iter().map(|mode| mode.as_str()).collect();
    let reason = format!("{agent} has no permission mode `{}`", wanted.as_str());
    Error::refused(reason).hint(format!("it takes {}", takes.join(" and ")))
}

pub(crate) fn no_system_prompt(agent: &str, reads: &str) -> Error {
    Error::refused(format!("{agent} has no way to append to its system prompt"))
        .hint(format!("say it in the prompt, or in {reads} of the directory"))
}

pub(crate) fn no_fork(agent: &str) -> Error {
    Error::refused(format!("{agent} cannot fork a session"))
}

/// A copy begins with the words of the original, so no survey could tell by its prompt which session is the copy.
pub(crate) fn no_copy_on_screen(agent: &str) -> Error {
    Error::refused(format!("{agent} does not say the id of a copy that it opens on its screen"))
        .hint("fork it without --terminal")
}

/// The session has no message, so there is nothing to continue.
pub(crate) fn nothing_stored(agent: &str) -> Error {
    Error::refused(format!("{agent} has stored nothing of this session yet"))
}

/// Refuses a prompt that Gemini CLI and its descendant Qwen Code would silently cut off.
pub(crate) fn fits_stdin(words: &str, agent: &str) -> Result<(), Error> {
    /// How much the agent reads from stdin; it drops the rest and continues.
    const LIMIT: usize = 8 << 20;
    if words.len() <= LIMIT {
        return Ok(());
    }
    let reason = format!("{agent} reads {LIMIT} bytes of a prompt and no more: this has {}", words.len());
    Err(Error::refused(reason).hint("put the text into a file and name the file in a short prompt"))
}

/// Refuses a prompt that the agent would take for the name of a file, also as its last argument.
pub(crate) fn names_no_file(words: &str, agent: &str) -> Result<(), Error> {
    if !words.trim_start().starts_with('@') {
        return Ok(());
    }
    let reason = format!("{agent} takes a prompt that begins with `@` for the name of a file");
    Err(Error::refused(reason).hint("begin it with a word"))
}

/// The path of a session's records, for agents that resume by path.
pub(crate) fn named_by_path(place: &Path) -> Result<&str, Error> {
    let reason = || format!("the path of its records is no text: {}", place.display());
    place.to_str().ok_or_else(|| Error::refused(reason()))
}
