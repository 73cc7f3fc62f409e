//! The note that agentctl ends a launched process, and why: its exit is an interruption then, whatever it looks like.

use agentctl_model::EndedBy;

use crate::keep::launches::LaunchFolder;

/// That the end of a launched process was asked for, for its runner to see. Taken back unless it stands.
pub(super) struct Asked<'a>(Option<&'a LaunchFolder>);

impl<'a> Asked<'a> {
    pub(super) fn note(launch: Option<&'a LaunchFolder>, by: &EndedBy) -> Self {
        // Where it cannot be written, the exit has to speak for itself.
        Self(launch.filter(|folder| folder.ask_to_end(by).is_ok()))
    }

    pub(super) fn stands(mut self) {
        self.0 = None;
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if let Some(folder) = self.0 {
            folder.forget_asking();
        }
    }
}
