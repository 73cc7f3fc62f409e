//! Selects the sessions that a request wants, by their heads alone.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use agentctl_model::Process;
use jiff::Timestamp;

use super::tree::{self, SessionPath};
use crate::agents::opencode::conversation::session::Head;
use crate::agents::opencode::processes::{Kind, Program, id_in_argv};
use crate::{Reach, Scope};

/// A request for more ids than this re-reads sessions of a complete answer, so their parents need not be read.
const NAMED_ONE_BY_ONE: usize = 16;
/// The depth of sub-agents of sub-agents: nobody nests them deeper.
const GENERATIONS: usize = 8;

/// What a live process shows about the sessions that it may own.
#[derive(Debug, Clone)]
pub(crate) struct LiveOwner {
    started_at: Option<Timestamp>,
    pub(crate) id: Option<String>,
    /// `None`: any directory.
    directories: Option<Vec<String>>,
}

impl LiveOwner {
    /// `None` for processes that never own a session themselves.
    fn of(program: &Program, process: &Process) -> Option<Self> {
        let everywhere = match program.kind(&process.head) {
            Kind::Wrapper | Kind::Neither => return None,
            Kind::Server | Kind::Editor => true,
            Kind::Run | Kind::Terminal => false,
        };
        Some(Self {
            started_at: process.head.started_at,
            id: id_in_argv(&process.head).map(str::to_owned),
            directories: (!everywhere).then(|| program.directories(process)),
        })
    }

    pub(crate) fn may_own(&self, head: &Head) -> bool {
        let in_reach = match (&self.directories, &head.directory) {
            (None, _) => true,
            (Some(there), Some(directory)) => there.contains(directory),
            (Some(_), None) => false,
        };
        in_reach && head.updated.is_none_or(|at| self.started_at.is_none_or(|start| at >= start))
    }
}

/// The start of the oldest process; `None` when no session can be left out by its time.
pub(crate) fn earliest(owners: &[LiveOwner]) -> Option<Timestamp> {
    owners.iter().map(|owner| owner.started_at).min().flatten()
}

/// What a request wants, with the live processes that narrow it when only live sessions are wanted.
pub(crate) struct Selection<'q, 's> {
    pub(crate) scope: &'q Scope<'s>,
    pub(crate) owners: Vec<LiveOwner>,
}

impl<'q, 's> Selection<'q, 's> {
    pub(crate) fn new(program: &Program, scope: &'q Scope<'s>, ours: impl Fn(&Process) -> bool) -> Self {
        let owners = match scope.reach {
            Reach::Live(kernel) => {
                let mine = kernel.processes.iter().filter(|process| ours(process));
                mine.filter_map(|process| LiveOwner::of(program, process)).collect()
            }
            Reach::Ids(_) | Reach::All { .. } => Vec::new(),
        };
        Self { scope, owners }
    }

    /// Only live sessions are wanted, and no live process could own one.
    pub(crate) fn reaches_nothing(&self) -> bool {
        matches!(self.scope.reach, Reach::Live(_)) && self.owners.is_empty()
    }

    /// Files of the old tree that may be wanted. Their heads are read later.
    pub(crate) fn files(&self, storage: &Path) -> io::Result<Vec<SessionPath>> {
        let mut files = tree::session_files(storage)?;
        match self.scope.reach {
            Reach::All { since: Some(since) } => files.retain(|file| {
                let messages = storage.join("message").join(&file.id);
                file.modified().max(tree::modified(&messages)).is_none_or(|at| at >= since)
            }),
            Reach::All { since: None } => {}
            Reach::Ids(ids) => {
                let projects: HashSet<PathBuf> = files
                    .iter()
                    .filter(|file| self.scope.reach.names(&file.id))
                    .filter_map(|file| file.path.parent().map(Path::to_owned))
                    .collect();
                let is_near =
                    |file: &SessionPath| file.path.parent().is_some_and(|folder| projects.contains(folder));
                // A sub-agent's parent lies in the same directory.
                let one_by_one = ids.len() <= NAMED_ONE_BY_ONE;
                files.retain(|file| self.scope.reach.names(&file.id) || (one_by_one && is_near(file)));
            }
            // Every prompt rewrites the session's file.
            Reach::Live(_) => {
                let since = earliest(&self.owners);
                let named = |id: &str| self.owners.iter().any(|owner| owner.id.as_deref() == Some(id));
                files.retain(|file| named(&file.id) || file.modified().is_none_or(|at| Some(at) >= since));
            }
        }
        Ok(files)
    }

    /// The wanted sessions among these files, each with its file. `parse` reads a session's file in the agent's own
    /// form; what cannot be read is named to `left_out`.
    pub(crate) fn read_heads(
        &self,
        files: Vec<SessionPath>,
        parse: impl Fn(&[u8]) -> Option<Head>,
        mut left_out: impl FnMut(String),
    ) -> Vec<(Head, PathBuf)> {
        let (mut heads, mut paths) = (Vec::new(), HashMap::new());
        for file in files {
            self.scope.progress.tick();
            match tree::head(&file, &parse) {
                Ok(head) => {
                    heads.push(head);
                    paths.insert(file.id, file.path);
                }
                // The file was removed since the directory was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => left_out(format!("{}: {error}", file.path.display())),
            }
        }
        let wanted = self.select(heads).into_iter();
        wanted.filter_map(|head| paths.remove(&head.id).map(|path| (head, path))).collect()
    }

    /// Which of these heads are wanted, together with the heads of the sessions that decide about them.
    fn select(&self, heads: Vec<Head>) -> Vec<Head> {
        let find = |id: &str| -> Vec<Head> { heads.iter().filter(|head| head.id == id).cloned().collect() };
        let below = |id: &str| -> Vec<Head> {
            heads.iter().filter(|head| head.parent.as_deref() == Some(id)).cloned().collect()
        };
        match self.scope.reach {
            Reach::All { .. } => {
                heads.into_iter().filter(|head| self.scope.subagents || head.parent.is_none()).collect()
            }
            Reach::Ids(_) => {
                let mut named: Vec<Head> = heads
                    .iter()
                    .filter(|head| self.scope.reach.names(&head.id))
                    .filter(|head| self.scope.subagents || head.parent.is_none())
                    .cloned()
                    .collect();
                let _ = add_ancestors(&mut named, |id| Ok::<_, io::Error>(find(id)));
                named
            }
            Reach::Live(_) => {
                let may = |head: &&Head| {
                    let named = self.owners.iter().any(|owner| owner.id.as_ref() == Some(&head.id));
                    let may_be_owned = self.owners.iter().any(|owner| owner.may_own(head));
                    named || (may_be_owned && head.parent.is_none())
                };
                let mut live: Vec<Head> = heads.iter().filter(may).cloned().collect();
                if self.scope.subagents {
                    let _ = add_descendants(&mut live, |id| Ok::<_, io::Error>(below(id)));
                }
                live
            }
        }
    }
}

pub(crate) fn without_duplicates(heads: &mut Vec<Head>) {
    let mut seen = HashSet::new();
    heads.retain(|head| seen.insert(head.id.clone()));
}

/// The process of a sub-agent's parent decides about the sub-agent.
pub(crate) fn add_ancestors<E>(
    heads: &mut Vec<Head>,
    find: impl Fn(&str) -> Result<Vec<Head>, E>,
) -> Result<(), E> {
    for _ in 0..GENERATIONS {
        let missing: HashSet<String> = heads
            .iter()
            .filter_map(|head| head.parent.clone())
            .filter(|parent| !heads.iter().any(|head| head.id == *parent))
            .collect();
        let before = heads.len();
        for id in missing {
            heads.extend(find(&id)?);
        }
        if heads.len() == before {
            break;
        }
    }
    Ok(())
}

pub(crate) fn add_descendants<E>(
    heads: &mut Vec<Head>,
    below: impl Fn(&str) -> Result<Vec<Head>, E>,
) -> Result<(), E> {
    let mut parents: Vec<String> = heads.iter().map(|head| head.id.clone()).collect();
    for _ in 0..GENERATIONS {
        let mut fresh = Vec::new();
        for id in parents.drain(..) {
            fresh.extend(below(&id)?);
        }
        fresh.retain(|head| !heads.iter().any(|known| known.id == head.id));
        if fresh.is_empty() {
            break;
        }
        parents.extend(fresh.iter().map(|head| head.id.clone()));
        heads.extend(fresh);
    }
    Ok(())
}
