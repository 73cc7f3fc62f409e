//! One session file: its beginning, its end, and the whole of it where totals are wanted.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use agentctl_model::{Evidence, Fact, Facts, Found, Parent, Relation, Stamp, Turn, TurnState, Witness};
use jiff::Timestamp;

use super::head::Head;
use super::header::{Creator, Heading, creator_by_name, id_in_name};
use super::records::Record;
use super::tail::{TITLE, Tail};
use super::usage::Totals;
use crate::Scope;
use crate::transcript::gather::{Gathered, ReadSession};
use crate::transcript::jsonl::head::scan_head;
use crate::transcript::jsonl::open::{Opened, open_regular};
use crate::transcript::jsonl::whole::{CHUNK, lines_containing, scan_whole};
use crate::transcript::jsonl::{ReadAt, Seen, scan_back};

/// A first prompt can be megabytes long.
const HEAD_BUDGET: usize = 8 << 20;
/// Reading both ends of a file up to this size would cost more than reading what lies between them too.
const SMALL: usize = 28 << 10;
/// Pi itself looks no further for a header.
const HEADER_BUDGET: usize = 1 << 20;

/// Reads one file: `Ok(None)` if it is not asked for, or the other agent's; `Err` names what had to be left out.
pub(super) fn read(path: &Path, creator: Creator, since: Option<Timestamp>, scope: &Scope<'_>) -> Gathered {
    let named = |error: std::io::Error| format!("{}: {error}", path.display());
    let opened = match open_regular(path) {
        Ok(opened) => opened,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        // A file that cannot be opened is told of once: by the agent whose name it bears, else by Pi.
        Err(_) if creator_by_name(name_of(path)).unwrap_or(Creator::Node) != creator => return Ok(None),
        Err(error) => return Err(named(error)),
    };
    let old = opened.modified.is_some_and(|modified| since.is_some_and(|since| modified < since));
    // Nobody has written anything into an empty file: there is no session in it to be lost.
    if old || opened.size == 0 {
        return Ok(None);
    }
    let read = |source: &dyn ReadAt, size| read_opened(path, &opened, (source, size), creator, scope);
    opened.read_through(if scope.usage { CHUNK } else { SMALL }, read).map_err(named)
}

fn read_opened(
    path: &Path,
    opened: &Opened,
    (source, size): (&dyn ReadAt, u64),
    creator: Creator,
    scope: &Scope<'_>,
) -> std::io::Result<Option<ReadSession>> {
    let mut head = Head::new(scope.text_limit);
    let is_wanted =
        |heading: &Heading| heading.creator(name_of(path)) == creator && scope.reach.names(&heading.id);
    scan_head(source, size, HEAD_BUDGET, |line| {
        let flow = head.line(line);
        if head.heading.as_ref().is_some_and(|heading| !is_wanted(heading)) {
            ControlFlow::Break(())
        } else {
            flow
        }
    })?;
    let Some(heading) = head.heading.take() else {
        if creator_by_name(name_of(path)).unwrap_or(Creator::Node) != creator {
            return Ok(None);
        }
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, "holds no session header"));
    };
    if !is_wanted(&heading) {
        return Ok(None);
    }
    let (mut tail, seen) = read_tail((source, size), heading.leaf.as_deref(), scope.text_limit)?;
    let totals = if scope.usage {
        let mut totals = Totals::new(heading.parent_file.as_ref().and(heading.started_at));
        scan_whole(source, |line| totals.line(line))?;
        Some(totals)
    } else {
        None
    };
    // A title from before the first prompt may have been replaced where the tail did not look: a stale one is worse
    // than a longer read, which only sessions with such a title need.
    if !scope.usage && tail.name.is_none() && head.name.is_some() && !seen.whole {
        tail.name = last_title(source)?;
    }
    let warning = match (tail.broken, seen.too_long) {
        (0, 0) => None,
        (0, _) => Some("has a line too long to read"),
        _ => Some("has a damaged record"),
    }
    .map(|what| format!("{}: {what}", path.display()));
    let drift = std::mem::take(&mut tail.drift);
    let parent = heading.parent_file.as_deref().and_then(|file| parent_of(file, path));
    let facts = facts(&heading, head, tail, totals.as_ref(), parent.filter(|parent| parent.id != heading.id));
    let evidence = facts
        .turn
        .as_ref()
        .map(|turn| Evidence::new(Witness::Transcript, Fact::TurnIs(turn.state), turn.last));
    let found = Found {
        id: heading.id,
        // One id can stand in two folders: the file tells them apart.
        slot: Some(path.to_string_lossy().into_owned()),
        place: path.to_owned(),
        stamp: Some(Stamp { size: opened.size, modified: opened.modified }),
        facts,
        evidence: evidence.into_iter().collect(),
    };
    Ok(Some(ReadSession { found, warning, drift }))
}

/// Follows the leaf that the header names; one that is not in the file names nothing.
fn read_tail(
    (source, size): (&dyn ReadAt, u64),
    leaf: Option<&str>,
    text_limit: Option<usize>,
) -> std::io::Result<(Tail, Seen)> {
    let mut tail = Tail::new(leaf, text_limit);
    let mut seen = scan_back(source, size, &mut tail)?;
    if leaf.is_some() && tail.on_branch == 0 {
        tail = Tail::new(None, text_limit);
        seen = scan_back(source, size, &mut tail)?;
    }
    Ok((tail, seen))
}

/// The title that counts, wherever in the file it stands.
fn last_title(source: &dyn ReadAt) -> std::io::Result<Option<String>> {
    let mut title = None;
    lines_containing(source, &TITLE, |line| {
        let given = Record::parse(line).and_then(|record| record.title());
        title = given.or(title.take());
    })?;
    Ok(title)
}

fn facts(
    heading: &Heading,
    head: Head,
    tail: Tail,
    totals: Option<&Totals>,
    parent: Option<Parent>,
) -> Facts {
    let told = totals.and_then(|totals| totals.name.clone());
    let name = told.or(tail.name).or(head.name).filter(|name| !name.is_empty());
    Facts {
        turn: Some(tail.turn.unwrap_or_else(|| Turn::new(TurnState::NotBegun, tail.updated_at))),
        name,
        prompt: head.prompt,
        last_message: tail.last_message,
        cwd: heading.cwd.clone(),
        model: tail.model.or_else(|| heading.model.clone()),
        started_at: heading.started_at,
        updated_at: tail.updated_at.or(heading.started_at),
        tokens: totals.and_then(Totals::tokens),
        cost: totals.and_then(Totals::cost),
        parent,
        ..Facts::default()
    }
}

/// The session that a header names as its parent, by file. The file says its id; its name only if it is gone.
fn parent_of(file: &str, child: &Path) -> Option<Parent> {
    let named = PathBuf::from(file);
    let name = named.file_name()?;
    // The whole store may have been moved: then the file lies in the same folder of it, or beside the child.
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
pub(super) fn heading(path: &Path) -> Option<Heading> {
    let opened = open_regular(path).ok()?;
    let mut head = Head::default();
    let until_header = |line: &[u8]| {
        let _ = head.line(line);
        if head.heading.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    scan_head(&opened.file, opened.size, HEADER_BUDGET, until_header).ok()?;
    head.heading
}

pub(super) fn name_of(path: &Path) -> &str {
    path.file_name().and_then(std::ffi::OsStr::to_str).unwrap_or_default()
}
