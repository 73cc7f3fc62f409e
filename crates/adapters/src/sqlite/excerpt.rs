//! Some rows of a database as data, and a database that is made of them again: for a snapshot.
//!
//! The data are lines of JSON: for each table one that names it and its columns, then one for each row. There is no SQL
//! among them. The tables and columns are those that a reader names, so whoever wrote the data can give values and
//! nothing else: no view, no trigger, no index of their own.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::Path;

use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, ToSql, params_from_iter};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

/// The tables that hold conversations.
#[derive(Debug)]
pub struct Tables {
    pub session: Table,
    pub message: Table,
    pub part: Table,
}

/// What a reader reads of a table.
#[derive(Debug)]
pub struct Table {
    pub name: &'static str,
    pub columns: &'static [&'static str],
    /// The column that names what a row belongs to: the id of the message, of the session, or its own.
    pub belongs_by: &'static str,
    pub order: &'static str,
}

impl Tables {
    fn all(&self) -> [&Table; 3] {
        [&self.session, &self.message, &self.part]
    }
}

/// A session up to this size is taken whole; of a larger one the first and the last messages are.
const WHOLE: u64 = 16 << 20;
const END: u64 = 4 << 20;
/// Of a larger cell only the beginning is taken.
const LARGEST_CELL: usize = 16 << 20;
const BEGINNING: usize = 64 << 10;
/// How much there may be in all.
const LARGEST: usize = 48 << 20;
const MOST_ROWS: usize = 400_000;
/// How much a database may become beyond its data, because the rest of large cells is made up.
const MOST_MADE_UP: usize = 256 << 20;
/// The longest line that names a table.
const LONGEST_HEADER: usize = 4096;

/// What was taken.
#[derive(Debug)]
pub struct Excerpt {
    pub lines: Vec<u8>,
    /// How many bytes of the conversations were left out.
    pub left_out: u64,
}

/// Takes the rows of these sessions. `replace` says what stands for a text.
pub fn take(
    path: &Path,
    tables: &Tables,
    sessions: &BTreeSet<String>,
    replace: &dyn Fn(&str) -> String,
) -> Result<Excerpt, String> {
    let taken = super::read(path, |database| {
        let mut taking = Taking::new(database.connection, tables, replace)?;
        for session in sessions {
            taking.session(session)?;
            if taking.is_too_much() {
                return Ok(None);
            }
        }
        taking.end().map(Some)
    });
    let taken = taken.map_err(|error| error.to_string())?;
    taken.ok_or_else(|| "these sessions are too large for a snapshot; name fewer of them".to_owned())
}

/// One table while its rows are taken.
struct TakenTable<'t> {
    table: &'t Table,
    /// The columns that this database has.
    columns: Vec<&'static str>,
    lines: Vec<u8>,
}

struct Taking<'t> {
    connection: &'t Connection,
    replace: &'t dyn Fn(&str) -> String,
    session: Option<TakenTable<'t>>,
    message: Option<TakenTable<'t>>,
    part: Option<TakenTable<'t>>,
    rows: usize,
    left_out: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    table: String,
    columns: Vec<String>,
}

impl<'t> Taking<'t> {
    fn new(
        connection: &'t Connection,
        tables: &'t Tables,
        replace: &'t dyn Fn(&str) -> String,
    ) -> rusqlite::Result<Self> {
        let [session, message, part] = tables.all().map(|table| TakenTable::of(connection, table));
        Ok(Self {
            connection,
            replace,
            session: session?,
            message: message?,
            part: part?,
            rows: 0,
            left_out: 0,
        })
    }

    fn session(&mut self, id: &str) -> rusqlite::Result<()> {
        let Some(session) = &mut self.session else { return Ok(()) };
        self.rows += session.rows_of(self.connection, id, self.replace, &mut self.left_out)?;
        for place in self.messages(id)? {
            let Some(message) = &mut self.message else { break };
            self.rows += message.row_at(self.connection, place, self.replace, &mut self.left_out)?;
            let query = format!("SELECT id FROM {} WHERE rowid = ?1", message.table.name);
            let name =
                self.connection.prepare_cached(&query)?.query_row([place], |row| row.get::<_, Value>(0));
            if let (Some(part), Some(name)) = (&mut self.part, name.optional()?) {
                self.rows += part.rows_of(self.connection, name, self.replace, &mut self.left_out)?;
            }
            if self.is_too_much() {
                break;
            }
        }
        Ok(())
    }

    /// Where the messages of a session lie that are taken, oldest first.
    fn messages(&mut self, session: &str) -> rusqlite::Result<Vec<i64>> {
        let Some(message) = &self.message else { return Ok(Vec::new()) };
        let Table { name, belongs_by, order, .. } = message.table;
        let of_parts = self.part.as_ref().map_or_else(
            || "0".to_owned(),
            |part| {
                let Table { name: parts, belongs_by, .. } = part.table;
                format!("(SELECT total({}) FROM {parts} WHERE {parts}.{belongs_by} = {name}.id)", part.size())
            },
        );
        let size = message.size();
        let query = format!(
            "SELECT rowid, CAST({size} + {of_parts} AS INTEGER) FROM {name} WHERE {belongs_by} = ?1 ORDER BY {order}"
        );
        let mut statement = self.connection.prepare_cached(&query)?;
        let all = statement.query_map([session], |row| {
            Ok((row.get(0)?, u64::try_from(row.get::<_, i64>(1)?).unwrap_or_default()))
        })?;
        let all: Vec<(i64, u64)> = all.collect::<rusqlite::Result<_>>()?;
        let whole: u64 = all.iter().map(|(_, size)| size).sum();
        if whole <= WHOLE {
            return Ok(all.into_iter().map(|(place, _)| place).collect());
        }
        let within = |sizes: &mut dyn Iterator<Item = u64>| {
            let sums = sizes.scan(0_u64, |sum, size| {
                *sum += size;
                Some(*sum)
            });
            sums.take_while(|sum| *sum <= END).count()
        };
        // The last message is always there, however large it is.
        let first = within(&mut all.iter().map(|(_, size)| *size));
        let last = within(&mut all.iter().rev().map(|(_, size)| *size)).max(1);
        let between = first..all.len().saturating_sub(last).max(first);
        self.left_out += all[between.clone()].iter().map(|(_, size)| size).sum::<u64>();
        let kept = all.iter().enumerate().filter(|(at, _)| !between.contains(at));
        Ok(kept.map(|(_, (place, _))| *place).collect())
    }

    fn tables(&self) -> impl Iterator<Item = &TakenTable<'t>> {
        [&self.session, &self.message, &self.part].into_iter().flatten()
    }

    fn is_too_much(&self) -> bool {
        self.rows > MOST_ROWS || self.tables().map(|taken| taken.lines.len()).sum::<usize>() > LARGEST
    }

    fn end(self) -> rusqlite::Result<Excerpt> {
        let mut lines = Vec::new();
        for taken in self.tables() {
            let columns = taken.columns.iter().map(|&column| column.to_owned()).collect();
            push_line(&Header { table: taken.table.name.to_owned(), columns }, &mut lines)?;
            lines.extend_from_slice(&taken.lines);
        }
        Ok(Excerpt { lines, left_out: self.left_out })
    }
}

impl<'t> TakenTable<'t> {
    /// `None` if the database has no such table; a view of this name is none.
    fn of(connection: &Connection, table: &'t Table) -> rusqlite::Result<Option<Self>> {
        let query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1";
        if !connection.prepare_cached(query)?.exists([table.name])? {
            return Ok(None);
        }
        let mut statement = connection.prepare(&format!("PRAGMA table_info({})", table.name))?;
        let there = statement.query_map([], |row| row.get(1))?;
        let there: BTreeSet<String> = there.collect::<rusqlite::Result<_>>()?;
        let columns = table.columns.iter().copied().filter(|column| there.contains(*column)).collect();
        Ok(Some(Self { table, columns, lines: Vec::new() }))
    }

    /// An expression for the size of a row.
    fn size(&self) -> String {
        let sizes = self.columns.iter().map(|column| format!("coalesce(octet_length({column}), 0)"));
        sizes.collect::<Vec<_>>().join(" + ")
    }

    fn rows_of(
        &mut self,
        connection: &Connection,
        owner: impl ToSql,
        replace: &dyn Fn(&str) -> String,
        left_out: &mut u64,
    ) -> rusqlite::Result<usize> {
        let Table { belongs_by, order, .. } = self.table;
        self.rows(connection, &format!("{belongs_by} = ?1 ORDER BY {order}"), owner, replace, left_out)
    }

    fn row_at(
        &mut self,
        connection: &Connection,
        place: i64,
        replace: &dyn Fn(&str) -> String,
        left_out: &mut u64,
    ) -> rusqlite::Result<usize> {
        self.rows(connection, "rowid = ?1", place, replace, left_out)
    }

    fn rows(
        &mut self,
        connection: &Connection,
        condition: &str,
        value: impl ToSql,
        replace: &dyn Fn(&str) -> String,
        left_out: &mut u64,
    ) -> rusqlite::Result<usize> {
        let (columns, name) = (self.columns.join(","), self.table.name);
        let mut statement =
            connection.prepare_cached(&format!("SELECT {columns} FROM {name} WHERE {condition}"))?;
        let mut rows = statement.query([value])?;
        let mut count = 0;
        while let Some(row) = rows.next()? {
            push_line(&self.cells(row, replace, left_out)?, &mut self.lines)?;
            count += 1;
            if self.lines.len() > LARGEST {
                break;
            }
        }
        Ok(count)
    }

    fn cells(
        &self,
        row: &Row<'_>,
        replace: &dyn Fn(&str) -> String,
        left_out: &mut u64,
    ) -> rusqlite::Result<Vec<serde_json::Value>> {
        (0..self.columns.len()).map(|at| Ok(cell(row.get_ref(at)?, replace, left_out))).collect()
    }
}

fn push_line(value: &impl Serialize, lines: &mut Vec<u8>) -> rusqlite::Result<()> {
    serde_json::to_writer(&mut *lines, value)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    lines.push(b'\n');
    Ok(())
}

/// Writes a text that was read from bytes which are none: what stands for such bytes in it becomes one that belongs to no
/// character. It says that there was one, and not which.
pub fn push_broken(text: &str, out: &mut Vec<u8>) {
    for (at, piece) in text.split(char::REPLACEMENT_CHARACTER).enumerate() {
        out.extend((at > 0).then_some(0xff));
        out.extend_from_slice(piece.as_bytes());
    }
}

/// A cell as JSON: text as a string, and whatever else JSON has no form for as an object.
fn cell(value: ValueRef<'_>, replace: &dyn Fn(&str) -> String, left_out: &mut u64) -> serde_json::Value {
    let (kind, bytes) = match value {
        ValueRef::Null => return serde_json::Value::Null,
        ValueRef::Integer(number) => return number.into(),
        ValueRef::Real(number) => return number.into(),
        ValueRef::Text(bytes) => ("text", bytes),
        ValueRef::Blob(bytes) => ("blob", bytes),
    };
    let kept = if bytes.len() > LARGEST_CELL { &bytes[..BEGINNING] } else { bytes };
    *left_out += (bytes.len() - kept.len()) as u64;
    let text = String::from_utf8_lossy(kept);
    let is_plain =
        kind == "text" && kept.len() == bytes.len() && matches!(text, std::borrow::Cow::Borrowed(_));
    let replaced = replace(&text);
    if is_plain {
        return replaced.into();
    }
    serde_json::json!({kind: replaced, "cut": kept.len() < bytes.len()})
}

/// Makes a database of these lines, which may come from anybody, in the empty file at `path`.
pub fn rebuild(path: &Path, tables: &Tables, lines: &[u8]) -> io::Result<()> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let failed = |error: rusqlite::Error| io::Error::other(error);
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    // It is private, and made anew if this process ends before it is whole.
    let settings = "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA temp_store=MEMORY; BEGIN;";
    connection.execute_batch(settings).map_err(failed)?;
    let mut building: Option<Building<'_>> = None;
    let (mut made, mut rows, mut made_up) = (BTreeSet::new(), 0, 0);
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        if line.first() == Some(&b'{') {
            let next = Building::begin(&connection, tables, line)?;
            if !made.insert(next.table.name) {
                return Err(bad(format!("table {} is there twice", next.table.name)));
            }
            building = Some(next);
            continue;
        }
        rows += 1;
        let building = building.as_ref().ok_or_else(|| bad("a row has no table"))?;
        let mut cells = building.read(line)?;
        for cell in &mut cells {
            made_up += cell.make_up_the_rest(MOST_MADE_UP - made_up)?;
        }
        if rows > MOST_ROWS {
            return Err(bad("a database has too many rows"));
        }
        let insert = &building.insert;
        let mut statement = connection.prepare_cached(insert).map_err(failed)?;
        statement.execute(params_from_iter(cells)).map_err(failed)?;
    }
    connection.execute_batch("COMMIT").map_err(failed)
}

fn bad(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

/// A table while its rows are written.
struct Building<'t> {
    table: &'t Table,
    columns: usize,
    insert: String,
}

impl<'t> Building<'t> {
    /// Creates the table that a line names, if a reader reads such a table. All names in the SQL are the reader's own.
    fn begin(connection: &Connection, tables: &'t Tables, line: &[u8]) -> io::Result<Self> {
        if line.len() > LONGEST_HEADER {
            return Err(bad("a table has too many columns"));
        }
        let header: Header = serde_json::from_slice(line).map_err(|error| bad(error.to_string()))?;
        let table = tables.all().into_iter().find(|table| table.name == header.table);
        let table = table.ok_or_else(|| bad("a table is none that is read"))?;
        let known = |name: &String| table.columns.iter().copied().find(|column| column == name);
        let columns: Vec<&str> = header.columns.iter().filter_map(known).collect();
        let different: BTreeSet<&str> = columns.iter().copied().collect();
        if columns.is_empty() || columns.len() != header.columns.len() || different.len() != columns.len() {
            return Err(bad(format!("table {} has columns that are not read", table.name)));
        }
        // Without types each value stays as it was.
        let (name, list) = (table.name, columns.join(","));
        let index = different.get(table.belongs_by);
        let index =
            index.map(|owner| format!("CREATE INDEX {name}_of ON {name}({owner});")).unwrap_or_default();
        let create = format!("CREATE TABLE {name}({list});{index}");
        connection.execute_batch(&create).map_err(io::Error::other)?;
        let places = vec!["?"; columns.len()].join(",");
        let insert = format!("INSERT INTO {name}({list}) VALUES({places})");
        Ok(Self { table, columns: columns.len(), insert })
    }

    fn read(&self, line: &[u8]) -> io::Result<Vec<Cell>> {
        let failed = |error: serde_json::Error| bad(format!("a row of {}: {error}", self.table.name));
        let mut row = serde_json::Deserializer::from_slice(line);
        let cells = Cells { columns: self.columns }.deserialize(&mut row).map_err(failed)?;
        row.end().map_err(failed)?;
        Ok(cells)
    }
}

/// A value that is written.
enum Cell {
    Plain(Value),
    /// Bytes that are no text, or the beginning of a larger value.
    Odd {
        is_text: bool,
        bytes: Vec<u8>,
        is_cut: bool,
    },
}

impl Cell {
    /// What was too large to be taken is as large again that no reader loads it whole. Returns how much was added.
    fn make_up_the_rest(&mut self, room: usize) -> io::Result<usize> {
        let Self::Odd { bytes, is_cut: true, .. } = self else { return Ok(0) };
        let added = (LARGEST_CELL + 1).saturating_sub(bytes.len());
        if added > room {
            return Err(bad("a database is too large"));
        }
        bytes.resize(bytes.len() + added, b' ');
        Ok(added)
    }
}

impl ToSql for Cell {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Plain(value) => ToSqlOutput::Borrowed(value.into()),
            Self::Odd { is_text: true, bytes, .. } => ToSqlOutput::Borrowed(ValueRef::Text(bytes)),
            Self::Odd { is_text: false, bytes, .. } => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
        })
    }
}

/// Reads exactly as many cells as there are columns; nothing is kept of what would be too much.
struct Cells {
    columns: usize,
}

impl<'de> DeserializeSeed<'de> for Cells {
    type Value = Vec<Cell>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Cell>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Cells {
    type Value = Vec<Cell>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a row of {} cells", self.columns)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut row: A) -> Result<Vec<Cell>, A::Error> {
        let mut cells = Vec::with_capacity(self.columns);
        while cells.len() < self.columns {
            let cell = row.next_element()?;
            cells.push(cell.ok_or_else(|| A::Error::invalid_length(cells.len(), &self))?);
        }
        // One more is an error of the deserializer, because the row must end here.
        Ok(cells)
    }
}

impl<'de> Deserialize<'de> for Cell {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CellVisitor)
    }
}

struct CellVisitor;

impl<'de> Visitor<'de> for CellVisitor {
    type Value = Cell;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a cell")
    }

    fn visit_unit<E>(self) -> Result<Cell, E> {
        Ok(Cell::Plain(Value::Null))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Cell, E> {
        Ok(Cell::Plain(Value::Integer(number)))
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Cell, E> {
        i64::try_from(number).map(|number| Cell::Plain(Value::Integer(number))).map_err(E::custom)
    }

    fn visit_f64<E>(self, number: f64) -> Result<Cell, E> {
        Ok(Cell::Plain(Value::Real(number)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Cell, E> {
        Ok(Cell::Plain(Value::Text(text.to_owned())))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Cell, A::Error> {
        let (mut kept, mut is_cut) = (None, false);
        while let Some(key) = pairs.next_key::<String>()? {
            match key.as_str() {
                "text" | "blob" if kept.is_none() => {
                    kept = Some((key == "text", pairs.next_value::<String>()?));
                }
                "cut" => is_cut = pairs.next_value()?,
                _ => return Err(A::Error::custom("a cell of no kind")),
            }
        }
        let (is_text, text) = kept.ok_or_else(|| A::Error::custom("a cell without a value"))?;
        let mut bytes = Vec::with_capacity(text.len());
        push_broken(&text, &mut bytes);
        Ok(Cell::Odd { is_text, bytes, is_cut })
    }
}

#[cfg(test)]
#[path = "excerpt_tests.rs"]
mod tests;
