//! Writes the metrics page.

use std::fmt::Write;

use agentctl_model::{CoverageKind, Session, SourceReport, Status};

use super::{BOUNDS, Metrics};

/// The values at the moment of the request.
pub(crate) struct Gauges<'a> {
    pub(crate) adapters: Vec<&'static str>,
    pub(crate) sessions: Vec<&'a Session>,
    pub(crate) sources: &'a [SourceReport],
    pub(crate) fuses: usize,
    pub(crate) manual_locks: usize,
    /// Directories that processes of live sessions hold.
    pub(crate) held_directories: usize,
}

/// The statuses of a live session.
pub(super) const LIVE: [Status; 4] = [Status::Running, Status::Waiting, Status::Idle, Status::Unknown];
const ENDS: [&str; 5] = ["completed", "failed", "interrupted", "died", "unknown"];

pub(crate) fn page(gauges: &Gauges<'_>, metrics: &Metrics) -> String {
    let counted = metrics.counted();
    let mut page = Page::default();
    page.family("agentctl_sessions_current", "gauge", "Live sessions by agent and status.");
    for adapter in &gauges.adapters {
        for status in LIVE {
            let of = |session: &&&Session| session.adapter == *adapter && session.status == status;
            let count = gauges.sessions.iter().filter(of).count();
            let labels = format!("adapter=\"{adapter}\",status=\"{}\"", status.as_str());
            page.sample("agentctl_sessions_current", &labels, count);
        }
    }
    page.family("agentctl_sessions_active", "gauge", "Sessions that are running or waiting.");
    let active = |session: &&&Session| matches!(session.status, Status::Running | Status::Waiting);
    page.sample("agentctl_sessions_active", "", gauges.sessions.iter().filter(active).count());
    page.family("agentctl_locks_active", "gauge", "Directories held by hand, and by live sessions.");
    page.sample("agentctl_locks_active", "type=\"manual\"", gauges.manual_locks);
    page.sample("agentctl_locks_active", "type=\"auto\"", gauges.held_directories);
    page.family("agentctl_fuses_active", "gauge", "Fuses that are set.");
    page.sample("agentctl_fuses_active", "", gauges.fuses);
    page.family("agentctl_sessions_total", "counter", "Sessions seen to stop, by outcome.");
    for end in ENDS {
        let count = counted.ended.get(end).copied().unwrap_or_default();
        page.sample("agentctl_sessions_total", &format!("status=\"{end}\""), count);
    }
    page.family("agentctl_fuses_expired_total", "counter", "Fuses that expired.");
    page.sample("agentctl_fuses_expired_total", "", counted.fuses_expired);
    page.family("agentctl_session_duration_seconds", "histogram", "How long stopped sessions had lasted.");
    for (bound, count) in BOUNDS.iter().zip(counted.buckets) {
        page.sample("agentctl_session_duration_seconds_bucket", &format!("le=\"{bound}\""), count);
    }
    page.sample("agentctl_session_duration_seconds_bucket", "le=\"+Inf\"", counted.durations);
    page.sample("agentctl_session_duration_seconds_sum", "", counted.duration_sum);
    page.sample("agentctl_session_duration_seconds_count", "", counted.durations);
    page.family("agentctl_source_up", "gauge", "Whether every source of an installed agent answers.");
    // An agent that is not installed is neither up nor down.
    let there = |source: &&SourceReport| source.coverage != CoverageKind::NotInstalled;
    for adapter in &gauges.adapters {
        let of = |source: &&SourceReport| source.adapter == *adapter;
        let sources: Vec<&SourceReport> = gauges.sources.iter().filter(there).filter(of).collect();
        if !sources.is_empty() {
            let up = !sources.iter().any(|source| source.failed());
            page.sample("agentctl_source_up", &format!("adapter=\"{adapter}\""), u8::from(up));
        }
    }
    page.family("agentctl_survey_seconds", "gauge", "How long the last look at an agent's sources took.");
    for adapter in &gauges.adapters {
        let seconds = counted.survey_seconds.get(*adapter).copied().unwrap_or_default();
        page.sample("agentctl_survey_seconds", &format!("adapter=\"{adapter}\""), seconds);
    }
    page.0
}

#[derive(Default)]
pub(super) struct Page(pub(super) String);

impl Page {
    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub(super) fn sample(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }
}

#[cfg(test)]
mod tests {
    use agentctl_model::Event;

    use super::*;
    use crate::tell::events::EventMessage;

    const FAMILIES: [&str; 9] = [
        "agentctl_sessions_current",
        "agentctl_sessions_active",
        "agentctl_locks_active",
        "agentctl_fuses_active",
        "agentctl_sessions_total",
        "agentctl_fuses_expired_total",
        "agentctl_session_duration_seconds",
        "agentctl_source_up",
        "agentctl_survey_seconds",
    ];

    fn session(status: &str, outcome: Option<&str>) -> Session {
        serde_json::from_value(serde_json::json!({
            "id": "secret id", "adapter": "codex", "configRoot": "/secret root", "status": status, "outcome": outcome,
            "pending": [], "prompt": "secret prompt", "cwd": "/secret cwd", "pid": 1, "processes": [],
            "startedAt": "2026-11-15T07:00:00Z", "updatedAt": "2026-11-15T07:05:00Z", "capabilities": [],
            "evidence": [], "meta": {}
        }))
        .unwrap()
    }

    fn source(adapter: &str, coverage: CoverageKind) -> SourceReport {
        let (adapter, root) = (adapter.to_owned(), "/secret root".to_owned());
        SourceReport {
            adapter,
            root,
            host: String::new(),
            coverage,
            error: None,
            warnings: vec![],
            sessions: None,
            took_ms: 0,
        }
    }

    #[test]
    fn only_sources_that_exist_are_up_or_down() {
        let sources = [
            source("codex", CoverageKind::Complete),
            source("codex", CoverageKind::Failed),
            source("pi", CoverageKind::NotInstalled),
            source("qwen", CoverageKind::NotInstalled),
            source("qwen", CoverageKind::Partial),
        ];
        let gauges = Gauges {
            adapters: vec!["codex", "pi", "qwen", "gemini"],
            sessions: vec![],
            sources: &sources,
            fuses: 0,
            manual_locks: 0,
            held_directories: 0,
        };
        let text = page(&gauges, &Metrics::default());
        let up: Vec<&str> = text.lines().filter(|line| line.starts_with("agentctl_source_up{")).collect();
        assert_eq!(up, ["agentctl_source_up{adapter=\"codex\"} 0", "agentctl_source_up{adapter=\"qwen\"} 1"]);
        assert!(text.contains("# TYPE agentctl_source_up gauge"));
    }

    #[test]
    fn every_family_is_there_from_the_beginning_and_nothing_private_ever() {
        let metrics = Metrics::default();
        let (running, stopped) = (session("running", None), session("stopped", Some("failed")));
        let mut gauges = Gauges {
            adapters: vec!["codex", "pi"],
            sessions: vec![],
            sources: &[source("codex", CoverageKind::Complete)],
            fuses: 0,
            manual_locks: 0,
            held_directories: 1,
        };
        for family in FAMILIES {
            let text = page(&gauges, &metrics);
            assert!(text.contains(&format!("# TYPE {family} ")), "{family}");
            let sample = |line: &str| line.starts_with(family) && line.ends_with(['0', '1']);
            assert!(text.lines().any(sample), "{family}: {text}");
        }
        let at = "2026-11-15T07:05:00Z".parse().unwrap();
        let event = Event::stopped("codex", "secret id", Some(&stopped));
        metrics.on_event(&EventMessage::new(event, "x".into(), at));
        gauges.sessions = vec![&running];
        let text = page(&gauges, &metrics);
        for line in [
            "agentctl_sessions_current{adapter=\"codex\",status=\"running\"} 1",
            "agentctl_sessions_current{adapter=\"pi\",status=\"running\"} 0",
            "agentctl_sessions_active 1",
            "agentctl_locks_active{type=\"auto\"} 1",
            "agentctl_sessions_total{status=\"failed\"} 1",
            "agentctl_session_duration_seconds_bucket{le=\"60\"} 0",
            "agentctl_session_duration_seconds_bucket{le=\"300\"} 1",
            "agentctl_session_duration_seconds_bucket{le=\"+Inf\"} 1",
            "agentctl_session_duration_seconds_sum 300",
            "agentctl_source_up{adapter=\"codex\"} 1",
        ] {
            assert!(text.lines().any(|known| known == line), "{line}\n{text}");
        }
        assert!(!text.contains("secret"), "{text}");
    }
}
