use std::fs;
use std::path::PathBuf;

use super::*;

static TABLES: Tables = Tables {
    session: Table { name: "session", columns: &["id", "title"], belongs_by: "id", order: "id" },
    message: Table {
        name: "message",
        columns: &["id", "session_id", "data"],
        belongs_by: "session_id",
        order: "id",
    },
    part: Table {
        name: "part",
        columns: &["id", "message_id", "data"],
        belongs_by: "message_id",
        order: "id",
    },
};

/// A database with two sessions, and things in it that are never taken.
fn database(folder: &Path) -> PathBuf {
    let path = folder.join("t.db");
    let tables = "CREATE TABLE session(id TEXT PRIMARY KEY, title, secret);
        CREATE TABLE message(id TEXT PRIMARY KEY, session_id, data);
        CREATE TABLE part(id TEXT PRIMARY KEY, message_id, data);
        CREATE TABLE account(token); INSERT INTO account VALUES('token');
        CREATE VIEW everything AS SELECT * FROM account;
        CREATE TRIGGER fires AFTER INSERT ON session BEGIN DELETE FROM account; END;
        INSERT INTO session VALUES('a', 'one', 'secret'), ('b', 'two', 'secret');
        INSERT INTO message VALUES('m1', 'a', '{}'), ('m2', 'b', 'other');
        INSERT INTO part VALUES('p1', 'm1', 7), ('p2', 'm1', 1.0), ('p3', 'm1', NULL),
            ('p4', 'm1', CAST(x'7bff7d' AS TEXT)), ('p5', 'm1', x'00ff'), ('p6', 'm2', 'other');";
    Connection::open(&path).unwrap().execute_batch(tables).unwrap();
    path
}

fn taken(path: &Path, sessions: &[&str]) -> Excerpt {
    let sessions = sessions.iter().map(|&id| id.to_owned()).collect();
    take(path, &TABLES, &sessions, &str::to_owned).unwrap()
}

fn rebuilt(folder: &Path, lines: &[u8]) -> io::Result<Connection> {
    let path = folder.join("again.db");
    fs::write(&path, "").unwrap();
    rebuild(&path, &TABLES, lines)?;
    Ok(Connection::open(path).unwrap())
}

/// All rows of a table with the type of each cell.
fn cells(connection: &Connection, query: &str) -> Vec<Value> {
    connection.prepare(query).unwrap().query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[test]
fn the_rows_of_a_session_come_back_as_they_were_and_nothing_else_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = database(folder.path());
    let excerpt = taken(&path, &["a", "nobody"]);
    let text = String::from_utf8(excerpt.lines.clone()).unwrap();
    for absent in ["two", "other", "secret", "token", "account", "everything", "fires", "CREATE"] {
        assert!(!text.contains(absent), "{absent} in {text}");
    }
    let again = rebuilt(folder.path(), &excerpt.lines).unwrap();
    let original = Connection::open(&path).unwrap();
    let parts = "SELECT data FROM part WHERE message_id = 'm1' ORDER BY id";
    let data = |connection: &Connection| -> Vec<Vec<u8>> {
        let types = "SELECT typeof(data) || ' ' || hex(data) FROM part WHERE message_id = 'm1' ORDER BY id";
        let mut statement = connection.prepare(types).unwrap();
        let rows = statement.query_map([], |row| row.get::<_, Option<String>>(0)).unwrap();
        rows.map(|row| row.unwrap().unwrap_or_default().into_bytes()).collect()
    };
    assert_eq!(data(&again), data(&original), "{parts}");
    assert_eq!(cells(&again, "SELECT id || title FROM session"), [Value::Text("aone".into())]);
    let schema = cells(&again, "SELECT DISTINCT type FROM sqlite_master ORDER BY type");
    assert_eq!(schema, ["index", "table"].map(|kind| Value::Text(kind.into())));
}

#[test]
fn texts_are_replaced_in_every_cell() {
    let folder = tempfile::tempdir().unwrap();
    let path = database(folder.path());
    let sessions = BTreeSet::from(["a".to_owned()]);
    let lines = take(&path, &TABLES, &sessions, &|text| "x".repeat(text.len())).unwrap().lines;
    let rows = String::from_utf8(lines).unwrap();
    let rows: Vec<&str> = rows.lines().filter(|line| line.starts_with('[')).collect();
    assert!(rows[0].contains(r#"["x","xxx"]"#), "{rows:?}");
    assert!(rows.iter().all(|row| !row.contains("m1") && !row.contains("p1")), "{rows:?}");
}

#[test]
fn of_a_large_session_both_ends_are_taken_and_a_large_cell_stays_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = database(folder.path());
    let writer = Connection::open(&path).unwrap();
    for number in 0..9 {
        let sql = "INSERT INTO message VALUES(?1, 'c', CAST(zeroblob(2100000) AS TEXT))";
        writer.execute(sql, [format!("n{number}")]).unwrap();
    }
    writer
        .execute_batch(
            "INSERT INTO session VALUES('c', 'large', ''); INSERT INTO session VALUES('d', 'cell', '')",
        )
        .unwrap();
    writer
        .execute(
            "INSERT INTO message VALUES('o1', 'd', ?1)",
            [format!("{{\"text\":\"{}\"}}", "y".repeat(LARGEST_CELL))],
        )
        .unwrap();
    drop(writer);
    let large = taken(&path, &["c"]);
    let again = rebuilt(folder.path(), &large.lines).unwrap();
    let ids = cells(&again, "SELECT id FROM message ORDER BY id");
    assert_eq!(ids, ["n0", "n8"].map(|id| Value::Text(id.into())));
    assert_eq!(large.left_out, 7 * 2_100_003);
    let cell = taken(&path, &["d"]);
    assert!(cell.lines.len() < 2 * BEGINNING && cell.left_out > 0, "{}", cell.lines.len());
    let again = rebuilt(folder.path(), &cell.lines).unwrap();
    let length = cells(&again, "SELECT octet_length(data) FROM message");
    assert_eq!(length, [Value::Integer(i64::try_from(LARGEST_CELL + 1).unwrap())]);
}

#[test]
fn rows_that_no_reader_wrote_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let session = r#"{"table":"session","columns":["id","title"]}"#;
    let many = format!("{session}\n[{}0]", "0,".repeat(1_000_000));
    let wide = format!(r#"{{"table":"session","columns":["{}"]}}"#, "x".repeat(LONGEST_HEADER));
    let bomb =
        format!("{session}\n{}", "[{\"text\":\"\",\"cut\":true},{\"text\":\"\",\"cut\":true}]\n".repeat(20));
    for bad in [
        "[1,2]",
        r#"{"table":"sqlite_master","columns":["sql"]}"#,
        r#"{"table":"session","columns":["id","secret"]}"#,
        r#"{"table":"session","columns":["id, x); DROP TABLE session; --"]}"#,
        r#"{"table":"session","columns":["id","id"]}"#,
        r#"{"table":"session","columns":[]}"#,
        r#"{"table":"session","columns":["id"],"sql":"CREATE TRIGGER"}"#,
        &format!("{session}\n{session}"),
        &format!("{session}\n[1]"),
        &format!("{session}\n[1,2,3]"),
        &format!("{session}\n[1,[2]]"),
        &format!("{session}\n[1,{{\"sql\":\"x\"}}]"),
        &format!("{session}\n[1,{{}}]"),
        &format!("{session}\n[1,true]"),
        &format!("{session}\n[1,2] [3,4]"),
        &format!("{session}\n[1,"),
        &format!("{session}\n[99999999999999999999999,18446744073709551615]"),
        "SQLite format 3\0",
        &many,
        &wide,
        &bomb,
    ] {
        let shown: String = bad.chars().take(120).collect();
        assert!(rebuilt(folder.path(), bad.as_bytes()).is_err(), "{shown}");
    }
    let good = format!("{session}\n[\"a\",{{\"text\":\"b\\ufffdc\",\"cut\":false}}]\n");
    let connection = rebuilt(folder.path(), good.as_bytes()).unwrap();
    assert_eq!(cells(&connection, "SELECT hex(title) FROM session"), [Value::Text("62FF63".into())]);
}
