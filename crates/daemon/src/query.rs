//! Query strings: pairs of names and values, and the list that they ask for. The words are those of the command line.

use std::fmt::Write;
use std::path::PathBuf;

use agentctl_fleet::{ListQuery, Sort, StatusWord};
use agentctl_model::period::Since;

use crate::problem::Problem;

/// The names that a list understands, with what they mean.
pub(crate) const LIST: &[(&str, &str)] = &[
    ("all", "also stopped sessions of the last 7 days: true or false"),
    ("since", "how far back stopped sessions are shown: 30d, an RFC 3339 time, or all (implies all)"),
    ("limit", "at most this many"),
    ("adapter", "only sessions of this agent; repeatable"),
    ("status", "only this status or outcome; repeatable"),
    ("group", "only sessions launched as this group"),
    ("cwd", "only sessions that work in this folder or below"),
    ("all-agents", "sub-agents as sessions of their own: true or false"),
    ("tree", "the same as all-agents, as `list --tree --json` has it: true or false"),
    ("strict", "an answer that is not complete is a problem (503, incomplete): true or false"),
    ("usage", "tokens and cost even where whole conversations must be read: true or false"),
    ("sort", "attention, updated, started, name, cwd or tokens"),
];

/// The names that narrow an id.
pub(crate) const TARGET: &[(&str, &str)] = &[
    ("adapter", "only sessions of this agent"),
    ("root", "only sessions stored under this config root"),
    ("cwd", "only sessions that work in this folder"),
];

pub(crate) type Pairs = Vec<(String, String)>;

/// Takes a query string apart. A name that nobody understands is an error: a misspelt filter must not widen an answer.
pub(crate) fn parse(raw: Option<&str>, known: &[&[(&str, &str)]]) -> Result<Pairs, Problem> {
    let mut pairs = Pairs::new();
    for part in raw.unwrap_or_default().split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let (name, value) = (decode(name)?, decode(value)?);
        if !known.iter().any(|names| names.iter().any(|(known, _)| *known == name)) {
            return Err(Problem::usage(format!("no parameter is called `{name}`")));
        }
        pairs.push((name, value));
    }
    Ok(pairs)
}

pub(crate) fn one<'p>(pairs: &'p Pairs, name: &str) -> Option<&'p str> {
    pairs.iter().rfind(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// `true`, `false`, or just the name.
pub(crate) fn flag(pairs: &Pairs, name: &str) -> Result<bool, Problem> {
    match one(pairs, name) {
        None | Some("false" | "0") => Ok(false),
        Some("" | "true" | "1") => Ok(true),
        Some(other) => Err(Problem::usage(format!("`{name}` is true or false, not `{other}`"))),
    }
}

pub(crate) fn number(pairs: &Pairs, name: &str) -> Result<Option<usize>, Problem> {
    let wrong = |value: &str| Problem::usage(format!("`{name}` is a number, not `{value}`"));
    one(pairs, name).map(|value| value.parse().map_err(|_| wrong(value))).transpose()
}

/// The agents that are named, each of which there is.
pub(crate) fn adapters(pairs: &Pairs) -> Result<Vec<String>, Problem> {
    let named = pairs.iter().filter(|(name, _)| name == "adapter").map(|(_, value)| value.clone());
    let named: Vec<String> = named.collect();
    let known = agentctl_adapters::registry();
    match named.iter().find(|name| !known.iter().any(|known| known.card().name == **name)) {
        Some(name) => Err(Problem::usage(format!("no adapter is called `{name}`"))),
        None => Ok(named),
    }
}

/// The list that these pairs ask for.
pub(crate) fn list_from(pairs: &[(String, String)]) -> Result<ListQuery, Problem> {
    let pairs = &pairs.to_vec();
    let every = |name: &'static str| pairs.iter().filter(move |(known, _)| known == name).map(|(_, v)| v);
    let wrong = |name: &str, value: &str, why: String| Problem::usage(format!("{name}={value}: {why}"));
    let statuses = every("status")
        .map(|word| StatusWord::parse(word).map_err(|why| wrong("status", word, why)))
        .collect::<Result<_, _>>()?;
    let since = one(pairs, "since")
        .map(|text| Since::parse(text).map_err(|why| wrong("since", text, why)))
        .transpose()?;
    let sort = one(pairs, "sort")
        .map(|word| Sort::parse(word).map_err(|why| wrong("sort", word, why)))
        .transpose()?;
    let adapters = adapters(pairs)?;
    Ok(ListQuery {
        all: flag(pairs, "all")?,
        since,
        limit: number(pairs, "limit")?,
        adapters,
        statuses,
        group: one(pairs, "group").map(str::to_owned),
        folders: every("cwd").map(PathBuf::from).collect(),
        subagents: flag(pairs, "all-agents")? || flag(pairs, "tree")?,
        usage: flag(pairs, "usage")?,
        sort: sort.unwrap_or_default(),
    })
}

/// The query string that asks for this list; `None` when a folder is no text.
pub fn list_pairs(query: &ListQuery) -> Option<String> {
    let mut pairs: Vec<(&str, String)> = Vec::new();
    for (name, set) in [("all", query.all), ("all-agents", query.subagents), ("usage", query.usage)] {
        if set {
            pairs.push((name, "true".to_owned()));
        }
    }
    pairs.extend(query.since.map(|since| ("since", since.to_string())));
    pairs.extend(query.limit.map(|limit| ("limit", limit.to_string())));
    pairs.extend(query.adapters.iter().map(|name| ("adapter", name.clone())));
    pairs.extend(query.statuses.iter().map(|word| ("status", word.word().to_owned())));
    pairs.extend(query.group.iter().map(|group| ("group", group.clone())));
    for folder in &query.folders {
        pairs.push(("cwd", folder.to_str()?.to_owned()));
    }
    pairs.push(("sort", query.sort.word().to_owned()));
    Some(joined(&pairs))
}

/// Pairs as a query string.
pub fn joined(pairs: &[(&str, String)]) -> String {
    let parts = pairs.iter().map(|(name, value)| format!("{name}={}", encode(value)));
    parts.collect::<Vec<_>>().join("&")
}

/// Everything but letters, digits and `-._~` as `%XX`.
pub fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing into a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

fn decode(text: &str) -> Result<String, Problem> {
    let bad = || Problem::usage(format!("`{text}` is not well encoded"));
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = digit(rest.next()).zip(digit(rest.next())).ok_or_else(bad)?;
                u8::try_from(high * 16 + low).map_err(|_| bad())?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_survives_the_journey() {
        let query = ListQuery {
            all: true,
            since: Some(Since::DEFAULT),
            limit: Some(3),
            adapters: vec!["codex".into(), "pi".into()],
            statuses: vec![StatusWord::parse("waiting").unwrap(), StatusWord::parse("died").unwrap()],
            group: Some("g-1 &=".into()),
            folders: vec!["/home/dév/a b+c".into(), "/x%y".into()],
            subagents: true,
            usage: true,
            sort: Sort::Tokens,
        };
        let raw = list_pairs(&query).unwrap();
        assert_eq!(list_from(&parse(Some(&raw), &[LIST]).unwrap()).unwrap(), query);
        let plain = list_pairs(&ListQuery::default()).unwrap();
        assert_eq!(list_from(&parse(Some(&plain), &[LIST]).unwrap()).unwrap(), ListQuery::default());
        assert_eq!(list_from(&parse(None, &[LIST]).unwrap()).unwrap(), ListQuery::default());
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for raw in ["stauts=waiting", "x", "cwd=%zz", "cwd=%f", "cwd=%ff"] {
            assert!(parse(Some(raw), &[LIST]).is_err(), "{raw}");
        }
        for raw in
            ["status=working", "since=soon", "limit=-1", "adapter=hal", "sort=size", "all=maybe", "tree=no"]
        {
            let pairs = parse(Some(raw), &[LIST]).unwrap();
            assert_eq!(list_from(&pairs).unwrap_err().code, "usage", "{raw}");
        }
    }
}
