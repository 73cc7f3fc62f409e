//! Records whose parts may have any shape, and lines that may contain any bytes: what does not fit is absent or
//! replaced, and the rest of the record is kept.

use agentctl_model::Entry;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::follow::ParseEntries;
use super::quick;
use crate::transcript::read::Line;
use crate::transcript::show::shortened;

/// For `#[serde(borrow, deserialize_with = "lenient")]`: a value of an unexpected shape becomes the default.
pub fn lenient<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    let raw = <&'de RawValue>::deserialize(from)?;
    Ok(quick::from_str(raw.get()).unwrap_or_default())
}

/// Passes a line to `take`; a line that is not UTF-8 is passed once more, with every invalid byte replaced.
pub(crate) fn as_text(line: &[u8], mut take: impl FnMut(&[u8]) -> Line) -> Line {
    match take(line) {
        Line::Broken if std::str::from_utf8(line).is_err() => take(String::from_utf8_lossy(line).as_bytes()),
        other => other,
    }
}

/// The same for the entries that a line shows, with whole texts.
pub(crate) fn decoded(parse: ParseEntries, line: &[u8]) -> Vec<Entry> {
    let entries = parse(line);
    if entries.is_empty() && std::str::from_utf8(line).is_err() {
        parse(String::from_utf8_lossy(line).as_bytes())
    } else {
        entries
    }
}

/// The same, as `peek` and `logs` show them.
pub(crate) fn shown(parse: ParseEntries, line: &[u8]) -> Vec<Entry> {
    shortened(decoded(parse, line))
}
