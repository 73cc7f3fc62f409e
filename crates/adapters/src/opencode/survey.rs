//! Reading the disk: the databases first, then what only the old tree knows.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use agentctl_model::{Coverage, Found, Harvest, Process, Witness};
use jiff::Timestamp;
use rusqlite::Connection;

use super::database::{self, Heads, Schema, Stored};
use super::session::{self, Head, ReadSession};
use super::tree::{self, Place, Tree};
use super::wanted::{self, Carrier};
use super::is_database;
use crate::sqlite::{self, Database};
use crate::{Reach, Root, Scope};

/// Sub-agents of sub-agents of …: deeper than anybody nests them.
const GENERATIONS: usize = 8;

pub(super) fn survey(root: &Root, scope: &Scope<'_>, ours: impl Fn(&Process) -> bool) -> Harvest {
    let databases = match databases(root) {
        Ok(Some(databases)) => databases,
        Ok(None) => return Harvest::nothing(Coverage::NotInstalled),
        Err(error) => return failed(format!("{}: {error}", root.path.display())),
    };
    let carriers: Vec<Carrier> = match scope.reach {
        Reach::Live(kernel) => {
            kernel.processes.iter().filter(|process| ours(process)).filter_map(Carrier::of).collect()
        }
        Reach::Ids(_) | Reach::All { .. } => Vec::new(),
    };
    if matches!(scope.reach, Reach::Live(_)) && carriers.is_empty() {
        return Harvest::complete(Vec::new());
    }
    let question = Question { scope, carriers };
    let storage = root.path.join("storage");
    let mut old = match question.places(&storage) {
        Ok(places) => places,
        Err(error) => return failed(format!("{}: {error}", storage.display())),
    };
    let mut harvest = Harvest::complete(Vec::new());
    for path in databases {
        match question.read_database(&path, &old) {
            Ok(reading) => {
                // A file whose session is in the database is a stale copy of it.
                old.retain(|place| !reading.known.contains(&place.id));
                reading.reap(&mut harvest);
            }
            Err(sqlite::Error::Missing(_)) => {}
            Err(error) => return failed(error.to_string()),
        }
    }
    question.read_tree(&storage, old).reap(&mut harvest);
    harvest
}

fn failed(error: String) -> Harvest {
    Harvest::nothing(Coverage::Failed { error })
}

/// The databases of this root; `None` when OpenCode was never here.
fn databases(root: &Root) -> io::Result<Option<Vec<PathBuf>>> {
    if let Some(store) = &root.store {
        let is_there = store.try_exists()? || root.path.try_exists()?;
        return Ok(is_there.then(|| vec![store.clone()]));
    }
    match fs::read_dir(&root.path) {
        Ok(entries) => {
            let mut found = Vec::new();
            for entry in entries {
                found.extend(Some(entry?.path()).filter(|path| is_database(path)));
            }
            found.sort();
            Ok(Some(found))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// What one place gave.
#[derive(Default)]
struct Reading {
    found: Vec<Found>,
    left_out: Vec<String>,
    warnings: Vec<String>,
    drift: BTreeMap<String, u64>,
    /// Sessions of the old tree that the database has too.
    known: HashSet<String>,
}

impl Reading {
    fn add<T: std::fmt::Display>(&mut self, place: &Path, id: &str, read: Result<ReadSession, T>) {
        match read {
            Ok(session) => {
                if session.damaged > 0 {
                    self.warnings.push(format!("{}: session {id} has a damaged record", place.display()));
                }
                for (kind, count) in session.drift {
                    *self.drift.entry(kind).or_default() += count;
                }
                self.found.push(session.found);
            }
            Err(error) => self.left_out.push(format!("{}: session {id}: {error}", place.display())),
        }
    }

    fn reap(self, harvest: &mut Harvest) {
        let known: HashSet<String> = harvest.found.iter().map(|found| found.id.clone()).collect();
        harvest.found.extend(self.found.into_iter().filter(|found| !known.contains(&found.id)));
        harvest.warnings.extend(self.warnings);
        for warning in self.left_out {
            harvest.left_out(warning);
        }
        for (kind, count) in self.drift {
            *harvest.drift.entry(kind).or_default() += count;
        }
    }
}

struct Question<'q, 's> {
    scope: &'q Scope<'s>,
    carriers: Vec<Carrier>,
}

impl Question<'_, '_> {
    fn read_database(&self, path: &Path, old: &[Place]) -> Result<Reading, sqlite::Error> {
        sqlite::read(path, |database| self.read_opened(path, database, old))?.map_err(|words| sqlite::Error::Io {
            path: path.to_owned(),
            source: io::Error::new(io::ErrorKind::InvalidData, words),
        })
    }

    fn read_opened(
        &self,
        path: &Path,
        database: &Database<'_>,
        old: &[Place],
    ) -> rusqlite::Result<Result<Reading, String>> {
        let connection = database.connection;
        let mut reading = Reading::default();
        let (columns, has_totals) = match database::schema(connection)? {
            Schema::Empty => return Ok(Ok(reading)),
            Schema::Foreign(words) => return Ok(Err(words)),
            Schema::Sessions { columns, has_totals } => (columns, has_totals),
        };
        let heads = self.heads(connection, (&columns, has_totals))?;
        if heads.damaged > 0 {
            let words = format!("{}: {} damaged session row(s)", path.display(), heads.damaged);
            reading.left_out.push(words);
        }
        for place in old {
            if database::knows(connection, &place.id)? {
                reading.known.insert(place.id.clone());
            }
        }
        let store = Stored(connection);
        for head in heads.heads {
            self.scope.progress.tick();
            let id = head.id.clone();
            let read =
                session::read(head, path.to_owned(), database.still, Witness::Database, &store, self.scope);
            reading.add(path, &id, read);
        }
        Ok(Ok(reading))
    }

    fn heads(&self, connection: &Connection, schema: (&str, bool)) -> rusqlite::Result<Heads> {
        let select = |condition: &str, value: &str| database::heads(connection, schema, condition, [value]);
        match self.scope.reach {
            Reach::All { since } => {
                let condition = if self.scope.subagents { "?1 = ''" } else { "?1 = '' AND parent_id IS NULL" };
                let mut all = select(condition, "")?;
                let mut recent = Vec::with_capacity(all.heads.len());
                for head in all.heads.drain(..) {
                    if is_recent(connection, &head, since)? {
                        recent.push(head);
                    }
                }
                all.heads = recent;
                Ok(all)
            }
            Reach::Ids(ids) => {
                let mut named = Heads { heads: Vec::new(), damaged: 0 };
                for id in ids {
                    let end = format!("{id}{}", char::MAX);
                    let condition = "id >= ?1 AND id < ?2";
                    let some = database::heads(connection, schema, condition, [id.as_str(), end.as_str()])?;
                    named.heads.extend(some.heads);
                }
                named.heads.retain(|head| self.scope.subagents || head.parent.is_none());
                without_twins(&mut named.heads);
                if wanted::is_named_one_by_one(ids) {
                    add_ancestors(&mut named.heads, |id| select("id = ?1", id).map(|found| found.heads))?;
                    let mut beside = Vec::new();
                    let directories: HashSet<&str> =
                        named.heads.iter().filter_map(|head| head.directory.as_deref()).collect();
                    for directory in directories {
                        beside.extend(select("directory = ?1 AND parent_id IS NULL", directory)?.heads);
                    }
                    let chosen = wanted::neighbours(&named.heads, beside);
                    named.heads.extend(chosen);
                }
                Ok(named)
            }
            Reach::Live(_) => {
                let since = wanted::earliest(&self.carriers).map_or(0, Timestamp::as_millisecond);
                let mut live = database::heads(connection, schema, "parent_id IS NULL AND time_updated >= ?1", [since])?;
                live.heads.retain(|head| self.carriers.iter().any(|carrier| carrier.may_carry(head)));
                for id in self.carriers.iter().filter_map(|carrier| carrier.id.as_deref()) {
                    live.heads.extend(select("id = ?1", id)?.heads);
                }
                without_twins(&mut live.heads);
                if self.scope.subagents {
                    add_descendants(&mut live.heads, |id| select("parent_id = ?1", id).map(|found| found.heads))?;
                }
                Ok(live)
            }
        }
    }

    /// Files of the old tree that the question may reach. Reading their heads is left for later.
    fn places(&self, storage: &Path) -> io::Result<Vec<Place>> {
        let mut places = tree::places(storage)?;
        match self.scope.reach {
            Reach::All { since: Some(since) } => places.retain(|place| {
                let messages = storage.join("message").join(&place.id);
                place.modified().max(tree::modified(&messages)).is_none_or(|at| at >= since)
            }),
            Reach::All { since: None } => {}
            Reach::Ids(ids) => {
                let projects: HashSet<PathBuf> = places
                    .iter()
                    .filter(|place| self.scope.reach.names(&place.id))
                    .filter_map(|place| place.path.parent().map(Path::to_owned))
                    .collect();
                let is_near = |place: &Place| place.path.parent().is_some_and(|folder| projects.contains(folder));
                let one_by_one = wanted::is_named_one_by_one(ids);
                places.retain(|place| self.scope.reach.names(&place.id) || (one_by_one && is_near(place)));
            }
            // Every prompt rewrites the session's file.
            Reach::Live(_) => {
                let since = wanted::earliest(&self.carriers);
                let named =
                    |id: &str| self.carriers.iter().any(|carrier| carrier.id.as_deref() == Some(id));
                places.retain(|place| named(&place.id) || place.modified().is_none_or(|at| Some(at) >= since));
            }
        }
        Ok(places)
    }

    fn read_tree(&self, storage: &Path, places: Vec<Place>) -> Reading {
        let mut reading = Reading::default();
        let mut files = BTreeMap::new();
        let mut heads = Vec::new();
        for place in places {
            self.scope.progress.tick();
            match tree::head(&place) {
                Ok(head) => {
                    heads.push(head);
                    files.insert(place.id, place.path);
                }
                // Removed since the folder was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => reading.left_out.push(format!("{}: {error}", place.path.display())),
            }
        }
        let tree = Tree::new(storage.to_owned());
        for head in self.chosen(heads) {
            self.scope.progress.tick();
            let Some(path) = files.remove(&head.id) else { continue };
            let id = head.id.clone();
            // No stamp: a turn moves on without touching the session's own file.
            let read = session::read(head, path.clone(), None, Witness::Transcript, &tree, self.scope);
            reading.add(&path, &id, read);
        }
        reading
    }

    /// The same choice as [`Self::heads`] makes, among heads that are all known.
    fn chosen(&self, heads: Vec<Head>) -> Vec<Head> {
        let find = |id: &str| -> Vec<Head> { heads.iter().filter(|head| head.id == id).cloned().collect() };
        let below =
            |id: &str| -> Vec<Head> { heads.iter().filter(|head| head.parent.as_deref() == Some(id)).cloned().collect() };
        match self.scope.reach {
            Reach::All { .. } => {
                heads.into_iter().filter(|head| self.scope.subagents || head.parent.is_none()).collect()
            }
            Reach::Ids(ids) => {
                let mut named: Vec<Head> = heads
                    .iter()
                    .filter(|head| self.scope.reach.names(&head.id))
                    .filter(|head| self.scope.subagents || head.parent.is_none())
                    .cloned()
                    .collect();
                if wanted::is_named_one_by_one(ids) {
                    let _ = add_ancestors(&mut named, |id| Ok::<_, io::Error>(find(id)));
                    let chosen = wanted::neighbours(&named, heads);
                    named.extend(chosen);
                }
                named
            }
            Reach::Live(_) => {
                let may = |head: &&Head| {
                    let named = self.carriers.iter().any(|carrier| carrier.id.as_ref() == Some(&head.id));
                    let carried = self.carriers.iter().any(|carrier| carrier.may_carry(head));
                    named || (carried && head.parent.is_none())
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

/// Whether the session was written since then. A long turn does not touch the session's own row.
fn is_recent(connection: &Connection, head: &Head, since: Option<Timestamp>) -> rusqlite::Result<bool> {
    if since.is_none() || head.updated.is_none() || head.updated >= since {
        return Ok(true);
    }
    Ok(database::newest_message_at(connection, &head.id)? >= since)
}

fn without_twins(heads: &mut Vec<Head>) {
    let mut seen = HashSet::new();
    heads.retain(|head| seen.insert(head.id.clone()));
}

/// What a sub-agent is, its parent's process decides.
fn add_ancestors<E>(heads: &mut Vec<Head>, find: impl Fn(&str) -> Result<Vec<Head>, E>) -> Result<(), E> {
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

fn add_descendants<E>(heads: &mut Vec<Head>, below: impl Fn(&str) -> Result<Vec<Head>, E>) -> Result<(), E> {
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
