//! One file of a recorded home is cut, changed or concatenated at any byte: there is no panic and no hang,
//! nothing is reported that is not in the bytes, and no other session is lost. This holds for every adapter.
#![allow(clippy::disallowed_methods, reason = "tests write what is read")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod homes;
mod invented;
mod remembered;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use agentctl_adapters::{Adapter, registry};
use agentctl_model::{Coverage, Found};
use homes::Home;
use invented::invented;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// How many damaged homes each adapter is given.
fn rounds() -> u32 {
    if std::env::var_os("AGENTCTL_LONG").is_some() { 2000 } else { 100 }
}

/// The damage done to the bytes.
#[derive(Debug, Clone)]
enum Harm {
    Cut(prop::sample::Index, prop::sample::Index),
    Change(prop::sample::Index, u8),
    Twice(prop::sample::Index),
    Insert(prop::sample::Index, Vec<u8>),
}

fn harm() -> impl Strategy<Value = Harm> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        (at(), at()).prop_map(|(a, b)| Harm::Cut(a, b)),
        (at(), any::<u8>()).prop_map(|(a, byte)| Harm::Change(a, byte)),
        at().prop_map(Harm::Twice),
        (at(), prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(a, more)| Harm::Insert(a, more)),
    ]
}

fn harmed(bytes: &[u8], harms: &[Harm]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for harm in harms {
        let length = bytes.len() + 1;
        match harm {
            Harm::Cut(a, b) => {
                let (a, b) = (a.index(length), b.index(length));
                bytes.drain(a.min(b)..a.max(b));
            }
            Harm::Change(at, byte) if !bytes.is_empty() => {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            Harm::Change(..) => {}
            Harm::Twice(at) => bytes.extend_from_within(at.index(length)..),
            Harm::Insert(at, more) => {
                let at = at.index(length);
                bytes.splice(at..at, more.iter().copied());
            }
        }
    }
    bytes
}

/// The sessions in other files.
fn apart_from(file: &Path, found: &[Found]) -> BTreeSet<(String, PathBuf)> {
    let apart = found.iter().filter(|session| session.place != file);
    apart.map(|session| (session.id.clone(), session.place.clone())).collect()
}

/// Damages one file and reads the whole home.
fn check(home: &Home, whole: &[Found], file: &Path, bytes: &[u8]) -> Result<(), TestCaseError> {
    fs::write(file, bytes).unwrap();
    let harvest = home.survey();
    let shared = home.is_shared(file);
    let told = match harvest.coverage {
        Coverage::Complete | Coverage::Partial => true,
        Coverage::Failed { .. } => shared,
        Coverage::TimedOut { .. } | Coverage::NotInstalled => false,
    };
    prop_assert!(told, "{:?} {:?}", harvest.coverage, harvest.warnings);
    if !shared {
        prop_assert_eq!(apart_from(file, &harvest.found), apart_from(file, whole));
    }
    let invented = invented(&harvest.found, &home.contents());
    prop_assert!(invented.is_none(), "{}", invented.unwrap_or_default());
    Ok(())
}

fn harm_homes_of(adapter: &'static dyn Adapter) {
    let homes = homes::of(adapter);
    let whole: Vec<Vec<Found>> = homes.iter().map(|home| home.survey().found).collect();
    let at = any::<prop::sample::Index>;
    let choices = (at(), at(), prop::collection::vec(harm(), 1..5));
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(rounds()) };
    let ended = TestRunner::new(config).run(&choices, |(home, file, harms)| {
        let number = home.index(homes.len());
        let home = &homes[number];
        let (file, bytes) = &home.files[file.index(home.files.len())];
        let checked = check(home, &whole[number], file, &harmed(bytes, &harms));
        fs::write(file, bytes).unwrap();
        checked.map_err(|error| {
            let file = file.strip_prefix(home.folder.path()).unwrap().display();
            TestCaseError::fail(format!("{} {file}: {error}", home.name))
        })
    });
    if let Err(error) = ended {
        panic!("{}: {error}", adapter.card().name);
    }
}

#[test]
fn harm_to_one_file_invents_nothing_and_hides_nobody_else() {
    std::thread::scope(|scope| {
        for adapter in registry() {
            let name = adapter.card().name.to_owned();
            std::thread::Builder::new().name(name).spawn_scoped(scope, || harm_homes_of(adapter)).unwrap();
        }
    });
}

#[test]
fn unharmed_homes_are_read_whole() {
    for adapter in registry() {
        let mut told = 0;
        for home in homes::of(adapter) {
            let harvest = home.survey();
            let expected = match home.name.as_str() {
                // This home has damaged sessions among the good ones.
                "kimi/sessions-of-all-kinds" => Coverage::Partial,
                _ => Coverage::Complete,
            };
            assert_eq!(harvest.coverage, expected, "{} {:?}", home.name, harvest.warnings);
            let whole = |found: &&Found| found.facts.turn.is_some() && found.facts.prompt.is_some();
            told += harvest.found.iter().filter(whole).count();
        }
        assert!(told > 0, "{}: no session with a prompt and a turn", adapter.card().name);
    }
}
