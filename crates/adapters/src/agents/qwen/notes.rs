//! Qwen Code's own notes of its processes: `<id>.runtime.json` beside the transcript of an interactive
//! session, and the writer's lock of each session that a server owns. Pure.

use std::path::Path;

use agentctl_model::text::clean_cut;
use agentctl_model::{Facts, Found, OwnerIdentity, Registration, Turn, TurnState};
use jiff::Timestamp;
use serde::Deserialize;

use super::processes::is_id;
use crate::join::registry_report;

#[derive(Deserialize)]
struct Note {
    pid: u32,
    session_id: String,
    work_dir: Option<String>,
    /// When the note was written, in seconds.
    started_at: Option<f64>,
    /// Set in a lock: `linux:<boot id>:<start in ticks>`.
    process_start_identity: Option<String>,
    state: Option<String>,
}

/// Parses a note. Returns `None` if the file is not a note, or if nothing in it distinguishes this process
/// from a later one with the same pid.
pub(super) fn parse(bytes: &[u8], place: &Path) -> Option<Registration> {
    let note: Note = serde_json::from_slice(bytes).ok()?;
    if !is_id(&note.session_id) || note.state.is_some_and(|state| state != "active") {
        return None;
    }
    let at = note.started_at.and_then(moment);
    let start = note.process_start_identity.as_deref().and_then(start_ticks);
    let holder = match (start, at) {
        (Some(start), _) => OwnerIdentity::Process { pid: note.pid, start, namespace: None },
        (None, Some(at)) => OwnerIdentity::Since { pid: note.pid, at },
        (None, None) => return None,
    };
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    Some(Registration {
        live_report: Some(registry_report(format!("{} names pid {}", clean_cut(&name, Some(100)), note.pid))),
        found: note.work_dir.map(|cwd| at_empty_prompt(&note.session_id, &cwd, at, place)),
        id: note.session_id,
        variant: None,
        holder,
        place: place.to_owned(),
        headless: false,
    })
}

/// The session that a note describes while it has no transcript yet.
fn at_empty_prompt(id: &str, cwd: &str, at: Option<Timestamp>, place: &Path) -> Found {
    let facts = Facts {
        turn: Some(Turn::new(TurnState::NotBegun, None)),
        cwd: Some(clean_cut(cwd, None)),
        started_at: at,
        updated_at: at,
        ..Facts::default()
    };
    Found {
        id: id.to_owned(),
        variant: None,
        place: place.to_owned(),
        stamp: None,
        facts,
        evidence: Vec::new(),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "milliseconds since 1970, checked by the timestamp")]
fn moment(seconds: f64) -> Option<Timestamp> {
    Timestamp::from_millisecond((seconds * 1000.0).ceil() as i64).ok()
}

fn start_ticks(identity: &str) -> Option<u64> {
    identity.strip_prefix("linux:")?.rsplit(':').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "15a2f634-438c-435b-b2ca-f3ca08d8e500";

    #[test]
    fn a_note_names_a_process_that_was_running_then() {
        let bytes = format!(
            r#"{{"schema_version":1,"pid":23304,"session_id":"{ID}","work_dir":"/w","hostname":"vm","started_at":1794736276.108}}"#
        );
        let note = parse(bytes.as_bytes(), Path::new("/c/x.runtime.json")).unwrap();
        let at = Timestamp::from_millisecond(1_794_736_276_108).unwrap();
        assert_eq!(note.holder, OwnerIdentity::Since { pid: 23304, at });
        assert_eq!(note.found.unwrap().facts.cwd.as_deref(), Some("/w"));
    }

    #[test]
    fn a_lock_names_a_process_by_its_start() {
        let lock = |state: &str| {
            format!(
                r#"{{"state":"{state}","session_id":"{ID}","pid":7,"process_start_identity":"linux:8a-b:4711","acquired_at":"2026-11-15T07:00:00Z"}}"#
            )
        };
        let note = parse(lock("active").as_bytes(), Path::new("/l/x.lock")).unwrap();
        assert_eq!(note.holder, OwnerIdentity::Process { pid: 7, start: 4711, namespace: None });
        assert!(parse(lock("released").as_bytes(), Path::new("/l/x.lock")).is_none());
        assert!(parse(br#"{"pid":7,"session_id":"../x","started_at":1}"#, Path::new("/l/x")).is_none());
        assert!(parse(b"{", Path::new("/l/x")).is_none());
    }
}
