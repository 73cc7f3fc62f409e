//! The message to a session: from the command line, standard input, or a file.

use std::path::PathBuf;

use super::launch::prompt;
use crate::failure::Failure;
use crate::surroundings::Surroundings;

const MAX_FILE: u64 = 64 << 20;

#[derive(Debug, clap::Args)]
pub(crate) struct Message {
    /// What to say; - reads it from standard input
    #[arg(
        value_name = "MESSAGE",
        required_unless_present = "file",
        conflicts_with = "file",
        allow_hyphen_values = true
    )]
    message: Option<String>,
    /// Read the message from this file
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: Option<PathBuf>,
}

impl Message {
    pub(crate) fn words(&self, surroundings: &Surroundings) -> Result<String, Failure> {
        let words = match (self.message.as_deref(), &self.file) {
            (_, Some(file)) => prompt::text_of(&surroundings.meant(file), MAX_FILE)?,
            (Some("-"), None) => prompt::from_stdin()?,
            (text, None) => text.unwrap_or_default().to_owned(),
        };
        prompt::checked(words)
    }
}
