//! Compares an answer with the truth. It knows nothing of how agentctl finds out.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::cast::{Actor, Turn};

/// What is left of a session that nobody runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// Its records are whole, and its last turn ended so.
    Whole(&'static str),
    /// Its records were damaged: it may be listed, as stopped.
    Damaged,
}

impl Left {
    pub(crate) fn after(turn: Turn) -> Self {
        Self::Whole(if turn == Turn::Ended { "completed" } else { "died" })
    }
}

/// What cannot be heard now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unheard {
    Nothing,
    /// The records of this agent are away, and nobody can know that there were any.
    Away(&'static str),
    /// The place of this agent cannot be read.
    Failing(&'static str),
}

impl Unheard {
    fn hides(self, adapter: &str) -> bool {
        matches!(self, Self::Away(hidden) | Self::Failing(hidden) if hidden == adapter)
    }
}

pub(crate) fn truth(actor: &Actor) -> (&'static str, Option<&'static str>) {
    match actor.turn {
        Turn::Open => ("running", None),
        Turn::Waiting => ("waiting", None),
        Turn::Ended => ("idle", Some("completed")),
    }
}

/// Why this list of everything is wrong.
pub(crate) fn judge(
    list: &Value,
    alive: &[Actor],
    dead: &BTreeMap<String, (&'static str, Left)>,
    unheard: Unheard,
) -> Result<(), String> {
    let rows = list["sessions"].as_array().ok_or("there are no sessions in it")?;
    let mut found = BTreeSet::new();
    for row in rows {
        let id = row["id"].as_str().ok_or("a row has no id")?;
        if !found.insert(id) {
            return Err(format!("{id} has two rows"));
        }
        if row["evidence"].as_array().is_none_or(Vec::is_empty) {
            return Err(format!("a status without evidence: {row:#}"));
        }
        let told = (row["status"].as_str().unwrap_or_default(), row["outcome"].as_str());
        if let Some(actor) = alive.iter().find(|actor| actor.id == id) {
            let hidden = unheard.hides(actor.adapter);
            if hidden && told.0 == "stopped" {
                return Err(format!("stopped, and its agent lives: {row:#}"));
            }
            if !hidden && told != truth(actor) {
                return Err(format!("{told:?} instead of {:?}: {row:#}", truth(actor)));
            }
            if !hidden && row["pid"] != actor.pid() {
                return Err(format!("its process is {}: {row:#}", actor.pid()));
            }
        } else if let Some((_, left)) = dead.get(id) {
            let fits = match left {
                Left::Whole(outcome) => told == ("stopped", Some(outcome)),
                Left::Damaged => told.0 == "stopped",
            };
            if !fits || !row["pid"].is_null() {
                return Err(format!("{told:?}, and it is over, {left:?}: {row:#}"));
            }
        } else {
            return Err(format!("nobody knows this session: {row:#}"));
        }
    }
    let missing =
        alive.iter().find(|actor| !unheard.hides(actor.adapter) && !found.contains(actor.id.as_str()));
    if let Some(actor) = missing {
        return Err(format!("{} of {} lives and is not listed", actor.id, actor.adapter));
    }
    let unlisted = dead.iter().find(|(id, (adapter, left))| {
        *left != Left::Damaged && !unheard.hides(adapter) && !found.contains(id.as_str())
    });
    if let Some((id, _)) = unlisted {
        return Err(format!("{id} is stored and not listed"));
    }
    let source = |name: &str| list["sources"].as_array()?.iter().find(|source| source["adapter"] == name);
    if let Unheard::Failing(name) = unheard {
        let coverage = source(name).map(|source| source["coverage"].clone());
        if !matches!(coverage.as_ref().and_then(Value::as_str), Some("failed" | "partial")) {
            return Err(format!("{name} cannot be read and its source is {coverage:?}"));
        }
    }
    Ok(())
}
