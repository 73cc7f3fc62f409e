//! Reads the disk: the databases first, then what only the old tree contains.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use agentctl_model::{Coverage, Found, Harvest, Process, Witness};
use jiff::Timestamp;
use rusqlite::Connection;

use super::database::{self, Heads, Schema, Stored};
use super::remembered::Remembered;
use super::selection::{self, Selection, add_ancestors, add_descendants, without_duplicates};
use super::tree::{self, SessionPath, Tree};
use crate::agents::opencode::conversation::session::{self, Head, ReadSession};
use crate::agents::opencode::is_database;
use crate::agents::opencode::processes::OPENCODE;
use crate::sqlite::{self, Database};
use crate::transcript::parallel;
use crate::{Reach, Root, Scope};

/// Opening a connection costs as much as reading several sessions.
const WORTH_SEVERAL_CONNECTIONS: usize = 64;

pub(crate) fn survey(root: &Root, scope: &Scope<'_>, ours: impl Fn(&Process) -> bool) -> Harvest {
    let databases = match databases(root) {
        Ok(Some(databases)) => databases,
        Ok(None) => return Harvest::nothing(Coverage::NotInstalled),
        Err(error) => return failed(format!("{}: {error}", root.path.display())),
    };
    let selection = Selection::new(&OPENCODE, scope, ours);
    if selection.reaches_nothing() {
        return Harvest::complete(Vec::new());
    }
    let storage = root.path.join("storage");
    let mut old = match selection.files(&storage) {
        Ok(places) => places,
        Err(error) => return failed(format!("{}: {error}", storage.display())),
    };
    let mut harvest = Harvest::complete(Vec::new());
    let (mut any_read, mut broken) = (false, Vec::new());
    for path in databases {
        match selection.read_database(&path, &old) {
            Ok(reading) => {
                any_read = true;
                // A file whose session is in the database is a stale copy of it.
                old.retain(|file| !reading.known.contains(&file.id));
                reading.add_to(&mut harvest);
            }
            Err(sqlite::Error::Missing(_)) => {}
            Err(error) => broken.push(error.to_string()),
        }
    }
    if !broken.is_empty() {
        if !any_read {
            return failed(broken.join("; "));
        }
        // Only the unreadable database knows which files of the old tree are stale copies.
        for error in broken {
            harvest.left_out(error);
        }
        return harvest;
    }
    selection.read_tree(&storage, old).add_to(&mut harvest);
    harvest
}

fn failed(error: String) -> Harvest {
    Harvest::nothing(Coverage::Failed { error })
}

/// The databases of this root; `None` when OpenCode was never used here.
fn databases(root: &Root) -> io::Result<Option<Vec<PathBuf>>> {
    if let Some(store) = &root.store {
        let is_there = store.try_exists()? || root.path.try_exists()?;
        return Ok(is_there.then(|| vec![store.clone()]));
    }
    match agentctl_files::entries(&root.path) {
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

/// What reading one place gave.
#[derive(Default)]
struct Reading {
    found: Vec<Found>,
    left_out: Vec<String>,
    warnings: Vec<String>,
    drift: BTreeMap<String, u64>,
    /// Sessions of the old tree that the database contains too.
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

    fn add_to(self, harvest: &mut Harvest) {
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

impl Selection<'_, '_> {
    fn read_database(&self, path: &Path, old: &[SessionPath]) -> Result<Reading, sqlite::Error> {
        sqlite::read(path, |database| self.read_opened(path, database, old))?.map_err(|words| {
            sqlite::Error::Io {
                path: path.to_owned(),
                source: io::Error::new(io::ErrorKind::InvalidData, words),
            }
        })
    }

    fn read_opened(
        &self,
        path: &Path,
        database: &Database<'_>,
        old: &[SessionPath],
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
        let (stamp, scope) = (Some(database.stamp), self.scope);
        for head in &heads.heads {
            agentctl_files::trace::touched_rows(path, &head.id);
        }
        let read = |head: &Head, connection: &Connection| {
            scope.progress.tick();
            session::read(head, path.to_owned(), stamp, Witness::Database, &Stored(connection), scope)
        };
        let remembered = Remembered::of(path, database, scope);
        let known: Vec<Option<ReadSession>> =
            heads.heads.iter().map(|head| remembered.as_ref()?.recall(head)).collect();
        let unknown = heads.heads.iter().zip(&known).filter(|(_, known)| known.is_none());
        let unknown: Vec<&Head> = unknown.map(|(head, _)| head).collect();
        let several = database.opener.filter(|_| unknown.len() > WORTH_SEVERAL_CONNECTIONS);
        let fresh: Vec<_> = match several {
            None => unknown.iter().map(|head| read(head, connection)).collect(),
            Some(opener) => parallel::map(&unknown, |head, own: &mut Option<Connection>| {
                if own.is_none() {
                    *own = Some(opener.open()?);
                }
                own.as_ref().map_or(Err(rusqlite::Error::InvalidQuery), |own| read(head, own))
            }),
        };
        if let Some(remembered) = remembered {
            let read = unknown.iter().zip(&fresh);
            remembered.keep(read.filter_map(|(head, session)| Some((*head, session.as_ref().ok()?))));
        }
        let mut fresh = fresh.into_iter();
        let sessions = known.into_iter().filter_map(|known| known.map(Ok).or_else(|| fresh.next()));
        for (head, session) in heads.heads.iter().zip(sessions) {
            reading.add(path, &head.id, session);
        }
        Ok(Ok(reading))
    }

    fn heads(&self, connection: &Connection, schema: (&str, bool)) -> rusqlite::Result<Heads> {
        let select = |condition: &str, value: &str| database::heads(connection, schema, condition, [value]);
        match self.scope.reach {
            Reach::All { since } => {
                let condition =
                    if self.scope.subagents { "?1 = ''" } else { "?1 = '' AND parent_id IS NULL" };
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
                without_duplicates(&mut named.heads);
                add_ancestors(&mut named.heads, |id| select("id = ?1", id).map(|found| found.heads))?;
                Ok(named)
            }
            Reach::Live(_) => {
                let since = selection::earliest(&self.owners).map_or(0, Timestamp::as_millisecond);
                let mut live =
                    database::heads(connection, schema, "parent_id IS NULL AND time_updated >= ?1", [since])?;
                live.heads.retain(|head| self.owners.iter().any(|owner| owner.may_own(head)));
                for id in self.owners.iter().filter_map(|owner| owner.id.as_deref()) {
                    live.heads.extend(select("id = ?1", id)?.heads);
                }
                without_duplicates(&mut live.heads);
                if self.scope.subagents {
                    add_descendants(&mut live.heads, |id| {
                        select("parent_id = ?1", id).map(|found| found.heads)
                    })?;
                }
                Ok(live)
            }
        }
    }

    fn read_tree(&self, storage: &Path, files: Vec<SessionPath>) -> Reading {
        let mut reading = Reading::default();
        let wanted = self.read_heads(files, tree::parse, |error| reading.left_out.push(error));
        let tree = Tree::new(storage.to_owned());
        for (head, path) in wanted {
            self.scope.progress.tick();
            // There is no stamp: a turn progresses without touching the session's own file.
            let read = session::read(&head, path.clone(), None, Witness::Transcript, &tree, self.scope);
            reading.add(&path, &head.id, read);
        }
        reading
    }
}

/// Whether the session was written since then. A long turn does not touch the session's own row.
fn is_recent(connection: &Connection, head: &Head, since: Option<Timestamp>) -> rusqlite::Result<bool> {
    if since.is_none() || head.updated.is_none() || head.updated >= since {
        return Ok(true);
    }
    Ok(database::newest_message_at(connection, &head.id)? >= since)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_broken_database_takes_no_other_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let whole = Connection::open(folder.path().join("opencode.db")).unwrap();
        let tables = "CREATE TABLE session(id, directory, parent_id, time_created, time_updated);
            CREATE TABLE message(id, session_id, time_created, data); CREATE TABLE part(id, message_id, data);
            INSERT INTO session VALUES('ses_a', '/w', NULL, 1, 1);";
        whole.execute_batch(tables).unwrap();
        drop(whole);
        fs::write(folder.path().join("opencode-dev.db"), "no database at all, and longer than a header")
            .unwrap();
        let scope = Scope { subagents: true, ..Scope::new(Reach::All { since: None }) };
        let look = || survey(&Root::at(folder.path()), &scope, |_| true);
        let harvest = look();
        let ids: Vec<&str> = harvest.found.iter().map(|found| found.id.as_str()).collect();
        assert_eq!(ids, ["ses_a"], "{harvest:?}");
        assert!(matches!(harvest.coverage, Coverage::Partial), "{harvest:?}");
        fs::remove_file(folder.path().join("opencode.db")).unwrap();
        assert!(matches!(look().coverage, Coverage::Failed { .. }), "nothing could be read");
    }
}
