use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use super::*;

/// Every file of a directory with its content and time of change.
fn traces(folder: &Path) -> BTreeMap<OsString, (Vec<u8>, std::time::SystemTime)> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let one = |entry: fs::DirEntry| {
        let changed = entry.metadata().unwrap().modified().unwrap();
        (entry.file_name(), (fs::read(entry.path()).unwrap(), changed))
    };
    entries.map(one).collect()
}

fn numbers(path: &Path) -> Result<Vec<i64>, Error> {
    read(path, |database| {
        database
            .connection
            .prepare_cached("SELECT n FROM t ORDER BY n")?
            .query_map([], |row| row.get(0))?
            .collect()
    })
}

fn writer(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch("PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0").unwrap();
    connection
}

/// A database with 1 in the file and 2 in the WAL, as its writer left both when it was killed.
fn left_by_a_killed_writer(folder: &Path, with_shm: bool) -> PathBuf {
    let original = folder.join("original.db");
    let path = folder.join("odd name?#%41.db");
    let connection = writer(&original);
    connection.execute_batch("CREATE TABLE t(n); INSERT INTO t VALUES(1); PRAGMA wal_checkpoint").unwrap();
    connection.execute_batch("INSERT INTO t VALUES(2)").unwrap();
    for suffix in ["", "-wal", "-shm"].iter().take(if with_shm { 3 } else { 2 }) {
        fs::copy(beside(&original, suffix), beside(&path, suffix)).unwrap();
    }
    drop(connection);
    fs::remove_file(&original).unwrap();
    path
}

#[test]
fn a_killed_writers_wal_is_read_and_nothing_is_touched() {
    for with_shm in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let path = left_by_a_killed_writer(folder.path(), with_shm);
        let before = traces(folder.path());
        assert_eq!(before.len(), if with_shm { 3 } else { 2 });
        assert_eq!(numbers(&path).unwrap(), [1, 2], "with -shm: {with_shm}");
        assert_eq!(numbers(&path).unwrap(), [1, 2], "a second time");
        assert_eq!(traces(folder.path()), before, "with -shm: {with_shm}");
    }
}

#[test]
fn a_copy_is_kept_until_the_files_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = left_by_a_killed_writer(folder.path(), false);
    assert_eq!(numbers(&path).unwrap(), [1, 2]);
    // The WAL belongs to another moment: without its frames only the file counts.
    fs::write(beside(&path, "-wal"), b"").unwrap();
    assert_eq!(numbers(&path).unwrap(), [1]);
}

#[test]
fn a_closed_database_is_read_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.db");
    writer(&path).execute_batch("CREATE TABLE t(n); INSERT INTO t VALUES(1)").unwrap();
    let before = traces(folder.path());
    assert_eq!(before.len(), 1, "the last writer took its files along");
    assert_eq!(numbers(&path).unwrap(), [1]);
    assert_eq!(traces(folder.path()), before);
    let read_at = read(&path, |database| Ok(database.stamp)).unwrap();
    assert_eq!(read_at.size, fs::metadata(&path).unwrap().len());
    assert_eq!(stamp(&path), Some(read_at));
}

#[test]
fn live_writers_are_heard_up_to_their_last_commit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.db");
    let connection = writer(&path);
    connection.execute_batch("CREATE TABLE t(n)").unwrap();
    for n in 0..20_u32 {
        connection.execute("INSERT INTO t VALUES(?)", [n]).unwrap();
        assert_eq!(numbers(&path).unwrap().len(), n as usize + 1);
    }
    connection.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES(99)").unwrap();
    assert_eq!(
        numbers(&path).unwrap().len(),
        20,
        "what is not committed is not there, and a writer is no obstacle"
    );
    let before = read(&path, |database| Ok(database.stamp)).unwrap();
    connection.execute_batch("COMMIT").unwrap();
    assert_ne!(stamp(&path), Some(before), "a commit shows though the file itself is as it was");
}

#[test]
fn a_database_that_is_none_is_an_error_and_never_empty() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.db");
    assert!(matches!(numbers(&path), Err(Error::Missing(_))));
    fs::write(&path, vec![b'x'; 8192]).unwrap();
    assert!(matches!(numbers(&path), Err(Error::Sqlite { .. })));
    fs::create_dir(folder.path().join("d.db")).unwrap();
    assert!(matches!(numbers(&folder.path().join("d.db")), Err(Error::Io { .. })));
    assert_eq!(traces_of_names(folder.path()), ["d.db", "t.db"]);
}

fn traces_of_names(folder: &Path) -> Vec<OsString> {
    let mut names: Vec<OsString> =
        fs::read_dir(folder).unwrap().flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    names
}

#[test]
fn an_exclusive_writer_makes_the_database_busy_and_is_not_copied_around() {
    for mode in ["WAL", "DELETE"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.db");
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE t(n)").unwrap();
        let holder = Holder::start(&path, mode);
        assert_eq!(beside(&path, "-wal").exists(), mode == "WAL", "the holder works as intended");
        assert!(!beside(&path, "-shm").exists());
        assert!(matches!(numbers(&path), Err(Error::Busy(_))), "{mode}");
        holder.end();
        assert_eq!(numbers(&path).unwrap(), [7], "{mode}");
    }
}

/// Another process that holds the database exclusively, until its stdin lets it exit.
struct Holder(Child, ChildStdin);

impl Holder {
    #[expect(
        clippy::disallowed_methods,
        reason = "locks only stand between processes, so the test needs another one"
    )]
    fn start(path: &Path, mode: &str) -> Self {
        let mut child = Command::new("python3")
            .args(["-c", HOLD])
            .arg(path)
            .arg(mode)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 with its sqlite3 module");
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.contains("held")), "the holder did not start");
        let stdin = child.stdin.take().unwrap();
        Self(child, stdin)
    }

    fn end(mut self) {
        self.1.write_all(b"\n").unwrap();
        drop(self.1);
        assert!(self.0.wait().unwrap().success());
    }
}

const HOLD: &str = r#"
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute("PRAGMA locking_mode=EXCLUSIVE")
held.execute("PRAGMA journal_mode=" + sys.argv[2])
held.execute("INSERT INTO t VALUES(7)")
print("held", flush=True)
sys.stdin.readline()
held.close()
"#;
