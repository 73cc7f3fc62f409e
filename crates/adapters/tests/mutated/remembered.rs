//! Every recorded home is read with a memory that is cold, warm, or full of what is no longer true, and the answer is the
//! one that is given without a memory.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agentctl_adapters::{Memory, registry};
use jiff::Timestamp;

use crate::homes::{self, Home};

/// How many files of each home are changed, in every way.
fn files() -> usize {
    if std::env::var_os("AGENTCTL_LONG").is_some() { usize::MAX } else { 3 }
}

type Way = (&'static str, fn(&Path, &[u8]));

const WAYS: [Way; 6] = [
    ("append", |path, bytes| fs::write(path, [bytes, b"{}\n"].concat()).unwrap()),
    ("truncate", |path, bytes| writable(path).set_len(bytes.len() as u64 / 2).unwrap()),
    ("rewrite", |path, bytes| fs::write(path, other(bytes)).unwrap()),
    ("replace", |path, bytes| {
        let beside = path.with_extension("beside");
        fs::write(&beside, other(bytes)).unwrap();
        fs::rename(beside, path).unwrap();
    }),
    ("delete", |path, _| fs::remove_file(path).unwrap()),
    ("set the time back", |path, _| {
        let modified = fs::metadata(path).unwrap().modified().unwrap();
        writable(path).set_modified(modified - Duration::from_hours(24)).unwrap();
    }),
];

fn writable(path: &Path) -> File {
    File::options().write(true).open(path).unwrap()
}

/// As many bytes, with other texts and other figures.
fn other(bytes: &[u8]) -> Vec<u8> {
    let swapped = |byte: &u8| match byte {
        b'e' => b'o',
        b'1' => b'2',
        other => *other,
    };
    bytes.iter().map(swapped).collect()
}

/// Waits until the file clock has moved: the memory of this test believes a file at once.
fn next_tick(home: &Home) {
    let probe = home.folder.path().join("probe");
    let tick = || {
        fs::write(&probe, b"x").unwrap();
        let found = fs::metadata(&probe).unwrap();
        (found.ctime(), found.ctime_nsec())
    };
    let before = tick();
    while tick() == before {
        std::thread::yield_now();
    }
}

fn check(home: &Home) {
    let memory = Arc::new(Memory::new(|| Timestamp::MAX));
    let same = |when: &str| {
        for usage in [false, true] {
            let alone = home.listed(usage, None);
            let with = home.listed(usage, Some(memory.clone()));
            assert_eq!(with, alone, "{} {when}, usage {usage}", home.name);
        }
        next_tick(home);
    };
    next_tick(home);
    same("cold");
    same("warm");
    for (path, bytes) in home.files.iter().take(files()) {
        let modified = fs::metadata(path).unwrap().modified().unwrap();
        for (way, change) in WAYS {
            change(path, bytes);
            same(way);
            fs::write(path, bytes).unwrap();
            // What a file looked like before proves nothing either.
            writable(path).set_modified(modified).unwrap();
            same("restored");
        }
    }
}

#[test]
fn a_memory_changes_no_answer() {
    std::thread::scope(|scope| {
        for adapter in registry() {
            let name = adapter.card().name.to_owned();
            let work = || homes::of(adapter).iter().filter(|home| !home.is_remote()).for_each(check);
            std::thread::Builder::new().name(name).spawn_scoped(scope, work).unwrap();
        }
    });
}
