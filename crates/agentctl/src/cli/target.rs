//! The session that a command is about: the typed text, the options that narrow it, and the error when they
//! do not match exactly one session.

use std::path::PathBuf;

use agentctl_fleet::{FindError, Fleet, Purpose, Selector};
use agentctl_model::{Error, ErrorKind, SourceReport, Surveyed, text};
use clap::builder::NonEmptyStringValueParser;
use clap_complete::engine::ArgValueCompleter;

use super::{complete, coverage};
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::SessionFinder;
use crate::output::Output;
use crate::render::sessions::{View, candidates};
use crate::surroundings::Surroundings;

#[derive(Debug, clap::Args)]
pub(crate) struct Target {
    /// Full id, unique beginning of one, or exact name
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new(), add = ArgValueCompleter::new(complete::sessions))]
    id: String,
    #[command(flatten)]
    narrowed: NarrowingArgs,
}

/// For commands that take several.
#[derive(Debug, clap::Args)]
pub(crate) struct Targets {
    /// Full id, unique beginning of one, or exact name
    #[arg(value_name = "ID", required = true, value_parser = NonEmptyStringValueParser::new(), add = ArgValueCompleter::new(complete::sessions))]
    ids: Vec<String>,
    #[command(flatten)]
    narrowed: NarrowingArgs,
}

/// What tells sessions apart that share an id or a name.
#[derive(Debug, clap::Args)]
pub(crate) struct NarrowingArgs {
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
    /// The adapter that was named.
    pub(crate) fn adapter(&self) -> Option<&str> {
        self.narrowed.adapter.as_deref()
    }

    /// The one session that is meant, and the coverage of the survey that found it.
    pub(crate) fn find(
        &self,
        purpose: Purpose,
        finder: &impl SessionFinder,
        surroundings: &Surroundings,
        out: &mut Output,
    ) -> Result<(Surveyed, Vec<SourceReport>), Failure> {
        coverage::warn_unread(&self.narrowed.adapter, finder.fleet(), out);
        let found = self.narrowed.find(&self.id, purpose, finder, surroundings, out)?;
        coverage::warn(&found.1, surroundings, out);
        Ok(found)
    }
}

/// The result of looking up several ids.
#[derive(Debug)]
pub(crate) struct Found {
    /// Each session once, in the order typed.
    pub(crate) sessions: Vec<Surveyed>,
    /// The texts that do not match exactly one session, with the reasons.
    pub(crate) bad: Vec<(String, Error)>,
}

impl Found {
    /// The worst exit code among these.
    pub(crate) fn exit(&self) -> Exit {
        self.bad.iter().map(|(_, error)| error.kind.into()).fold(Exit::Done, Exit::or_worse)
    }
}

impl Targets {
    /// The sessions that are meant. Among several ids a bad one is reported and does not prevent the others;
    /// a single bad id is an error.
    pub(crate) fn find(
        &self,
        purpose: Purpose,
        finder: &impl SessionFinder,
        surroundings: &Surroundings,
        out: &mut Output,
    ) -> Result<Found, Failure> {
        coverage::warn_unread(&self.narrowed.adapter, finder.fleet(), out);
        let mut found = Found { sessions: Vec::new(), bad: Vec::new() };
        let mut hints: Vec<String> = Vec::new();
        for id in &self.ids {
            let (session, sources) = match self.narrowed.find(id, purpose, finder, surroundings, out) {
                Ok(one) => one,
                Err(Failure::Said(error)) if self.ids.len() > 1 => {
                    out.error(&error.message);
                    hints.extend(error.hint.clone().filter(|hint| !hints.contains(hint)));
                    found.bad.push((id.clone(), error));
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            // Every answer covers all sources, so one warning about the incomplete ones is enough.
            if found.sessions.is_empty() {
                coverage::warn(&sources, surroundings, out);
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

impl NarrowingArgs {
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
        finder: &impl SessionFinder,
        surroundings: &Surroundings,
        out: &Output,
    ) -> Result<(Surveyed, Vec<SourceReport>), Failure> {
        let selector = Selector {
            text: id.to_owned(),
            adapter: self.adapter.clone(),
            root: self.root(finder.fleet(), surroundings)?,
            cwd: self.cwd(surroundings),
        };
        let explain = |error| self.explain(&error, surroundings, out.aside_width());
        let (found, sources) = finder.find(&selector, purpose).map_err(explain)?;
        if purpose == Purpose::Act && found.key.id != id {
            refuse_beside_a_mistake(id, &found.key.id, surroundings)?;
        }
        Ok((found, sources))
    }

    /// The root in the spelling of the source that has it.
    fn root(&self, fleet: &Fleet, surroundings: &Surroundings) -> Result<Option<String>, Failure> {
        let Some(given) = &self.root else { return Ok(None) };
        let meant = surroundings.meant(given);
        let known = fleet.sources().iter().map(|source| &source.root.path);
        let same = |path: &&PathBuf| **path == *given || surroundings.meant(path) == meant;
        if let Some(path) = known.clone().find(same) {
            return Ok(Some(path.to_string_lossy().into_owned()));
        }
        // Two agents may share a root, which is then named once.
        let mut known: Vec<String> = known.map(|path| surroundings.shown(path)).collect();
        known.sort_unstable();
        known.dedup();
        let failure = Failure::new(ErrorKind::NotFound, format!("no source reads {}", meant.display()));
        Err(failure.hint(format!("these are read: {}", known.join(", "))))
    }

    fn explain(&self, error: &FindError, surroundings: &Surroundings, width: usize) -> Failure {
        match error {
            FindError::NotFound { text } => {
                // The mistake may hide the source that stores the session: a missing answer is no verdict.
                if let Some(mistake) =
                    surroundings.settings().ok().and_then(|all| all.hides_sessions().cloned())
                {
                    let first = format!(
                        "`{}` was not found, but not everything could be asked",
                        text::one_line(text)
                    );
                    let message = paragraph(first, std::iter::once(surroundings.describe(&mistake)));
                    return Failure::new(ErrorKind::Incomplete, message).hint("correct it, and ask again");
                }
                let (fit, next) = if self.is_empty() {
                    ("", "`agentctl list --all --since all` shows everything that is stored")
                } else {
                    ("that fits ", "it may be found without --adapter, --root or --cwd")
                };
                let message = format!("no session {fit}has the id or name `{}`", text::one_line(text));
                Failure::new(error.kind(), message).hint(next)
            }
            FindError::NotHeard { text, sources } => {
                let first =
                    format!("`{}` was not found, but not everything could be heard", text::one_line(text));
                let unheard = sources.iter().map(|source| coverage::words(source, surroundings));
                let message = paragraph(first, unheard);
                Failure::new(error.kind(), message).hint("`agentctl doctor` says more about each source")
            }
            FindError::NotProven { text, id, sources } => {
                not_proven(text, id, sources.iter().map(|source| coverage::words(source, surroundings)))
            }
            FindError::Ambiguous { text, candidates: found } => {
                let view = View {
                    now: surroundings.now(),
                    hosts: &[],
                    home: surroundings.home.as_deref(),
                    usage: false,
                    whole: true,
                    columns: None,
                };
                let first = format!("`{}` fits {} sessions", text::one_line(text), found.len());
                let message = paragraph(first, candidates(found, &view, width.saturating_sub(2)).into_iter());
                Failure::new(error.kind(), message)
                    .hint("give more of the id, or narrow it with --adapter, --root or --cwd")
            }
        }
    }
}

/// A mistake in the settings may hide the source of another matching session.
fn refuse_beside_a_mistake(typed: &str, id: &str, surroundings: &Surroundings) -> Result<(), Failure> {
    match surroundings.settings().ok().and_then(|all| all.hides_sessions().cloned()) {
        None => Ok(()),
        Some(mistake) => Err(not_proven(typed, id, std::iter::once(surroundings.describe(&mistake)))),
    }
}

/// A text that matches one session may match another in a source that was not read. A complete id needs no
/// such proof.
fn not_proven(typed: &str, id: &str, unheard: impl Iterator<Item = String>) -> Failure {
    let (typed, id) = (text::one_line(typed), text::one_line(id));
    let first = format!("`{typed}` fits {id}, but may fit another session: not everything could be heard");
    Failure::new(ErrorKind::Incomplete, paragraph(first, unheard)).hint(format!("give the whole id: {id}"))
}

/// A sentence with lines below it.
fn paragraph(first: String, below: impl Iterator<Item = String>) -> String {
    std::iter::once(first).chain(below.map(|line| format!("  {line}"))).collect::<Vec<_>>().join("\n")
}
