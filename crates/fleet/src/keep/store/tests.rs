//! Documents under everything that can happen to a file: other writers, crashes, damage, links, old versions.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use super::*;

#[derive(Debug, Default, PartialEq, Serialize, serde::Deserialize)]
struct Notes {
    words: Vec<String>,
}

impl Document for Notes {
    const FILE: &'static str = "notes.json";
    const VERSION: u64 = 2;
}

fn store() -> (tempfile::TempDir, Store) {
    let top = tempfile::tempdir().unwrap();
    let store = Store::at(top.path().join("own/agentctl"));
    (top, store)
}

fn add(store: &Store, word: &str) -> Result<(), StoreError> {
    store.change(|notes: &mut Notes| notes.words.push(word.to_owned()))
}

fn words(store: &Store) -> Vec<String> {
    store.read::<Notes>().unwrap().words
}

#[test]
fn reading_creates_nothing_and_the_first_change_makes_it_ours_alone() {
    let (_top, store) = store();
    assert_eq!(store.read::<Notes>().unwrap(), Notes::default());
    assert!(!store.folder().exists());
    add(&store, "a").unwrap();
    assert_eq!(words(&store), ["a"]);
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(store.folder()), mode(&store.folder().join("notes.json"))), (0o700, 0o600));
    let text = fs::read_to_string(store.folder().join("notes.json")).unwrap();
    assert!(text.starts_with("{\n  \"version\": 2,"), "{text}");
}

#[test]
fn a_document_left_as_it_was_is_not_written() {
    let (_top, store) = store();
    add(&store, "a").unwrap();
    let inode = || fs::metadata(store.folder().join("notes.json")).unwrap().ino();
    let before = inode();
    let seen = store.change(|notes: &mut Notes| notes.words.len()).unwrap();
    assert_eq!((seen, inode()), (1, before));
    add(&store, "b").unwrap();
    assert_ne!(inode(), before, "replaced by rename, never written in place");
}

#[test]
fn nothing_is_lost_among_many_writers() {
    let (_top, store) = store();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let store = &store;
            scope.spawn(move || (0..10).for_each(|n| add(store, &format!("{thread}-{n}")).unwrap()));
        }
    });
    let mut all = words(&store);
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 80);
}

#[test]
fn what_a_crash_left_half_written_is_neither_read_nor_in_the_way() {
    let (_top, store) = store();
    add(&store, "a").unwrap();
    fs::write(store.folder().join("notes.json.new"), "{\"version\": 2, \"wor").unwrap();
    assert_eq!(words(&store), ["a"]);
    add(&store, "b").unwrap();
    assert_eq!(words(&store), ["a", "b"]);
    assert!(!store.folder().join("notes.json.new").exists());
}

#[test]
fn damage_is_named_and_nothing_is_overwritten() {
    let (_top, store) = store();
    add(&store, "a").unwrap();
    let path = store.folder().join("notes.json");
    for damaged in ["", "{\"version\": 2, \"wor", "{\"version\": 2, \"words\": 7}", "\u{0}\u{0}"] {
        fs::write(&path, damaged).unwrap();
        for error in [store.read::<Notes>().unwrap_err(), add(&store, "b").unwrap_err()] {
            assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
            assert!(error.to_string().contains("notes.json is damaged") && error.hint().is_some(), "{error}");
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), damaged);
    }
}

#[test]
fn a_newer_version_is_left_alone() {
    let (_top, store) = store();
    store.prepare().unwrap();
    let path = store.folder().join("notes.json");
    fs::write(&path, r#"{"version": 3, "words": []}"#).unwrap();
    assert!(matches!(store.read::<Notes>().unwrap_err(), StoreError::Newer { version: 3, .. }));
    assert!(add(&store, "a").is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), r#"{"version": 3, "words": []}"#);
}

#[test]
fn the_predecessors_files_are_moved_aside_whole_and_never_used() {
    let (_top, store) = store();
    fs::create_dir_all(store.folder()).unwrap();
    let old = |name: &str, text: &str| fs::write(store.folder().join(name), text).unwrap();
    old("notes.json", r#"{"words": ["old"]}"#);
    old("fuses.json", "[]");
    old("state.json", r#"{"sessions": {}}"#);
    old("agentctl.pid", "4242");
    old("broken.json", "{");
    old("config.toml", "model = \"x\"\n");
    assert_eq!(words(&store), [""; 0], "not used");
    assert!(store.folder().join("notes.json").exists(), "reading moves nothing");
    add(&store, "new").unwrap();
    assert_eq!(words(&store), ["new"]);
    let aside = |store: &Store| {
        let names = fs::read_dir(store.folder()).unwrap().map(|entry| entry.unwrap().path());
        let mut found: Vec<PathBuf> = names.filter(|path| path.to_string_lossy().contains("/old-")).collect();
        found.sort();
        found
    };
    let first = aside(&store);
    assert_eq!(first.len(), 1);
    let names = |path: &Path| {
        let mut names: Vec<_> = fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(&first[0]), ["agentctl.pid", "fuses.json", "notes.json", "state.json"]);
    assert_eq!(fs::read_to_string(first[0].join("notes.json")).unwrap(), r#"{"words": ["old"]}"#);
    assert!(store.folder().join("broken.json").exists() && store.folder().join("config.toml").exists());
    // The predecessor ran once more: what was saved first must not be replaced.
    fs::write(store.folder().join("fuses.json"), "[1]").unwrap();
    add(&store, "newer").unwrap();
    assert_eq!(aside(&store).len(), 2);
    assert_eq!(fs::read_to_string(first[0].join("fuses.json")).unwrap(), "[]");
}

#[test]
fn a_folder_that_somebody_else_could_have_prepared_is_refused() {
    let top = tempfile::tempdir().unwrap();
    let real = top.path().join("real");
    fs::create_dir(&real).unwrap();
    let link = top.path().join("link");
    symlink(&real, &link).unwrap();
    let file = top.path().join("file");
    fs::write(&file, "").unwrap();
    for (path, words) in [(link, "symbolic link"), (file, "not a folder")] {
        let store = Store::at(&path);
        for error in [store.read::<Notes>().unwrap_err(), add(&store, "a").unwrap_err()] {
            assert!(error.to_string().contains(words), "{error}");
        }
    }
    assert_eq!(fs::read_dir(&real).unwrap().count(), 0);
}

/// Only root can give a directory away, and only a user who is not root always has a directory of another user at hand
/// (`/`).
#[test]
fn a_folder_of_another_user_is_refused() {
    let top = tempfile::tempdir().unwrap();
    let theirs = if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(top.path(), Some(12345), None).unwrap();
        top.path().to_owned()
    } else {
        PathBuf::from("/")
    };
    let error = Store::at(theirs).read::<Notes>().unwrap_err();
    assert!(error.to_string().contains("belongs to another user"), "{error}");
}

#[test]
fn a_link_in_the_place_of_the_new_file_is_not_followed() {
    let (top, store) = store();
    store.prepare().unwrap();
    let victim = top.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    symlink(&victim, store.folder().join("notes.json.new")).unwrap();
    add(&store, "a").unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert!(fs::symlink_metadata(store.folder().join("notes.json")).unwrap().is_file());
}

#[test]
fn an_open_folder_is_closed_to_others() {
    use std::os::unix::fs::PermissionsExt;
    let top = tempfile::tempdir().unwrap();
    fs::set_permissions(top.path(), fs::Permissions::from_mode(0o755)).unwrap();
    add(&Store::at(top.path()), "a").unwrap();
    assert_eq!(fs::metadata(top.path()).unwrap().mode() & 0o777, 0o700);
}
