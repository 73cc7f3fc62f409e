//! A home with three sound sessions, room for damage, and a record of its original state.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use agentctl_testkit::{Output, TestHome};
use serde_json::Value;

/// Far more than any answer about a few files may take, even in a debug build on a busy machine.
const BOUND: Duration = Duration::from_mins(3);

/// The sessions that must always be right, with the tokens and cost of nothing else in them.
const SOUND: [&str; 3] = [
    "50000000-0000-4000-8000-000000000001",
    "50000000-0000-4000-8000-000000000002",
    "50000000-0000-4000-8000-000000000003",
];

/// The session that gets hurt.
pub(crate) const HURT: &str = "bad00000-0000-4000-8000-00000000000b";

pub(crate) struct Storage {
    pub(crate) home: TestHome,
}

/// Name, size, kind and time of every file.
pub(crate) type Snapshot = BTreeMap<PathBuf, (u64, u32, SystemTime)>;

impl Storage {
    pub(crate) fn sound() -> Self {
        let storage = Self { home: TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl")) };
        for (number, id) in SOUND.iter().enumerate() {
            // One lies among the damaged ones, and one in a folder of its own.
            let folder = if number == 2 { "-elsewhere" } else { "-work" };
            storage
                .write(&format!("projects/{folder}/{id}.jsonl"), conversation(id, &format!("task {number}")));
        }
        std::fs::create_dir_all(storage.root().join("sessions")).unwrap();
        storage
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.home.path().join(".claude")
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        let path = self.root().join(below);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    pub(crate) fn write(&self, below: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path(below), bytes).unwrap();
    }

    /// The transcript of the session that gets hurt.
    pub(crate) fn hurt(&self) -> PathBuf {
        self.path(&format!("projects/-work/{HURT}.jsonl"))
    }

    /// Lists everything and checks what must always hold: the sound sessions are right, the answer comes in
    /// bounded time, and nothing in the home is modified.
    #[track_caller]
    pub(crate) fn examine(&self) -> Examined {
        let before = snapshot(&self.home.path());
        let began = Instant::now();
        let output = self.home.agentctl(&["list", "--since", "all", "--usage", "--json"]);
        let strict = self.home.agentctl(&["list", "--since", "all", "--json", "--strict"]);
        assert!(began.elapsed() < BOUND, "it took {:?}", began.elapsed());
        assert_eq!(snapshot(&self.home.path()), before, "something in the home was touched");
        Examined::new(output.ok(), &strict)
    }
}

/// One answer about a damaged storage.
pub(crate) struct Examined {
    answer: Value,
    stderr: String,
    strict: Option<i32>,
}

impl Examined {
    #[track_caller]
    pub(crate) fn new(output: Output, strict: &Output) -> Self {
        let answer = output.json();
        let seen = Self { answer, stderr: output.stderr, strict: strict.code };
        seen.sound_ones_are_right();
        seen
    }

    #[track_caller]
    fn sound_ones_are_right(&self) {
        for (number, id) in SOUND.iter().enumerate() {
            let row = self.row(id).unwrap_or_else(|| panic!("{id} is missing: {:#}", self.answer));
            let facts = (&row["status"], &row["outcome"], &row["prompt"], &row["lastMessage"]);
            let expected = ("stopped", "completed", format!("task {number}"), "it is done");
            assert_eq!(
                facts,
                (&expected.0.into(), &expected.1.into(), &expected.2.into(), &expected.3.into()),
                "{row:#}"
            );
            assert_eq!((row["tokens"]["in"].as_u64(), row["tokens"]["out"].as_u64()), (Some(11), Some(22)));
        }
    }

    pub(crate) fn row(&self, id: &str) -> Option<&Value> {
        let mut rows = self.answer["sessions"].as_array().unwrap().iter().filter(|row| row["id"] == id);
        let row = rows.next();
        assert!(rows.next().is_none(), "two rows for {id}");
        row
    }

    fn source(&self) -> &Value {
        let mut sources = self.answer["sources"].as_array().unwrap().iter();
        sources.find(|source| source["adapter"] == "claude-code").unwrap()
    }

    fn warns_of(&self, what: &Path) -> bool {
        let name = what.to_string_lossy();
        let warnings = self.source()["warnings"].as_array().unwrap();
        warnings.iter().any(|warning| warning.as_str().unwrap().contains(&*name))
    }

    /// Something had to be left out: it is named, the source is partial, and only `--strict` fails.
    #[track_caller]
    pub(crate) fn left_out(&self, what: &Path) {
        assert_eq!(self.source()["coverage"], "partial", "{:#}", self.answer);
        assert!(self.warns_of(what), "{} is not named: {:#}", what.display(), self.source());
        assert!(self.stderr.contains("warning: claude-code"), "{}", self.stderr);
        assert_eq!(self.strict, Some(6));
    }

    /// Damage inside a session that is listed all the same: a warning, and the source is complete.
    #[track_caller]
    pub(crate) fn kept_with_a_warning(&self, id: &str, what: &Path) -> &Value {
        self.complete();
        assert!(self.warns_of(what), "{} is not named: {:#}", what.display(), self.source());
        self.row(id).unwrap_or_else(|| panic!("{id} is missing: {:#}", self.answer))
    }

    #[track_caller]
    pub(crate) fn complete(&self) {
        assert_eq!(self.source()["coverage"], "complete", "{:#}", self.answer);
        assert_eq!(self.strict, Some(0));
    }

    #[track_caller]
    pub(crate) fn without_warnings(&self) {
        assert_eq!(self.source()["warnings"], Value::Array(Vec::new()));
    }
}

/// One finished turn, as the agent records it.
pub(crate) fn conversation(id: &str, prompt: &str) -> String {
    [asked(id, prompt), answered(id, "m1", "it is done")].concat()
}

pub(crate) fn asked(id: &str, prompt: &str) -> String {
    let prompt = serde_json::to_string(prompt).unwrap();
    format!(
        "{{\"parentUuid\":null,\"isSidechain\":false,\"type\":\"user\",\"message\":{{\"role\":\"user\",\"content\":{prompt}}},\
         \"uuid\":\"u1\",\"timestamp\":\"2026-11-15T07:00:00.000Z\",\"cwd\":\"/work\",\"sessionId\":\"{id}\",\"gitBranch\":\"main\"}}\n"
    )
}

pub(crate) fn answered(id: &str, message: &str, text: &str) -> String {
    format!(
        "{{\"parentUuid\":\"u1\",\"isSidechain\":false,\"message\":{{\"id\":\"{message}\",\"model\":\"claude-x\",\"role\":\"assistant\",\
         \"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}],\"stop_reason\":\"end_turn\",\
         \"usage\":{{\"input_tokens\":11,\"output_tokens\":22}}}},\"type\":\"assistant\",\"uuid\":\"u2\",\
         \"timestamp\":\"2026-11-15T07:00:05.000Z\",\"cwd\":\"/work\",\"sessionId\":\"{id}\",\"gitBranch\":\"main\"}}\n"
    )
}

pub(crate) fn snapshot(folder: &Path) -> Snapshot {
    let mut found = Snapshot::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().flatten() {
            let metadata = entry.path().symlink_metadata().unwrap();
            if metadata.is_dir() {
                open.push(entry.path());
            }
            found.insert(entry.path(), (metadata.len(), metadata.mode(), metadata.modified().unwrap()));
        }
    }
    found
}
