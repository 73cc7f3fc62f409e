//! The contents of a header, kept after its line is gone, and which agent created the file. Pure.

use agentctl_model::text::clean_cut;
use jiff::Timestamp;

use super::records::{Header, model_name};

/// The two agents that share one folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Creator {
    Node,
    Rust,
}

/// The header of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Heading {
    pub(crate) id: String,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) cwd: Option<String>,
    /// The file it was forked from.
    pub(crate) parent_file: Option<String>,
    pub(crate) leaf: Option<String>,
    pub(crate) model: Option<String>,
    version: u64,
}

impl Heading {
    pub(crate) fn of(header: &Header<'_>) -> Self {
        let text =
            |value: Option<&str>| value.filter(|text| !text.is_empty()).map(|text| clean_cut(text, None));
        Self {
            id: header.id().to_owned(),
            started_at: header.at(),
            cwd: text(header.cwd.as_deref()),
            parent_file: text(header.parent_file()),
            leaf: text(header.leaf_id.as_deref()),
            model: model_name(header.provider.as_deref(), header.model_id.as_deref()),
            version: header.version(),
        }
    }

    /// The agent that created the file, judged by the file name, or by the header if the user chose the name.
    /// The other agent may have continued the session since, which changes neither the name nor the owner.
    pub(crate) fn creator(&self, file_name: &str) -> Creator {
        creator_by_name(file_name).unwrap_or({
            // Before version 3 Pi's own headers named the model too.
            if self.model.is_some() && self.version >= 3 { Creator::Rust } else { Creator::Node }
        })
    }
}

/// `2026-11-15T06-53-06-724Z_<id>.jsonl` is Pi's, `2026-02-22T16-29-54.096Z_<8 characters>.jsonl` is Pi Rust's.
pub(crate) fn creator_by_name(file_name: &str) -> Option<Creator> {
    let (time, rest) = file_name.split_at_checked(24)?;
    let id = rest.strip_prefix('_')?.strip_suffix(".jsonl").filter(|id| !id.is_empty())?;
    let fits = |pattern: &str| {
        time.bytes().zip(pattern.bytes()).all(|(byte, wanted)| match wanted {
            b'0' => byte.is_ascii_digit(),
            other => byte == other,
        })
    };
    if fits("0000-00-00T00-00-00-000Z") {
        Some(Creator::Node)
    } else if fits("0000-00-00T00-00-00.000Z") && id.chars().count() <= 8 {
        Some(Creator::Rust)
    } else {
        None
    }
}

/// What the id begins with in the name that either agent gives its files; empty for a name that a user chose.
pub(crate) fn id_begins(file_name: &str) -> &str {
    let named = creator_by_name(file_name).and_then(|_| file_name.split_at_checked(25));
    named.and_then(|(_, rest)| rest.strip_suffix(".jsonl")).unwrap_or_default()
}

/// The id in the name that Pi gives its files; used only for files that no longer exist.
pub(crate) fn id_in_name(file_name: &str) -> Option<&str> {
    (creator_by_name(file_name)? == Creator::Node).then(|| id_begins(file_name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: &str = "2026-11-15T06-53-06-724Z_3f0c1a52-7a64-4c0e-9a1e-0d5b6a7c8d01.jsonl";
    const RUST: &str = "2026-02-22T16-29-54.096Z_3f0c1a52.jsonl";

    #[test]
    fn names_tell_the_two_apart() {
        assert_eq!(creator_by_name(NODE), Some(Creator::Node));
        assert_eq!(creator_by_name("2026-11-15T06-53-06-724Z_same-id.jsonl"), Some(Creator::Node));
        assert_eq!(creator_by_name(RUST), Some(Creator::Rust));
        for odd in
            ["x.jsonl", "", "2026-11-15T06-53-06-724Z_.jsonl", "日本日本日本日本日本日本日本日本_a.jsonl"]
        {
            assert_eq!(creator_by_name(odd), None, "{odd}");
        }
        assert_eq!(id_in_name(NODE), Some("3f0c1a52-7a64-4c0e-9a1e-0d5b6a7c8d01"));
        assert_eq!(id_in_name(RUST), None, "a short id is no id");
    }

    #[test]
    fn the_header_decides_only_where_the_name_is_the_users() {
        let heading = |line: &str| Heading::of(&Header::parse(line.as_bytes()).unwrap());
        let rust = heading(r#"{"type":"session","version":3,"id":"a","provider":"p","modelId":"m"}"#);
        let node = heading(r#"{"type":"session","version":3,"id":"a","cwd":"/w"}"#);
        let ancient = heading(r#"{"type":"session","id":"a","provider":"p","modelId":"m"}"#);
        assert_eq!((rust.creator("mine.jsonl"), rust.creator(NODE)), (Creator::Rust, Creator::Node));
        assert_eq!((node.creator("mine.jsonl"), node.creator(RUST)), (Creator::Node, Creator::Rust));
        assert_eq!(ancient.creator("mine.jsonl"), Creator::Node);
    }
}
