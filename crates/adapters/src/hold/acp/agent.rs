//! What is known of single agents and cannot be read from `initialize`, as data.

use agentctl_model::{OptionKind, OptionScope, Permission};

/// What a caller knows of the agent at the other end of the line. Everything that the agent says itself is taken from
/// its words instead.
#[derive(Debug, Clone, Copy)]
pub struct Agent {
    pub queue: Queue,
    pub commands: Commands,
    /// What options mean that say less than they do, by their ids.
    pub options: &'static [Meaning],
    pub tokens: Counts,
    /// What is put before the id of a session that is loaded, and is not part of it.
    pub before_loaded: &'static str,
    /// The error with which the agent refuses a prompt for a moment after it has answered the one before. It is sent
    /// again.
    pub not_yet: Option<i64>,
    /// How the last message of a turn begins that failed, for an agent that ends such a turn like any other.
    pub failure_notice: Option<&'static str>,
}

/// What becomes of a prompt while another is in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// It would end the turn or be refused, so the message stays here until the turn ends.
    None,
    /// The agent queues it.
    Agent,
    /// The message stays here until the agent asks for it in the middle of the turn, or until the turn ends.
    Drained,
}

/// Which first characters the agent takes for a command of its own.
#[derive(Debug, Clone, Copy)]
pub struct Commands {
    pub marks: &'static [char],
    pub escape: Escape,
}

/// How such a message is made plain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escape {
    /// The agent looks at the very first character only: a space before it is enough.
    LeadingSpace,
    /// The agent trims before it looks, or it is not known: there is no way.
    Impossible,
}

/// What the option with this id means.
#[derive(Debug, Clone, Copy)]
pub struct Meaning {
    pub id: &'static str,
    pub kind: OptionKind,
    pub scope: OptionScope,
}

/// What the agent's token counts cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Counts {
    /// The last call of the model.
    Step,
    Turn,
    Session,
    /// It is not known, so they are not kept.
    Unknown,
}

const fn always(id: &'static str, scope: OptionScope) -> Meaning {
    Meaning { id, kind: OptionKind::AllowAlways, scope }
}

/// An option that allows the call and does something else too. A decision never takes it.
const fn and_more(id: &'static str) -> Meaning {
    Meaning { id, kind: OptionKind::Other, scope: OptionScope::Unknown }
}

/// An agent of which nothing is known: everything that could be misunderstood is refused.
pub const UNKNOWN: Agent = Agent {
    queue: Queue::None,
    commands: Commands { marks: &['/', '!', '#', '@', '$'], escape: Escape::Impossible },
    options: &[],
    tokens: Counts::Unknown,
    before_loaded: "",
    not_yet: None,
    failure_notice: None,
};

pub const GEMINI: Agent = Agent {
    queue: Queue::None,
    // It joins all text, trims it and looks for both.
    commands: Commands { marks: &['/', '$'], escape: Escape::Impossible },
    options: &[
        always("proceed_always", OptionScope::Session),
        always("proceed_always_server", OptionScope::Session),
        always("proceed_always_tool", OptionScope::Session),
    ],
    tokens: Counts::Turn,
    // Before it looks the session up, it opens an empty file that is named after the beginning of the id. The next
    // Gemini that starts in this project deletes every file with the name of an empty one, the session's own too. It
    // trims the id for the look-up and not for the name, so a space keeps the two names apart.
    before_loaded: " ",
    not_yet: None,
    failure_notice: None,
};

pub const QWEN: Agent = Agent {
    queue: Queue::Drained,
    commands: Commands { marks: &['/'], escape: Escape::LeadingSpace },
    options: &[
        always("proceed_always_project", OptionScope::Project),
        always("proceed_always_user", OptionScope::User),
        // It also leaves the mode in which the session was started.
        and_more("proceed_once_and_switch_to_default"),
        // The answer to a plan that also returns to an earlier mode, which may ask for nothing.
        and_more("restore_previous"),
    ],
    tokens: Counts::Step,
    before_loaded: "",
    not_yet: None,
    failure_notice: None,
};

pub const COPILOT: Agent = Agent {
    queue: Queue::None,
    // It trims. What it does not know as a command is text, but its commands differ between versions.
    commands: Commands { marks: &['/'], escape: Escape::Impossible },
    options: &[],
    tokens: Counts::Session,
    before_loaded: "",
    not_yet: None,
    failure_notice: None,
};

pub const KIMI: Agent = Agent {
    queue: Queue::None,
    commands: Commands { marks: &['/'], escape: Escape::LeadingSpace },
    options: &[always("approve_always", OptionScope::Session)],
    tokens: Counts::Unknown,
    before_loaded: "",
    not_yet: None,
    failure_notice: None,
};

pub const PI_RUST: Agent = Agent {
    queue: Queue::None,
    // It trims, and knows one command.
    commands: Commands { marks: &['/'], escape: Escape::Impossible },
    options: &[],
    tokens: Counts::Unknown,
    before_loaded: "",
    // It says that a turn is over before it has let go of it.
    not_yet: Some(-32002),
    failure_notice: Some("\n\nError: "),
};

pub const OPENCODE: Agent = Agent { queue: Queue::Agent, tokens: Counts::Step, ..UNKNOWN };
pub const CLAUDE_AGENT_ACP: Agent = Agent { queue: Queue::Agent, tokens: Counts::Turn, ..UNKNOWN };
pub const CODEX_ACP: Agent = Agent { queue: Queue::Agent, tokens: Counts::Turn, ..UNKNOWN };

/// One value that stands for a permission mode in some agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// A mode with this id, or with an id that ends with `#` and this.
    Mode(&'static str),
    /// A configuration option of the category `permissions`.
    Permissions { option: &'static str, value: &'static str },
}

/// The values that stand for a permission mode, the best first; the first one that the agent offers is set. An empty
/// list leaves the mode to the agent.
pub fn choices(permission: Permission) -> &'static [Choice] {
    match permission {
        Permission::Default => &[],
        Permission::Plan => &[Choice::Mode("plan"), Choice::Mode("read-only")],
        Permission::AcceptEdits => {
            &[Choice::Mode("acceptEdits"), Choice::Mode("autoEdit"), Choice::Mode("auto-edit")]
        }
        Permission::Bypass => &[
            // Copilot's mode `autopilot` says how far it goes on its own; this says that it does not ask.
            Choice::Permissions { option: "allow_all", value: "on" },
            Choice::Mode("yolo"),
            Choice::Mode("bypassPermissions"),
            Choice::Mode("agent-full-access"),
            Choice::Mode("full-access"),
            Choice::Mode("autopilot"),
        ],
    }
}

impl Commands {
    /// The words as the agent reads them for plain text, or why that is impossible.
    pub(super) fn plain(&self, words: &str) -> Result<String, String> {
        // Agents trim as JavaScript does, which counts the byte order mark as a space.
        let trimmed = words.trim_start_matches(|letter: char| letter.is_whitespace() || letter == '\u{feff}');
        let Some(mark) = trimmed.chars().next().filter(|first| self.marks.contains(first)) else {
            return Ok(words.to_owned());
        };
        match self.escape {
            Escape::LeadingSpace => Ok(format!(" {words}")),
            Escape::Impossible => Err(format!(
                "the agent may take a message that begins with {mark} for a command: put a word before it, or send it as a command"
            )),
        }
    }
}
