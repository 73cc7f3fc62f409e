//! Finds the one session that a person means by what they typed.

use std::path::Path;

use agentctl_files::real_path_within;
use agentctl_model::{ErrorKind, Session, SourceReport, Survey, Surveyed};

use crate::Fleet;
use crate::read::query::{Query, Since, Wanted};

/// What a person typed, and what narrows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector {
    /// A full id, a unique prefix, or an exact name.
    pub text: String,
    pub adapter: Option<String>,
    pub root: Option<String>,
    pub cwd: Option<String>,
}

/// Why no single session was found.
#[derive(Debug)]
pub enum FindError {
    /// Every source that could hold it was read completely.
    NotFound {
        text: String,
    },
    /// It was not found, but these sources were not read completely, so it may still exist.
    NotHeard {
        text: String,
        sources: Vec<SourceReport>,
    },
    Ambiguous {
        text: String,
        candidates: Vec<Surveyed>,
    },
    /// The text is no whole id and matches this one session. Whether it matches another one as well is not known,
    /// because these sources were not read completely.
    NotProven {
        text: String,
        id: String,
        sources: Vec<SourceReport>,
    },
}

impl FindError {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::NotHeard { .. } | Self::NotProven { .. } => ErrorKind::Incomplete,
            Self::Ambiguous { .. } => ErrorKind::Ambiguous,
        }
    }
}

/// Why a session is looked up. A look-up reads no more than its purpose needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The caller shows everything about it. Token totals are complete, even where that costs a read of the whole
    /// transcript.
    Show,
    /// The caller reads something of it. The look-up itself costs a bounded read.
    Read,
    /// The caller acts on it. This costs no more than `Read`, but the text must be a whole id while a source that could
    /// hold another match was not read completely.
    Act,
}

impl Purpose {
    /// Refuses to act on a session that is not proven to be the one that is meant.
    pub fn prove(
        self,
        selector: &Selector,
        found: &Surveyed,
        sources: &[SourceReport],
    ) -> Result<(), FindError> {
        if self != Self::Act || selector.text == found.key.id {
            return Ok(());
        }
        let sources: Vec<SourceReport> =
            sources.iter().filter(|source| source.is_incomplete()).cloned().collect();
        if sources.is_empty() {
            return Ok(());
        }
        Err(FindError::NotProven { text: selector.text.clone(), id: found.key.id.clone(), sources })
    }
}

impl Fleet {
    /// Returns the one session that is meant, with whole texts, and how completely the sources were read.
    pub fn find(
        &self,
        selector: &Selector,
        purpose: Purpose,
    ) -> Result<(Surveyed, Vec<SourceReport>), FindError> {
        let (found, sources) = self.look_up(selector, purpose)?;
        purpose.prove(selector, &found, &sources)?;
        Ok((found, sources))
    }

    fn look_up(
        &self,
        selector: &Selector,
        purpose: Purpose,
    ) -> Result<(Surveyed, Vec<SourceReport>), FindError> {
        let by_id = self.ask(selector, purpose, Wanted::Ids(vec![selector.text.clone()]));
        match pick(selector, &by_id, |s| s.key.id == selector.text) {
            Pick::None => {}
            picked => return into_result(selector, picked, by_id.sources),
        }
        let prefixed = pick(selector, &by_id, |s| s.key.id.starts_with(&selector.text));
        if let Pick::One(_) = prefixed {
            return into_result(selector, prefixed, by_id.sources);
        }
        // No index contains names, so this rare case searches everything that is stored.
        let everything = self.ask(selector, purpose, Wanted::All { since: Since::Ever });
        match pick(selector, &everything, |s| s.session.name.as_deref() == Some(selector.text.as_str())) {
            Pick::None if matches!(prefixed, Pick::Several(_)) => {
                into_result(selector, prefixed, by_id.sources)
            }
            Pick::One(named) => {
                let whole = self.ask(selector, purpose, Wanted::Ids(vec![named.key.id.clone()]));
                let again = pick(selector, &whole, |s| s.key == named.key);
                let picked = if matches!(again, Pick::None) { Pick::One(named) } else { again };
                // Only the search through everything could have found another session of that name.
                into_result(selector, picked, everything.sources)
            }
            // Each of the two may have heard less than the other.
            picked => into_result(selector, picked, less_heard(by_id.sources, everything.sources)),
        }
    }

    fn ask(&self, selector: &Selector, purpose: Purpose, wanted: Wanted) -> Survey {
        let one = matches!(wanted, Wanted::Ids(_));
        self.survey(&Query {
            usage: one && purpose == Purpose::Show,
            subagents: true,
            whole_texts: one,
            adapters: selector.adapter.clone().into_iter().collect(),
            root: selector.root.clone(),
            asks_agents: one,
            ..Query::new(wanted)
        })
    }
}

/// Of two reports of each source, the one that is not complete.
fn less_heard(first: Vec<SourceReport>, then: Vec<SourceReport>) -> Vec<SourceReport> {
    let is_same =
        |one: &SourceReport, other: &SourceReport| one.adapter == other.adapter && one.root == other.root;
    let incomplete: Vec<SourceReport> = first.into_iter().filter(SourceReport::is_incomplete).collect();
    let report = |report: SourceReport| {
        let before = incomplete.iter().find(|before| is_same(before, &report));
        before.filter(|_| !report.is_incomplete()).cloned().unwrap_or(report)
    };
    then.into_iter().map(report).collect()
}

fn into_result(
    selector: &Selector,
    picked: Pick,
    sources: Vec<SourceReport>,
) -> Result<(Surveyed, Vec<SourceReport>), FindError> {
    let text = selector.text.clone();
    match picked {
        Pick::One(session) => Ok((*session, sources)),
        Pick::Several(candidates) => Err(FindError::Ambiguous { text, candidates }),
        Pick::None => {
            let unheard: Vec<SourceReport> =
                sources.into_iter().filter(SourceReport::is_incomplete).collect();
            if unheard.is_empty() {
                Err(FindError::NotFound { text })
            } else {
                Err(FindError::NotHeard { text, sources: unheard })
            }
        }
    }
}

enum Pick {
    None,
    One(Box<Surveyed>),
    Several(Vec<Surveyed>),
}

/// Some agents record a directory as it was typed, others record its real path.
fn works_in(session: &Session, folder: &str) -> bool {
    let real = |path: &str| real_path_within(Path::new(path));
    session.cwd.as_deref().is_some_and(|cwd| {
        cwd == folder || real(cwd).zip(real(folder)).is_some_and(|(cwd, folder)| cwd == folder)
    })
}

fn pick(selector: &Selector, survey: &Survey, fits: impl Fn(&Surveyed) -> bool) -> Pick {
    let mut candidates: Vec<Surveyed> = survey
        .sessions
        .iter()
        .filter(|surveyed| fits(surveyed))
        .filter(|surveyed| selector.cwd.as_deref().is_none_or(|cwd| works_in(&surveyed.session, cwd)))
        .cloned()
        .collect();
    match candidates.len() {
        0 => Pick::None,
        1 => candidates.pop().map_or(Pick::None, |one| Pick::One(Box::new(one))),
        _ => Pick::Several(candidates),
    }
}
