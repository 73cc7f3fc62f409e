//! The session a command is about: what was typed, what narrows it, and what to say when that is not one session.

use std::path::PathBuf;

use agentctl_fleet::{FindError, Fleet, Purpose, Selector};
use agentctl_model::{SourceReport, Surveyed, text};
use clap::builder::NonEmptyStringValueParser;
use clap_complete::engine::ArgValueCompleter;

use super::{complete, heard};
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::Asked;
use crate::output::Output;
use crate::render::sessions::{View, candidates};
use crate::surroundings::Surroundings;

#[derive(Debug, clap::Args)]
pub(crate) struct Target {
    /// Full id, unique beginning of one, or exact name
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new(), add = ArgValueCompleter::new(complete::sessions))]
    id: String,
    #[command(flatten)]
    narrowed: Narrowed,
}

/// For commands that take several.
#[derive(Debug, clap::Args)]
pub(crate) struct Targets {
    /// Full id, unique beginning of one, or exact name
    #[arg(value_name = "ID", required = true, value_parser = NonEmptyStringValueParser::new(), add = ArgValueCompleter::new(complete::sessions))]
    ids: Vec<String>,
    #[command(flatten)]
    narrowed: Narrowed,
}

/// What tells sessions apart that share an id or a name.
#[derive(Debug, clap::Args)]
pub(crate) struct Narrowed {
    /// Only sessions of this agent
    #[arg(long, value_name = "NAME", value_parser = super::adapter_names())]
    adapter: Option<String>,
    /// Only sessions stored under this config root
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    root: Option<PathBuf>,
    /// Only sessions that work in this folder
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    cwd: Option<PathBuf>,
}

impl Target {
    /// The one session that is meant, and the answer it was found in.
    pub(crate) fn find(
        &self,
        purpose: Purpose,
        asked: &impl Asked,
        surroundings: &Surroundings,
        out: &mut Output,
    ) -> Result<(Surveyed, Vec<SourceReport>), Failure> {
        heard::warn_unread(&self.narrowed.adapter, asked.fleet(), out);
        let found = self.narrowed.find(&self.id, purpose, asked, surroundings, out)?;
        heard::warn(&found.1, surroundings, out);
        Ok(found)
    }
}

/// What several ids led to.
#[derive(Debug)]
pub(crate) struct Found {
    /// Each once, in the order they were typed.
    pub(crate) sessions: Vec<Surveyed>,
    /// What was typed and is no one session, and why.
    pub(crate) bad: Vec<(String, String)>,
    /// The worst of what is bad.
    pub(crate) exit: Exit,
}

impl Targets {
    /// The sessions that are meant. Of several ids a bad one is told and does not keep the others; one that is alone is
    /// the failure itself.
    pub(crate) fn find(
        &self,
        purpose: Purpose,
        asked: &impl Asked,
        surroundings: &Surroundings,
        out: &mut Output,
    ) -> Result<Found, Failure> {
        heard::warn_unread(&self.narrowed.adapter, asked.fleet(), out);
        let mut found = Found { sessions: Vec::new(), bad: Vec::new(), exit: Exit::Done };
        let mut hints: Vec<String> = Vec::new();
        for id in &self.ids {
            let (session, sources) = match self.narrowed.find(id, purpose, asked, surroundings, out) {
                Ok(one) => one,
                Err(Failure::Said { message, hint, exit }) if self.ids.len() > 1 => {
                    out.error(&message);
                    hints.extend(hint.filter(|hint| !hints.contains(hint)));
                    found.exit = found.exit.or_worse(exit);
                    found.bad.push((id.clone(), message));
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            // Every answer has all sources in it; once is enough to say which of them were silent.
            if found.sessions.is_empty() {
                heard::warn(&sources, surroundings, out);
            }
            if !found.sessions.iter().any(|known| known.key == session.key) {
                found.sessions.push(session);
            }
        }
        for hint in &hints {
            out.hint(hint);
        }
        Ok(found)
    }
}

impl Narrowed {
    pub(crate) fn by(adapter: Option<String>, root: Option<PathBuf>, cwd: Option<PathBuf>) -> Self {
        Self { adapter, root, cwd }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.adapter.is_none() && self.root.is_none() && self.cwd.is_none()
    }

    /// The folder that was typed.
    pub(crate) fn cwd(&self, surroundings: &Surroundings) -> Option<String> {
        self.cwd.as_ref().map(|cwd| surroundings.meant(cwd).to_string_lossy().into_owned())
    }

    pub(crate) fn find(
        &self,
        id: &str,
        purpose: Purpose,
        asked: &impl Asked,
        surroundings: &Surroundings,
        out: &Output,
    ) -> Result<(Surveyed, Vec<SourceReport>), Failure> {
        let selector = Selector {
            text: id.to_owned(),
            adapter: self.adapter.clone(),
            root: self.root(asked.fleet(), surroundings)?,
            cwd: self.cwd(surroundings),
        };
        let explain = |error| self.explain(&error, surroundings, out.aside_width());
        let (found, sources) = asked.find(&selector, purpose).map_err(explain)?;
        if purpose == Purpose::Act && found.key.id != id {
            refuse_beside_a_mistake(id, &found.key.id, surroundings)?;
        }
        Ok((found, sources))
    }

    /// The root as the source that has it spells it.
    fn root(&self, fleet: &Fleet, surroundings: &Surroundings) -> Result<Option<String>, Failure> {
        let Some(given) = &self.root else { return Ok(None) };
        let meant = surroundings.meant(given);
        let known = fleet.sources().iter().map(|source| &source.root.path);
        let same = |path: &&PathBuf| **path == *given || surroundings.meant(path) == meant;
        if let Some(path) = known.clone().find(same) {
            return Ok(Some(path.to_string_lossy().into_owned()));
        }
        // Two agents may share a root, which is one place to name.
        let mut known: Vec<String> = known.map(|path| surroundings.shown(path)).collect();
        known.sort_unstable();
        known.dedup();
        let failure = Failure::new(Exit::NotFound, format!("no source reads {}", meant.display()));
        Err(failure.hint(format!("these are read: {}", known.join(", "))))
    }

    fn explain(&self, error: &FindError, surroundings: &Surroundings, width: usize) -> Failure {
        match error {
            FindError::NotFound { text } => {
                // Where it would be stored may be what the mistake left out: silence is no verdict.
                if let Some(mistake) =
                    surroundings.settings().ok().and_then(|all| all.hides_sessions().cloned())
                {
                    let first = format!(
                        "`{}` was not found, but not everything could be asked",
                        text::one_line(text)
                    );
                    let message = paragraph(first, std::iter::once(surroundings.told(&mistake)));
                    return Failure::new(Exit::Incomplete, message).hint("correct it, and ask again");
                }
                let (fit, next) = if self.is_empty() {
                    ("", "`agentctl list --all --since all` shows everything that is stored")
                } else {
                    ("that fits ", "it may be found without --adapter, --root or --cwd")
                };
                let message = format!("no session {fit}has the id or name `{}`", text::one_line(text));
                Failure::new(Exit::NotFound, message).hint(next)
            }
            FindError::NotHeard { text, sources } => {
                let first =
                    format!("`{}` was not found, but not everything could be heard", text::one_line(text));
                let unheard = sources.iter().map(|source| heard::words(source, surroundings));
                let message = paragraph(first, unheard);
                Failure::new(Exit::Incomplete, message).hint("`agentctl doctor` says more about each source")
            }
            FindError::NotProven { text, id, sources } => {
                not_proven(text, id, sources.iter().map(|source| heard::words(source, surroundings)))
            }
            FindError::Ambiguous { text, candidates: found } => {
                let view = View {
                    now: surroundings.now(),
                    home: surroundings.home.as_deref(),
                    usage: false,
                    whole: true,
                    columns: None,
                };
                let first = format!("`{}` fits {} sessions", text::one_line(text), found.len());
                let message = paragraph(first, candidates(found, &view, width.saturating_sub(2)).into_iter());
                Failure::new(Exit::Ambiguous, message)
                    .hint("give more of the id, or narrow it with --adapter, --root or --cwd")
            }
        }
    }
}

/// Where another session that fits would be stored may be what a mistake in the settings left out.
fn refuse_beside_a_mistake(typed: &str, id: &str, surroundings: &Surroundings) -> Result<(), Failure> {
    match surroundings.settings().ok().and_then(|all| all.hides_sessions().cloned()) {
        None => Ok(()),
        Some(mistake) => Err(not_proven(typed, id, std::iter::once(surroundings.told(&mistake)))),
    }
}

/// What fits one session may fit another where nothing was heard. A whole id needs no such proof.
fn not_proven(typed: &str, id: &str, unheard: impl Iterator<Item = String>) -> Failure {
    let (typed, id) = (text::one_line(typed), text::one_line(id));
    let first = format!("`{typed}` fits {id}, but may fit another session: not everything could be heard");
    Failure::new(Exit::Incomplete, paragraph(first, unheard)).hint(format!("give the whole id: {id}"))
}

/// A sentence with lines below it.
fn paragraph(first: String, below: impl Iterator<Item = String>) -> String {
    std::iter::once(first).chain(below.map(|line| format!("  {line}"))).collect::<Vec<_>>().join("\n")
}
