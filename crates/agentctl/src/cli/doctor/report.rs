//! The findings of `doctor`: facts only, the same for people and for scripts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use agentctl_adapters::Adapter;
use agentctl_fleet::{Fleet, Orphan, Query, Since, Unattended, UndeliveredCallback, Wanted};
use agentctl_model::{Error, ProcessEntry, SourceReport, Status, Stray, Survey, Surveyed, text};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::acp::{self, AcpReport};
use super::daemon::{self, DaemonReport};
use super::program;
use crate::failure::Failure;
use crate::settings::Settings;
use crate::surroundings::Surroundings;

/// What `doctor --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    pub(crate) as_of: Timestamp,
    pub(crate) host: String,
    pub(crate) version: &'static str,
    /// Nothing is broken.
    pub(crate) healthy: bool,
    pub(crate) config: Config,
    pub(crate) kernel: Kernel,
    pub(crate) daemon: DaemonReport,
    pub(crate) adapters: Vec<AdapterReport>,
    /// The agents that can be started over ACP and are installed, or that the settings name.
    pub(crate) acp: Vec<AcpReport>,
    /// Live agent processes that belong to no stored session.
    pub(crate) strays: Vec<StrayReport>,
    /// Processes that outlived the session they belonged to.
    pub(crate) orphans: Vec<OrphanReport>,
    /// Private servers of held sessions that go on without the runner that started them.
    pub(crate) unattended: Vec<UnattendedReport>,
    /// Who was to be told how a session ended, and was not.
    pub(crate) untold: Vec<UntoldReport>,
    /// Launch records that have had their time; `agentctl prune` removes them.
    pub(crate) expired_launches: usize,
    /// What `--reap` ended.
    pub(crate) reaped: Vec<ProcessEntry>,
}

/// What a tool or an agent left running.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OrphanReport {
    pub(crate) pid: u32,
    pub(crate) command: String,
    pub(crate) adapter: String,
    /// The session that it belonged to.
    pub(crate) session_id: Option<String>,
    pub(crate) cwd: Option<String>,
    pub(crate) started_at: Option<Timestamp>,
    /// Resident bytes.
    pub(crate) memory: Option<u64>,
}

/// A private server without its runner.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UnattendedReport {
    pub(crate) pid: u32,
    pub(crate) command: String,
    pub(crate) adapter: String,
    pub(crate) launch: String,
    /// `null` if the launch ended before its session was known.
    pub(crate) session_id: Option<String>,
    /// `null` if the session is not found in this server.
    pub(crate) status: Option<Status>,
    pub(crate) started_at: Option<Timestamp>,
    /// When the daemon or `prune` ends it, if nobody talks to it until then.
    pub(crate) ends_at: Option<Timestamp>,
    /// What ends it now.
    pub(crate) hint: String,
}

/// A callback that was not delivered.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UntoldReport {
    pub(crate) launch: String,
    pub(crate) session_id: Option<String>,
    pub(crate) gateway: String,
    pub(crate) session: Option<String>,
    pub(crate) agent: Option<String>,
    pub(crate) error: Option<String>,
    /// It is still being tried.
    pub(crate) tried: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Config {
    pub(crate) path: Option<String>,
    pub(crate) exists: bool,
    pub(crate) error: Option<String>,
}

/// Which witnesses the kernel of this platform has.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Kernel {
    pub(crate) locks: bool,
    pub(crate) open_files: bool,
    pub(crate) environ: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AdapterReport {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) enabled: bool,
    /// The program as it was found, and its version if a file says so.
    pub(crate) program: Option<String>,
    pub(crate) version: Option<String>,
    /// Versions whose storage was observed.
    pub(crate) known_good: &'static str,
    pub(crate) sources: Vec<Place>,
    /// Record types that are not known here, with how often they were seen.
    pub(crate) drift: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Place {
    /// Whether the root can be opened; `null` when it is not there.
    pub(crate) readable: Option<bool>,
    #[serde(flatten)]
    pub(crate) heard: SourceReport,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StrayReport {
    pub(crate) adapter: String,
    pub(crate) pid: u32,
    pub(crate) command: String,
    pub(crate) cwd: Option<String>,
    pub(crate) started_at: Option<Timestamp>,
}

/// Examines everything once. A mistake in the config file is a finding, and the defaults are used then.
pub(crate) fn examine(surroundings: &Surroundings, asks_agents: bool) -> Report {
    let (settings, error) = match surroundings.settings() {
        Ok(settings) => {
            let told: Vec<String> =
                settings.mistakes.iter().map(|mistake| surroundings.describe(mistake)).collect();
            let error = (!told.is_empty()).then(|| told.join("; "));
            (settings, error)
        }
        Err(error) => (Settings::defaults(&surroundings.environ), words(error.into())),
    };
    let fleet = surroundings.fleet_under(&settings);
    let survey = fleet.survey(&Query::new(Wanted::All { since: Since::Ever }));
    let path = surroundings.config_path();
    let config = Config {
        exists: path.as_ref().is_some_and(|path| path.exists()),
        path: path.map(|path| path.to_string_lossy().into_owned()),
        error,
    };
    let daemon = daemon::examine(surroundings);
    let incomplete = survey.sources.iter().any(SourceReport::is_incomplete);
    let witnesses = agentctl_process::system().witnesses();
    Report {
        as_of: surroundings.now(),
        host: surroundings.host(),
        version: env!("CARGO_PKG_VERSION"),
        healthy: config.error.is_none() && !incomplete && !daemon.is_broken(),
        daemon,
        config,
        kernel: Kernel {
            locks: witnesses.locks,
            open_files: witnesses.open_files,
            environ: witnesses.environ,
        },
        adapters: agentctl_adapters::registry()
            .into_iter()
            .map(|adapter| adapter_report(adapter, &settings, &survey, surroundings))
            .collect(),
        acp: acp::examine(&fleet, asks_agents, surroundings),
        strays: survey.strays.iter().map(|(adapter, stray)| stray_report(adapter, stray)).collect(),
        orphans: fleet.orphans().iter().map(orphan_report).collect(),
        unattended: fleet.unattended().iter().map(unattended_report).collect(),
        untold: fleet.undelivered_callbacks().into_iter().map(untold_report).collect(),
        expired_launches: expired(&fleet, &settings, surroundings),
        reaped: Vec::new(),
    }
}

fn expired(fleet: &Fleet, settings: &Settings, surroundings: &Surroundings) -> usize {
    fleet.prune(surroundings.now(), settings.kept_at_least(), true).len()
}

fn orphan_report(orphan: &Orphan) -> OrphanReport {
    OrphanReport {
        pid: orphan.process.pid,
        command: orphan.entry.command.clone(),
        adapter: orphan.adapter.clone(),
        session_id: orphan.session_id.clone(),
        cwd: orphan.cwd.clone(),
        started_at: orphan.entry.started_at,
        memory: orphan.memory,
    }
}

fn unattended_report(server: &Unattended) -> UnattendedReport {
    let record = &server.record;
    let pid = server.process.pid;
    // Without a session in it, only its user can tell what the process is still good for.
    let stop = |session: &Surveyed| format!("agentctl stop {}", text::shell_word(&session.key.id));
    UnattendedReport {
        pid,
        command: server.entry.command.clone(),
        adapter: record.order.adapter.clone(),
        launch: record.id.clone(),
        session_id: record.session_id.clone(),
        status: server.session.as_ref().map(|session| session.session.status),
        started_at: server.entry.started_at,
        ends_at: server.ends_at,
        hint: server.session.as_ref().map_or_else(|| format!("kill {pid}"), stop),
    }
}

fn untold_report(untold: UndeliveredCallback) -> UntoldReport {
    UntoldReport {
        launch: untold.launch,
        session_id: untold.session,
        gateway: untold.order.root,
        session: untold.order.to.session,
        agent: untold.order.to.agent,
        error: untold.error,
        tried: untold.tried,
    }
}

pub(super) fn words(failure: Failure) -> Option<String> {
    match failure {
        Failure::Said(Error { message, .. }) => Some(message),
        Failure::ReaderGone => None,
    }
}

fn adapter_report(
    adapter: &'static dyn Adapter,
    settings: &Settings,
    survey: &Survey,
    surroundings: &Surroundings,
) -> AdapterReport {
    let card = adapter.card();
    let chosen = settings.adapter(card.name);
    let program = match &chosen.binary.value {
        Some(binary) => surroundings.on_path(binary),
        None => program::find(card, surroundings),
    };
    let real: Option<PathBuf> = program.as_ref().and_then(|program| agentctl_files::real_path(program).ok());
    AdapterReport {
        name: card.name,
        title: card.title,
        enabled: chosen.enabled.value,
        version: real.as_deref().and_then(program::version),
        program: program.map(|program| program.to_string_lossy().into_owned()),
        known_good: card.known_good,
        sources: survey
            .sources
            .iter()
            .filter(|source| source.adapter == card.name)
            .map(|source| Place { readable: readable(Path::new(&source.root)), heard: source.clone() })
            .collect(),
        drift: survey.drift.get(card.name).cloned().unwrap_or_default(),
    }
}

fn readable(root: &Path) -> Option<bool> {
    match agentctl_files::entries(root) {
        Ok(_) => Some(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(_) => Some(false),
    }
}

fn stray_report(adapter: &str, stray: &Stray) -> StrayReport {
    StrayReport {
        adapter: adapter.to_owned(),
        pid: stray.process.pid,
        command: stray.command.clone(),
        cwd: stray.cwd.clone(),
        started_at: stray.started_at,
    }
}
