//! The homes of agents that keep files: one file of a recorded home is replaced by the input, and all of it is read.
//!
//! The first byte of an input says which file; the rest is what stands in it.

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use agentctl_adapters::{Adapter, Conversation, Reach, Root, Scope, registry};
use agentctl_model::{Coverage, Environ, Harvest};

use crate::invented::invented;
use crate::{searched, seeds};

/// An agent, the recorded case that is its home, and how the files begin or end that may be replaced.
#[derive(Clone, Copy)]
pub struct Recorded {
    pub agent: &'static str,
    pub case: &'static str,
    /// Only files whose path contains one of these are in the home at all; empty means all.
    pub only: &'static [&'static str],
}

struct Home {
    adapter: &'static dyn Adapter,
    root: Root,
    /// The files that may be replaced, and what was recorded in them.
    files: Vec<(PathBuf, Vec<u8>)>,
    /// Which of them is replaced now.
    replaced: Option<usize>,
}

fn adapter(name: &str) -> &'static dyn Adapter {
    registry().into_iter().find(|adapter| adapter.card().name == name).expect("a known agent")
}

fn files(of: Recorded) -> Vec<(PathBuf, Vec<u8>)> {
    let case = seeds::recorded().join(of.agent).join(of.case);
    let wanted = |path: &PathBuf| {
        let name = path.to_string_lossy();
        of.only.is_empty() || of.only.iter().any(|part| name.contains(part))
    };
    let read = |path: PathBuf| {
        let bytes = fs::read(&path).expect("a recorded file");
        (path.strip_prefix(&case).expect("below the case").to_owned(), bytes)
    };
    seeds::below(&case).into_iter().filter(wanted).map(read).collect()
}

impl Home {
    fn new(of: Recorded) -> Self {
        let folder = std::env::temp_dir().join(format!("agentctl-fuzz-{}", std::process::id()));
        let adapter = adapter(of.agent);
        let put = |(name, bytes): (PathBuf, Vec<u8>)| {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(&path, &bytes).expect("a file");
            (path, bytes)
        };
        let files: Vec<(PathBuf, Vec<u8>)> = files(of).into_iter().map(put).collect();
        assert!(!files.is_empty(), "{} has no recorded home", of.agent);
        let environ: Environ = [("HOME", &folder)].into_iter().collect();
        let root = adapter.root(&environ).expect("a root");
        let home = Self { adapter, root, files, replaced: None };
        let whole = home.survey();
        assert!(!whole.found.is_empty(), "nothing is found in the recorded home: {:?}", whole.warnings);
        home
    }

    fn survey(&self) -> Harvest {
        let all = Scope::new(Reach::All { since: None });
        let scope = Scope { usage: true, calls: true, subagents: true, ..all };
        self.adapter.survey(&self.root, &scope)
    }

    fn replace(&mut self, number: usize, bytes: &[u8]) {
        if let Some(before) = self.replaced.filter(|before| *before != number) {
            let (path, recorded) = &self.files[before];
            fs::write(path, recorded).expect("the file as it was");
        }
        self.replaced = Some(number);
        fs::write(&self.files[number].0, bytes).expect("the input");
    }

    /// All bytes of the home and all its paths.
    fn contents(&self, number: usize, bytes: &[u8]) -> Vec<u8> {
        let mut all = Vec::new();
        for (index, (path, recorded)) in self.files.iter().enumerate() {
            all.extend_from_slice(path.as_os_str().as_encoded_bytes());
            all.push(b'\n');
            all.extend_from_slice(if index == number { bytes } else { recorded });
            all.push(b'\n');
        }
        all
    }

    fn check(&mut self, number: usize, bytes: &[u8]) {
        self.replace(number, bytes);
        let harvest = self.survey();
        assert!(
            matches!(harvest.coverage, Coverage::Complete | Coverage::Partial),
            "{:?} {:?}",
            harvest.coverage,
            harvest.warnings
        );
        if let Some(what) = invented(&harvest.found, &self.contents(number, bytes)) {
            panic!("invented: {what}");
        }
        let replaced = &self.files[number].0;
        for found in harvest.found.iter().filter(|found| found.place == *replaced) {
            let entries = self.adapter.read(&found.place, &found.id, 50).unwrap_or_default();
            if let Ok(mut follow) = self.adapter.follow(&found.place, &found.id, 10) {
                let _ = follow.next();
            }
            let conversation = self.adapter.conversation(&found.place, &found.id);
            if let Conversation::Lines { path, parse, compressed: false, .. } = &conversation
                && let Some(entry) = entries.first()
            {
                let word: String = entry.text.chars().skip(1).take(5).collect();
                searched::agree(&conversation, &fs::read(path).expect("the input"), *parse, &word);
            }
        }
    }
}

pub fn check(of: Recorded, bytes: &[u8]) {
    static HOME: OnceLock<Mutex<Home>> = OnceLock::new();
    let home = HOME.get_or_init(|| Mutex::new(Home::new(of)));
    let Some((number, bytes)) = bytes.split_first() else { return };
    let mut home = home.lock().unwrap_or_else(PoisonError::into_inner);
    let number = usize::from(*number) % home.files.len();
    home.check(number, bytes);
}

/// Every file of the home, and the conversations of all other recorded homes of the agent in its place.
pub fn seeds(of: Recorded) -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let own = files(of);
    let numbered = |number: usize, bytes: &[u8]| {
        let mut seed = vec![u8::try_from(number).expect("few files")];
        seed.extend(seeds::shortened(bytes));
        seed
    };
    let end = |path: &PathBuf| path.extension().map(std::ffi::OsStr::to_owned);
    for (number, (_, bytes)) in own.iter().enumerate() {
        seeds.push(numbered(number, bytes));
    }
    for path in seeds::below(&seeds::recorded().join(of.agent)) {
        let place = own.iter().position(|(name, _)| end(name) == end(&path));
        if let (Some(number), Ok(bytes)) = (place, fs::read(&path)) {
            seeds.push(numbered(number, &bytes));
        }
    }
    seeds
}
