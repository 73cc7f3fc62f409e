use std::path::PathBuf;

use agentctl_model::Harvest;
use rusqlite::Connection;

use super::*;
use crate::agents::opencode::storage::{database, survey};
use crate::{Reach, Root, sqlite};

/// A database with two sessions of one message each.
struct Place {
    folder: tempfile::TempDir,
    writer: Connection,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let writer = Connection::open(folder.path().join("opencode.db")).unwrap();
        let tables = "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0;
            CREATE TABLE session(id, directory, parent_id, title, time_created, time_updated);
            CREATE TABLE message(id, session_id, time_created, data);
            CREATE TABLE part(id, message_id, data);
            INSERT INTO session VALUES('ses_a', '/w', NULL, 'one', 1, 1), ('ses_b', '/w', NULL, 'two', 1, 1);";
        writer.execute_batch(tables).unwrap();
        let place = Self { folder, writer };
        for (id, session) in [("msg_1", "ses_a"), ("msg_2", "ses_b")] {
            place.say(id, session, 10);
        }
        place
    }

    /// Adds a reply to a session, without touching the session's own row.
    fn say(&self, id: &str, session: &str, input: u64) {
        let reply = format!(
            r#"{{"role":"assistant","finish":"stop","time":{{"created":1000,"completed":2000}},"modelID":"m","providerID":"p","tokens":{{"input":{input},"output":1,"cache":{{"read":0,"write":0}}}}}}"#
        );
        self.writer.execute("INSERT INTO message VALUES(?, ?, 1000, ?)", [id, session, &reply]).unwrap();
    }

    fn database(&self) -> PathBuf {
        self.folder.path().join("opencode.db")
    }

    fn look(&self, memory: Option<&Arc<Memory>>) -> Harvest {
        let root = Root::at(self.folder.path());
        survey::survey(&root, &scope(memory.cloned()), |_| true)
    }

    /// The sessions of which the memory knows everything.
    fn known(&self, memory: &Arc<Memory>) -> Vec<String> {
        let (path, scope) = (self.database(), scope(Some(memory.clone())));
        let known = sqlite::read(&path, |database| {
            let columns = "id,parent_id,directory,title,NULL,NULL,NULL,time_created,time_updated,NULL,NULL,NULL,NULL,NULL,NULL";
            let heads = database::heads(database.connection, (columns, false), "?1 = ''", [""])?.heads;
            let remembered = Remembered::of(&path, database, &scope);
            let is_known = |head: &&Head| remembered.as_ref().is_some_and(|all| all.recall(head).is_some());
            Ok(heads.iter().filter(is_known).map(|head| head.id.clone()).collect())
        });
        known.unwrap()
    }
}

fn scope(memory: Option<Arc<Memory>>) -> Scope<'static> {
    let all = Scope::new(Reach::All { since: None });
    Scope { subagents: true, usage: true, calls: true, text_limit: Some(200), memory, ..all }
}

fn at_once() -> Arc<Memory> {
    Arc::new(Memory::new(|| Timestamp::MAX))
}

/// Says why, where nothing is remembered.
fn is_remembered(place: &Place) -> bool {
    let is_served_here = agentctl_files::is_served_here(&held(&place.database()).unwrap());
    if !is_served_here {
        agentctl_testkit::skip("the temporary folder is on a file system of which nothing is remembered");
    }
    is_served_here
}

#[test]
fn what_nobody_wrote_to_is_not_read_again_and_every_commit_is_seen() {
    let (place, memory) = (Place::new(), at_once());
    if !is_remembered(&place) {
        return;
    }
    assert_eq!(place.known(&memory), Vec::<String>::new(), "nothing is known before the first look");
    for turn in 0..4 {
        let cold = place.look(None);
        assert_eq!(cold.found.len(), 2, "{cold:?}");
        assert_eq!(place.look(Some(&memory)), cold, "a memory of another state, turn {turn}");
        assert_eq!(place.known(&memory), ["ses_a", "ses_b"], "turn {turn}");
        assert_eq!(place.look(Some(&memory)), cold, "warm, turn {turn}");
        place.say(&format!("msg_1{turn}"), "ses_a", 100);
        assert_ne!(place.look(None), cold);
        assert_eq!(place.known(&memory), Vec::<String>::new(), "somebody wrote, turn {turn}");
    }
}

#[test]
fn what_is_read_in_part_is_kept_in_part() {
    let (place, memory) = (Place::new(), at_once());
    if !is_remembered(&place) {
        return;
    }
    let ids = ["ses_b".to_owned()];
    let one = Scope { reach: Reach::Ids(&ids), ..scope(Some(memory.clone())) };
    survey::survey(&Root::at(place.folder.path()), &one, |_| true);
    assert_eq!(place.known(&memory), ["ses_b"]);
    assert_eq!(place.look(Some(&memory)), place.look(None));
    assert_eq!(place.known(&memory), ["ses_a", "ses_b"]);
}

#[test]
fn a_database_that_was_written_just_now_is_not_remembered() {
    let place = Place::new();
    let hasty = Arc::new(Memory::new(|| Timestamp::UNIX_EPOCH));
    assert_eq!(place.look(Some(&hasty)), place.look(None));
    assert_eq!(place.known(&hasty), Vec::<String>::new());
}

#[test]
fn a_memory_that_lies_about_the_state_is_not_believed() {
    let (place, memory) = (Place::new(), at_once());
    if !is_remembered(&place) {
        return;
    }
    let cold = place.look(None);
    place.look(Some(&memory));
    // Kept for another state of the log, with the file itself as it is.
    let (path, scope) = (place.database(), scope(Some(memory.clone())));
    sqlite::read(&path, |database| {
        let mut remembered = Remembered::of(&path, database, &scope).unwrap();
        let sessions = remembered.known.as_ref().unwrap().sessions.clone();
        let lie = sessions.into_iter().map(|(id, one)| {
            let mut lie = (*one).clone();
            lie.1.found.facts.prompt = Some("a lie".to_owned());
            (id, Arc::new(lie))
        });
        let file = held(&path).unwrap();
        remembered.proof.forget_the_log();
        let kept = Kept { proof: remembered.proof, sessions: lie.collect() };
        memory.readings.keep(&path, remembered.asked, (kept.proof.main, &file), remembered.began, kept);
        Ok(())
    })
    .unwrap();
    assert_eq!(place.look(Some(&memory)), cold);
}
