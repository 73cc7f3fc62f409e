//! What the agents call the permission modes. Pure.

use agentctl_model::Permission;

/// One agent's words for the modes; its default mode needs none.
pub(crate) struct Modes {
    pub(crate) plan: &'static str,
    pub(crate) accept_edits: &'static str,
    pub(crate) bypass: &'static str,
}

impl Modes {
    pub(crate) fn of(&self, wanted: Option<Permission>) -> Option<&'static str> {
        match wanted {
            None | Some(Permission::Default) => None,
            Some(Permission::Plan) => Some(self.plan),
            Some(Permission::AcceptEdits) => Some(self.accept_edits),
            Some(Permission::Bypass) => Some(self.bypass),
        }
    }
}
