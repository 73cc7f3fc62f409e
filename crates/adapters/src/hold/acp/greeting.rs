//! What the agent says of itself when the line is opened.

use agentctl_model::text;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::wire::{AgentCapabilities, Initialized, VERSION};

/// A name of the agent's is cut to this many characters, and more ways to log in than this are not told.
const LONGEST_NAME: usize = 100;
const MOST_LOGINS: usize = 10;

/// What `initialize` said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Greeting {
    pub name: Option<String>,
    pub version: Option<String>,
    pub protocol_version: u64,
    pub capabilities: Capabilities,
    /// The ways to log in, by name.
    pub logins: Vec<String>,
}

/// What the agent can do with sessions besides starting them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "the agent says each of them on its own")]
pub struct Capabilities {
    pub load: bool,
    pub resume: bool,
    pub list: bool,
    pub close: bool,
}

impl Greeting {
    /// Takes the answer to `initialize`, or says why the line cannot be used.
    pub(super) fn take(said: Initialized) -> Result<Self, String> {
        let version = match said.protocol_version.as_u64() {
            Some(VERSION) => VERSION,
            _ => {
                return Err(format!(
                    "the agent speaks version {} of the Agent Client Protocol and agentctl speaks {VERSION}: \
                     update the older one of the two",
                    said.protocol_version
                ));
            }
        };
        let info = said.agent_info.unwrap_or_default();
        let logins = said.auth_methods.unwrap_or_default();
        Ok(Self {
            name: info.name.as_deref().map(short),
            version: info.version.as_deref().map(short),
            protocol_version: version,
            capabilities: said.agent_capabilities.as_ref().map(Capabilities::of).unwrap_or_default(),
            logins: logins
                .iter()
                .filter_map(|login| login.name.as_deref())
                .take(MOST_LOGINS)
                .map(short)
                .collect(),
        })
    }
}

/// A name as it can be kept and shown, whatever the agent sent.
pub(super) fn short(name: &str) -> String {
    text::clean_cut(&text::one_line(name), Some(LONGEST_NAME))
}

impl Capabilities {
    fn of(said: &AgentCapabilities) -> Self {
        let offered =
            |value: &Option<Value>| value.as_ref().is_some_and(|value| *value != Value::Bool(false));
        let sessions = said.session_capabilities.as_ref();
        Self {
            load: offered(&said.load_session),
            resume: sessions.is_some_and(|can| offered(&can.resume)),
            list: sessions.is_some_and(|can| offered(&can.list)),
            close: sessions.is_some_and(|can| offered(&can.close)),
        }
    }
}
