//! A home with an agent's storage in it, and a kernel that the test scripts.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agentctl_adapters::Adapter;
use agentctl_fleet::{Fleet, Purpose, Query, Selector, Since, Source, Wanted};
use agentctl_model::{Environ, Outcome, Session, Status, Survey};
use agentctl_process::fake::{Scripted, ScriptedProcess};
use jiff::Timestamp;
use tempfile::TempDir;

/// Minutes after a fixed moment.
pub(crate) fn minute(minutes: i64) -> Timestamp {
    Timestamp::from_second(1_794_700_000 + minutes * 60).unwrap()
}

pub(crate) struct Stage {
    home: TempDir,
    adapter: &'static dyn Adapter,
}

impl Stage {
    pub(crate) fn new(adapter: &'static dyn Adapter) -> Self {
        Self { home: tempfile::tempdir().unwrap(), adapter }
    }

    pub(crate) fn path(&self) -> PathBuf {
        fs::canonicalize(self.home.path()).unwrap()
    }

    pub(crate) fn write(&self, place: &str, lines: &[String]) -> &Self {
        let path = self.path().join(place);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        fs::write(path, text).unwrap();
        self
    }

    /// A process of this home in `/w`, started at minute 10.
    pub(crate) fn process(&self, pid: u32, argv: &[&str]) -> ScriptedProcess {
        ScriptedProcess::new(pid, argv)
            .comm("MainThread")
            .cwd("/w")
            .variable("HOME", self.path().to_str().unwrap())
            .started_at(minute(10))
    }

    pub(crate) fn fleet(&self, kernel: Scripted) -> Fleet {
        let root = self.adapter.root(&Environ::from_iter([("HOME", self.path())])).unwrap();
        let source = Source { adapter: self.adapter, root, timeout: Duration::from_mins(1) };
        Fleet::new(vec![source], Arc::new(kernel))
    }

    pub(crate) fn all(&self, kernel: Scripted) -> Survey {
        self.fleet(kernel)
            .survey(&Query { subagents: true, ..Query::new(Wanted::All { since: Since::Ever }) })
    }

    pub(crate) fn live(&self, kernel: Scripted) -> Survey {
        self.fleet(kernel).survey(&Query::new(Wanted::Live))
    }

    /// The verdict on this session, after checking that a list of everything, a list of live sessions, and a look-up of
    /// this one agree (N7).
    pub(crate) fn verdict(&self, id: &str, kernel: impl Fn() -> Scripted) -> (Status, Option<Outcome>) {
        let all = self.all(kernel());
        let listed = session(&all, id);
        assert!(!listed.evidence.is_empty());
        let word = (listed.status, listed.outcome);
        let selector = Selector { text: id.to_owned(), ..Selector::default() };
        let (one, _) = self
            .fleet(kernel())
            .find(&selector, Purpose::Show)
            .unwrap_or_else(|_| panic!("{id} is not found"));
        assert_eq!((one.session.status, one.session.outcome), word, "list and status disagree");
        let live = self.live(kernel());
        let seen_live = live.sessions.iter().find(|surveyed| surveyed.key.id == id);
        assert_eq!(
            seen_live.map(|surveyed| (surveyed.session.status, surveyed.session.outcome)),
            Some(word).filter(|_| listed.is_live()),
            "a list of everything and a list of what is live disagree"
        );
        word
    }
}

pub(crate) fn session<'s>(survey: &'s Survey, id: &str) -> &'s Session {
    let mut with_id = survey.sessions.iter().filter(|surveyed| surveyed.key.id == id);
    let one = with_id.next().unwrap_or_else(|| panic!("{id} is not listed"));
    assert!(with_id.next().is_none(), "{id} is listed twice");
    &one.session
}

pub(crate) fn roles(session: &Session) -> Vec<(u32, &str)> {
    session.processes.iter().map(|process| (process.pid, process.role.as_str())).collect()
}

/// A root that exists but cannot be read gives no verdict (N4).
pub(crate) fn unreadable_is_no_verdict(stage: &Stage, folder: &Path) {
    fs::create_dir_all(folder.parent().unwrap()).unwrap();
    // A link to itself cannot be listed by any user, not even by root.
    std::os::unix::fs::symlink(folder, folder).unwrap();
    let survey = stage.all(Scripted::new());
    assert!(survey.sessions.is_empty());
    assert_eq!(survey.sources[0].coverage.as_str(), "failed");
    assert_eq!(survey.sources[0].sessions, None);
}
