//! OpenCode's database as a [`Conversation`], and the rows of its sessions.

use std::collections::HashSet;
use std::path::Path;

use agentctl_model::Tokens;
use jiff::Timestamp;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, MAIN_DB, OptionalExtension, Params, Row, params};

use crate::MayFit;
use crate::agents::opencode::conversation::records::{counted, model_of_column, moment};
use crate::agents::opencode::conversation::session::{BEGINNING, Conversation, Head, RawPart, Total};
use crate::cancel;
use crate::sqlite::excerpt::{Table, Tables};

/// The columns that a head is made of. Older versions do not have all of them.
const COLUMNS: [&str; 15] = [
    "id",
    "parent_id",
    "directory",
    "title",
    "version",
    "agent",
    "model",
    "time_created",
    "time_updated",
    "time_archived",
    "cost",
    "tokens_input",
    "tokens_output",
    "tokens_cache_read",
    "tokens_cache_write",
];
const NEEDED: [&str; 4] = ["id", "directory", "time_created", "time_updated"];

/// Everything that is read of a database.
pub(crate) static TABLES: Tables = Tables {
    session: Table { name: "session", columns: &COLUMNS, belongs_by: "id", order: "id" },
    message: Table {
        name: "message",
        columns: &["id", "session_id", "time_created", "data"],
        belongs_by: "session_id",
        order: "time_created, id",
    },
    part: Table {
        name: "part",
        columns: &["id", "message_id", "session_id", "time_created", "data"],
        belongs_by: "message_id",
        order: "id",
    },
};

/// What can be read, by the schema that was found.
pub(crate) enum Schema {
    /// The file was just created: it has no table yet, so no session either.
    Empty,
    /// The select list for a head.
    Sessions { columns: String, has_totals: bool },
    /// No schema that this adapter knows.
    Foreign(String),
}

pub(crate) fn schema(connection: &Connection) -> rusqlite::Result<Schema> {
    let tables: HashSet<String> = connection
        .prepare("SELECT name FROM sqlite_master WHERE type = 'table'")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    if tables.is_empty() {
        return Ok(Schema::Empty);
    }
    if let Some(missing) = ["session", "message", "part"].iter().find(|table| !tables.contains(**table)) {
        return Ok(Schema::Foreign(format!("has no table `{missing}`")));
    }
    let known: HashSet<String> = connection
        .prepare("PRAGMA table_info(session)")?
        .query_map([], |row| row.get(1))?
        .collect::<rusqlite::Result<_>>()?;
    if let Some(missing) = NEEDED.iter().find(|column| !known.contains(**column)) {
        return Ok(Schema::Foreign(format!("table `session` has no column `{missing}`")));
    }
    let one = |column: &&str| if known.contains(*column) { (*column).to_owned() } else { "NULL".to_owned() };
    let columns: Vec<String> = COLUMNS.iter().map(one).collect();
    Ok(Schema::Sessions { columns: columns.join(","), has_totals: known.contains("tokens_input") })
}

/// The heads, and how many rows were too damaged to be one.
pub(crate) struct Heads {
    pub(crate) heads: Vec<Head>,
    pub(crate) damaged: u64,
}

/// The rows that satisfy `condition`.
pub(crate) fn heads(
    connection: &Connection,
    schema: (&str, bool),
    condition: &str,
    values: impl Params,
) -> rusqlite::Result<Heads> {
    let (columns, has_totals) = schema;
    let mut statement =
        connection.prepare_cached(&format!("SELECT {columns} FROM session WHERE {condition}"))?;
    let mut rows = statement.query(values)?;
    let mut found = Heads { heads: Vec::new(), damaged: 0 };
    while let Some(row) = rows.next()? {
        match head(row, has_totals)? {
            Some(head) => found.heads.push(head),
            None => found.damaged += 1,
        }
    }
    Ok(found)
}

fn head(row: &Row<'_>, has_totals: bool) -> rusqlite::Result<Option<Head>> {
    let ValueRef::Text(id) = row.get_ref(0)? else { return Ok(None) };
    let Some(id) = std::str::from_utf8(id).ok().filter(|id| !id.is_empty()) else { return Ok(None) };
    let total = has_totals.then(|| -> rusqlite::Result<Total> {
        let tokens = Tokens {
            input: count(row, 11)?,
            output: count(row, 12)?,
            cache_read: count(row, 13)?,
            cache_write: count(row, 14)?,
        };
        // For a model without a price OpenCode records the cost 0; that means unknown, not free.
        let cost = real(row, 10)?.filter(|cost| *cost > 0.0);
        Ok(Total { tokens: counted(tokens), cost })
    });
    Ok(Some(Head {
        id: id.to_owned(),
        parent: text(row, 1)?,
        directory: text(row, 2)?,
        title: text(row, 3)?,
        version: text(row, 4)?,
        agent: text(row, 5)?,
        model: text(row, 6)?.and_then(|json| model_of_column(&json)),
        created: time(row, 7)?,
        updated: time(row, 8)?,
        archived: time(row, 9)?,
        total: total.transpose()?,
    }))
}

fn text(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<String>> {
    Ok(match row.get_ref(index)? {
        ValueRef::Text(bytes) => Some(agentctl_model::text::clean(&String::from_utf8_lossy(bytes))),
        _ => None,
    })
}

fn time(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<Timestamp>> {
    Ok(match row.get_ref(index)? {
        ValueRef::Integer(milliseconds) => moment(milliseconds),
        _ => None,
    })
}

fn count(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<u64>> {
    Ok(match row.get_ref(index)? {
        ValueRef::Integer(count) => u64::try_from(count).ok(),
        _ => None,
    })
}

fn real(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<f64>> {
    Ok(match row.get_ref(index)? {
        ValueRef::Real(value) => Some(value),
        _ => None,
    })
}

/// Whether the database contains this session.
pub(crate) fn knows(connection: &Connection, id: &str) -> rusqlite::Result<bool> {
    connection.prepare_cached("SELECT 1 FROM session WHERE id = ?1")?.exists([id])
}

/// When the newest message of a session was created: a long turn does not touch the session's row.
pub(crate) fn newest_message_at(connection: &Connection, id: &str) -> rusqlite::Result<Option<Timestamp>> {
    let newest = connection
        .prepare_cached(
            "SELECT time_created FROM message WHERE session_id = ?1 ORDER BY time_created DESC LIMIT 1",
        )?
        .query_row([id], |row| time(row, 0))
        .optional()?;
    Ok(newest.flatten())
}

/// Whether a session's place is a file of the old tree and not the database.
pub(crate) fn is_tree_file(place: &Path) -> bool {
    let name = place.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with("ses") && place.extension().is_some_and(|extension| extension == "json")
}

/// The sessions of which some message or part may fit.
pub(crate) fn sessions_with(
    connection: &Connection,
    may_fit: MayFit<'_>,
) -> rusqlite::Result<HashSet<String>> {
    let mut sessions = HashSet::new();
    for sql in [
        "SELECT session_id, data FROM message",
        "SELECT message.session_id, part.data FROM part JOIN message ON message.id = part.message_id",
    ] {
        let mut statement = connection.prepare(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            cancel::step().map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
            let (ValueRef::Text(id), ValueRef::Text(data) | ValueRef::Blob(data)) =
                (row.get_ref(0)?, row.get_ref(1)?)
            else {
                continue;
            };
            if may_fit(data)
                && let Ok(id) = std::str::from_utf8(id)
                && !sessions.contains(id)
            {
                sessions.insert(id.to_owned());
            }
        }
    }
    Ok(sessions)
}

pub(crate) struct Stored<'c>(pub(crate) &'c Connection);

impl Stored<'_> {
    fn ids(&self, sql: &str, session: &str, limit: usize) -> rusqlite::Result<Vec<String>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut statement = self.0.prepare_cached(sql)?;
        statement.query_map(params![session, limit], |row| row.get(0))?.collect()
    }
}

impl Stored<'_> {
    fn messages(&self, sql: &str, session: &str, limit: usize) -> rusqlite::Result<Vec<(String, Vec<u8>)>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut statement = self.0.prepare_cached(sql)?;
        let message = |row: &Row<'_>| Ok((row.get(0)?, bytes(row.get_ref(1)?)));
        statement.query_map(params![session, limit], message)?.collect()
    }
}

impl Conversation for Stored<'_> {
    type Error = rusqlite::Error;

    fn newest(&self, session: &str, limit: usize) -> rusqlite::Result<Vec<String>> {
        let sql = "SELECT id FROM message WHERE session_id = ?1 ORDER BY time_created DESC, id DESC LIMIT ?2";
        self.ids(sql, session, limit)
    }

    fn oldest(&self, session: &str, limit: usize) -> rusqlite::Result<Vec<String>> {
        let sql = "SELECT id FROM message WHERE session_id = ?1 ORDER BY time_created, id LIMIT ?2";
        self.ids(sql, session, limit)
    }

    fn message(&self, _session: &str, id: &str) -> rusqlite::Result<Vec<u8>> {
        let mut statement = self.0.prepare_cached("SELECT data FROM message WHERE id = ?1")?;
        statement.query_row([id], |row| Ok(bytes(row.get_ref(0)?)))
    }

    fn last(&self, session: &str, limit: usize) -> rusqlite::Result<Vec<(String, Vec<u8>)>> {
        // Selected by their ids alone: if no index has the order, SQLite sorts, and need not move the texts.
        let sql = "SELECT m.id, m.data FROM (SELECT rowid AS place, time_created, id FROM message \
            WHERE session_id = ?1 ORDER BY time_created DESC, id DESC LIMIT ?2) AS newest \
            JOIN message AS m ON m.rowid = newest.place ORDER BY newest.time_created DESC, newest.id DESC";
        self.messages(sql, session, limit)
    }

    fn first(&self, session: &str) -> rusqlite::Result<Option<(String, Vec<u8>)>> {
        let sql = "SELECT id, data FROM message WHERE rowid = (SELECT rowid FROM message \
            WHERE session_id = ?1 ORDER BY time_created, id LIMIT ?2)";
        Ok(self.messages(sql, session, 1)?.pop())
    }

    fn parts(&self, message: &str, largest: u64) -> rusqlite::Result<Vec<RawPart>> {
        // The length is in the row itself: a part that is too large is not even loaded.
        let sql = "SELECT id, rowid, CASE WHEN octet_length(data) <= ?2 THEN data END FROM part WHERE message_id = ?1 ORDER BY id";
        let largest = i64::try_from(largest).unwrap_or(i64::MAX);
        let mut statement = self.0.prepare_cached(sql)?;
        let part = |row: &Row<'_>| {
            let (json, is_cut) = match row.get_ref(2)? {
                ValueRef::Null => (self.beginning(row.get(1)?)?, true),
                value => (bytes(value), false),
            };
            Ok(RawPart { id: row.get(0)?, json, is_cut })
        };
        statement.query_map(params![message, largest], part)?.collect()
    }
}

impl Stored<'_> {
    fn beginning(&self, rowid: i64) -> rusqlite::Result<Vec<u8>> {
        let blob = self.0.blob_open(MAIN_DB, "part", "data", rowid, true)?;
        let mut json = vec![0; BEGINNING.min(blob.len())];
        let count = blob.read_at(&mut json, 0)?;
        json.truncate(count);
        Ok(json)
    }
}

fn bytes(value: ValueRef<'_>) -> Vec<u8> {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.to_vec(),
        _ => Vec::new(),
    }
}
