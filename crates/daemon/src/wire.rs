//! What the command line and the daemon exchange beside the public objects.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use agentctl_adapters::Keys;
use agentctl_fleet::{Fleet, Source};
use agentctl_model::{SourceReport, Surveyed};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The header that names the caller's sources: a [`Caller`] as JSON, ASCII only. It is ignored except on the
/// unix socket.
pub const CALLER: &str = "x-agentctl-caller";
/// The header of every response that names the daemon's version.
pub const VERSION: &str = "x-agentctl-version";
/// The header that every write over TCP needs.
pub const WRITE: &str = "x-agentctl";
/// A caller that accepts this type gets what a survey knows beyond the public object: where records are, and
/// which rule decided.
pub const WHOLE: &str = "application/vnd.agentctl.whole+json";

/// The sources of a caller, resolved in its own environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Caller {
    pub sources: Vec<CallerSource>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallerSource {
    adapter: String,
    root: PathBuf,
    store: Option<PathBuf>,
    timeout_ms: u64,
}

impl Caller {
    /// Returns `None` for a caller with keys to a gateway: keys are not sent, so that caller surveys for
    /// itself.
    pub fn of(fleet: &Fleet) -> Option<Self> {
        let has_keys =
            |source: &Source| source.root.keys.as_ref().is_some_and(|keys| *keys != Keys::default());
        if fleet.sources().iter().any(has_keys) {
            return None;
        }
        let source = |source: &Source| CallerSource {
            adapter: source.name().to_owned(),
            root: source.root.path.clone(),
            store: source.root.store.clone(),
            timeout_ms: u64::try_from(source.timeout.as_millis()).unwrap_or(u64::MAX),
        };
        Some(Self { sources: fleet.sources().iter().map(source).collect() })
    }

    /// The value of the header; `None` when a path is not valid UTF-8 and cannot be sent.
    pub fn header(&self) -> Option<String> {
        let json = serde_json::to_string(self).ok()?;
        let mut ascii = String::with_capacity(json.len());
        for unit in json.encode_utf16() {
            match u8::try_from(unit) {
                Ok(byte) if byte.is_ascii() && !byte.is_ascii_control() => ascii.push(char::from(byte)),
                // Only the contents of strings are outside ASCII, and those may be escaped.
                _ => drop(write!(ascii, "\\u{unit:04x}")),
            }
        }
        Some(ascii)
    }

    /// The sources, as far as this build and these settings know them. An unknown adapter is an error, because
    /// omitting it would hide its sessions.
    pub(crate) fn sources(self, own: &Fleet) -> Result<Vec<Source>, String> {
        let configured = own.sources().iter().map(|source| source.adapter);
        let known: Vec<_> = agentctl_adapters::registry().into_iter().chain(configured).collect();
        let source = |one: CallerSource| {
            let adapter = known.iter().find(|adapter| adapter.card().name == one.adapter);
            let adapter = *adapter.ok_or_else(|| format!("no adapter is called `{}`", one.adapter))?;
            let root = agentctl_adapters::Root { path: one.root, store: one.store, keys: None };
            Ok(Source { adapter, root, timeout: Duration::from_millis(one.timeout_ms) })
        };
        self.sources.into_iter().map(source).collect()
    }
}

/// One session, with the coverage of the sources in which it was looked up.
#[derive(Debug, Serialize, Deserialize)]
pub struct SessionLookup {
    pub found: Surveyed,
    pub sources: Vec<SourceReport>,
    /// The clock here, by which the times of the session are told.
    #[serde(default)]
    pub as_of: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_path_that_is_text_survives_the_header() {
        let root = PathBuf::from("/home/d\u{e9}v/\u{1f916} \"x\"\\y\n");
        let source = CallerSource { adapter: "codex".into(), root, store: None, timeout_ms: 2000 };
        let caller = Caller { sources: vec![source] };
        let header = caller.header().unwrap();
        assert!(header.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{header}");
        assert_eq!(serde_json::from_str::<Caller>(&header).unwrap(), caller);
        let own = Fleet::new(Vec::new(), agentctl_process::system());
        assert_eq!(caller.sources(&own).unwrap()[0].name(), "codex");
        let unknown = r#"{"sources":[{"adapter":"hal","root":"/","store":null,"timeoutMs":1}]}"#;
        assert!(serde_json::from_str::<Caller>(unknown).unwrap().sources(&own).is_err());
    }
}
