//! The session that a command is about: the typed text, the options that narrow it, and the error when they
//! do not match exactly one session.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentctl_fleet::{FindError, Fleet, Purpose, Selector};
use agentctl_hosts::RoadFailure;
use agentctl_model::{Error, ErrorKind, Road, SourceReport, Surveyed, text};
use clap::builder::NonEmptyStringValueParser;
use clap_complete::engine::ArgValueCompleter;

use super::host_args::HostArgs;
use super::{complete, coverage};
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::SessionFinder;
use crate::link::hosts::{Asked, Located, NotLocated, Roster, RosterHost, is_here, side_by_side};
use crate::output::Output;
use crate::render::sessions::{View, candidates};
use crate::surroundings::Surroundings;

#[derive(Debug, clap::Args)]
pub(crate) struct Target {
    /// Full id, unique beginning of one, or exact name; on another host HOST/ID
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new(), add = ArgValueCompleter::new(complete::sessions))]
    id: String,
    #[command(flatten)]
    narrowed: NarrowingArgs,
    #[command(flatten)]
    hosts: HostArgs,
}

/// For commands that take several.
#[derive(Debug, clap::Args)]
pub(crate) struct Targets {
    /// Full id, unique beginning of one, or exact name; on another host HOST/ID
    #[arg(value_name = "ID", required = true, value_parser = NonEmptyStringValueParser::new(), add = ArgValueCompleter::new(complete::sessions))]
    ids: Vec<String>,
    #[command(flatten)]
    narrowed: NarrowingArgs,
    #[command(flatten)]
    hosts: HostArgs,
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

    /// The one session that is meant, and where it is.
    pub(crate) fn find(
        &self,
        purpose: Purpose,
        finder: &impl SessionFinder,
        surroundings: &Surroundings,
        out: &mut Output,
    ) -> Result<Located, Failure> {
        let machines = Machines::of(&self.hosts, purpose, surroundings)?;
        self.narrowed.warn_unread(&machines, finder, out);
        let located = self.narrowed.locate(&self.id, purpose, &machines, finder, surroundings, out)?;
        coverage::warn(&located.sources, surroundings, out);
        Ok(located)
    }
}

/// The result of looking up several ids.
pub(crate) struct Found {
    /// Each session once, in the order typed.
    pub(crate) sessions: Vec<Located>,
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
    /// For a command whose ids may be left out.
    pub(crate) fn of(ids: Vec<String>, narrowed: NarrowingArgs, hosts: HostArgs) -> Self {
        Self { ids, narrowed, hosts }
    }

    /// The sessions that are meant. Among several ids a bad one is reported and does not prevent the others;
    /// a single bad id is an error.
    pub(crate) fn find(
        &self,
        purpose: Purpose,
        finder: &impl SessionFinder,
        surroundings: &Surroundings,
        out: &mut Output,
    ) -> Result<Found, Failure> {
        let machines = Machines::of(&self.hosts, purpose, surroundings)?;
        self.narrowed.warn_unread(&machines, finder, out);
        let mut found = Found { sessions: Vec::new(), bad: Vec::new() };
        let mut hints: Vec<String> = Vec::new();
        let mut warned: Vec<Option<String>> = Vec::new();
        for id in &self.ids {
            let located = match self.narrowed.locate(id, purpose, &machines, finder, surroundings, out) {
                Ok(one) => one,
                Err(Failure::Said(error)) if self.ids.len() > 1 => {
                    out.error(&error.message);
                    hints.extend(error.hint.clone().filter(|hint| !hints.contains(hint)));
                    found.bad.push((id.clone(), error));
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            // Every answer covers all sources of a machine, so one warning about the incomplete ones is enough.
            let place = located.far.as_ref().map(|far| far.name.to_string());
            if !warned.contains(&place) {
                coverage::warn(&located.sources, surroundings, out);
                warned.push(place);
            }
            if !found.sessions.iter().any(|known| known.is_same(&located)) {
                found.sessions.push(located);
            }
        }
        for hint in &hints {
            out.hint(hint);
        }
        Ok(found)
    }
}

impl NarrowingArgs {
    /// Warns of an adapter that was named and is not read on this machine: that may be why nothing is found.
    fn warn_unread(&self, machines: &Machines, finder: &impl SessionFinder, out: &mut Output) {
        if machines.asked.local {
            coverage::warn_unread(&self.adapter, finder.fleet(), out);
        }
    }

    pub(crate) fn by(adapter: Option<String>, root: Option<PathBuf>, cwd: Option<PathBuf>) -> Self {
        Self { adapter, root, cwd }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.adapter.is_none() && self.root.is_none() && self.cwd.is_none()
    }

    /// The adapter that was named.
    pub(crate) fn adapter(&self) -> Option<&str> {
        self.adapter.as_deref()
    }

    /// The folder as it was typed.
    pub(crate) fn typed_cwd(&self) -> Option<&Path> {
        self.cwd.as_deref()
    }

    /// Whether a config root was named.
    pub(crate) fn has_root(&self) -> bool {
        self.root.is_some()
    }

    /// The folder that was typed.
    pub(crate) fn cwd(&self, surroundings: &Surroundings) -> Option<String> {
        self.cwd.as_ref().map(|cwd| surroundings.meant(cwd).to_string_lossy().into_owned())
    }

    /// The one session that is meant, on whichever of these machines it is.
    pub(crate) fn locate(
        &self,
        id: &str,
        purpose: Purpose,
        machines: &Machines,
        finder: &impl SessionFinder,
        surroundings: &Surroundings,
        out: &Output,
    ) -> Result<Located, Failure> {
        let own_name = agentctl_fleet::own_name();
        let (asked, text) = match machines.named(id, &own_name) {
            None => (machines.asked.clone(), id),
            Some((asked, rest)) => {
                // Only this machine can have an id that looks like one of another machine.
                if !machines.given {
                    let whole = self.selector(id, finder.fleet(), surroundings)?;
                    match finder.find(&whole, Purpose::Read) {
                        Ok(_) | Err(FindError::Ambiguous { .. }) => return Err(two_meanings(id)),
                        Err(_) => {}
                    }
                }
                (asked, rest)
            }
        };
        if asked.is_here() {
            let (found, sources) = self.find(text, purpose, finder, surroundings, out)?;
            return Ok(Located { found, sources, far: None, as_of: None });
        }
        // Folders of other machines are not resolved here.
        let there = Selector {
            text: text.to_owned(),
            adapter: self.adapter.clone(),
            root: self.root.as_ref().map(|root| root.to_string_lossy().into_owned()),
            cwd: self.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into_owned()),
        };
        let mut search = Search::new(text, asked.local.then(|| surroundings.instance()));
        let here = asked.local.then(|| self.selector(text, finder.fleet(), surroundings)).transpose()?;
        let others = asked.each();
        let heard = side_by_side(&others, |host| host.find(&there, purpose));
        if let Some(here) = here {
            let found = finder.find(&here, purpose);
            let located = |(found, sources)| Located { found, sources, far: None, as_of: None };
            search.add(None, found.map(located).map_err(NotLocated::Not));
        }
        for (host, heard) in others.iter().zip(heard) {
            search.add(Some(host), heard);
        }
        search.end(|error, far| self.explain(&error, far, surroundings, out.aside_width()))
    }

    fn selector(&self, id: &str, fleet: &Fleet, surroundings: &Surroundings) -> Result<Selector, Failure> {
        Ok(Selector {
            text: id.to_owned(),
            adapter: self.adapter.clone(),
            root: self.root(fleet, surroundings)?,
            cwd: self.cwd(surroundings),
        })
    }

    pub(crate) fn find(
        &self,
        id: &str,
        purpose: Purpose,
        finder: &impl SessionFinder,
        surroundings: &Surroundings,
        out: &Output,
    ) -> Result<(Surveyed, Vec<SourceReport>), Failure> {
        let selector = self.selector(id, finder.fleet(), surroundings)?;
        let explain = |error| self.explain(&error, None, surroundings, out.aside_width());
        let (found, sources) = finder.find(&selector, purpose).map_err(explain)?;
        if purpose == Purpose::Act && found.key.id != id {
            refuse_beside_a_mistake(id, &found.key.id, surroundings)?;
        }
        Ok((found, sources))
    }

    /// The root in the spelling of the source that has it.
    pub(crate) fn root(&self, fleet: &Fleet, surroundings: &Surroundings) -> Result<Option<String>, Failure> {
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

    fn explain(
        &self,
        error: &FindError,
        far: Option<&RosterHost>,
        surroundings: &Surroundings,
        width: usize,
    ) -> Failure {
        match error {
            FindError::NotFound { text } if far.is_some() => {
                let name = far.map(|far| far.name.to_string()).unwrap_or_default();
                let message = format!("no session of {name} has the id or name `{}`", text::one_line(text));
                let next = format!(
                    "`agentctl list --host {name} --since all` shows everything that is stored there"
                );
                Failure::new(error.kind(), message).hint(next)
            }
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

/// The machines among which a session is looked for.
pub(crate) struct Machines {
    asked: Asked,
    /// Whether the command line names them.
    given: bool,
    roster: Option<Roster>,
}

impl Machines {
    pub(crate) fn of(
        hosts: &HostArgs,
        purpose: Purpose,
        surroundings: &Surroundings,
    ) -> Result<Self, Failure> {
        let given = hosts.are_given();
        let settings = surroundings.settings()?;
        if !given && settings.hosts.is_empty() && settings.nats.is_none() {
            return Ok(Self { asked: Asked::here(), given, roster: None });
        }
        let (roster, own_name) = (Roster::of(surroundings)?, agentctl_fleet::own_name());
        let asked = match purpose {
            Purpose::Act => hosts.meant(&roster, &own_name)?,
            Purpose::Show | Purpose::Read => hosts.asked(&roster, &own_name)?,
        };
        Ok(Self { asked, given, roster: Some(roster) })
    }

    /// The machine that stands in front of an id, and the rest of the text.
    fn named<'t>(&self, text: &'t str, own_name: &str) -> Option<(Asked, &'t str)> {
        let (name, rest) = text.split_once('/').filter(|(_, rest)| !rest.is_empty())?;
        let host = self.roster.as_ref().and_then(|roster| roster.get(name));
        let is_asked = |host: &Arc<RosterHost>| {
            self.asked.others.iter().any(|asked| asked.name == host.name)
                || (self.asked.bus.is_some() && host.road.via() == Road::Nats)
        };
        if let Some(host) = host.filter(|host| !self.given || is_asked(host)) {
            return Some((Asked::one(host), rest));
        }
        let is_here = self.roster.is_some() && self.asked.local && is_here(name, own_name);
        is_here.then(|| (Asked::here(), rest))
    }
}

fn two_meanings(id: &str) -> Failure {
    let id = text::one_line(id);
    let message = format!("`{id}` is a session of this machine, and one of the host in front of it");
    Failure::new(ErrorKind::Ambiguous, message)
        .hint("--host local means the one here, and --host NAME with the id alone the other one")
}

/// A session that is looked for on several machines.
struct Search<'t> {
    text: &'t str,
    /// Of machines that were heard, so that none counts twice.
    instances: Vec<String>,
    found: Vec<Located>,
    candidates: Vec<Surveyed>,
    /// What was not heard, in words: machines, and sources of machines.
    machines: Vec<String>,
    sources: Vec<SourceReport>,
    refused: Option<Failure>,
    /// The machine that was asked, if it was one alone.
    only: Option<std::sync::Arc<RosterHost>>,
    asked: usize,
}

impl<'t> Search<'t> {
    fn new(text: &'t str, own: Option<String>) -> Self {
        Self {
            text,
            instances: own.into_iter().collect(),
            found: Vec::new(),
            candidates: Vec::new(),
            machines: Vec::new(),
            sources: Vec::new(),
            refused: None,
            only: None,
            asked: 0,
        }
    }

    fn add(&mut self, host: Option<&std::sync::Arc<RosterHost>>, heard: Result<Located, NotLocated>) {
        self.asked += 1;
        self.only = host.cloned();
        let instance = host.filter(|_| !matches!(heard, Err(NotLocated::Road(_))));
        if let Some(instance) = instance.and_then(|host| host.greeting().ok()).map(|said| said.instance) {
            // The same machine by another name has nothing new to say.
            if self.instances.contains(&instance) {
                return;
            }
            self.instances.push(instance);
        }
        match heard {
            Ok(located) => self.found.push(located),
            Err(NotLocated::Not(FindError::NotFound { .. })) => {}
            Err(NotLocated::Not(FindError::Ambiguous { candidates, .. })) => {
                self.candidates.extend(candidates);
            }
            Err(NotLocated::Not(
                FindError::NotHeard { sources, .. } | FindError::NotProven { sources, .. },
            )) => self.sources.extend(sources),
            Err(NotLocated::Road(failure)) => self.machines.extend(host.map(|host| unheard(host, &failure))),
            Err(NotLocated::Refused(failure)) => self.refused = Some(failure),
        }
    }

    /// The one session, or why there is not exactly one.
    fn end(
        mut self,
        explain: impl Fn(FindError, Option<&RosterHost>) -> Failure,
    ) -> Result<Located, Failure> {
        let text = self.text.to_owned();
        let only = self.only.filter(|_| self.asked == 1);
        if self.found.len() + self.candidates.len() > 1 {
            let found = self.found.into_iter().map(|located| located.found);
            let candidates = found.chain(self.candidates).collect();
            return Err(explain(FindError::Ambiguous { text, candidates }, only.as_deref()));
        }
        if let Some(located) = self.found.pop() {
            // Somewhere else there may be another one that begins like this.
            let is_whole = located.found.key.id == text;
            if !is_whole && !self.machines.is_empty() {
                let message = paragraph(
                    format!("`{text}` fits {}, but not every machine could be heard", located.id()),
                    self.machines.into_iter(),
                );
                let hint = format!("give the whole id: {}", located.id());
                return Err(Failure::new(ErrorKind::Incomplete, message).hint(hint));
            }
            return Ok(located);
        }
        if let Some(refused) = self.refused {
            return Err(refused);
        }
        if !self.machines.is_empty() {
            let first = match &only {
                Some(_) => "nothing is known of it".to_owned(),
                None => {
                    format!("`{}` was not found, but not every machine could be heard", text::one_line(&text))
                }
            };
            let message = paragraph(first, self.machines.into_iter());
            return Err(Failure::new(ErrorKind::Incomplete, message).hint("`agentctl hosts` says more"));
        }
        if !self.sources.is_empty() {
            return Err(explain(FindError::NotHeard { text, sources: self.sources }, only.as_deref()));
        }
        Err(explain(FindError::NotFound { text }, only.as_deref()))
    }
}

fn unheard(host: &RosterHost, failure: &RoadFailure) -> String {
    let hint = failure.hint.as_deref().map(|hint| format!(" ({hint})")).unwrap_or_default();
    format!("{} was not heard: {}{hint}", host.name, failure.message)
}
