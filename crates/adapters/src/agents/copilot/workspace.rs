//! `workspace.yaml`: what the agent records about a session beside its events. Pure.

use serde::Deserialize;
use serde_saphyr::DuplicateKeyPolicy;

/// The keys in use; the file has more. An empty or missing value is unknown.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Workspace {
    pub(super) cwd: Option<String>,
    pub(super) branch: Option<String>,
    pub(super) name: Option<String>,
    /// Whether a person chose the name.
    pub(super) user_named: Option<bool>,
    pub(super) created_at: Option<String>,
    pub(super) updated_at: Option<String>,
}

impl Workspace {
    /// Parses the file; anything else than the expected YAML yields no values. The agent writes flat keys, so
    /// nesting is bounded, and anchors, with which a small file can expand to a huge one, are refused.
    pub(super) fn parse(text: &str) -> Self {
        let options = serde_saphyr::options! {
            with_snippet: false,
            duplicate_keys: DuplicateKeyPolicy::LastWins,
            budget: serde_saphyr::budget! {
                max_documents: 1,
                max_depth: 8,
                max_nodes: 4096,
                max_events: 16_384,
                max_anchors: 0,
                max_aliases: 0,
                max_merge_keys: 0,
            },
        };
        let mut workspace: Self = serde_saphyr::from_str_with_options(text, options).unwrap_or_default();
        let texts = [
            &mut workspace.cwd,
            &mut workspace.branch,
            &mut workspace.name,
            &mut workspace.created_at,
            &mut workspace.updated_at,
        ];
        for text in texts {
            text.take_if(|text| text.is_empty());
        }
        workspace
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn flat_values_are_read_however_they_are_quoted() {
        let name = |text: &str| Workspace::parse(&format!("id: a-b\n{text}\nfork_count: 0\n")).name;
        for (text, value) in [
            ("name: plain", "plain"),
            ("name: '[[it''s]]: x'", "[[it's]]: x"),
            ("name: \"a \\\"b\\\" \\u00e9\"", "a \"b\" \u{e9}"),
            ("name: |-\n  one\n  two", "one\ntwo"),
            ("name: 'one\n  two'", "one two"),
            ("name: z # note", "z"),
            ("name: 42", "42"),
            ("name: true", "true"),
            ("name: first\nname: last", "last"),
            ("list:\n  - x: 1\nname: behind it", "behind it"),
        ] {
            assert_eq!(name(text).as_deref(), Some(value), "{text}");
        }
        for nothing in ["name: ''", "name: null", "name: ~", "name:", "nickname: x"] {
            assert_eq!(name(nothing), None, "{nothing}");
        }
        let whole = Workspace::parse(
            "id: a-b\ncwd: /home/dev/odd dir. \u{fc}n\u{ef}/x\nbranch: main\nuser_named: true\n\
             created_at: 2026-11-15T07:14:31.128Z\n",
        );
        assert_eq!(whole.cwd.as_deref(), Some("/home/dev/odd dir. \u{fc}n\u{ef}/x"));
        assert_eq!((whole.branch.as_deref(), whole.user_named), (Some("main"), Some(true)));
        assert_eq!(whole.created_at.as_deref(), Some("2026-11-15T07:14:31.128Z"));
    }

    #[test]
    fn half_a_file_says_nothing() {
        for text in ["", "name: 'open", "name: \"open\\", ":", "name: \"\\u12", "name: 'open\n  still", "- a"]
        {
            assert_eq!(Workspace::parse(text), Workspace::default(), "{text}");
        }
    }

    /// Each of these files goes beyond one limit only, and would be read without it.
    #[test]
    fn each_limit_refuses_by_itself() {
        let nested = |depth: usize| format!("cwd: /x\nx: {}1{}\n", "[".repeat(depth), "]".repeat(depth));
        let list = |length: usize| format!("cwd: /x\nx: [{}]\n", "1,".repeat(length));
        for (what, sound, hostile) in [
            ("depth", nested(4), nested(12)),
            ("nodes", list(2000), list(6000)),
            ("anchors", "cwd: /x\nname: a\n".to_owned(), "cwd: /x\nname: &a a\n".to_owned()),
            ("merge keys", "cwd: /x\nx: {a: b}\n".to_owned(), "cwd: /x\n<<: {a: b}\n".to_owned()),
        ] {
            assert_eq!(Workspace::parse(&sound).cwd.as_deref(), Some("/x"), "{what}");
            assert_eq!(Workspace::parse(&hostile), Workspace::default(), "{what}");
        }
    }

    /// Each of these files is small, but would exhaust memory or time if it were parsed without limits.
    #[test]
    fn hostile_files_cost_next_to_nothing() {
        let laugh = |level: usize| {
            let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
            format!("a{level}: &a{level} [{aliases}]\n")
        };
        let laughs: String = (1..12).map(laugh).collect();
        let laughs = format!("a0: &a0 [x, x, x, x, x, x, x, x, x]\n{laughs}");
        let text_bomb = format!("a: &a {}\nname: [{}]\n", "x".repeat(30 << 10), "*a, ".repeat(8 << 10));
        let hostile = [
            format!("{laughs}name: *a11\n"),
            format!("{laughs}cwd: /x\n"),
            text_bomb,
            "cwd: &a /x\nname: *a\n".to_owned(),
            "base: {name: x}\n<<: {name: y}\n".to_owned(),
            format!("name: {}", "[".repeat(60 << 10)),
            format!("name: {}x{}", "[".repeat(1000), "]".repeat(1000)),
            format!("x: {}", "- ".repeat(30 << 10)),
            format!("x: [{}]", "1,".repeat(30 << 10)),
            "---\na: 1\n".repeat(6 << 10),
            "a: &a [*a]\n".to_owned(),
            "? ".repeat(30 << 10),
        ];
        let began = Instant::now();
        for text in hostile {
            let shown: String = text.chars().take(60).collect();
            assert_eq!(Workspace::parse(&text), Workspace::default(), "{shown}");
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    }
}
