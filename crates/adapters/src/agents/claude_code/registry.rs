//! The agent's own registry: one small file per live process, which the agent rewrites in place. Parsing is
//! pure.

use std::path::Path;

use agentctl_model::text::clean_cut;
use agentctl_model::{
    Evidence, Facts, Found, LiveReport, OwnerIdentity, Pending, PendingKind, PidNamespace, Registration,
    Turn, TurnState, Witness,
};
use jiff::Timestamp;
use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Note {
    pid: Option<u32>,
    session_id: Option<String>,
    cwd: Option<String>,
    started_at: Option<i64>,
    proc_start: Option<String>,
    /// `linux:<machine id, may be empty>:pid:[4026531836]`.
    pid_domain: Option<String>,
    version: Option<String>,
    entrypoint: Option<String>,
    kind: Option<String>,
    job_id: Option<String>,
    name: Option<String>,
    name_source: Option<String>,
    status: Option<String>,
    waiting_for: Option<String>,
    status_updated_at: Option<i64>,
    spare: Option<bool>,
}

/// The marker that distinguishes the note of a spare from that of a session.
const SPARE: &str = "spare";

/// Whether a spare wrote this note: a process that is kept ready for a job and has none yet. It is not a
/// session and owns nothing.
pub(super) fn is_spare(noted: &Found) -> bool {
    noted.facts.meta.get(SPARE) == Some(&true.into())
}

fn millis(value: Option<i64>) -> Option<Timestamp> {
    value.and_then(|millis| Timestamp::from_millisecond(millis).ok())
}

/// Parses one registry file. Returns `None` while the file is being written, or if it is not a registry file.
pub(super) fn parse(bytes: &[u8], place: &Path) -> Option<Registration> {
    let note: Note = serde_json::from_slice(bytes).ok()?;
    let id = clean_cut(note.session_id.as_deref()?, Some(200));
    let holder = OwnerIdentity::Process {
        pid: note.pid?,
        start: note.proc_start.as_deref()?.parse().ok()?,
        namespace: note.pid_domain.as_deref().and_then(namespace),
    };
    let file = place.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let at = millis(note.status_updated_at);
    let words = match (&note.status, &note.waiting_for) {
        (Some(status), Some(what)) => {
            format!("sessions/{file} names this session, status {status}, waiting for {what}")
        }
        (Some(status), None) => format!("sessions/{file} names this session, status {status}"),
        (None, _) => format!("sessions/{file} names this session, no status yet"),
    };
    Some(Registration {
        variant: None,
        holder,
        place: place.to_owned(),
        headless: note.entrypoint.as_deref().is_some_and(|entry| entry.starts_with("sdk")),
        live_report: Some(LiveReport {
            evidence: vec![Evidence::said(Witness::Registry, clean_cut(&words, Some(300)), at)],
            since: at,
            ..status(&note, at)
        }),
        found: Some(Found {
            id: id.clone(),
            variant: None,
            place: place.to_owned(),
            stamp: None,
            facts: facts(&note),
            evidence: Vec::new(),
        }),
        id,
    })
}

fn namespace(domain: &str) -> Option<PidNamespace> {
    let (machine, link) = domain.strip_prefix("linux:")?.split_once(':')?;
    PidNamespace::named(machine, link)
}

/// Converts the registry's status to a turn. Without a status the process is still starting and reports
/// nothing.
fn status(note: &Note, at: Option<Timestamp>) -> LiveReport {
    // A live process reports its present state, so the turn has no record time that could look old.
    let turn = |state| Some(Turn { began: at, ..Turn::new(state, None) });
    match note.status.as_deref() {
        Some("busy") => LiveReport { turn: turn(TurnState::Open), ..LiveReport::default() },
        Some("waiting") => {
            // The registry describes the wait only in general words; the transcript names the tool.
            let what = note.waiting_for.as_deref().map(|what| clean_cut(what, Some(200)));
            let question =
                what.as_deref().is_some_and(|what| what.contains("input") || what.contains("dialog"));
            let (state, kind) = if question {
                (TurnState::Question, PendingKind::Question)
            } else {
                (TurnState::Approval, PendingKind::Approval)
            };
            LiveReport {
                turn: turn(state),
                detail: what,
                pending: vec![Pending { kind, summary: None, since: at, answerable: false }],
                ..LiveReport::default()
            }
        }
        // The transcript records how the last turn ended.
        Some("idle") => LiveReport { turn: turn(TurnState::Ended), ..LiveReport::default() },
        _ => LiveReport::default(),
    }
}

/// The facts in a note about a session that has no transcript yet. A derived name is not a title.
fn facts(note: &Note) -> Facts {
    let mut facts = Facts {
        turn: (note.status.as_deref() == Some("idle")).then(|| Turn::new(TurnState::NotBegun, None)),
        name: note
            .name
            .as_deref()
            .filter(|_| note.name_source.as_deref() != Some("derived"))
            .map(|name| clean_cut(name, Some(200))),
        cwd: note.cwd.as_deref().map(|cwd| clean_cut(cwd, None)),
        started_at: millis(note.started_at),
        updated_at: millis(note.status_updated_at),
        ..Facts::default()
    };
    let mut extra = |key: &str, value: &Option<String>| {
        if let Some(value) = value {
            facts.meta.insert(key.to_owned(), clean_cut(value, Some(200)).into());
        }
    };
    extra("version", &note.version);
    extra("kind", &note.kind);
    extra("jobId", &note.job_id);
    if note.spare == Some(true) {
        facts.meta.insert(SPARE.to_owned(), true.into());
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(status: &str) -> Registration {
        let text = format!(
            r#"{{"pid":42,"sessionId":"s","cwd":"/w","procStart":"777","entrypoint":"cli","statusUpdatedAt":1794725618359{status}}}"#
        );
        parse(text.as_bytes(), Path::new("/r/sessions/42.json")).unwrap()
    }

    #[test]
    fn the_status_becomes_a_turn() {
        let state = |status| note(status).live_report.unwrap().turn.map(|turn| turn.state);
        assert_eq!(state(r#","status":"busy""#), Some(TurnState::Open));
        assert_eq!(state(r#","status":"idle""#), Some(TurnState::Ended));
        assert_eq!(
            state(r#","status":"waiting","waitingFor":"permission prompt""#),
            Some(TurnState::Approval)
        );
        assert_eq!(state(r#","status":"waiting","waitingFor":"input needed""#), Some(TurnState::Question));
        assert_eq!(state(""), None, "starting");
    }

    #[test]
    fn a_spare_is_told_by_its_note() {
        let spare = |more| is_spare(note(more).found.as_ref().unwrap());
        assert!(spare(r#","kind":"bg","status":"idle","spare":true"#));
        assert!(!spare(r#","kind":"bg","status":"busy""#) && !spare(r#","spare":false"#));
    }

    #[test]
    fn the_note_says_in_which_namespace_its_pid_counts() {
        let namespace = |domain: &str| {
            let note = note(&format!(r#","pidDomain":"{domain}""#));
            let OwnerIdentity::Process { namespace, .. } = note.holder else { panic!("{note:?}") };
            namespace.map(|namespace| (namespace.machine, namespace.number))
        };
        assert_eq!(namespace("linux:00ff:pid:[4026532001]"), Some((Some(255), 4_026_532_001)));
        assert_eq!(
            namespace("linux::pid:[4026532001]"),
            Some((None, 4_026_532_001)),
            "a machine without an id"
        );
        for unknown in ["linux:00ff:", "linux", "linux:host", "linux:host:pid:[1]", "linux:00ff:pid:[x]", ""]
        {
            assert_eq!(namespace(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn half_a_file_is_no_registration() {
        let whole = br#"{"pid":42,"sessionId":"s","procStart":"777"}"#;
        for cut in 0..whole.len() {
            assert!(parse(&whole[..cut], Path::new("42.json")).is_none());
        }
        assert!(parse(whole, Path::new("42.json")).is_some());
        assert!(
            parse(br#"{"pid":42,"sessionId":"s"}"#, Path::new("42.json")).is_none(),
            "no start time, no trust"
        );
    }
}
