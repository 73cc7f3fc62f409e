//! `agentctl status ID`: everything about one session.

use std::io::Write;

use agentctl_fleet::Purpose;
use agentctl_model::{Session, Tokens, text};
use jiff::Timestamp;

use super::target::Target;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::Link;
use crate::output::Output;
use crate::render::style::{self, Tone};
use crate::render::width::{measure, wrap};
use crate::render::{json, path, request, sessions, time};
use crate::surroundings::Surroundings;

/// Show everything about one session, evidence included
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    agentctl status 5f0c\n  \
    agentctl status 'my session name'\n  \
    agentctl status 5f0c --json | jq .status")]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// The session object as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let link = Link::open(surroundings)?;
    let located = args.target.find(Purpose::Show, &link, surroundings, out)?;
    let found = &located.found;
    if args.json {
        json::answer(out, &found.session)?;
    } else {
        // The times of another machine are told by its own clock.
        let now = located.as_of.unwrap_or_else(|| surroundings.now());
        Sheet { surroundings, now, label: LABEL, out }.session(
            &found.session,
            &located.id(),
            &surroundings.records(&found.place),
        )?;
    }
    Ok(Exit::Done)
}

/// Our own labels fit into this width; an agent may have longer ones, up to a bound.
const LABEL: usize = 13;
const WIDEST_LABEL: usize = 24;

/// Aligned keys and values.
struct Sheet<'a> {
    surroundings: &'a Surroundings,
    now: Timestamp,
    label: usize,
    out: &'a mut Output,
}

impl Sheet<'_> {
    fn session(&mut self, session: &Session, id: &str, place: &str) -> Result<(), Failure> {
        let widest = session.meta.keys().map(|key| key.chars().count() + 1).max().unwrap_or(0);
        self.label = widest.clamp(LABEL, WIDEST_LABEL);
        let look = style::look(session.status, session.outcome);
        let time = style::time_in_status(session, self.now).map(|d| format!(" for {}", time::short(d)));
        let outcome = session.outcome.filter(|_| session.status != agentctl_model::Status::Stopped);
        let outcome = outcome.map(|outcome| format!(", last turn {}", outcome.as_str()));
        let status = format!(
            "{} {}{}{}",
            look.glyph,
            look.word,
            time.unwrap_or_default(),
            outcome.unwrap_or_default()
        );
        self.line("status", &status, look.tone)?;
        let said =
            |detail: &&str| session.pending.iter().any(|pending| pending.summary.as_deref() == Some(detail));
        self.maybe("", session.status_detail.as_deref().filter(|detail| !said(detail)))?;
        for pending in &session.pending {
            let kind = serde_json::to_value(pending.kind).ok();
            let kind = kind.as_ref().and_then(|kind| kind.as_str()).unwrap_or("pending").to_owned();
            match pending.summary.as_deref() {
                Some(request) => {
                    self.line("waits for", &kind, Tone::Attention)?;
                    self.request(request)?;
                }
                None => self.line("waits for", &format!("{kind}: no words about it"), Tone::Attention)?,
            }
        }
        self.line("id", id, Tone::Strong)?;
        self.line("agent", &session.adapter, Tone::Plain)?;
        self.maybe("name", session.name.as_deref())?;
        self.maybe("prompt", session.prompt.as_deref())?;
        self.maybe("last message", session.last_message.as_deref())?;
        self.folder("folder", session.cwd.as_deref())?;
        self.maybe("branch", session.branch.as_deref())?;
        self.maybe("model", session.model.as_deref())?;
        self.moment("started", session.started_at)?;
        self.moment("last active", session.updated_at)?;
        self.moment("stopped", session.stopped_at)?;
        self.maybe("tokens", session.tokens.as_ref().map(tokens).as_deref())?;
        self.maybe("cost", session.cost.map(sessions::cost).as_deref())?;
        for process in &session.processes {
            let age = process.started_at.map(|start| format!(", started {} ago", time::ago(self.now, start)));
            let words =
                format!("{} {} ({}){}", process.pid, process.command, process.role, age.unwrap_or_default());
            self.line("process", &words, Tone::Plain)?;
        }
        if let Some(parent) = &session.parent_id {
            let relation = session.relation.map_or("child", |relation| match relation {
                agentctl_model::Relation::Subagent => "sub-agent",
                agentctl_model::Relation::Fork => "fork",
            });
            self.line("came from", &format!("{relation} of {parent}"), Tone::Plain)?;
        }
        self.maybe("group", session.group.as_deref())?;
        self.maybe("launch", session.launch.as_ref().map(|launch| launch.id.as_str()))?;
        self.folder("config root", Some(&session.config_root))?;
        self.folder("records", Some(place).filter(|place| *place != session.config_root))?;
        let can: Vec<&str> = session.capabilities.iter().map(|capability| capability.as_str()).collect();
        self.maybe("can", Some(can.join(", ")).filter(|can| !can.is_empty()).as_deref())?;
        if let Some(native) = &session.meta.native {
            self.line("native", &format!("{} {}", native.adapter, native.id), Tone::Dim)?;
        }
        for (key, value) in session.meta.iter() {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            self.line(key, &value, Tone::Dim)?;
        }
        for (index, evidence) in session.evidence.iter().enumerate() {
            let label = if index == 0 { "because" } else { "" };
            let age = evidence.at.map(|at| format!(" ({} ago)", time::ago(self.now, at))).unwrap_or_default();
            self.line(label, &format!("{}: {}{age}", evidence.source.as_str(), evidence.fact), Tone::Plain)?;
        }
        Ok(())
    }

    /// A request is shown in full, because a person decides about it.
    fn request(&mut self, request: &str) -> Result<(), Failure> {
        for line in request::lines(request, self.label, self.out.width()) {
            writeln!(self.out, "{line}")?;
        }
        Ok(())
    }

    fn maybe(&mut self, label: &str, value: Option<&str>) -> Result<(), Failure> {
        value.map_or(Ok(()), |value| self.line(label, value, Tone::Plain))
    }

    /// A path stays in one piece so that it can be copied.
    fn folder(&mut self, label: &str, value: Option<&str>) -> Result<(), Failure> {
        let Some(value) = value else { return Ok(()) };
        let shown = path::shown(value, self.surroundings.home.as_deref());
        // If there is no room for both, the path gets its own line.
        let gap = if self.label + measure(&shown) > self.out.width() { "\n  " } else { "" };
        let width = if gap.is_empty() { self.label } else { 0 };
        let label = self.out.paint.dim(&format!("{label:<width$}"));
        writeln!(self.out, "{label}{gap}{shown}")?;
        Ok(())
    }

    fn moment(&mut self, label: &str, value: Option<Timestamp>) -> Result<(), Failure> {
        let shown = value.map(|value| time::moment(self.now, value, &self.surroundings.zone));
        self.maybe(label, shown.as_deref())
    }

    /// Long values are continued below themselves; no line is wider than the screen.
    fn line(&mut self, label: &str, value: &str, tone: Tone) -> Result<(), Failure> {
        let label = text::one_line(label);
        let room = self.out.width().saturating_sub(self.label).max(20);
        let paint = self.out.paint;
        for (index, line) in wrap(text::clean(value).trim(), room).iter().enumerate() {
            let label = if index == 0 { label.as_str() } else { "" };
            let label = paint.dim(&format!("{label:<width$} ", width = self.label - 1));
            writeln!(self.out, "{label}{}", paint.apply(tone, line))?;
        }
        Ok(())
    }
}

fn tokens(tokens: &Tokens) -> String {
    let parts = [
        ("in", tokens.input),
        ("out", tokens.output),
        ("read from cache", tokens.cache_read),
        ("written to cache", tokens.cache_write),
    ];
    let known = parts.iter().filter_map(|(word, count)| count.map(|count| format!("{count} {word}")));
    known.collect::<Vec<_>>().join(", ")
}
