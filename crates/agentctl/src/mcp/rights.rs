//! What a server may do beside reading: only what its command line allows.

use std::fmt;

use agentctl_model::{Error, Permission};

/// A right that `--allow` gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Right {
    /// Start agents, and take up sessions that nobody runs
    Launch,
    /// Say something to live sessions
    Send,
    /// Approve, deny and answer
    Answer,
    /// End the open turn of a session
    Interrupt,
    /// End sessions
    Stop,
    /// Launch with a permission mode above the default
    Bypass,
}

impl fmt::Display for Right {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Launch => "launch",
            Self::Send => "send",
            Self::Answer => "answer",
            Self::Interrupt => "interrupt",
            Self::Stop => "stop",
            Self::Bypass => "bypass",
        })
    }
}

/// All that one server may do.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rights {
    pub(crate) allowed: Vec<Right>,
    /// A session may answer, interrupt and stop itself.
    pub(crate) allow_self: bool,
}

impl Rights {
    /// Reading needs no right.
    pub(crate) fn include(&self, needed: Option<Right>) -> bool {
        needed.is_none_or(|right| self.allowed.contains(&right))
    }

    pub(crate) fn require(&self, right: Right, what: &str) -> Result<(), Error> {
        if self.include(Some(right)) {
            return Ok(());
        }
        Err(Error::refused(format!("this server may not {what}"))
            .hint(format!("whoever set it up can start it with --allow {right}")))
    }

    /// Looking and planning is less than the default, not more.
    pub(crate) fn check_mode(&self, mode: Option<Permission>) -> Result<(), Error> {
        match mode {
            None | Some(Permission::Default | Permission::Plan) => Ok(()),
            Some(above @ (Permission::AcceptEdits | Permission::Bypass)) => {
                self.require(Right::Bypass, &format!("launch in the mode {}", above.as_str()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_allowed_but_reading_unless_it_is_said() {
        let none = Rights::default();
        assert!(none.include(None));
        assert!(!none.include(Some(Right::Stop)));
        let launch = Rights { allowed: vec![Right::Launch], allow_self: false };
        assert!(launch.check_mode(Some(Permission::Plan)).is_ok());
        assert!(launch.check_mode(Some(Permission::AcceptEdits)).is_err());
        let bypass = Rights { allowed: vec![Right::Launch, Right::Bypass], allow_self: false };
        assert!(bypass.check_mode(Some(Permission::Bypass)).is_ok());
    }
}
