//! `agentctl explain ID`: why a session has its status.

use std::io::Write;

use agentctl_fleet::{Explanation, Purpose};
use agentctl_model::text;

use super::target::Target;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::Link;
use crate::output::Output;
use crate::render::style;
use crate::render::width::{measure, wrap};
use crate::render::{json, path, time};
use crate::surroundings::Surroundings;

/// Explain a session's status: each witness, what it said, when, and which rule decided
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    agentctl explain 5f0c\n  \
    agentctl explain 5f0c --json | jq -r .ruleText")]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// The explanation as JSON
    #[arg(long)]
    json: bool,
}

/// Wide enough for the longest witness and a time.
const LABEL: usize = 20;

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let link = Link::open(surroundings)?;
    let located = args.target.find(Purpose::Read, &link, surroundings, out)?;
    let (found, session) = (&located.found, &located.found.session);
    if args.json {
        json::answer(out, &Explanation::of(found, &located.sources))?;
        return Ok(Exit::Done);
    }
    let (paint, now) = (out.paint, located.as_of.unwrap_or_else(|| surroundings.now()));
    let look = style::look(session.status, session.outcome);
    let status = paint.apply(look.tone, &format!("{} {}", look.glyph, look.word));
    writeln!(out, "{} is {status}", text::one_line(&located.id()))?;
    if let Some(detail) = &session.status_detail {
        writeln!(out, "  {}", text::one_line(detail))?;
    }
    writeln!(out)?;
    labelled(out, "rule", found.rule.describe())?;
    for evidence in &session.evidence {
        let when = evidence.at.map(|at| format!(", {} ago", time::ago(now, at))).unwrap_or_default();
        let label = format!("{}{when}", evidence.source.as_str());
        labelled(out, &label, &evidence.fact.to_string())?;
    }
    let records = path::shown(&surroundings.records(&found.place), surroundings.home.as_deref());
    // A path stays in one piece so that it can be copied; if there is no room for both, it gets its own line.
    let label = if 2 + LABEL + measure(&records) > out.width() {
        "records\n    ".to_owned()
    } else {
        format!("{:<LABEL$}", "records")
    };
    writeln!(out, "  {}{records}", paint.dim(&label))?;
    Ok(Exit::Done)
}

/// Prints a label with its sentence beside it, on as many lines as needed.
fn labelled(out: &mut Output, label: &str, sentence: &str) -> Result<(), Failure> {
    let room = out.width().saturating_sub(2 + LABEL).max(20);
    for (index, line) in wrap(&text::one_line(sentence), room).iter().enumerate() {
        let label = if index == 0 { label } else { "" };
        let label = out.paint.dim(&format!("{label:<LABEL$}"));
        writeln!(out, "  {label}{line}")?;
    }
    Ok(())
}
