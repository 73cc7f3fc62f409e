//! The daemon as `doctor` finds it: it is asked and never started. A missing daemon is not a fault.

use agentctl_daemon::DaemonStatus;
use agentctl_model::text;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::coverage;
use crate::link::client::OWN_VERSION;
use crate::link::daemon_process::{DaemonProcess, Presence};
use crate::surroundings::Surroundings;

#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DaemonReport {
    /// Somebody holds its lock.
    pub(crate) running: bool,
    /// Null when none runs.
    pub(crate) answers: Option<bool>,
    pub(crate) pid: Option<u32>,
    pub(crate) version: Option<String>,
    /// Whether that is the version of this agentctl. Another one makes way when a command needs it.
    pub(crate) same_version: Option<bool>,
    /// What it cannot hear, watch or deliver, in words.
    pub(crate) troubles: Vec<String>,
    /// Where its log is; null without a home.
    pub(crate) log: Option<String>,
    /// What a daemon that is gone, or an older agentctl, left behind.
    pub(crate) stale_files: Vec<String>,
}

impl DaemonReport {
    /// A daemon that exists and does not answer is broken; everything else recovers by itself or has its
    /// cause elsewhere.
    pub(crate) fn is_broken(&self) -> bool {
        self.answers == Some(false)
    }
}

pub(crate) fn examine(surroundings: &Surroundings) -> DaemonReport {
    let Ok(process) = DaemonProcess::new(surroundings) else { return DaemonReport::default() };
    let (running, pid, status, unseen) = match process.presence() {
        Ok(Presence::Answers(status)) => (true, Some(status.pid), Some(status), None),
        Ok(Presence::Silent { pid }) => (true, pid, None, None),
        Ok(Presence::Nobody) => (false, None, None, None),
        Err(failure) => (false, None, None, super::report::words(failure)),
    };
    let socket = Some(process.home().socket()).filter(|socket| !running && socket.exists());
    let older = surroundings.store().map(|store| store.left_by_the_predecessor()).unwrap_or_default();
    let stale = socket.into_iter().chain(older);
    DaemonReport {
        running,
        answers: running.then_some(status.is_some()),
        pid,
        version: status.as_ref().map(|status| status.version.clone()),
        same_version: status.as_ref().map(|status| status.version == OWN_VERSION),
        troubles: unseen
            .into_iter()
            .chain(status.iter().flat_map(|status| troubles(status, surroundings)))
            .collect(),
        log: Some(process.home().log().to_string_lossy().into_owned()),
        stale_files: stale.map(|path| path.to_string_lossy().into_owned()).collect(),
    }
}

fn troubles(status: &DaemonStatus, surroundings: &Surroundings) -> Vec<String> {
    let unheard = status.sources.iter().filter(|source| source.is_incomplete());
    let mut troubles: Vec<String> = unheard.map(|source| coverage::words(source, surroundings)).collect();
    let silent = status.feeds.iter().filter(|feed| !feed.heard);
    troubles.extend(
        silent.map(|feed| {
            format!("{} at {} cannot be listened to, it is tried again", feed.adapter, feed.name)
        }),
    );
    troubles.extend(status.watch_incomplete.iter().map(|why| format!("not everything is watched: {why}")));
    if status.outbox.dead > 0 {
        let webhooks = text::counted(status.outbox.dead, "webhook", "webhooks");
        troubles
            .push(format!("{webhooks} could not be delivered and will not be tried again; see outbox/dead"));
    }
    troubles
}
