//! Sessions as rows of a table.

use std::collections::HashMap;
use std::path::Path;

use agentctl_model::{HostReport, Outcome, Road, Session, Status, Surveyed, Tokens, text};
use jiff::Timestamp;

use super::style::{self, Tone};
use super::table::{Cell, Column, Table};
use super::{path, time};

/// The context in which rows are shown.
pub(crate) struct View<'a> {
    pub(crate) now: Timestamp,
    /// The machines that were asked, if they are several. Ages are told by the clock of each.
    pub(crate) hosts: &'a [HostReport],
    pub(crate) home: Option<&'a Path>,
    pub(crate) usage: bool,
    /// Whether nothing is shortened, not even ids.
    pub(crate) whole: bool,
    /// The chosen columns; `None` for the default ones.
    pub(crate) columns: Option<&'a [ListColumn]>,
}

impl View<'_> {
    /// The other machine that the session is on.
    fn elsewhere(&self, session: &Session) -> Option<&HostReport> {
        self.hosts.iter().find(|host| host.via != Road::Local && host.name == session.host)
    }

    /// When the machine of the session answered, by its own clock.
    fn now(&self, session: &Session) -> Timestamp {
        self.elsewhere(session).and_then(|host| host.as_of).unwrap_or(self.now)
    }
}

/// A column, by its name in `--columns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListColumn {
    pub(crate) word: &'static str,
    header: &'static str,
}

impl ListColumn {
    const fn new(word: &'static str, header: &'static str) -> Self {
        Self { word, header }
    }

    pub(crate) const ALL: [Self; 18] = [
        Self::new("id", "ID"),
        Self::new("status", "STATUS"),
        Self::new("agent", "AGENT"),
        Self::new("name", "NAME/PROMPT"),
        Self::new("detail", "DETAIL"),
        Self::new("model", "MODEL"),
        Self::new("cwd", "CWD"),
        Self::new("branch", "BRANCH"),
        Self::new("tokens", "TOKENS"),
        Self::new("cost", "COST"),
        Self::new("age", "AGE"),
        Self::new("activity", "ACTIVITY"),
        Self::new("group", "GROUP"),
        Self::new("pid", "PID"),
        Self::new("parent", "PARENT"),
        Self::new("started", "STARTED"),
        Self::new("updated", "UPDATED"),
        Self::new("root", "ROOT"),
    ];

    pub(crate) fn parse(typed: &str) -> Result<Self, String> {
        // The names in the JSON object are accepted too.
        let word = if typed == "adapter" { "agent" } else { typed };
        Self::ALL.into_iter().find(|known| known.word.eq_ignore_ascii_case(word)).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|known| known.word).collect();
            format!("expected one of {}", known.join(", "))
        })
    }
}

/// A session and its depth under its parent.
pub(crate) struct Row<'a> {
    pub(crate) session: &'a Session,
    pub(crate) depth: usize,
}

/// Keys of gateways are longer, and must not take the room of the details.
const WIDEST_ID: usize = 16;

/// The table of `list`. On 80 columns the rightmost details are dropped first. What a session waits for is
/// more important than where it works and when it was last active.
pub(crate) fn table(rows: &[Row<'_>], view: &View<'_>) -> Table {
    let somebody_waits = rows.iter().any(|row| row.session.status == Status::Waiting);
    let somebody_failed = rows
        .iter()
        .any(|row| row.session.outcome == Some(Outcome::Failed) && self::detail(row.session).is_some());
    let (detail, detail_goes, age_goes) = match (somebody_waits, somebody_failed) {
        (true, _) => (20, 1, 8),
        // Why a session failed is more important than its model or folder.
        (false, true) => (12, 4, 2),
        (false, false) => (12, 7, 2),
    };
    let mut table = Table::new(
        [
            Column::whole("ID").overhanging(WIDEST_ID),
            Column::whole("STATUS"),
            Column::whole("AGENT").expendable(3),
            Column::flexible("NAME/PROMPT", 16),
            Column::flexible("DETAIL", detail).expendable(detail_goes),
            Column::flexible("MODEL", 15).expendable(5),
            Column::flexible("CWD", 10).keep_end().expendable(4),
            Column::flexible("BRANCH", 8).expendable(6),
            Column::whole("TOKENS").expendable(1),
            Column::whole("COST").expendable(1),
            Column::whole("AGE").expendable(age_goes),
            Column::whole("ACTIVITY").expendable(5),
        ]
        .into_iter()
        .chain(BY_NAME_ALONE.map(Column::whole))
        .collect(),
    );
    let ids = rows.iter().map(|row| row.session.id.as_str());
    let ids = if view.whole { ids.collect() } else { short_ids(ids) };
    // A usage column that was named is shown where usage is known; otherwise usage is shown only on request.
    let usage = view.usage || view.columns.is_some();
    for (row, id) in rows.iter().zip(ids) {
        let session = row.session;
        let now = view.now(session);
        let host = view.elsewhere(session).map(|host| format!("{}/", host.name)).unwrap_or_default();
        table.row(
            [
                Cell::new(host, Tone::Dim).and(text::one_line(id), Tone::Plain),
                status(session, now),
                Cell::plain(text::one_line(&session.adapter)),
                title(session, row.depth),
                Cell::new(self::detail(session).unwrap_or_default(), Tone::Dim),
                Cell::new(session.model.as_deref().map(text::one_line).unwrap_or_default(), Tone::Dim),
                Cell::plain(
                    session.cwd.as_deref().map(|cwd| path::shown(cwd, view.home)).unwrap_or_default(),
                ),
                Cell::new(session.branch.as_deref().map(text::one_line).unwrap_or_default(), Tone::Dim),
                Cell::plain(session.tokens.filter(|_| usage).map(|t| tokens(&t)).unwrap_or_default()),
                Cell::plain(session.cost.filter(|_| usage).map(cost).unwrap_or_default()),
                Cell::new(since(session.started_at, now), Tone::Dim),
                Cell::new(since(session.updated_at, now), Tone::Dim),
            ]
            .into_iter()
            .chain(by_name_alone(session, view))
            .collect(),
        );
    }
    match view.columns {
        Some(columns) => table.choose(&columns.iter().map(|column| column.header).collect::<Vec<_>>()),
        None => table,
    }
}

/// Columns that are only shown on request.
const BY_NAME_ALONE: [&str; 6] = ["GROUP", "PID", "PARENT", "STARTED", "UPDATED", "ROOT"];

/// The cells of these columns, empty unless requested: an empty column is not shown.
fn by_name_alone(session: &Session, view: &View<'_>) -> [Cell; 6] {
    if view.columns.is_none() {
        return Default::default();
    }
    let words = |text: &Option<String>| text.as_deref().map(text::one_line).unwrap_or_default();
    let moment = |at: Option<Timestamp>| at.map(|at| format!("{at:.0}")).unwrap_or_default();
    [
        words(&session.group),
        session.pid.map(|pid| pid.to_string()).unwrap_or_default(),
        words(&session.parent_id),
        moment(session.started_at),
        moment(session.updated_at),
        path::shown(&session.config_root, view.home),
    ]
    .map(Cell::plain)
}

/// The symbol, the word, and how long the session has been in this status.
fn status(session: &Session, now: Timestamp) -> Cell {
    let look = style::look(session.status, session.outcome);
    let cell = Cell::new(format!("{} {}", look.glyph, look.word), look.tone);
    match style::time_in_status(session, now) {
        Some(duration) => {
            let tone = style::wait_tone(session.status, duration);
            cell.and(format!(" {}", time::short(duration)), tone)
        }
        None => cell,
    }
}

fn title(session: &Session, depth: usize) -> Cell {
    let branch = if depth == 0 { String::new() } else { format!("{}└ ", "  ".repeat(depth - 1)) };
    let cell = Cell::new(branch, Tone::Dim);
    match (&session.name, &session.prompt) {
        (Some(name), _) => cell.and(text::one_line(name), Tone::Strong),
        (None, Some(prompt)) => cell.and(text::one_line(prompt), Tone::Plain),
        (None, None) => cell.and("-", Tone::Dim),
    }
}

/// What the session waits for, or the detail of its status.
pub(crate) fn detail(session: &Session) -> Option<String> {
    let pending = session.pending.first().and_then(|pending| pending.summary.as_deref());
    pending.map(text::visible_line).or_else(|| session.status_detail.as_deref().map(text::one_line))
}

/// How long ago that was, if known.
fn since(then: Option<Timestamp>, now: Timestamp) -> String {
    then.map(|then| time::ago(now, then)).unwrap_or_default()
}

/// Input tokens (cached or not) over output tokens.
pub(crate) fn tokens(tokens: &Tokens) -> String {
    let read = [tokens.input, tokens.cache_read, tokens.cache_write];
    let input: Option<u64> = read.iter().any(Option::is_some).then(|| read.iter().flatten().sum());
    let shown = |count: Option<u64>| count.map_or_else(|| "?".to_owned(), amount);
    format!("{}/{}", shown(input), shown(tokens.output))
}

/// A count in at most five characters: 999, 12.3k, 4.5M.
fn amount(count: u64) -> String {
    let scaled = |unit: u64, suffix: &str| {
        let tenths = count / (unit / 10);
        if tenths < 1000 {
            format!("{}.{}{suffix}", tenths / 10, tenths % 10)
        } else {
            format!("{}{suffix}", tenths / 10)
        }
    };
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => scaled(1_000, "k"),
        1_000_000..1_000_000_000 => scaled(1_000_000, "M"),
        _ => scaled(1_000_000_000, "G"),
    }
}

pub(crate) fn cost(dollars: f64) -> String {
    if dollars > 0.0 && dollars < 0.01 { format!("${dollars:.4}") } else { format!("${dollars:.2}") }
}

/// For each id the shortest beginning that no other id has. Ids that begin with a time only differ after it,
/// so they are shown down to the millisecond: their beginnings then stay unique among stored ids. The same
/// holds for ids of several names with colons, of which only the last part is unique.
pub(crate) fn short_ids<'a>(ids: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let ids: Vec<&str> = ids.collect();
    let mut sorted = ids.clone();
    sorted.sort_unstable();
    sorted.dedup();
    let mut shared: HashMap<&str, usize> = HashMap::new();
    for pair in sorted.windows(2) {
        let common = pair[0].bytes().zip(pair[1].bytes()).take_while(|(a, b)| a == b).count();
        for id in pair {
            let known = shared.entry(id).or_default();
            *known = common.max(*known);
        }
    }
    ids.into_iter()
        .map(|id| {
            let named = id.rfind(':').map_or(0, |colon| colon + 1);
            let own = if is_time_ordered(id) { TO_THE_MILLISECOND } else { 8 };
            let least = named + own;
            let mut length = least.max(shared.get(id).copied().unwrap_or(0) + 1);
            // Almost the whole id is harder to read than the id itself.
            if length + own > id.len() {
                return id;
            }
            while !id.is_char_boundary(length) {
                length += 1;
            }
            &id[..length]
        })
        .collect()
}

/// The length in both kinds of such ids: two groups of a UUID, or `ses_` and nine digits.
const TO_THE_MILLISECOND: usize = 13;

/// A UUID of version 7, or an id of OpenCode and its relatives.
fn is_time_ordered(id: &str) -> bool {
    let bytes = id.as_bytes();
    let uuid = bytes.len() == 36 && bytes[8] == b'-' && bytes[13] == b'-' && bytes[14] == b'7';
    uuid || (id.starts_with("ses_") && id.len() == 30)
}

/// The candidates for an id that matches several sessions, as lines.
pub(crate) fn candidates(sessions: &[Surveyed], view: &View<'_>, width: usize) -> Vec<String> {
    let mut table = Table::new(vec![
        Column::whole("ID"),
        Column::whole("STATUS").expendable(4),
        Column::whole("AGENT").expendable(2),
        Column::flexible("ROOT", 10).keep_end(),
        Column::flexible("CWD", 12).keep_end().expendable(1),
        Column::flexible("NAME/PROMPT", 12).expendable(3),
    ]);
    // A root is only shown if the same id exists under several.
    let root = |session: &Session| {
        let mut others = sessions.iter().map(|other| &other.session);
        let told_apart_by_it =
            others.any(|other| other.id == session.id && other.config_root != session.config_root);
        let shown = told_apart_by_it.then(|| path::shown(&session.config_root, view.home));
        Cell::plain(shown.unwrap_or_default())
    };
    let own = agentctl_fleet::own_name();
    for session in sessions.iter().map(|surveyed| &surveyed.session) {
        table.row(vec![
            Cell::plain(text::one_line(&match session.host.as_str() {
                here if here.is_empty() || here == own => session.id.clone(),
                there => format!("{there}/{}", session.id),
            })),
            status(session, view.now),
            Cell::plain(text::one_line(&session.adapter)),
            root(session),
            Cell::plain(session.cwd.as_deref().map(|cwd| path::shown(cwd, view.home)).unwrap_or_default()),
            title(session, 0),
        ]);
    }
    table.lines(width, style::Paint::new(false))
}

#[cfg(test)]
mod tests;
