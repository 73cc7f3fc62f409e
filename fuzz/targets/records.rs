//! The records of the agent that `AGENTCTL_FUZZ_AGENT` names: one file of a recorded home has the input as its contents. There is
//! no panic, the home is read to its end, and a second reading says the same.
//!
//! The first byte of an input chooses the file; at the start, the files as they were recorded become the seeds.
#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use agentctl_adapters::cancel::with_cancellation;
use agentctl_adapters::{Adapter, Progress, Reach, Root, Scope, registry};
use agentctl_model::{Coverage, Environ};
use libfuzzer_sys::fuzz_target;

struct Home {
    adapter: &'static dyn Adapter,
    root: Root,
    files: Vec<(PathBuf, Vec<u8>)>,
    _folder: tempfile::TempDir,
}

/// Larger files make it slow, and smaller ones have the same records.
const LARGEST_SEED: usize = 64 << 10;

static HOMES: LazyLock<Vec<Home>> = LazyLock::new(|| {
    let name = std::env::var("AGENTCTL_FUZZ_AGENT").expect("AGENTCTL_FUZZ_AGENT names an agent");
    let adapter = registry().into_iter().find(|adapter| adapter.card().name == name).expect("an agent");
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/recorded").join(&name);
    let mut cases: Vec<PathBuf> =
        fs::read_dir(recorded).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    let homes: Vec<Home> =
        cases.iter().filter(|case| case.is_dir()).filter_map(|case| home(adapter, case)).collect();
    assert!(!homes.is_empty(), "{name} has no recorded home on disk");
    homes
});

fn home(adapter: &'static dyn Adapter, case: &Path) -> Option<Home> {
    let folder = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for path in below(case) {
        let target = folder.path().join(path.strip_prefix(case).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(&path, &target).unwrap();
        files.push((target, fs::read(path).unwrap()));
    }
    let environ: Environ = [("HOME", folder.path())].into_iter().collect();
    let root = adapter.root(&environ)?;
    root.path.exists().then_some(Home { adapter, root, files, _folder: folder })
}

fn below(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().flat_map(|path| if path.is_dir() { below(&path) } else { vec![path] }).collect()
}

impl Home {
    fn told(&self) -> String {
        let progress = Progress::awaited_for(Duration::from_secs(60));
        let all = Scope::new(Reach::All { since: None });
        let scope = Scope { usage: true, calls: true, subagents: true, progress: progress.clone(), ..all };
        let harvest = with_cancellation(Some(&progress), || self.adapter.survey(&self.root, &scope));
        assert!(!matches!(harvest.coverage, Coverage::TimedOut { .. }), "it was not read to its end");
        let mut told = format!("{:?} {:?}", harvest.found, harvest.warnings);
        for found in &harvest.found {
            told.push_str(&format!("{:?}", self.adapter.read(&found.place, &found.id, 50).ok()));
            if let Ok(mut follow) = self.adapter.follow(&found.place, &found.id, 10) {
                let _ = follow.next();
            }
        }
        told
    }
}

/// All files of all homes, in one order.
fn file(number: u8) -> (&'static Home, &'static Path, &'static [u8]) {
    let mut all: Vec<_> =
        HOMES.iter().flat_map(|home| home.files.iter().map(move |file| (home, file))).collect();
    all.truncate(256);
    let (home, (path, bytes)) = all[usize::from(number) % all.len()];
    (home, path, bytes)
}

fn write_seeds() {
    let Some(folder) = std::env::var_os("AGENTCTL_FUZZ_SEEDS").map(PathBuf::from) else { return };
    fs::create_dir_all(&folder).unwrap();
    let count = HOMES.iter().map(|home| home.files.len()).sum::<usize>().min(256);
    for number in 0..count {
        let number = u8::try_from(number).unwrap();
        let (_, _, bytes) = file(number);
        if bytes.len() <= LARGEST_SEED {
            fs::write(folder.join(format!("seed-{number}")), [&[number], bytes].concat()).unwrap();
        }
    }
}

fuzz_target!(init: write_seeds(), |input: &[u8]| {
    let Some((number, bytes)) = input.split_first() else { return };
    let (home, path, before) = file(*number);
    fs::write(path, bytes).unwrap();
    let (first, second) = (home.told(), home.told());
    fs::write(path, before).unwrap();
    assert_eq!(first, second, "two readings of one home");
});
