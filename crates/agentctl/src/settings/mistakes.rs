//! Mistakes in `config.toml` and their positions. A mistake is removed from the file and reported; the rest
//! of the file remains in force.

use std::fmt;
use std::ops::Range;

use agentctl_model::text;
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue, Error, ValueDeserializer};

/// The most mistakes that are reported one by one; a file with more is ignored as a whole.
const MOST: usize = 50;

/// How much of the file a mistake invalidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Invalidates {
    /// An unknown key, which nothing reads.
    Nothing,
    /// The value of the key is not known; what needs it cannot continue.
    Key,
    /// Nothing in the file is known.
    File,
}

/// A mistake and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mistake {
    pub(crate) line: Option<usize>,
    pub(crate) column: Option<usize>,
    /// A key such as `adapters.codex.roots`; `None` for the file as a whole.
    pub(crate) key: Option<String>,
    pub(crate) message: String,
    pub(crate) invalidates: Invalidates,
}

impl Mistake {
    fn new(
        text: &str,
        at: Option<usize>,
        key: Option<String>,
        message: String,
        invalidates: Invalidates,
    ) -> Self {
        let before = at.and_then(|at| text.get(..at));
        Self {
            line: before.map(|before| before.matches('\n').count() + 1),
            column: before.map(|before| before.rsplit('\n').next().unwrap_or("").chars().count() + 1),
            key,
            message,
            invalidates,
        }
    }

    /// Whether this mistake makes the value at this key, or below it, unknown.
    pub(crate) fn invalidates(&self, wanted: &str) -> bool {
        let below =
            |key: &str| key.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        let above = |key: &str| wanted.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'));
        match (self.invalidates, &self.key) {
            (Invalidates::File, _) => true,
            (Invalidates::Key, Some(key)) => below(key) || above(key),
            (Invalidates::Key | Invalidates::Nothing, _) => false,
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(out, "line {line}, column {column}: ")?;
        }
        out.write_str(&self.message)
    }
}

/// Reads a file into its form, key by key: what is wrong is removed and reported, and the rest counts. `odd`
/// finds mistakes in a form that serde cannot see, and names the key.
pub(super) fn read<'t, T: Deserialize<'t> + Default>(
    text: &'t str,
    odd: impl Fn(&T) -> Option<(String, String)>,
) -> (T, Vec<Mistake>) {
    let mut table = match DeTable::parse(text) {
        Ok(table) => table.into_inner(),
        Err(error) => {
            let at = error.span().map(|span| span.start);
            let message = agentctl_model::text::one_line(error.message());
            return (T::default(), vec![Mistake::new(text, at, None, message, Invalidates::File)]);
        }
    };
    let mut mistakes: Vec<Mistake> = Vec::new();
    while mistakes.len() < MOST {
        let whole = Spanned::new(0..text.len(), DeValue::Table(table.clone()));
        let mistake = match T::deserialize(ValueDeserializer::from(whole)) {
            Ok(form) => match odd(&form) {
                None => {
                    // In the order of the file; mistakes that concern the whole file come last.
                    mistakes.sort_by_key(|mistake| {
                        (mistake.line.unwrap_or(usize::MAX), mistake.column.unwrap_or(usize::MAX))
                    });
                    return (form, mistakes);
                }
                Some((key, message)) => {
                    let at = take_key(&mut table, &key).map(|span| span.start);
                    Mistake::new(text, at, Some(key), message, Invalidates::Key)
                }
            },
            Err(error) => leave_out(text, &mut table, &error),
        };
        let hopeless = mistake.invalidates == Invalidates::File;
        if !follows_from(&mistake, &mistakes) {
            mistakes.push(mistake);
        }
        if hopeless {
            return (T::default(), mistakes);
        }
    }
    let message = format!("more than {MOST} mistakes; nothing of this file is used");
    mistakes.push(Mistake::new(text, None, None, message, Invalidates::File));
    (T::default(), mistakes)
}

/// Whether something is missing only because it was left out as a mistake of its own.
fn follows_from(mistake: &Mistake, known: &[Mistake]) -> bool {
    let Some(section) = mistake.key.as_deref() else { return false };
    let in_section = |key: &str| Some(key.strip_prefix(section)?.strip_prefix('.')?.to_owned());
    let mut fields = known.iter().filter_map(|other| in_section(other.key.as_deref()?));
    fields.any(|field| mistake.message.ends_with(&format!("missing field `{field}`")))
}

/// Removes what the error is about from the table, so that the rest can be read.
fn leave_out(text: &str, table: &mut DeTable<'_>, error: &Error) -> Mistake {
    let words = in_words_of_toml(&agentctl_model::text::one_line(error.message()));
    let Some(span) = error.span() else { return Mistake::new(text, None, None, words, Invalidates::File) };
    let found = take(table, &|key, _| *key == span, false)
        .map(|found| (found, Invalidates::Nothing))
        .or_else(|| Some((take(table, &|_, value| covers(value, &span), true)?, Invalidates::Key)));
    let Some((Found { path, key }, invalidates)) = found else {
        return Mistake::new(text, Some(span.start), None, words, Invalidates::File);
    };
    let name = path.join(".");
    let message = match invalidates {
        Invalidates::Nothing => unknown(&name, &words),
        _ => format!("{name}: {words}"),
    };
    let at = if invalidates == Invalidates::Nothing { key.start } else { span.start };
    Mistake::new(text, Some(at), Some(name), message, invalidates)
}

fn covers(outer: &Range<usize>, inner: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// An entry that was removed: its path, and the position of its key.
struct Found {
    path: Vec<String>,
    key: Range<usize>,
}

/// Removes the innermost matching entry. The span of a section is that of its header, so everything below is
/// searched whatever matches above. In a list of tables, a table that lacks something is removed as a
/// `whole`.
fn take(
    table: &mut DeTable<'_>,
    fits: &dyn Fn(&Range<usize>, &Range<usize>) -> bool,
    whole: bool,
) -> Option<Found> {
    let names: Vec<Spanned<_>> = table.keys().cloned().collect();
    for name in &names {
        let below = table.get_mut(name).and_then(|value| take_below(value.get_mut(), fits, whole));
        if let Some(mut found) = below {
            found.path.insert(0, name.get_ref().to_string());
            return Some(found);
        }
    }
    let name = names
        .into_iter()
        .find(|name| table.get(name).is_some_and(|value| fits(&name.span(), &value.span())))?;
    table.remove(&name);
    Some(Found { path: vec![name.get_ref().to_string()], key: name.span() })
}

fn take_below(
    value: &mut DeValue<'_>,
    fits: &dyn Fn(&Range<usize>, &Range<usize>) -> bool,
    whole: bool,
) -> Option<Found> {
    match value {
        DeValue::Table(below) => take(below, fits, whole),
        DeValue::Array(items) => {
            let inside = items.iter_mut().find_map(|item| match item.get_mut() {
                DeValue::Table(below) => take(below, fits, whole),
                _ => None,
            });
            if inside.is_some() || !whole {
                return inside;
            }
            let mut tables = items.iter().filter(|item| matches!(item.get_ref(), DeValue::Table(_)));
            let span = tables.find(|item| fits(&item.span(), &item.span()))?.span();
            let mut rest = DeArray::new();
            items.iter().filter(|item| item.span() != span).for_each(|item| rest.push(item.clone()));
            *items = rest;
            Some(Found { path: Vec::new(), key: span })
        }
        _ => None,
    }
}

/// Removes the entry with this name and returns its position.
fn take_key(table: &mut DeTable<'_>, name: &str) -> Option<Range<usize>> {
    let (first, rest) = name.split_once('.').map_or((name, None), |(first, rest)| (first, Some(rest)));
    let key = table.keys().find(|key| key.get_ref() == first)?.clone();
    match rest {
        None => {
            table.remove(&key);
            Some(key.span())
        }
        Some(rest) => match table.get_mut(&key)?.get_mut() {
            DeValue::Table(below) => take_key(below, rest),
            _ => None,
        },
    }
}

/// Replaces the parser's names of types by words of TOML.
fn in_words_of_toml(message: &str) -> String {
    let Some((found, expected)) = message.rsplit_once(", expected ") else { return message.to_owned() };
    let expected = match expected {
        "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "a table",
        form if form.starts_with("struct ") => "a table",
        other => other,
    };
    format!("{found}, expected {expected}")
}

/// The message for an unknown key, with the key that was probably meant. The parser's message lists the known
/// keys.
fn unknown(key: &str, words: &str) -> String {
    let (_, listed) = words.rsplit_once("expected ").unwrap_or_default();
    let listed = listed.strip_prefix("one of ").unwrap_or(listed).replace(" or ", ", ");
    let known: Vec<&str> =
        listed.split(", ").map(|word| word.trim_matches('`')).filter(|word| !word.is_empty()).collect();
    let key = text::visible_line(key);
    let typed = key.rsplit('.').next().unwrap_or(&key);
    match (nearest(typed, &known), known.is_empty()) {
        (Some(meant), _) => format!("unknown key `{key}`, did you mean `{meant}`?"),
        (None, false) => format!("unknown key `{key}`, expected one of {}", known.join(", ")),
        (None, true) => format!("unknown key `{key}`"),
    }
}

/// The word that was probably meant: it differs by few letters, or begins with the typed text.
pub(crate) fn nearest<'w>(typed: &str, words: &[&'w str]) -> Option<&'w str> {
    let typed = typed.to_lowercase();
    let near = |word: &&str| {
        let away = distance(&typed, &word.to_lowercase());
        let begun = typed.len() > 2 && (word.starts_with(typed.as_str()) || typed.starts_with(*word));
        (away <= typed.chars().count() / 3 || begun).then_some(away)
    };
    words
        .iter()
        .filter_map(|word| Some((near(word)?, *word)))
        .min_by_key(|(away, _)| *away)
        .map(|(_, word)| word)
}

/// The edit distance: how many letters have to be inserted, removed or changed.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.chars().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], index + 1);
        for (place, against) in other.iter().enumerate() {
            let changed = corner + usize::from(letter != *against);
            corner = row[place + 1];
            row[place + 1] = changed.min(corner + 1).min(row[place] + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}
