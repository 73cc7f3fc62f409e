//! The list of every place that opens a path, with the check in front of it: `docs/doors.md`, generated from
//! the source. A new place shows up here as a difference, and one that bypasses the door must name the check
//! in front of it.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests read the source")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Each function of the door, and what it checks.
const DOORS: [(&str, &str); 20] = [
    ("open_regular", "opened without waiting; must be a regular file"),
    ("read_small", "the same, and read whole up to a bound; more is an error"),
    ("read_text", "the same, and must be UTF-8"),
    ("read_beginning", "opened without waiting; must be a regular file; read up to a bound"),
    ("copy_small", "the same as read_small, into a new file that only we can read"),
    ("write_anew", "what lay there is taken away first, so no link is written through"),
    ("open_folder", "must be a folder; nothing is read"),
    ("entries", "a folder, listed up to a bound"),
    ("real_path", "resolved, not opened"),
    ("within", "by a process that is left behind when the file system does not answer"),
    ("own::folder", "not opened: must be a folder of ours, and no link"),
    ("own::readable_folder", "the same; a link that we made ourselves is followed"),
    ("own::make_folder", "the same; made for us alone if there is none"),
    ("own::entries", "a folder of ours and no link, listed up to a bound"),
    (
        "own::open",
        "no link, no waiting, a regular file of ours that nobody else can write, in a folder of ours",
    ),
    ("own::read", "the same, and read whole up to a bound"),
    ("own::read_text", "the same, and must be UTF-8"),
    ("own::read_kept_elsewhere", "the same; a link that we made ourselves is followed to a file of ours"),
    ("own::append", "as own::open, to be written at its end"),
    ("own::open_or_create", "as own::open, to be written or locked"),
];

const MORE_DOORS: [(&str, &str); 8] = [
    ("real_path_within", "resolved, not opened; the same way as within"),
    ("is_folder_within", "not opened; the same way as within"),
    ("own::create_new", "as own::open, and was not there before"),
    ("own::create_anew", "the same; what lay there is taken away and not touched"),
    ("kernel::dev_null", "/dev/null"),
    ("kernel::random", "/dev/urandom"),
    ("kernel::own_errors", "/proc/self/fd/2"),
    ("kernel::own_status", "/proc/self/status"),
];

/// Calls that open a path by themselves, and the check in front of each. The compiler knows none of them.
const PAST: [(&str, &str, &str); 11] = [
    (
        "adapters/src/sqlite/excerpt.rs",
        "Connection::open",
        "the file that was just created in a private folder; links are not followed",
    ),
    (
        "adapters/src/sqlite/mod.rs",
        "Connection::open",
        "read only, after the main file was opened as a regular one",
    ),
    ("adapters/src/sqlite/private.rs", "Connection::open", "the copy that was just made"),
    (
        "adapters/src/wire/websocket.rs",
        "UnixStream::connect",
        "a socket that a process of the agent holds; under a deadline",
    ),
    (
        "agentctl/src/link/client/mod.rs",
        "UnixStream::connect",
        "whoever listens must be our user; nothing is said before",
    ),
    ("daemon/src/run/mod.rs", "UnixStream::connect", "our own socket in our own folder; nothing is said"),
    (
        "daemon/src/run/sd_notify.rs",
        "UnixDatagram::unbound",
        "the service manager's socket, as it was named to us",
    ),
    (
        "daemon/src/serve/server.rs",
        "UnixListener::bind",
        "our own folder, under the daemon's lock; then 0600",
    ),
    ("files/src/watch/inotify.rs", "inotify::add_watch", "folders only; nothing is read"),
    (
        "fleet/src/hold/wire.rs",
        "UnixListener::bind",
        "our own launch folder, under the runner's lock; then 0600",
    ),
    (
        "fleet/src/worktree/git.rs",
        "Command::new",
        "git opens the repository itself, as its own hardening allows",
    ),
];

#[test]
fn the_list_of_doors_is_that_of_the_source() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/doors.md");
    let made = document();
    if std::env::var_os("AGENTCTL_UPDATE_DOCS").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    let differences: Vec<&str> =
        made.lines().filter(|line| !written.lines().any(|known| known == *line)).collect();
    assert!(
        written == made,
        "docs/doors.md is stale; AGENTCTL_UPDATE_DOCS=1 with this test writes it anew. New: {differences:#?}"
    );
}

fn document() -> String {
    let mut text = String::from(
        "# Who opens which path\n\n\
         Made from the source by `crates/agentctl/tests/places_paths.rs`; `AGENTCTL_UPDATE_DOCS=1` with that test writes\n\
         it anew. Paths are opened by the crate `files` alone; `clippy.toml` forbids the rest. What an adapter reads, it\n\
         reads on a thread that its source's timeout bounds (`fleet/src/read/survey/sources.rs`); paths of sessions that are looked at\n\
         elsewhere (their working folders) are looked at through `within`.\n\n\
         ## The doors\n\n| door | what it makes sure of |\n|---|---|\n",
    );
    for (door, check) in DOORS.iter().chain(&MORE_DOORS) {
        let _ = writeln!(text, "| `{door}` | {check} |");
    }
    text.push_str("\n## The places\n\n| place | through |\n|---|---|\n");
    let sources = sources();
    for (file, source) in &sources {
        let used = doors_in(source);
        if !used.is_empty() {
            let used: Vec<String> = used
                .iter()
                .map(
                    |(door, times)| {
                        if *times == 1 { format!("`{door}`") } else { format!("`{door}` {times}×") }
                    },
                )
                .collect();
            let _ = writeln!(text, "| `{file}` | {} |", used.join(", "));
        }
    }
    text.push_str("\n## Past the doors\n\n| place | call | what stands in front of it |\n|---|---|---|\n");
    let calls = [
        "Connection::open",
        "UnixStream::connect",
        "UnixListener::bind",
        "UnixDatagram::unbound",
        "inotify::add_watch",
    ];
    for (file, source) in &sources {
        let git = (file == "fleet/src/worktree/git.rs").then_some("Command::new");
        for call in calls.into_iter().chain(git).filter(|call| source.contains(call)) {
            let check = PAST.iter().find(|(place, known, _)| place == file && *known == call);
            let (_, _, check) =
                check.unwrap_or_else(|| panic!("{file}: say in PAST what stands before {call}"));
            let _ = writeln!(text, "| `{file}` | `{call}` | {check} |");
        }
    }
    text.push_str(
        "\n## Where the compiler was told to let something pass\n\n| place | because |\n|---|---|\n",
    );
    for (file, source) in &sources {
        for reason in exceptions_in(source) {
            let _ = writeln!(text, "| `{file}` | {reason} |");
        }
    }
    text
}

/// The product's own source without its tests, by the path below `crates`.
fn sources() -> BTreeMap<String, String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = BTreeMap::new();
    for name in ["adapters", "agentctl", "daemon", "fleet", "model", "process"] {
        let mut folders = vec![PathBuf::from(name).join("src")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(crates.join(&folder)).unwrap() {
                let entry = entry.unwrap();
                let path = folder.join(entry.file_name());
                let file = path.to_string_lossy().into_owned();
                if entry.file_type().unwrap().is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs")
                    && !file.ends_with("_tests.rs")
                    && !file.ends_with("/tests.rs")
                {
                    found.insert(file, product(&fs::read_to_string(entry.path()).unwrap()));
                }
            }
        }
    }
    found
}

/// The code that is compiled into the product, without comments. Tests are at the end of a file.
fn product(source: &str) -> String {
    let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.fold(String::new(), |text, line| text + line + "\n")
}

/// How often each function of the door is used: by its full name, or by its short name where it was imported.
fn doors_in(source: &str) -> BTreeMap<&'static str, usize> {
    let of_the_door = |part: &&str| {
        let ways = ["agentctl_files::", "jsonl::open::", "super::open::"];
        part.trim_start().starts_with("use ") && ways.iter().any(|way| part.contains(way))
    };
    let imports: String = source.split(';').filter(of_the_door).collect();
    let mut used = BTreeMap::new();
    for (door, _) in DOORS.iter().chain(&MORE_DOORS) {
        let mut times = uses(source, &format!("agentctl_files::{door}"), |_| true);
        if door.contains("::") {
            let room = door.split("::").next().unwrap_or_default();
            if imports.contains("agentctl_files::") && imports.contains(room) {
                times += uses(source, door, |before| !before.ends_with(':'));
            }
        } else if imports.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == *door) {
            times += uses(source, &format!("{door}("), |before| {
                !before.ends_with([':', '.', '_']) && !before.ends_with(char::is_alphanumeric)
            });
        }
        if times > 0 {
            used.insert(*door, times);
        }
    }
    used
}

/// How often this name occurs, not counting longer names that begin with it.
fn uses(source: &str, name: &str, before: impl Fn(&str) -> bool) -> usize {
    source
        .match_indices(name)
        .filter(|(at, _)| {
            let behind = &source[at + name.len()..];
            let whole = name.ends_with('(') || !behind.starts_with(|c: char| c.is_alphanumeric() || c == '_');
            // An import opens nothing.
            let line = source[..*at].rsplit('\n').next().unwrap_or_default();
            whole && before(&source[..*at]) && !line.contains("use ")
        })
        .count()
}

/// The reasons given for each exception from the forbidden methods.
fn exceptions_in(source: &str) -> Vec<String> {
    let mut reasons = Vec::new();
    for (at, _) in source.match_indices("clippy::disallowed_methods") {
        let attribute = source[..at].rsplit('#').next().unwrap_or_default();
        let behind = &source[at..];
        let reason = behind.split_once("reason = \"").and_then(|(_, rest)| rest.split_once('"'));
        let (reason, _) = reason.unwrap_or_else(|| panic!("an exception without a reason: {attribute}"));
        // These apply to tests only.
        if !attribute.contains("cfg_attr(test") {
            reasons.push(reason.to_owned());
        }
    }
    reasons
}
