//! Prints `daemon status` for a person.

use std::io::Write;
use std::time::Duration;

use agentctl_daemon::DaemonStatus;
use agentctl_model::CoverageKind;
use agentctl_model::text::counted;

use crate::cli::coverage;
use crate::failure::Failure;
use crate::output::Output;
use crate::render::time;
use crate::surroundings::Surroundings;

pub(super) fn print(
    status: &DaemonStatus,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<(), Failure> {
    let up = time::short(Duration::from_secs(status.uptime_seconds));
    let mode = if status.read_only { ", read only" } else { "" };
    line(out, "running", &format!("{up}, version {}, pid {}{mode}", status.version, status.pid))?;
    if let Some(http) = &status.http {
        line(out, "http", &format!("http://{http}, with the token of http.token"))?;
    }
    if let Some(bytes) = status.memory_bytes {
        line(out, "memory", &format!("{} MB", bytes >> 20))?;
    }
    line(out, "sessions", &format!("{} live", status.live_sessions))?;
    line(out, "watched", &watched(status.watched_folders, status.watched_processes))?;
    for why in status.watch_incomplete.iter().flat_map(|why| why.split("; ")) {
        line(out, "", &agentctl_model::text::one_line(why))?;
    }
    for feed in &status.feeds {
        let standing = if feed.heard { "listened to" } else { "cannot be heard, tried again" };
        let name = agentctl_model::text::one_line(&feed.name);
        let restarts = match feed.restarts {
            0 => String::new(),
            1 => ", started anew once".to_owned(),
            times => format!(", started anew {times} times"),
        };
        line(out, "server", &format!("{} at {name}: {standing}{restarts}", feed.adapter))?;
    }
    line(out, "events", &format!("newest {}, {} listening", status.cursor, status.listeners))?;
    let locks = status.locks.map_or_else(|| "cannot be read".to_owned(), |locks| format!("{locks} by hand"));
    line(out, "locks", &locks)?;
    line(out, "fuses", &format!("{} set", status.fuses))?;
    let outbox = &status.outbox;
    line(out, "webhooks", &format!("{} to deliver, {} given up", outbox.pending, outbox.dead))?;
    if let Some(error) = &outbox.last_error {
        line(out, "", &agentctl_model::text::one_line(error))?;
    }
    for source in &status.sources {
        let label = if source.is_incomplete() { "unheard" } else { "heard" };
        if source.coverage != CoverageKind::NotInstalled {
            line(out, label, &coverage::words(source, surroundings))?;
        }
    }
    Ok(())
}

fn watched(folders: usize, processes: usize) -> String {
    format!("{}, {}", counted(folders, "folder", "folders"), counted(processes, "process", "processes"))
}

fn line(out: &mut Output, label: &str, words: &str) -> Result<(), Failure> {
    let label = out.paint.dim(&format!("{label:<10}"));
    writeln!(out, "{label}{words}")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_folder_is_not_called_folders() {
        assert_eq!(watched(1, 1), "1 folder, 1 process");
        assert_eq!(watched(0, 2), "0 folders, 2 processes");
    }
}
