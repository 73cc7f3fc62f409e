//! Prints the findings for a person.

use std::io::Write;

use agentctl_model::{CoverageKind, Status, text};

use super::acp::AcpReport;
use super::daemon::DaemonReport;
use super::report::{AdapterReport, Place, Report};
use crate::failure::Failure;
use crate::output::Output;
use crate::render::style::{Paint, Tone};
use crate::render::table::{Cell, Column, Table};
use crate::render::width::wrap;
use crate::render::{path, time};
use crate::surroundings::Surroundings;

const GOOD: &str = "✓";
const BAD: &str = "✕";
const NONE: &str = "·";

pub(crate) fn print(report: &Report, surroundings: &Surroundings, out: &mut Output) -> Result<(), Failure> {
    let page = Page { paint: out.paint, width: out.width(), surroundings };
    for adapter in &report.adapters {
        for line in page.adapter(adapter) {
            writeln!(out, "{line}")?;
        }
        writeln!(out)?;
    }
    for agent in &report.acp {
        for line in page.over_acp(agent) {
            writeln!(out, "{line}")?;
        }
        writeln!(out)?;
    }
    for line in page.machine(report) {
        writeln!(out, "{line}")?;
    }
    if !report.strays.is_empty() {
        writeln!(out, "\nLive agent processes that belong to no stored session:")?;
        for line in page.strays(report).lines(out.width().saturating_sub(2), out.paint) {
            writeln!(out, "  {line}")?;
        }
    }
    if !report.orphans.is_empty() {
        writeln!(out, "\nProcesses that outlived their session (`agentctl doctor --reap` ends them):")?;
        for line in Page::orphans(report).lines(out.width().saturating_sub(2), out.paint) {
            writeln!(out, "  {line}")?;
        }
    }
    if !report.unattended.is_empty() {
        writeln!(out, "\nServers of held sessions whose runner is gone (they go on; what ends one):")?;
        for line in Page::unattended(report).lines(out.width().saturating_sub(2), out.paint) {
            writeln!(out, "  {line}")?;
        }
    }
    if !report.reaped.is_empty() {
        let pids: Vec<String> = report.reaped.iter().map(|entry| entry.pid.to_string()).collect();
        writeln!(out, "\nended: {}", pids.join(", "))?;
    }
    if report.expired_launches > 0 {
        let records = text::counted(report.expired_launches, "launch record", "launch records");
        writeln!(out, "\n{records} older than they are kept; `agentctl prune` removes them")?;
    }
    writeln!(out)?;
    let verdict = if report.healthy {
        out.paint.apply(Tone::Good, "nothing is broken")
    } else {
        out.paint.bad("something is broken, see above")
    };
    writeln!(out, "{verdict}")?;
    Ok(())
}

struct Page<'a> {
    paint: Paint,
    width: usize,
    surroundings: &'a Surroundings,
}

impl Page<'_> {
    fn line(&self, mark: &str, tone: Tone, label: &str, words: &str) -> String {
        /// The column at which the text begins: two spaces, the mark, the label, and a space after each.
        const WORDS: usize = 2 + 2 + 9;
        let words = wrap(&text::one_line(words), self.width.saturating_sub(WORDS).max(20));
        let words = words.join(&format!("\n{:WORDS$}", ""));
        format!("  {} {} {words}", self.paint.apply(tone, mark), self.paint.dim(&format!("{label:<8}")))
    }

    fn shown(&self, path: &str) -> String {
        path::shown(path, self.surroundings.home.as_deref())
    }

    fn adapter(&self, adapter: &AdapterReport) -> Vec<String> {
        let mut lines =
            vec![format!("{}  {}", self.paint.strong(adapter.title), self.paint.dim(adapter.name))];
        if !adapter.enabled {
            lines.push(self.line(
                NONE,
                Tone::Dim,
                "off",
                "disabled in the settings; its sessions are not read",
            ));
        }
        let known = format!("storage observed with {}", adapter.known_good);
        lines.push(match (&adapter.program, &adapter.version) {
            (Some(program), Some(version)) => self.line(
                GOOD,
                Tone::Good,
                "program",
                &format!("{} {version} ({known})", self.shown(program)),
            ),
            (Some(program), None) => {
                let words = format!("{}, version not written beside it ({known})", self.shown(program));
                self.line(GOOD, Tone::Good, "program", &words)
            }
            (None, _) => self.line(NONE, Tone::Dim, "program", "not on the PATH"),
        });
        for place in &adapter.sources {
            lines.extend(self.place(place, adapter.program.is_some()));
        }
        if !adapter.drift.is_empty() {
            let kinds: Vec<String> =
                adapter.drift.iter().map(|(kind, count)| format!("{kind} ×{count}")).collect();
            let words = format!("record types not known here: {}", kinds.join(", "));
            lines.push(self.line("!", Tone::Attention, "drift", &words));
        }
        lines
    }

    fn over_acp(&self, agent: &AcpReport) -> Vec<String> {
        let name = text::one_line(&agent.name);
        let mut lines =
            vec![format!("{}  {}", self.paint.strong(&text::one_line(&agent.title)), self.paint.dim(&name))];
        let Some(program) = &agent.program else {
            let words = format!("no `{}` on the PATH", agent.command.first().map_or("", String::as_str));
            lines.push(self.line(BAD, Tone::Bad, "program", &words));
            return lines;
        };
        let version = agent.version.as_deref().unwrap_or("version not written beside it");
        let node = agent.node.as_ref().map(|node| format!(", on Node {node}")).unwrap_or_default();
        lines.push(self.line(
            GOOD,
            Tone::Good,
            "program",
            &format!("{} {version}{node}", self.shown(program)),
        ));
        lines.push(self.line(NONE, Tone::Dim, "command", &agent.command.join(" ")));
        if let Some(native) = agent.native {
            let words = format!("its sessions are those of {native}");
            lines.push(self.line(NONE, Tone::Dim, "sessions", &words));
        }
        lines.push(match (&agent.said, &agent.error) {
            (Some(said), _) => {
                let version = said.version.as_deref().unwrap_or("of no version");
                let words = format!(
                    "{} {version}, ACP version {}, offers {}",
                    said.name.as_deref().unwrap_or("an agent without a name"),
                    said.protocol_version,
                    if said.capabilities.is_empty() {
                        "nothing more".to_owned()
                    } else {
                        said.capabilities.join(", ")
                    },
                );
                self.line(GOOD, Tone::Good, "says", &words)
            }
            (None, Some(why)) => self.line(BAD, Tone::Bad, "says", &format!("nothing: {why}")),
            (None, None) => self.line(
                NONE,
                Tone::Dim,
                "says",
                "`agentctl doctor --acp` starts it and asks what it offers",
            ),
        });
        lines
    }

    /// `installed`: whether the program was found, whatever it has stored.
    fn place(&self, place: &Place, installed: bool) -> Vec<String> {
        let heard = &place.heard;
        let root = self.shown(&heard.root);
        let mut lines = vec![match place.readable {
            _ if root.contains("://") => self.line(NONE, Tone::Dim, "gateway", &root),
            Some(true) => self.line(GOOD, Tone::Good, "root", &root),
            Some(false) => self.line(BAD, Tone::Bad, "root", &format!("{root} cannot be opened")),
            None => self.line(NONE, Tone::Dim, "root", &format!("{root} is not there")),
        }];
        let sessions = match heard.sessions {
            Some(count) => format!("{}, ", text::counted(count, "session", "sessions")),
            None => String::new(),
        };
        let coverage = match heard.coverage {
            CoverageKind::NotInstalled if installed => "nothing stored here yet",
            other => other.as_str(),
        };
        let words = format!("{coverage}, {sessions}{} ms", heard.took_ms);
        let (mark, tone) = match heard.coverage {
            CoverageKind::Complete => (GOOD, Tone::Good),
            CoverageKind::NotInstalled => (NONE, Tone::Dim),
            CoverageKind::Partial | CoverageKind::TimedOut | CoverageKind::Failed => (BAD, Tone::Bad),
        };
        lines.push(self.line(mark, tone, "heard", &words));
        lines.extend(heard.error.iter().map(|error| self.line(BAD, Tone::Bad, "error", error)));
        lines.extend(heard.warnings.iter().map(|words| self.line("!", Tone::Attention, "warning", words)));
        lines
    }

    fn machine(&self, report: &Report) -> Vec<String> {
        let config = &report.config;
        let place = config.path.as_deref().map_or_else(|| "no HOME".to_owned(), |path| self.shown(path));
        let mut lines = vec![self.paint.strong("This machine")];
        lines.push(match (&config.error, config.exists) {
            (Some(error), _) => self.line(BAD, Tone::Bad, "config", error),
            (None, true) => self.line(GOOD, Tone::Good, "config", &place),
            (None, false) => {
                self.line(NONE, Tone::Dim, "config", &format!("{place} is not there; defaults are used"))
            }
        });
        let kernel = &report.kernel;
        let missing: Vec<&str> = [
            ("file locks", kernel.locks),
            ("open files", kernel.open_files),
            ("environments", kernel.environ),
        ]
        .into_iter()
        .filter_map(|(what, seen)| (!seen).then_some(what))
        .collect();
        lines.push(if missing.is_empty() {
            self.line(GOOD, Tone::Good, "kernel", "processes, locks, open files and environments can be seen")
        } else {
            let words = format!("cannot show {}; some sessions stay unknown", missing.join(", "));
            self.line("!", Tone::Attention, "kernel", &words)
        });
        lines.extend(self.daemon(&report.daemon));
        for untold in &report.untold {
            let to = untold.session.as_deref().or(untold.agent.as_deref()).unwrap_or("nobody");
            let state = if untold.tried { "not told yet" } else { "never told" };
            let why = untold.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
            let session = untold.session_id.as_deref().unwrap_or(&untold.launch);
            let words = format!("{to} was {state} that {session} ended{why}");
            lines.push(self.line("!", Tone::Attention, "callback", &words));
        }
        lines
    }

    fn daemon(&self, daemon: &DaemonReport) -> Vec<String> {
        let log =
            daemon.log.as_deref().map(|log| format!(", log in {}", self.shown(log))).unwrap_or_default();
        let line = |mark, tone, words: &str| self.line(mark, tone, "daemon", words);
        let mut lines = vec![match (daemon.answers, daemon.pid) {
            (Some(true), Some(pid)) => line(GOOD, Tone::Good, &format!("runs, pid {pid}{log}")),
            (Some(_), _) => {
                line(BAD, Tone::Bad, "holds its lock and does not answer; `agentctl daemon restart` ends it")
            }
            (None, _) => line(NONE, Tone::Dim, "does not run; commands that need it start it"),
        }];
        if let (Some(version), Some(false)) = (&daemon.version, daemon.same_version) {
            let words = format!("is of version {version}; `agentctl daemon restart` starts this one");
            lines.push(line("!", Tone::Attention, &words));
        }
        lines.extend(daemon.troubles.iter().map(|words| line("!", Tone::Attention, words)));
        let stale = daemon.stale_files.iter();
        lines.extend(stale.map(|path| {
            let words = format!("{} has no daemon behind it; the next daemon removes it", self.shown(path));
            self.line("!", Tone::Attention, "stale", &words)
        }));
        lines
    }

    fn unattended(report: &Report) -> Table {
        let mut table = Table::new(vec![
            Column::whole("PID"),
            Column::whole("AGE").expendable(2),
            Column::whole("AGENT"),
            Column::whole("LAUNCH"),
            Column::whole("STATUS").expendable(1),
            Column::whole("ENDS BY ITSELF"),
            Column::flexible("OR WITH", 18),
        ]);
        for server in &report.unattended {
            let age = server.started_at.map(|start| time::ago(report.as_of, start));
            let ends = server.ends_at.map_or_else(
                || "no".to_owned(),
                |at| {
                    if at <= report.as_of {
                        "now".to_owned()
                    } else {
                        format!("in {}", time::ahead(at, report.as_of))
                    }
                },
            );
            table.row(vec![
                Cell::plain(server.pid.to_string()),
                Cell::plain(age.unwrap_or_default()),
                Cell::plain(text::one_line(&server.adapter)),
                Cell::plain(text::one_line(&server.launch)),
                Cell::plain(server.status.map_or("not found", Status::as_str)),
                Cell::plain(ends),
                Cell::plain(text::one_line(&server.hint)),
            ]);
        }
        table
    }

    fn orphans(report: &Report) -> Table {
        let mut table = Table::new(vec![
            Column::whole("PID"),
            Column::whole("AGE"),
            Column::whole("MEMORY"),
            Column::whole("AGENT"),
            Column::flexible("SESSION", 8),
            Column::flexible("COMMAND", 8),
        ]);
        for orphan in &report.orphans {
            let age = orphan.started_at.map(|start| time::ago(report.as_of, start));
            table.row(vec![
                Cell::plain(orphan.pid.to_string()),
                Cell::plain(age.unwrap_or_default()),
                Cell::plain(orphan.memory.map(bytes).unwrap_or_default()),
                Cell::plain(text::one_line(&orphan.adapter)),
                Cell::plain(
                    orphan.session_id.as_deref().map_or_else(|| "not known".to_owned(), text::one_line),
                ),
                Cell::plain(text::one_line(&orphan.command)),
            ]);
        }
        table
    }

    fn strays(&self, report: &Report) -> Table {
        let mut table = Table::new(vec![
            Column::whole("PID"),
            Column::whole("AGE"),
            Column::whole("AGENT"),
            Column::flexible("COMMAND", 8),
            Column::flexible("CWD", 10).keep_end(),
        ]);
        for stray in &report.strays {
            let age = stray.started_at.map(|start| time::ago(report.as_of, start));
            table.row(vec![
                Cell::plain(stray.pid.to_string()),
                Cell::plain(age.unwrap_or_default()),
                Cell::plain(text::one_line(&stray.adapter)),
                Cell::plain(text::one_line(&stray.command)),
                Cell::plain(stray.cwd.as_deref().map(|cwd| self.shown(cwd)).unwrap_or_default()),
            ]);
        }
        table
    }
}

/// A size such as "12 MB".
pub(super) fn bytes(count: u64) -> String {
    let units = ["B", "KB", "MB", "GB"];
    let mut unit = 0;
    let mut left = count;
    while left >= 10_000 && unit + 1 < units.len() {
        left /= 1000;
        unit += 1;
    }
    format!("{left} {}", units[unit])
}
