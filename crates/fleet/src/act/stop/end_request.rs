//! The note that agentctl ends a launched process, and why. With it the exit counts as an interruption, whatever it
//! looks like.

use agentctl_model::EndedBy;

use crate::keep::launches::LaunchFolder;

/// Tells the runner that the end of a launched process was requested. The note is removed again unless `stands` is
/// called.
pub(super) struct EndRequest<'a>(Option<&'a LaunchFolder>);

impl<'a> EndRequest<'a> {
    pub(super) fn note(launch: Option<&'a LaunchFolder>, by: &EndedBy) -> Self {
        // If it cannot be written, only the exit itself counts.
        Self(launch.filter(|folder| folder.ask_to_end(by).is_ok()))
    }

    pub(super) fn stands(mut self) {
        self.0 = None;
    }
}

impl Drop for EndRequest<'_> {
    fn drop(&mut self) {
        if let Some(folder) = self.0 {
            folder.forget_asking();
        }
    }
}
