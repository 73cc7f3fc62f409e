//! Finds the native session of another agent that the gateway runs behind one of its own. The protocol does not name
//! it: a row names a runtime, and `sessions.catalog.list` (what others left on the gateway's disk) is not part of
//! `sessions.list` and names what a chat was copied from. The gateway's databases on this machine do name it, and
//! only they are trusted. Nothing is opened for rows without such a runtime, and otherwise only the rows of the given
//! keys are read.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use data_encoding::BASE64URL_NOPAD;
use ring::digest::{SHA256, digest};
use rusqlite::{Connection, OptionalExtension};
use serde::Deserialize;

use super::client::rows::Row;
use crate::sqlite::{self, Error};

/// A session of another agent on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Native {
    pub(super) adapter: &'static str,
    pub(super) id: String,
    /// Its config root, if the gateway recorded it.
    pub(super) root: Option<PathBuf>,
}

/// The native sessions by the key of the gateway session. A busy or unreadable database is a warning, and a list then
/// shows one row more.
pub(super) fn read<'r>(
    state: &Path,
    rows: impl Iterator<Item = &'r Row>,
    warnings: &mut Vec<String>,
) -> HashMap<String, Native> {
    let mut by_database: BTreeMap<PathBuf, Vec<(&Row, Lookup)>> = BTreeMap::new();
    for row in rows {
        // A binding outlives its use: a session that another runtime runs now has no native session.
        let (path, lookup): (_, Lookup) = match (row.runtime(), agent_of(row)) {
            (Some("claude-cli"), Some(agent)) => {
                (format!("agents/{agent}/agent/openclaw-agent.sqlite"), claude)
            }
            (Some("codex"), Some(_)) => ("state/openclaw.sqlite".to_owned(), codex),
            _ => continue,
        };
        by_database.entry(state.join(path)).or_default().push((row, lookup));
    }
    let mut natives = HashMap::new();
    for (path, lookups) in by_database {
        let found = sqlite::read(&path, |database| {
            let each = lookups.iter().map(|(row, lookup)| lookup(database.connection, row));
            each.collect::<Result<Vec<_>, _>>()
        });
        match found {
            Ok(found) => natives.extend(
                lookups.iter().zip(found).filter_map(|((row, _), native)| Some((row.key.clone(), native?))),
            ),
            Err(Error::Missing(_)) => {}
            Err(error) => warnings.push(error.to_string()),
        }
    }
    natives
}

/// Finds the native session of a row in an open database.
type Lookup = fn(&Connection, &Row) -> rusqlite::Result<Option<Native>>;

/// The agent's id is a name of the gateway; a name that would lead out of its directory is not one.
fn agent_of(row: &Row) -> Option<&str> {
    row.agent_id.as_deref().filter(|agent| !agent.contains(['/', '\\']) && *agent != "..")
}

/// The program is started per turn with the gateway's variables: which home they mean is recorded nowhere.
fn claude(database: &Connection, row: &Row) -> rusqlite::Result<Option<Native>> {
    let query = "SELECT json_extract(entry_json, '$.cliSessionBindings.\"claude-cli\".sessionId') \
        FROM session_nodes WHERE session_key = ?1 AND json_valid(entry_json)";
    let id = database.prepare_cached(query)?.query_row([&row.key], |row| row.get::<_, Option<String>>(0));
    Ok(id.optional()?.flatten().map(|id| Native { adapter: "claude-code", id, root: None }))
}

/// OpenClaw's plugin for Codex (`@openclaw/codex`, a separate package) stores its threads in the plugin state, from
/// the moment a thread begins, under a hash of the session's key.
fn codex(database: &Connection, row: &Row) -> rusqlite::Result<Option<Native>> {
    let Some(agent) = row.agent_id.as_deref() else { return Ok(None) };
    let query = "SELECT value_json FROM plugin_state_entries \
        WHERE plugin_id = 'codex' AND namespace = 'app-server-thread-bindings' AND entry_key = ?1";
    let hash = digest(&SHA256, row.key.as_bytes());
    let key = format!("session-key:{agent}:{}", BASE64URL_NOPAD.encode(hash.as_ref()));
    let stored = database.prepare_cached(query)?.query_row([key], |row| row.get::<_, String>(0));
    Ok(stored.optional()?.and_then(|json| thread_of(&json, row.session_id.as_deref())))
}

/// What the plugin stores, version 1.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    state: String,
    #[serde(default)]
    binding: Option<Binding>,
    /// The transcript of the gateway session that the thread belongs to.
    #[serde(default)]
    session_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Binding {
    thread_id: String,
    #[serde(default)]
    rollout_path: Option<PathBuf>,
    /// The session has no thread of its own yet: the id is that of the thread it will be copied from.
    #[serde(default)]
    pending_supervision_branch: Option<serde::de::IgnoredAny>,
}

fn thread_of(json: &str, session_id: Option<&str>) -> Option<Native> {
    let stored: Stored = serde_json::from_str(json).ok()?;
    let is_ours = stored.session_id.as_deref().zip(session_id).is_none_or(|(its, ours)| its == ours);
    let holds = stored.state == "active" && is_ours;
    let bound = stored.binding.filter(|bound| holds && bound.pending_supervision_branch.is_none())?;
    let root = bound.rollout_path.as_deref().and_then(codex_home);
    Some(Native { adapter: "codex", id: bound.thread_id, root })
}

/// A rollout lies in `sessions/YEAR/MONTH/DAY` of its home.
fn codex_home(rollout: &Path) -> Option<PathBuf> {
    let sessions = rollout.ancestors().find(|folder| folder.ends_with("sessions"))?;
    sessions.parent().map(Path::to_owned)
}

#[cfg(test)]
#[path = "natives_tests.rs"]
mod tests;
