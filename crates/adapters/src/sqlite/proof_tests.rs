use std::path::PathBuf;

use rusqlite::Connection;

use super::*;
use crate::sqlite::read;

fn writer(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch("PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0").unwrap();
    connection
}

fn proof(path: &Path) -> Option<Proof> {
    read(path, |database| Ok(database.proof)).unwrap()
}

#[test]
fn a_proof_holds_until_somebody_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.db");
    writer(&path).execute_batch("CREATE TABLE t(n)").unwrap();
    let closed = proof(&path).unwrap();
    assert!(closed.holds(&path) && closed.holds(&path));
    let connection = writer(&path);
    for n in 0..5_u32 {
        connection.execute("INSERT INTO t VALUES(?)", [n]).unwrap();
        assert!(!closed.holds(&path));
        let now = proof(&path).unwrap();
        assert!(now.holds(&path), "reading changes nothing");
        connection.execute("UPDATE t SET n = n + 1", []).unwrap();
        assert!(!now.holds(&path), "a commit shows, whatever the times of the files say");
    }
}

/// A database that its writer left open, with its three files.
fn left(folder: &Path) -> PathBuf {
    let (original, path) = (folder.join("original.db"), folder.join("t.db"));
    let connection = writer(&original);
    connection.execute_batch("CREATE TABLE t(n); INSERT INTO t VALUES(1)").unwrap();
    for suffix in ["", "-wal", "-shm"] {
        fs::copy(beside(&original, suffix), beside(&path, suffix)).unwrap();
    }
    path
}

#[test]
fn a_commit_that_moves_no_time_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let path = left(folder.path());
    let before = proof(&path).unwrap();
    let index = File::options().read(true).write(true).open(beside(&path, "-shm")).unwrap();
    let mut head = [0; HEAD];
    index.read_exact_at(&mut head, 0).unwrap();
    head[8] ^= 1;
    index.write_all_at(&head, 0).unwrap();
    assert_eq!(Proof::of(&path), None, "a head that is being written proves nothing");
    index.write_all_at(&head, HEAD as u64).unwrap();
    let after = Proof::of(&path).unwrap();
    assert!(!before.holds(&path) && after.holds(&path));
    assert_eq!((before.main, before.wal), (after.main, after.wal), "no other file says so");
}

#[test]
fn a_young_file_and_a_rollback_journal_prove_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = left(folder.path());
    let young = proof(&path).unwrap();
    assert!(!young.is_settled_at(Timestamp::UNIX_EPOCH) && young.is_settled_at(Timestamp::MAX));
    let journal = folder.path().join("journal.db");
    Connection::open(&journal).unwrap().execute_batch("CREATE TABLE t(n)").unwrap();
    assert_eq!(proof(&journal), None);
}
