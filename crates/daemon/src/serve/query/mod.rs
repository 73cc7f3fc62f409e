//! Query strings: pairs of names and values, and the list that they describe. The names are those of the
//! command line.

mod parameter;

use std::borrow::Cow;
use std::path::PathBuf;

use agentctl_fleet::{ListFilter, Query, Since, Sort, StatusFilter, Wanted};
use percent_encoding::percent_decode_str;

pub(crate) use self::parameter::{LENGTH, Parameter, Parameters, adapter_schema};
use crate::serve::problem::Problem;

/// The query parameters of a list.
pub(crate) const LIST: Parameters = &[
    Parameter::flag("all", "also stopped sessions of the last 7 days"),
    Parameter::since("since", "how far back stopped sessions are shown (implies all)"),
    Parameter::number("limit", "at most this many"),
    Parameter::adapter("only sessions of this agent").repeatable(),
    Parameter::word("status", "only this status or outcome", status_words).repeatable(),
    Parameter::text("group", "only sessions launched as this group"),
    Parameter::text("cwd", "only sessions that work in this folder or below").repeatable(),
    Parameter::flag("all-agents", "sub-agents as sessions of their own"),
    Parameter::flag("tree", "the same as all-agents, as `list --tree --json` has it"),
    Parameter::flag("strict", "an answer that is not complete is a problem (503, incomplete)"),
    Parameter::flag("usage", "tokens and cost even where whole conversations must be read"),
    Parameter::word("sort", "what comes first; attention by default", sort_words),
];

/// The query parameters that narrow an id.
pub(crate) const TARGET: Parameters = &[
    Parameter::adapter("only sessions of this agent"),
    Parameter::text("root", "only sessions stored under this config root"),
    Parameter::text("cwd", "only sessions that work in this folder"),
];

/// The query parameters for the detail of one session.
pub(crate) const DETAIL: Parameters = &[Parameter::flag_on_by_default(
    "usage",
    "tokens and cost even where the whole conversation must be read",
)];

/// The query parameter that names another machine.
pub(crate) const HOST: Parameters = &[Parameter::text(
    "host",
    "ask this machine of config.toml instead, `local`, or in a list `all`; may be repeated there",
)];

pub(crate) type Pairs = Vec<(String, String)>;

/// Parses a query string. An unknown name is an error: a misspelt filter must not widen an answer.
pub(crate) fn parse(raw: Option<&str>, known: &[Parameters]) -> Result<Pairs, Problem> {
    let mut pairs = Pairs::new();
    for part in raw.unwrap_or_default().split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let (name, value) = (decode(name)?, decode(value)?);
        let parameter = known.iter().copied().flatten().find(|parameter| parameter.name == name);
        let parameter =
            parameter.ok_or_else(|| Problem::usage(format!("no parameter is called `{name}`")))?;
        parameter.check(&value)?;
        pairs.push((name, value));
    }
    let given = |parameter: &Parameter| pairs.iter().any(|(name, _)| name == parameter.name);
    let required = known.iter().copied().flatten().filter(|parameter| parameter.required);
    match required.into_iter().find(|parameter| !given(parameter)) {
        Some(missing) => Err(Problem::usage(format!("`{}` is missing", missing.name))),
        None => Ok(pairs),
    }
}

pub(crate) fn one<'p>(pairs: &'p Pairs, name: &str) -> Option<&'p str> {
    pairs.iter().rfind(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// Every value of a parameter that may be repeated.
pub(crate) fn every<'p>(pairs: &'p Pairs, name: &'p str) -> impl Iterator<Item = &'p str> {
    pairs.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
}

pub(crate) fn flag(pairs: &Pairs, name: &str) -> bool {
    one(pairs, name).and_then(parameter::flag_of) == Some(true)
}

/// A flag that is on unless the query turns it off.
pub(crate) fn flag_on_by_default(pairs: &Pairs, name: &str) -> bool {
    one(pairs, name).and_then(parameter::flag_of) != Some(false)
}

pub(crate) fn number(pairs: &Pairs, name: &str) -> Option<usize> {
    one(pairs, name).and_then(|value| value.parse().ok())
}

/// The agents that the query names.
pub(crate) fn adapters(pairs: &Pairs) -> Vec<String> {
    every(pairs, "adapter").map(str::to_owned).collect()
}

fn adapter_words() -> Vec<&'static str> {
    agentctl_adapters::registry().into_iter().map(|adapter| adapter.card().name).collect()
}

fn status_words() -> Vec<&'static str> {
    // Tables print "done", so it is accepted too.
    StatusFilter::words().chain(["done"]).collect()
}

fn sort_words() -> Vec<&'static str> {
    Sort::ALL.into_iter().map(Sort::as_str).collect()
}

/// Builds the list query from these pairs. Each value was checked when the pairs were parsed, so none is
/// dropped here.
pub(crate) fn list_from(pairs: &Pairs) -> Query {
    let since = one(pairs, "since").and_then(|text| Since::parse(text).ok());
    let filter = ListFilter {
        statuses: every(pairs, "status").filter_map(|word| StatusFilter::parse(word).ok()).collect(),
        group: one(pairs, "group").map(str::to_owned),
        folders: every(pairs, "cwd").map(PathBuf::from).collect(),
        sort: one(pairs, "sort").and_then(|word| Sort::parse(word).ok()).unwrap_or_default(),
        limit: number(pairs, "limit"),
    };
    Query {
        usage: flag(pairs, "usage"),
        subagents: flag(pairs, "all-agents") || flag(pairs, "tree"),
        adapters: adapters(pairs),
        wanted: Wanted::listed(flag(pairs, "all"), since, &filter.statuses),
        filter,
        ..Query::new(Wanted::Live)
    }
}

/// The query string for this list; `None` when a query string cannot express it, because a folder is not
/// valid UTF-8 or the query is not a list.
pub fn list_pairs(query: &Query) -> Option<String> {
    let mut pairs: Vec<(&str, String)> = Vec::new();
    for (name, set) in [("all-agents", query.subagents), ("usage", query.usage)] {
        if set {
            pairs.push((name, "true".to_owned()));
        }
    }
    match &query.wanted {
        Wanted::Live => {}
        Wanted::All { since } => pairs.push(("since", since.to_string())),
        Wanted::Ids(_) => return None,
    }
    let filter = &query.filter;
    pairs.extend(filter.limit.map(|limit| ("limit", limit.to_string())));
    pairs.extend(query.adapters.iter().map(|name| ("adapter", name.clone())));
    pairs.extend(filter.statuses.iter().map(|word| ("status", word.as_str().to_owned())));
    pairs.extend(filter.group.iter().map(|group| ("group", group.clone())));
    for folder in &filter.folders {
        pairs.push(("cwd", folder.to_str()?.to_owned()));
    }
    pairs.push(("sort", filter.sort.as_str().to_owned()));
    Some(joined(&pairs))
}

/// Encodes pairs as a query string.
pub fn joined(pairs: &[(&str, String)]) -> String {
    let parts = pairs.iter().map(|(name, value)| format!("{name}={}", encode(value)));
    parts.collect::<Vec<_>>().join("&")
}

/// Percent-encodes everything but letters, digits and `-._~`.
pub fn encode(text: &str) -> String {
    agentctl_adapters::wire::http::escaped(text)
}

pub(crate) fn decode(text: &str) -> Result<String, Problem> {
    let bad = || Problem::usage(format!("`{text}` is not well encoded"));
    // The decoder would pass a `%` that begins no escape through unchanged, so this is checked first.
    let is_escape =
        |rest: &str| rest.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    if !text.split('%').skip(1).all(is_escape) {
        return Err(bad());
    }
    let plain = text.replace('+', " ");
    percent_decode_str(&plain).decode_utf8().map(Cow::into_owned).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_survives_the_journey() {
        let query = Query {
            adapters: vec!["codex".into(), "pi".into()],
            subagents: true,
            usage: true,
            filter: ListFilter {
                statuses: vec![StatusFilter::parse("waiting").unwrap(), StatusFilter::parse("died").unwrap()],
                group: Some("g-1 &=".into()),
                folders: vec!["/home/dév/a b+c".into(), "/x%y".into()],
                sort: Sort::Tokens,
                limit: Some(3),
            },
            ..Query::new(Wanted::All { since: Since::Ever })
        };
        for query in [query, Query::new(Wanted::Live), Query::new(Wanted::All { since: Since::DEFAULT })] {
            let raw = list_pairs(&query).unwrap();
            assert_eq!(list_from(&parse(Some(&raw), &[LIST]).unwrap()), query);
        }
        assert_eq!(list_from(&parse(None, &[LIST]).unwrap()), Query::new(Wanted::Live));
        assert_eq!(list_pairs(&Query::new(Wanted::Ids(Vec::new()))), None);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for raw in [
            "stauts=waiting",
            "x",
            "cwd=%zz",
            "cwd=%f",
            "cwd=%ff",
            "cwd=%00",
            "status=working",
            "since=soon",
            "limit=-1",
            "limit=",
            "limit=+1",
            "limit=99999999999999999999999",
            "adapter=hal",
            "sort=size",
            "all=maybe",
            "tree=no",
        ] {
            assert_eq!(parse(Some(raw), &[LIST]).unwrap_err().code, "usage", "{raw}");
        }
        assert!(parse(Some("all&tree=0&status=done&since=2h%205m"), &[LIST]).is_ok());
    }
}
