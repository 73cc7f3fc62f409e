use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::transcript::jsonl::open::open_regular;

/// What was done between two looks at a file.
#[derive(Debug, Clone)]
enum Deed {
    Nothing,
    Append(u8),
    Truncate,
    /// Other bytes of the same length in the same file, which is then made to look as old as it was.
    Rewrite(u8),
    /// Another file of the same length and age in its place.
    Replace(u8),
    Delete,
    SetTimeBack,
    /// The memory is dropped.
    Forget,
}

fn deed() -> impl Strategy<Value = Deed> {
    let byte = b'a'..=b'z';
    prop_oneof![
        Just(Deed::Nothing),
        byte.clone().prop_map(Deed::Append),
        Just(Deed::Truncate),
        byte.clone().prop_map(Deed::Rewrite),
        byte.prop_map(Deed::Replace),
        Just(Deed::Delete),
        Just(Deed::SetTimeBack),
        Just(Deed::Forget),
    ]
}

struct Place {
    folder: tempfile::TempDir,
    path: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, b"first").unwrap();
        Self { folder, path }
    }

    /// Waits until the file clock has moved, so that what is done from now on has another time than what was done before.
    fn next_tick(&self) {
        let probe = self.folder.path().join("probe");
        let tick = || {
            fs::write(&probe, b"x").unwrap();
            FileState::of(&fs::metadata(&probe).unwrap()).changed
        };
        let before = tick();
        while tick() == before {
            std::thread::yield_now();
        }
    }

    fn apply(&self, deed: &Deed) {
        let Ok(bytes) = fs::read(&self.path) else {
            return fs::write(&self.path, b"again").unwrap();
        };
        let modified = fs::metadata(&self.path).unwrap().modified().unwrap();
        let age =
            |path: &Path| File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
        match deed {
            Deed::Nothing | Deed::Forget => {}
            Deed::Append(byte) => fs::write(&self.path, [bytes, vec![*byte]].concat()).unwrap(),
            Deed::Truncate => {
                File::options()
                    .write(true)
                    .open(&self.path)
                    .unwrap()
                    .set_len(bytes.len() as u64 / 2)
                    .unwrap();
            }
            Deed::Rewrite(byte) => {
                fs::write(&self.path, vec![*byte; bytes.len()]).unwrap();
                age(&self.path);
            }
            Deed::Replace(byte) => {
                let other = self.folder.path().join("other");
                fs::write(&other, vec![*byte; bytes.len()]).unwrap();
                age(&other);
                fs::rename(other, &self.path).unwrap();
            }
            Deed::Delete => fs::remove_file(&self.path).unwrap(),
            Deed::SetTimeBack => {
                let back = modified - std::time::Duration::from_hours(1);
                File::options().write(true).open(&self.path).unwrap().set_modified(back).unwrap();
            }
        }
    }

    /// The content of the file: what is remembered of it, or else what is read and then remembered. Also whether it was
    /// remembered.
    fn look(&self, readings: &Readings, now: Timestamp) -> Option<(Vec<u8>, bool)> {
        let asked = Asked::of::<Vec<u8>>(0, 200);
        let state = FileState::of(&fs::metadata(&self.path).ok()?);
        if let Some(known) = readings.recall::<Vec<u8>>(&self.path, asked, state, now) {
            return Some((known.to_vec(), true));
        }
        let opened = open_regular(&self.path).unwrap();
        let bytes = fs::read(&self.path).unwrap();
        readings.keep(&self.path, asked, (opened.state, &opened.file), now, bytes.clone());
        Some((bytes, false))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(
        if std::env::var_os("AGENTCTL_LONG").is_some() { 400 } else { 24 }
    ) })]

    /// Whatever is done to a file, what is remembered of it is what it says now.
    #[test]
    fn a_memory_says_what_the_file_says(deeds in prop::collection::vec(deed(), 1..10)) {
        let (place, mut readings) = (Place::new(), Readings::default());
        for deed in deeds {
            place.apply(&deed);
            if matches!(deed, Deed::Forget) {
                readings = Readings::default();
            }
            place.next_tick();
            for _ in 0..2 {
                let seen = place.look(&readings, Timestamp::MAX).map(|(bytes, _)| bytes);
                prop_assert_eq!(seen, fs::read(&place.path).ok(), "after {:?}", deed);
            }
            place.next_tick();
        }
    }
}

#[test]
fn a_file_that_stays_the_same_is_remembered() {
    let (place, readings) = (Place::new(), Readings::default());
    if !agentctl_files::is_served_here(&open_regular(&place.path).unwrap().file) {
        return agentctl_testkit::skip(
            "the temporary folder is on a file system of which nothing is remembered",
        );
    }
    let seen = [(); 2].map(|()| place.look(&readings, Timestamp::MAX).unwrap().1);
    assert_eq!(seen, [false, true]);
}

/// Each part of the proof decides alone: a file system may show any of them changed without the others.
#[test]
fn a_state_that_differs_in_anything_is_another_one() {
    let (place, readings) = (Place::new(), Readings::default());
    let asked = Asked::of::<Vec<u8>>(0, 200);
    let opened = open_regular(&place.path).unwrap();
    let (now, state) = (Timestamp::MAX, opened.state);
    if !agentctl_files::is_served_here(&opened.file) {
        return agentctl_testkit::skip(
            "the temporary folder is on a file system of which nothing is remembered",
        );
    }
    readings.keep(&place.path, asked, (state, &opened.file), now, b"first".to_vec());
    let recall = |asked, state| readings.recall::<Vec<u8>>(&place.path, asked, state, now).is_some();
    assert!(recall(asked, state));
    for other in [
        FileState { device: state.device + 1, ..state },
        FileState { inode: state.inode + 1, ..state },
        FileState { size: state.size + 1, ..state },
        FileState { modified: (state.modified.0, state.modified.1 ^ 1), ..state },
        FileState { changed: (state.changed.0, state.changed.1 ^ 1), ..state },
    ] {
        assert!(!recall(asked, other), "{other:?}");
    }
    let others = [Asked::of::<String>(0, 200), Asked::of::<Vec<u8>>(1, 200), Asked::of::<Vec<u8>>(0, 100)];
    let counting = [asked.with_totals(true, false), asked.with_totals(true, true)];
    for other in others.into_iter().chain(counting) {
        assert!(!recall(other, state), "{other:?}");
    }
}

/// Two writes within one tick leave one state, so a file that is as young as that is not remembered.
#[test]
fn a_file_that_changed_just_now_is_not_remembered() {
    let (place, readings) = (Place::new(), Readings::default());
    let changed = open_regular(&place.path).unwrap().state.changed.0;
    let after = |seconds: i64| Timestamp::from_second(changed + seconds).unwrap();
    for moment in [after(-3600), after(0), after(2)] {
        assert!(!place.look(&readings, moment).unwrap().1, "{moment}");
        assert!(!place.look(&readings, Timestamp::MAX).is_none_or(|(_, known)| known), "{moment}");
        *readings.kept() = Kept::default();
    }
}

#[test]
fn a_file_that_changes_during_the_read_is_not_remembered() {
    let (place, readings) = (Place::new(), Readings::default());
    let asked = Asked::of::<Vec<u8>>(0, 200);
    let opened = open_regular(&place.path).unwrap();
    place.next_tick();
    fs::write(&place.path, b"other").unwrap();
    readings.keep(&place.path, asked, (opened.state, &opened.file), Timestamp::MAX, b"first".to_vec());
    assert_eq!(readings.kept().bytes, 0);
}

#[test]
fn what_is_kept_has_a_bound_and_an_age() {
    let (place, readings) = (Place::new(), Readings::default());
    let opened = open_regular(&place.path).unwrap();
    if !agentctl_files::is_served_here(&opened.file) {
        return agentctl_testkit::skip(
            "the temporary folder is on a file system of which nothing is remembered",
        );
    }
    let now = Timestamp::from_second(opened.state.changed.0 + 60).unwrap();
    let keep = |form: u8, length: usize| {
        let asked = Asked::of::<String>(form, 200);
        let text = "x".repeat(length);
        readings.keep(&place.path, asked, (opened.state, &opened.file), now, text);
        readings.recall::<String>(&place.path, asked, opened.state, now).is_some()
    };
    assert!(!keep(0, MOST_BYTES), "more than all that may be kept");
    assert!(keep(0, MOST_BYTES / 2));
    assert!(!keep(1, MOST_BYTES / 2), "together they are too much");
    assert!(keep(0, MOST_BYTES / 2), "a new reading takes the place of the old one");
    assert!(keep(1, 100));
    let once = readings.kept().bytes;
    assert!(keep(1, 100));
    assert_eq!(readings.kept().bytes, once, "what was replaced counts no more");
    readings.tidy(now + UNUSED / 2);
    assert!(readings.kept().bytes > MOST_BYTES / 2);
    readings.tidy(now + UNUSED * 2);
    let kept = readings.kept();
    assert_eq!((kept.bytes, kept.files.len()), (0, 0));
}
