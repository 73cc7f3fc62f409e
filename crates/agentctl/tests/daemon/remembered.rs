//! The daemon does not read again what has not changed, sees every change, and remembers nothing of what lives.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentctl_testkit::{Background, until};
use serde_json::{Value, json};

use crate::conformance::forget_moments;
use crate::house::{House, SOON};
use crate::memory::read_by;
use crate::stand_in::StandIn;

/// So many sessions of this size that reading them shows beside what is read of the process table meanwhile.
const SESSIONS: usize = 200;
const SIZE: usize = 24 << 10;
const ALL: usize = SESSIONS * SIZE;

fn id(number: usize) -> String {
    format!("66666666-0000-4000-8000-{number:012}")
}

/// A conversation of one turn, padded to the size.
fn conversation(number: usize, words: &str) -> String {
    let id = id(number);
    let prompt = json!({"type": "user", "uuid": "p", "sessionId": id, "cwd": "/work", "timestamp": "2026-11-15T07:00:00Z",
        "message": {"role": "user", "content": "x".repeat(SIZE - 1024)}});
    let message = json!({"id": "m", "role": "assistant", "model": "m", "content": [{"type": "text", "text": words}],
        "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 2}});
    let reply = json!({"type": "assistant", "uuid": "u", "sessionId": id, "cwd": "/work", "timestamp": "2026-11-15T07:00:01Z",
        "message": message});
    format!("{prompt}\n{reply}\n")
}

struct Kept {
    house: House,
    daemon: Background,
    folder: PathBuf,
}

impl Kept {
    fn new() -> Self {
        let house = House::new();
        let folder = house.home.path().join(".claude/projects/-work");
        fs::create_dir_all(&folder).unwrap();
        for number in 0..SESSIONS {
            let path = folder.join(format!("{}.jsonl", id(number)));
            fs::write(path, conversation(number, "first words")).unwrap();
        }
        let daemon = house.daemon(&[]);
        Self { house, daemon, folder }
    }

    fn path(&self, number: usize) -> PathBuf {
        self.folder.join(format!("{}.jsonl", id(number)))
    }

    /// The list of the daemon, and how many bytes it read for it.
    fn list(&self) -> (Value, usize) {
        let before = read_by(self.daemon.pid());
        let mut answer = self.house.get("/v1/sessions?since=all").json();
        forget_moments(&mut answer);
        (answer, read_by(self.daemon.pid()) - before)
    }

    /// The list is the one that a process without a daemon gives. Returns it with the bytes that the daemon read.
    fn same(&self, when: &str) -> (Value, usize) {
        let mut alone = self.house.home.agentctl(&["list", "--since", "all", "--json"]).ok().json();
        forget_moments(&mut alone);
        let (answer, read) = self.list();
        assert_eq!(answer, alone, "{when}");
        (answer, read)
    }

    /// Files that were written just now are not believed, so this takes some moments.
    fn warm(&self) {
        until(SOON, "the files to be remembered", || (self.list().1 < ALL / 4).then_some(()));
    }
}

fn writable(path: &Path) -> File {
    File::options().write(true).open(path).unwrap()
}

#[test]
fn what_has_not_changed_is_not_read_again_and_every_change_is_seen() {
    let kept = Kept::new();
    let (_, read) = kept.same("cold");
    assert!(read > ALL / 2, "the first time everything is read: {read}");
    kept.warm();
    let (_, read) = kept.same("warm");
    assert!(read < ALL / 4, "the second time nothing is: {read}");

    let modified = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
    let (appended, cut, rewritten, replaced, deleted, older) =
        (kept.path(0), kept.path(1), kept.path(2), kept.path(3), kept.path(4), kept.path(5));
    let text = |number: usize, words: &str| conversation(number, words);
    fs::write(&appended, text(0, "first words") + &text(0, "more words")).unwrap();
    writable(&cut).set_len(SIZE as u64 / 2).unwrap();
    for (number, path) in [(2, &rewritten), (3, &replaced)] {
        let (then, other) = (modified(path), kept.folder.join("other"));
        let target = if number == 2 { path } else { &other };
        fs::write(target, text(number, "other words")).unwrap();
        writable(target).set_modified(then).unwrap();
        if number == 3 {
            fs::rename(&other, path).unwrap();
        }
        assert_eq!(
            (modified(path), fs::metadata(path).unwrap().len()),
            (then, text(number, "first words").len() as u64)
        );
    }
    fs::remove_file(&deleted).unwrap();
    writable(&older).set_modified(modified(&older) - Duration::from_hours(24)).unwrap();
    let (list, read) = kept.same("changed");
    assert!(read < ALL / 2, "the others are still remembered: {read}");
    let words = |number: usize| {
        let all = list["sessions"].as_array().unwrap();
        all.iter().find(|one| one["id"] == id(number)).map(|one| one["lastMessage"].clone())
    };
    assert_eq!(words(0), Some(json!("more words")));
    assert_eq!((words(2), words(3)), (Some(json!("other words")), Some(json!("other words"))));
    assert_eq!((words(4), words(5)), (None, Some(json!("first words"))));
}

#[test]
fn what_is_remembered_of_a_session_says_nothing_about_its_process() {
    let kept = Kept::new();
    let mut agent = StandIn::on(&kept.house.home, id(0));
    agent.finish();
    kept.warm();
    let status = |list: &Value| {
        let all = list["sessions"].as_array().unwrap();
        all.iter().find(|one| one["id"] == id(0)).map(|one| (one["status"].clone(), one["pid"].is_null()))
    };
    let (list, read) = kept.same("while it lives");
    assert_eq!(status(&list), Some((json!("idle"), false)));
    assert!(read < ALL / 4, "{read}");
    agent.kill();
    let (list, read) = kept.same("after its end");
    assert_eq!(status(&list), Some((json!("stopped"), true)));
    assert!(read < ALL / 4, "its records are the same: {read}");
}
