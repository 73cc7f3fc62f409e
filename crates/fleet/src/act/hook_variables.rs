//! The variables that describe a session to a command of the user, whether the runner runs it around a launch or the
//! daemon for a notice.

use agentctl_model::{Outcome, Session, text};

/// What the process that runs the command knows in addition, for what the session itself does not say.
#[derive(Debug, Clone, Default)]
pub struct CommandFacts {
    /// The directory for the command, whatever the session says.
    pub cwd: Option<String>,
    pub adapter: Option<String>,
    pub branch: Option<String>,
    pub exit_code: Option<i32>,
    pub group: Option<String>,
    pub model: Option<String>,
}

/// Returns the variables. Every one is always set, and empty if its value is not known.
pub fn hook_variables(session: Option<&Session>, known: &CommandFacts) -> Vec<(&'static str, String)> {
    let said = |pick: fn(&Session) -> Option<&String>, otherwise: &Option<String>| {
        let value = session.and_then(pick).or(otherwise.as_ref());
        value.map(|value| text::one_line(value)).unwrap_or_default()
    };
    let nothing = &None;
    let cwd = known.cwd.clone().or_else(|| session.and_then(|session| session.cwd.clone()));
    let exit = known.exit_code.or_else(|| session.and_then(|session| session.launch.as_ref()?.exit_code));
    let outcome = session.and_then(|session| session.outcome).map_or("", Outcome::as_str);
    let variables = [
        ("AGENTCTL_SESSION_ID", said(|session| Some(&session.id), nothing)),
        // A directory may have any name, so it is passed unchanged.
        ("AGENTCTL_CWD", cwd.unwrap_or_default()),
        ("AGENTCTL_ADAPTER", said(|session| Some(&session.adapter), &known.adapter)),
        ("AGENTCTL_BRANCH", said(|session| session.branch.as_ref(), &known.branch)),
        ("AGENTCTL_EXIT_CODE", exit.map(|code| code.to_string()).unwrap_or_default()),
        ("AGENTCTL_GROUP", said(|session| session.group.as_ref(), &known.group)),
        ("AGENTCTL_MODEL", said(|session| session.model.as_ref(), &known.model)),
        ("AGENTCTL_OUTCOME", outcome.to_owned()),
    ];
    // A NUL byte would end the variable early, and the command could not be started.
    variables.into_iter().map(|(name, value)| (name, value.replace('\0', ""))).collect()
}
