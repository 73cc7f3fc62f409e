//! Reads one session file: its beginning, its end, and all of it when totals are needed.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use agentctl_model::{Facts, Parent, Relation};
use jiff::Timestamp;

use super::head::Head;
use super::header::{Creator, Heading, creator_by_name, id_in_name};
use super::tail::Tail;
use super::usage::Totals;
use crate::Scope;
use crate::agents::pi::storage::started_by;
use crate::transcript::gather::Gathered;
use crate::transcript::jsonl::head::{Piece, scan_head};
use crate::transcript::jsonl::open::open_regular;
use crate::transcript::memory::Counted;
use crate::transcript::read::{self, Format, Head as _};

/// Pi itself searches no further for a header.
const HEADER_BUDGET: usize = 1 << 20;

/// A file that may belong to this agent, and the request it is read for.
struct File<'s> {
    name: &'s str,
    /// Another session started it.
    is_subagent: bool,
    creator: Creator,
    scope: &'s Scope<'s>,
}

impl Format for File<'_> {
    type Head = Head;
    type Tail = Tail;
    type Sum = Totals;

    const AT_ONCE: usize = 28 << 10;

    fn form(&self) -> u8 {
        self.creator as u8
    }

    /// Whether the file belongs to the other agent, or to a session that is not requested.
    fn refuses(&self, head: &Head) -> bool {
        head.heading.as_ref().is_some_and(|heading| {
            heading.creator(self.name) != self.creator || !self.scope.reach.names(&heading.id)
        })
    }

    /// Follows the leaf that the header names.
    fn tail(&self, head: &Head) -> io::Result<Option<Tail>> {
        match &head.heading {
            Some(heading) => Ok(Some(Tail::new(heading.leaf.as_deref()))),
            None if !self.reports_failure() => Ok(None),
            None => Err(io::Error::new(io::ErrorKind::InvalidData, "holds no session header")),
        }
    }

    /// Reads again from the last record if the leaf in the header is not in the file.
    fn other_tail(&self, tail: &Tail) -> Option<Tail> {
        (tail.has_leaf && tail.on_branch == 0).then(Tail::default)
    }

    fn sum(&self, head: &Head) -> Totals {
        let fork = head.heading.as_ref().filter(|heading| heading.parent_file.is_some());
        Totals::new(fork.and_then(|heading| heading.started_at))
    }

    /// A title from before the first prompt may have been replaced in a part that the tail did not read. A stale
    /// title is worse than a longer read, which only sessions with such a title need.
    fn missing(&self, head: &Head, tail: &Tail, whole: bool) -> Option<Totals> {
        let is_stale = tail.name.is_none() && head.name.is_some() && !whole;
        is_stale.then(Totals::only_title)
    }

    /// Such a file is reported once: by the agent whose naming it follows, or else by Pi. Extensions keep whatever they
    /// like beside the sub-agents that they start.
    fn reports_failure(&self) -> bool {
        !self.is_subagent && creator_by_name(self.name).unwrap_or(Creator::Node) == self.creator
    }
}

/// Reads one file. Returns `Ok(None)` if it is not requested or belongs to the other agent; `Err` names what
/// had to be left out.
pub(crate) fn read(path: &Path, creator: Creator, since: Option<Timestamp>, scope: &Scope<'_>) -> Gathered {
    let started_by = started_by(path);
    let file = File { name: name_of(path), is_subagent: started_by.is_some(), creator, scope };
    if file.is_subagent && !scope.subagents {
        return Ok(None);
    }
    let Some(mut reading) = read::read(&file, path, since, scope)?.into_reading() else { return Ok(None) };
    let Some(heading) = reading.head.heading.take() else { return Ok(None) };
    let id = heading.id.clone();
    let mut session =
        reading.into_session(id, path, |head, tail, counted| facts(heading, head, tail, counted, path));
    if let Some(found) = &mut session.found {
        // It may have been forked too. Who started it is what it belongs to.
        let parent = started_by.map(|id| Parent { id, relation: Relation::Subagent });
        found.facts.parent = parent.or(found.facts.parent.take());
        // One id can occur in two folders; the file distinguishes them.
        found.variant = Some(path.to_string_lossy().into_owned());
    }
    Ok(Some(session))
}

fn facts(heading: Heading, head: Head, tail: Tail, counted: &Counted, path: &Path) -> Facts {
    let last_title = counted.title.as_deref().map(str::to_owned);
    let parent = heading.parent_file.as_deref().and_then(|file| parent_of(file, path));
    let mut facts = Facts {
        name: last_title.or(tail.name).or(head.name).filter(|name| !name.is_empty()),
        cwd: heading.cwd,
        started_at: heading.started_at,
        parent: parent.filter(|parent| parent.id != heading.id),
        ..tail.latest.into_facts(head.first, counted)
    };
    facts.model = facts.model.or(heading.model);
    facts.updated_at = facts.updated_at.or(heading.started_at);
    facts
}

/// The session that a header names as its parent by file. The id comes from that file, or from the file's
/// name if it no longer exists.
fn parent_of(file: &str, child: &Path) -> Option<Parent> {
    let named = PathBuf::from(file);
    let name = named.file_name()?;
    // The whole store may have been moved; then the file is in the same folder of the new store, or beside
    // the child.
    let folder = named.parent().and_then(Path::file_name);
    let store = child.parent().and_then(Path::parent);
    let moved = folder.zip(store).map(|(folder, store)| store.join(folder).join(name));
    let beside = child.with_file_name(name);
    let id = [Some(named.clone()), moved, Some(beside)]
        .into_iter()
        .flatten()
        .find_map(|path| heading(&path).map(|heading| heading.id))
        .or_else(|| id_in_name(name.to_str()?).map(str::to_owned));
    id.map(|id| Parent { id, relation: Relation::Fork })
}

/// The header of a file, if it has one.
pub(crate) fn heading(path: &Path) -> Option<Heading> {
    let opened = open_regular(path).ok()?;
    let mut head = Head::default();
    let until_header = |piece: Piece<'_>| {
        if let Piece::Line(line) | Piece::Last(line) = piece {
            head.line(line);
        }
        if head.heading.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    scan_head(&opened.file, opened.size, (Head::WINDOW, HEADER_BUDGET), until_header).ok()?;
    head.heading
}

pub(crate) fn name_of(path: &Path) -> &str {
    path.file_name().and_then(std::ffi::OsStr::to_str).unwrap_or_default()
}
