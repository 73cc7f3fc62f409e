//! One query parameter and its values. The API document and the check of requests both use this definition.

use agentctl_adapters::agents::acp;
use agentctl_model::text::period::Since;
use serde_json::{Value, json};

use super::adapter_words;
use crate::serve::problem::Problem;

/// The notation of a length of time, as a regular expression.
pub(crate) const LENGTH: &str = r"^\s*([0-9]+(ms|s|m|h|d|w)\s*)+$";

/// The name of an agent over ACP, as a regular expression.
const ACP_NAME: &str = "acp:[A-Za-z0-9_-]{1,64}";

pub(crate) type Parameters = &'static [Parameter];

pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    /// What it is for, in the words of the API document.
    pub(crate) words: &'static str,
    pub(crate) required: bool,
    repeatable: bool,
    takes: Takes,
}

enum Takes {
    /// `true`, `false`, or just the name; with its default.
    Flag(bool),
    Number,
    /// One of these words.
    Word(fn() -> Vec<&'static str>),
    /// The name of an adapter.
    Adapter,
    /// A length of time, a point in time, or `all`.
    Since,
    /// An absolute path. A relative one would be relative to the daemon's own directory, which no caller
    /// means.
    Path,
    Text,
}

impl Parameter {
    const fn new(name: &'static str, words: &'static str, takes: Takes) -> Self {
        Self { name, words, required: false, repeatable: false, takes }
    }

    pub(crate) const fn flag(name: &'static str, words: &'static str) -> Self {
        Self::new(name, words, Takes::Flag(false))
    }

    /// A flag that is on by default.
    pub(crate) const fn flag_on_by_default(name: &'static str, words: &'static str) -> Self {
        Self::new(name, words, Takes::Flag(true))
    }

    pub(crate) const fn number(name: &'static str, words: &'static str) -> Self {
        Self::new(name, words, Takes::Number)
    }

    pub(crate) const fn word(
        name: &'static str,
        words: &'static str,
        known: fn() -> Vec<&'static str>,
    ) -> Self {
        Self::new(name, words, Takes::Word(known))
    }

    pub(crate) const fn adapter(words: &'static str) -> Self {
        Self::new("adapter", words, Takes::Adapter)
    }

    pub(crate) const fn since(name: &'static str, words: &'static str) -> Self {
        Self::new(name, words, Takes::Since)
    }

    pub(crate) const fn path(name: &'static str, words: &'static str) -> Self {
        Self::new(name, words, Takes::Path)
    }

    pub(crate) const fn text(name: &'static str, words: &'static str) -> Self {
        Self::new(name, words, Takes::Text)
    }

    pub(crate) const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    pub(crate) const fn repeatable(mut self) -> Self {
        self.repeatable = true;
        self
    }

    /// Checks that this value is allowed.
    pub(super) fn check(&self, value: &str) -> Result<(), Problem> {
        let name = self.name;
        let wrong = |why: String| Err(Problem::usage(format!("{name}={value}: {why}")));
        // No name, path or id contains a NUL, and C interfaces further on would cut the value off there.
        if value.contains('\0') {
            return Err(Problem::usage(format!("`{name}` holds a NUL")));
        }
        match &self.takes {
            Takes::Flag(_) if flag_of(value).is_none() => wrong("expected true or false".to_owned()),
            Takes::Number if !is_number(value) => wrong("expected a whole number".to_owned()),
            Takes::Word(known) if !known().contains(&value) => {
                wrong(format!("expected one of {}", known().join(", ")))
            }
            Takes::Adapter if !acp::is_name(value) && !adapter_words().contains(&value) => {
                wrong(format!("expected acp:NAME or one of {}", adapter_words().join(", ")))
            }
            Takes::Since => Since::parse(value).map(drop).or_else(wrong),
            Takes::Path if !value.starts_with('/') => wrong("expected an absolute path".to_owned()),
            _ => Ok(()),
        }
    }

    /// Its description in the API document.
    pub(crate) fn described(&self) -> Value {
        let one = match &self.takes {
            Takes::Flag(usual) => json!({"type": "boolean", "default": usual}),
            Takes::Number => json!({"type": "integer", "format": "uint64", "minimum": 0}),
            Takes::Word(known) => json!({"type": "string", "enum": known()}),
            Takes::Adapter => adapter_schema(),
            Takes::Since => json!({
                "description": "a length of time back from now (30d, 2h 5m), an RFC 3339 time, or all",
                "anyOf": [
                    {"type": "string", "pattern": LENGTH},
                    {"type": "string", "format": "date-time"},
                    {"type": "string", "const": "all"},
                ],
            }),
            Takes::Path => json!({"type": "string", "pattern": "^/"}),
            Takes::Text => json!({"type": "string"}),
        };
        let (schema, words) = if self.repeatable {
            (json!({"type": "array", "items": one}), format!("{}; may be given several times", self.words))
        } else {
            (one, self.words.to_owned())
        };
        json!({"name": self.name, "in": "query", "required": self.required, "description": words, "schema": schema})
    }
}

/// The names that an adapter can have: those of the registry, and those of agents over ACP, which settings add.
pub(crate) fn adapter_schema() -> Value {
    json!({"type": "string", "pattern": format!("^({}|{ACP_NAME})$", adapter_words().join("|"))})
}

pub(super) fn flag_of(value: &str) -> Option<bool> {
    match value {
        "false" | "0" => Some(false),
        "" | "true" | "1" => Some(true),
        _ => None,
    }
}

fn is_number(value: &str) -> bool {
    value.bytes().all(|byte| byte.is_ascii_digit()) && value.parse::<usize>().is_ok()
}
