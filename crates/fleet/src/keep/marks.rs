//! What a person put away or agreed to, in `marks.json`: failures that need no attention any more, sessions that were
//! recovered after the machine went down, and consents.
//!
//! A mark contains no status. It names what it was set for by recorded facts (a session and the time of its last
//! record, the contents of a program), and counts only while those are the same: with the next turn, the failure is
//! shown again.

use std::collections::BTreeMap;
use std::path::Path;

use agentctl_model::{Session, SessionKey, Surveyed};
use agentctl_process::Boot;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::keep::store::{Document, Store, StoreError};

/// How many marks of each kind are kept. The oldest are dropped, so that marks of sessions that are long gone do not
/// pile up.
const KEPT: usize = 1000;

/// The contents of the file. The maps are independent.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MarkBook {
    /// Failures that were put away, by the text form of their session's key.
    #[serde(default)]
    inbox: BTreeMap<String, InboxMark>,
    /// What a person agreed to, by its digest.
    #[serde(default)]
    consents: BTreeMap<String, Consent>,
    /// What was done about sessions that went down with the machine, by the text form of their keys.
    #[serde(default)]
    recovered: BTreeMap<String, RecoverMark>,
}

impl Document for MarkBook {
    const FILE: &'static str = "marks.json";
    const VERSION: u64 = 1;
}

/// The failure of one turn, put away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct InboxMark {
    session: SessionKey,
    /// The last record of the turn. Whatever is written later belongs to another turn.
    last_record: Option<Timestamp>,
    set_at: Timestamp,
}

/// What `recover` did about a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecoverMark {
    session: SessionKey,
    /// The last record before. Whatever is written later was written by somebody who took the session up.
    last_record: Option<Timestamp>,
    deed: RecoverDeed,
    /// The boot in which it was done, in hexadecimal; `null` where the platform has no id for it.
    boot: Option<String>,
    set_at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RecoverDeed {
    /// It is being resumed. Whether that succeeded is known by the launch records and the agent's own.
    Resume,
    /// A person does not want it.
    Dismiss,
}

/// A person's agreement to something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Consent {
    /// The digest of the contents that were agreed to. Any other contents need a new consent.
    pub digest: String,
    pub given_at: Timestamp,
}

/// The marks of one home.
#[derive(Debug, Clone)]
pub struct Marks {
    store: Store,
}

/// The failures that were put away, as they were when the file was read.
#[derive(Debug, Default)]
pub struct DoneMarks(BTreeMap<String, InboxMark>);

/// What was done about sessions that went down, as it was when the file was read.
#[derive(Debug, Default)]
pub(crate) struct RecoverMarks(BTreeMap<String, RecoverMark>);

impl RecoverMarks {
    /// Whether the session is not to be offered again in this boot.
    pub(crate) fn covers(&self, key: &SessionKey, session: &Session, boot: Boot) -> bool {
        let Some(mark) = self.0.get(&key_text(key)).filter(|mark| mark.session == *key) else { return false };
        let is_unchanged = mark.last_record == session.updated_at;
        match mark.deed {
            RecoverDeed::Dismiss => is_unchanged || mark.is_of(boot),
            // If nothing was written since, the launch records say whether anybody took it up.
            RecoverDeed::Resume => !is_unchanged && mark.is_of(boot),
        }
    }
}

impl RecoverMark {
    fn is_of(&self, boot: Boot) -> bool {
        match (&self.boot, boot.id) {
            (Some(theirs), Some(ours)) => *theirs == boot_text(ours),
            _ => boot.at.is_some_and(|boot| self.set_at >= boot),
        }
    }
}

impl Marks {
    pub fn of(store: Store) -> Self {
        Self { store }
    }

    /// agentctl's own directory.
    pub(crate) fn home(&self) -> &Path {
        self.store.folder()
    }

    pub fn put_away(&self) -> Result<DoneMarks, StoreError> {
        Ok(DoneMarks(self.store.read::<MarkBook>()?.inbox))
    }

    /// Whether a person has agreed to these contents.
    pub fn is_agreed(&self, digest: &str) -> Result<bool, StoreError> {
        let consents = self.store.read::<MarkBook>()?.consents;
        Ok(consents.get(digest).is_some_and(|consent| consent.digest == digest))
    }

    /// Records that a person agreed to these contents.
    pub fn agree(&self, digest: &str, now: Timestamp) -> Result<(), StoreError> {
        let consent = Consent { digest: digest.to_owned(), given_at: now };
        self.store.change(|book: &mut MarkBook| {
            book.consents.insert(digest.to_owned(), consent);
            while book.consents.len() > KEPT {
                let oldest = book.consents.iter().min_by_key(|(_, consent)| consent.given_at);
                let Some(oldest) = oldest.map(|(digest, _)| digest.clone()) else { return };
                book.consents.remove(&oldest);
            }
        })
    }

    pub(crate) fn recovered(&self) -> Result<RecoverMarks, StoreError> {
        Ok(RecoverMarks(self.store.read::<MarkBook>()?.recovered))
    }

    /// Records what is about to be done about a session that went down.
    pub(crate) fn note_recovery(
        &self,
        found: &Surveyed,
        deed: RecoverDeed,
        boot: Boot,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mark = RecoverMark {
            session: found.key.clone(),
            last_record: found.session.updated_at,
            deed,
            boot: boot.id.map(boot_text),
            set_at: now,
        };
        self.store.change(|book: &mut MarkBook| {
            book.recovered.insert(key_text(&found.key), mark);
            while book.recovered.len() > KEPT {
                let oldest = book.recovered.iter().min_by_key(|(_, mark)| mark.set_at);
                let Some(oldest) = oldest.map(|(words, _)| words.clone()) else { return };
                book.recovered.remove(&oldest);
            }
        })
    }

    /// Puts away the failure of the session's last turn, and drops the marks of its earlier turns.
    pub fn put_failure_away(
        &self,
        key: &SessionKey,
        session: &Session,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mark = InboxMark { session: key.clone(), last_record: session.updated_at, set_at: now };
        self.store.change(|book: &mut MarkBook| {
            book.inbox.insert(key_text(key), mark);
            while book.inbox.len() > KEPT {
                let oldest = book.inbox.iter().min_by_key(|(_, mark)| mark.set_at);
                let Some(oldest) = oldest.map(|(words, _)| words.clone()) else { return };
                book.inbox.remove(&oldest);
            }
        })
    }
}

impl DoneMarks {
    /// Whether the failure that the session shows now is the one that was put away.
    pub fn covers(&self, key: &SessionKey, session: &Session) -> bool {
        self.0
            .get(&key_text(key))
            .is_some_and(|mark| mark.session == *key && mark.last_record == session.updated_at)
    }
}

/// JSON numbers cannot hold a boot id.
fn boot_text(id: u128) -> String {
    format!("{id:032x}")
}

/// The keys of a JSON object must be text.
fn key_text(key: &SessionKey) -> String {
    let SessionKey { adapter, root, id, variant } = key;
    let variant = variant.as_ref().map(|variant| format!(" {variant}")).unwrap_or_default();
    format!("{adapter} {id} {root}{variant}")
}

#[cfg(test)]
mod tests {
    use agentctl_model::{Outcome, Status};

    use super::*;
    use agentctl_testkit::sessions::{session, surveyed};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_failure_that_was_put_away_is_back_with_the_next_turn() {
        let home = tempfile::tempdir().unwrap();
        let marks = Marks::of(Store::at(home.path().join("agentctl")));
        let mut failed = surveyed(session("a", Status::Stopped, Some(Outcome::Failed)));
        failed.session.updated_at = Some(at(100));
        let other = surveyed(session("b", Status::Stopped, Some(Outcome::Failed)));
        assert!(!marks.put_away().unwrap().covers(&failed.key, &failed.session), "nothing is marked");
        marks.put_failure_away(&failed.key, &failed.session, at(200)).unwrap();
        let put_away = marks.put_away().unwrap();
        assert!(put_away.covers(&failed.key, &failed.session));
        assert!(!put_away.covers(&other.key, &other.session));
        failed.session.updated_at = Some(at(101));
        assert!(!put_away.covers(&failed.key, &failed.session), "something was written since");
        failed.session.updated_at = None;
        assert!(!put_away.covers(&failed.key, &failed.session), "not shown to be the same turn");
    }

    #[test]
    fn what_was_recovered_is_not_offered_again_unless_nobody_took_it_up() {
        let home = tempfile::tempdir().unwrap();
        let marks = Marks::of(Store::at(home.path().join("agentctl")));
        let mut lost = surveyed(session("a", Status::Stopped, Some(Outcome::Died)));
        lost.session.updated_at = Some(at(100));
        let (first, second) =
            (Boot { id: Some(1), at: Some(at(200)) }, Boot { id: Some(2), at: Some(at(900)) });
        let covers =
            |lost: &Surveyed, boot| marks.recovered().unwrap().covers(&lost.key, &lost.session, boot);
        assert!(!covers(&lost, first), "nothing is marked");
        marks.note_recovery(&lost, RecoverDeed::Resume, first, at(300)).unwrap();
        assert!(!covers(&lost, first), "nothing was written since, so nobody may have taken it up");
        lost.session.updated_at = Some(at(301));
        assert!(covers(&lost, first), "somebody took it up");
        assert!(!covers(&lost, second), "the machine went down again");
        marks.note_recovery(&lost, RecoverDeed::Dismiss, first, at(400)).unwrap();
        assert!(covers(&lost, first) && covers(&lost, second), "the same turn is not wanted in any boot");
        lost.session.updated_at = Some(at(800));
        assert!(covers(&lost, first) && !covers(&lost, second), "another turn went down with the next boot");
        let nameless = Boot { id: None, at: Some(at(350)) };
        assert!(covers(&lost, nameless) && !covers(&lost, Boot { id: None, at: Some(at(450)) }));
    }

    #[test]
    fn marks_do_not_pile_up_and_the_newest_stay() {
        let home = tempfile::tempdir().unwrap();
        let store = Store::at(home.path().join("agentctl"));
        let marks = Marks::of(store.clone());
        let key = |number: usize| surveyed(session(&format!("s{number}"), Status::Stopped, None)).key;
        store
            .change(|book: &mut MarkBook| {
                for number in 0..KEPT {
                    let set_at = at(i64::try_from(number).unwrap());
                    let mark = InboxMark { session: key(number), last_record: None, set_at };
                    book.inbox.insert(key_text(&key(number)), mark);
                }
            })
            .unwrap();
        let newest = surveyed(session("newest", Status::Stopped, None));
        marks.put_failure_away(&newest.key, &newest.session, at(5000)).unwrap();
        let kept = marks.put_away().unwrap().0;
        assert_eq!(kept.len(), KEPT);
        assert!(kept.contains_key(&key_text(&newest.key)) && !kept.contains_key(&key_text(&key(0))));
    }
}
