//! Files that are too large are reported and hide no other session; copies that are made for reading are
//! private and temporary.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests run processes and write files")]

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use agentctl_testkit::TestHome;
use rusqlite::Connection;
use serde_json::Value;

const SCHEMA: &str = "
PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0;
CREATE TABLE session (id text PRIMARY KEY, parent_id text, directory text NOT NULL, title text NOT NULL, version text NOT NULL,
  time_created integer NOT NULL, time_updated integer NOT NULL);
CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL,
  time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL,
  time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
INSERT INTO session VALUES('ses_one', NULL, '/w', 'one', '1.18.33', 1794725000000, 1794725000000);";

fn source(listed: &Value, adapter: &str) -> Value {
    let sources = listed["sources"].as_array().unwrap();
    sources.iter().find(|source| source["adapter"] == adapter).unwrap().clone()
}

fn ids(listed: &Value) -> Vec<&str> {
    listed["sessions"].as_array().unwrap().iter().map(|session| session["id"].as_str().unwrap()).collect()
}

/// OpenCode's database and its WAL, as they are after its writer was killed and the machine was restarted.
fn left_by_opencode(home: &TestHome) -> PathBuf {
    let data = home.path().join(".local/share/opencode");
    fs::create_dir_all(&data).unwrap();
    let (live, path) = (home.path().join("live.db"), data.join("opencode.db"));
    let connection = Connection::open(&live).unwrap();
    connection.execute_batch(SCHEMA).unwrap();
    for suffix in ["", "-wal"] {
        fs::copy(format!("{}{suffix}", live.display()), format!("{}{suffix}", path.display())).unwrap();
    }
    path
}

fn entries(folder: &Path) -> Vec<String> {
    let entries =
        fs::read_dir(folder).map(|entries| entries.flatten().collect::<Vec<_>>()).unwrap_or_default();
    entries.iter().map(|entry| entry.file_name().into_string().unwrap()).collect()
}

#[test]
fn the_copy_of_a_database_is_private_and_bounded_and_does_not_stay() {
    let home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
    let path = left_by_opencode(&home);
    let list = || home.agentctl(&["list", "-a", "--since", "all", "--json"]).ok().json();
    let temporary = home.path().with_file_name("tmp");
    // Without a folder of its own, and with one.
    for own in [false, true] {
        if own {
            fs::create_dir(home.agentctl_home()).unwrap();
            fs::set_permissions(home.agentctl_home(), fs::Permissions::from_mode(0o700)).unwrap();
        }
        let listed = list();
        assert_eq!(ids(&listed), ["ses_one"], "{listed:#}");
        assert_eq!((entries(&temporary), entries(&home.agentctl_home().join("copies"))), (vec![], vec![]));
    }
    // What a killed process left behind is removed by the next start of any command.
    let left = home.agentctl_home().join("copies/agentctl-copy-x7Yk2p");
    fs::create_dir(&left).unwrap();
    fs::write(left.join("copy.db"), "half of it").unwrap();
    let _ = home.agentctl(&["adapters"]).ok();
    assert!(!left.exists());

    let wal = File::options().write(true).open(format!("{}-wal", path.display())).unwrap();
    wal.set_len(1 << 40).unwrap();
    let listed = list();
    let opencode = source(&listed, "opencode");
    assert_eq!(opencode["coverage"], "failed", "{opencode:#}");
    assert!(opencode["error"].as_str().unwrap().contains("too large for that"), "{opencode:#}");
    assert_eq!((entries(&temporary), entries(&home.agentctl_home().join("copies"))), (vec![], vec![]));
}

/// A disk of this size under agentctl's own folder, seen by this command alone.
#[cfg(target_os = "linux")]
fn list_with_a_disk_of(home: &TestHome, size: &str) -> agentctl_testkit::Output {
    let plain = home.agentctl_command(&["list", "-a", "--since", "all", "--json"]);
    let mut command = home.command("unshare");
    let words = "mount -t tmpfs -o size=$0,mode=700 tmpfs \"$1\" || exit 99; shift; exec \"$@\"";
    command.args(["--mount", "--propagation", "private", "sh", "-c", words, size]).arg(home.agentctl_home());
    command.arg(plain.get_program()).args(plain.get_args());
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    home.run(command)
}

#[cfg(target_os = "linux")]
#[test]
fn no_copy_is_made_where_it_would_take_the_room_of_others() {
    let home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
    let _ = left_by_opencode(&home);
    fs::create_dir(home.agentctl_home()).unwrap();
    let roomy = list_with_a_disk_of(&home, "400m");
    if roomy.code != Some(0) {
        return agentctl_testkit::skip(format!("no disk can be mounted here: {roomy:?}"));
    }
    assert_eq!(ids(&roomy.json()), ["ses_one"], "{roomy:?}");
    let listed = list_with_a_disk_of(&home, "100m").json();
    let opencode = source(&listed, "opencode");
    assert_eq!(opencode["coverage"], "failed", "{opencode:#}");
    let own = home.agentctl_home().join("copies");
    let error = opencode["error"].as_str().unwrap();
    assert!(error.contains("room") && error.contains(own.to_str().unwrap()), "{opencode:#}");
}

#[test]
fn one_transcript_of_a_terabyte_hides_nobody_else() {
    let home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
    let recorded =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recorded/claude-code/tool-calls/.claude/projects/-home-dev-w-plain/22222222-2222-4222-8222-222222222222.jsonl");
    let projects = home.path().join(".claude/projects/-w");
    fs::create_dir_all(&projects).unwrap();
    let good = "c2000000-1111-4111-8111-111111111111";
    fs::copy(&recorded, projects.join(format!("{good}.jsonl"))).unwrap();
    let bad = "d3000000-2222-4222-8222-222222222222";
    File::create(projects.join(format!("{bad}.jsonl"))).unwrap().set_len(1 << 40).unwrap();
    for flags in [&[][..], &["--usage"]] {
        let listed =
            home.agentctl(&[&["list", "-a", "--since", "all", "--json"], flags].concat()).ok().json();
        assert_eq!(ids(&listed), [good], "{listed:#}");
        let claude = source(&listed, "claude-code");
        assert_eq!(claude["coverage"], "partial", "{claude:#}");
        let warnings = claude["warnings"].to_string();
        // It is given up for the line that does not end, long before so much is read that any file is given up.
        assert!(warnings.contains(bad) && warnings.contains("has no line that ends within"), "{claude:#}");
    }
    assert_eq!(home.agentctl(&["status", good, "--json"]).ok().json()["id"], good);
    assert_eq!(home.agentctl(&["stop", good]).code, Some(0));
    assert_eq!(home.agentctl(&["status", bad]).code, Some(6), "it was not heard, so nothing is known of it");
}
