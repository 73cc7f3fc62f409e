//! Where Codex stores rollouts, and which of them a request needs.
//!
//! Rollouts are in `sessions/YYYY/MM/DD/rollout-<local time>-<id>.jsonl`, archived ones directly in
//! `archived_sessions/`; either may be compressed to `.jsonl.zst`. A thread keeps its file for ever, so the
//! folder of an old day may contain an active rollout.

pub(super) mod locks;
pub(super) mod names;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use agentctl_model::Harvest;
use jiff::{Timestamp, ToSpan, tz::TimeZone};

use crate::transcript::folder::list;

/// A rollout that may have to be read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RolloutFile {
    pub(crate) id: String,
    pub(crate) path: PathBuf,
    pub(crate) compressed: bool,
    pub(crate) archived: bool,
}

impl RolloutFile {
    /// The rollout at `path`, if the file name is that of a rollout.
    pub(crate) fn at(path: PathBuf) -> Option<Self> {
        let (id, compressed) = id_in_name(path.file_name()?.to_str()?)?;
        let id = id.to_owned();
        let archived = path.parent()?.file_name()? == ARCHIVED;
        Some(Self { id, path, compressed, archived })
    }
}

const SESSIONS: &str = "sessions";
const ARCHIVED: &str = "archived_sessions";

pub(crate) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Parses a name such as `rollout-2026-11-15T07-00-37-<uuid>.jsonl` into the id and whether the file is
/// compressed.
pub(crate) fn id_in_name(name: &str) -> Option<(&str, bool)> {
    let stem = name.strip_prefix("rollout-")?;
    let (stem, compressed) = match stem.strip_suffix(".jsonl") {
        Some(stem) => (stem, false),
        None => (stem.strip_suffix(".jsonl.zst")?, true),
    };
    let id = stem.get(stem.len().checked_sub(36)?..)?;
    is_uuid(id).then_some((id, compressed))
}

/// When the thread with this id was created: the ids are UUIDs of version 7, which begin with the time.
pub(crate) fn made_at(id: &str) -> Option<Timestamp> {
    if !is_uuid(id) || id.as_bytes().get(14) != Some(&b'7') {
        return None;
    }
    let millis = i64::from_str_radix(&format!("{}{}", &id[..8], &id[9..13]), 16).ok()?;
    Timestamp::from_millisecond(millis).ok()
}

/// Lists every stored rollout.
pub(crate) fn all(home: &Path, harvest: &mut Harvest) -> Vec<RolloutFile> {
    let mut rollouts = Vec::new();
    below(&home.join(SESSIONS), 3, harvest, &mut rollouts);
    below(&home.join(ARCHIVED), 0, harvest, &mut rollouts);
    rollouts
}

/// Finds the rollouts of sessions whose ids begin with one of these prefixes.
pub(crate) fn named(home: &Path, prefixes: &[String], harvest: &mut Harvest) -> Vec<RolloutFile> {
    let whole: BTreeSet<String> = prefixes.iter().filter(|prefix| is_uuid(prefix)).cloned().collect();
    if whole.len() == prefixes.len() {
        let near = by_day(home, &whole, harvest);
        if whole.iter().all(|id| near.iter().any(|rollout| rollout.id == *id)) {
            return near;
        }
    }
    let mut rollouts = all(home, harvest);
    rollouts.retain(|rollout| prefixes.iter().any(|prefix| rollout.id.starts_with(prefix.as_str())));
    rollouts
}

/// Finds the rollouts of these ids in the folders of the days on which the threads were created. Folder names
/// are in some local time zone, so the day before and the day after are searched too.
fn by_day(home: &Path, ids: &BTreeSet<String>, harvest: &mut Harvest) -> Vec<RolloutFile> {
    let mut days = BTreeSet::new();
    for made in ids.iter().filter_map(|id| made_at(id)) {
        let date = made.to_zoned(TimeZone::UTC).date();
        days.extend([-1, 0, 1].into_iter().filter_map(|away: i64| date.checked_add(away.days()).ok()));
    }
    let mut rollouts = Vec::new();
    for day in days {
        let folder = format!("{SESSIONS}/{:04}/{:02}/{:02}", day.year(), day.month(), day.day());
        below(&home.join(folder), 0, harvest, &mut rollouts);
    }
    rollouts.retain(|rollout| ids.contains(&rollout.id));
    rollouts
}

/// Lists the rollouts below a folder, at most `levels` deeper, in a stable order. A missing folder counts as
/// empty; an unreadable one is left out with a warning that names it.
fn below(folder: &Path, levels: u32, harvest: &mut Harvest, rollouts: &mut Vec<RolloutFile>) {
    let mut folders = Vec::new();
    for entry in list(folder, harvest) {
        if let Some(rollout) = RolloutFile::at(entry.path.clone()) {
            rollouts.push(rollout);
        } else if levels > 0 && entry.is_folder() {
            folders.push(entry.path);
        }
    }
    for inside in folders {
        below(&inside, levels - 1, harvest, rollouts);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const ID: &str = "01a1de02-06f9-76e3-baa0-41a740e9eec8";

    #[test]
    fn only_rollouts_have_ids() {
        let name = |suffix: &str| format!("rollout-2026-11-15T07-00-37-{ID}{suffix}");
        assert_eq!(id_in_name(&name(".jsonl")), Some((ID, false)));
        assert_eq!(id_in_name(&name(".jsonl.zst")), Some((ID, true)));
        for other in
            [name(".jsonl.bak"), name(".jsonl (deleted)"), format!("{ID}.jsonl"), "rollout-ä.jsonl".into()]
        {
            assert_eq!(id_in_name(&other), None, "{other}");
        }
    }

    #[test]
    fn an_id_says_when_it_was_made() {
        assert_eq!(made_at(ID).unwrap().to_string(), "2026-11-15T07:00:37.241Z");
        assert_eq!(
            made_at("11111111-1111-4111-8111-111111111111"),
            None,
            "another kind of UUID says nothing"
        );
        assert_eq!(made_at("ffffffff-ffff-7fff-8fff-ffffffffffff"), None, "no time that a clock could show");
    }

    #[test]
    fn a_session_is_found_by_its_day_and_else_by_looking_everywhere() {
        let home = tempfile::tempdir().unwrap();
        let put = |folder: &str, id: &str| {
            let folder = home.path().join(folder);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(format!("rollout-x-{id}.jsonl")), "").unwrap();
        };
        let other = "01a1de02-06f9-76e3-baa0-41a740e9ffff";
        let (old, moved) = ("11111111-1111-4111-8111-111111111111", "01a1de02-06f9-76e3-baa0-000000000000");
        put("sessions/2026/11/14", ID);
        put("sessions/2025/01/01", old);
        put("archived_sessions", moved);
        put("sessions/2026/11/15", other);
        let mut harvest = Harvest::complete(vec![]);
        let mut find = |ids: &[&str]| {
            let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
            let found = named(home.path(), &ids, &mut harvest);
            found.into_iter().map(|rollout| (rollout.id, rollout.archived)).collect::<Vec<_>>()
        };
        assert_eq!(find(&[ID]), [(ID.to_owned(), false)], "the folder is named by another time zone");
        assert_eq!(find(&[old]), [(old.to_owned(), false)]);
        assert_eq!(find(&[moved]), [(moved.to_owned(), true)]);
        assert_eq!(find(&["01a1de02"]).len(), 3);
        assert!(find(&["22222222"]).is_empty());
    }
}
