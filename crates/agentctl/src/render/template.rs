//! `--format TEMPLATE`: rows in a form that the user chooses, in the template language of docker and gh.
//!
//! `{{.id}}` is a field by its JSON name in any case, `{{.tokens.in}}` a part of one, and functions may stand
//! before or after a field: `{{json .}}`, `{{.prompt | truncate 40 | upper}}`. Unknown names are refused
//! before any survey.

use std::fmt::Write;

use agentctl_model::{Session, text};
use serde_json::Value;

use super::width::{cut_end, measure};

/// The functions that can be applied to a field.
const WORDS: [&str; 5] = ["json", "join", "lower", "truncate", "upper"];

const LONGEST: usize = 16 << 10;
const MOST_STEPS: usize = 200;
/// How often a value may be encoded as JSON: each time its quotes are escaped once more.
const MOST_JSON: usize = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    pieces: Vec<Piece>,
    /// Whether there are headings and aligned columns.
    table: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// Steps; each gets the result of the one before.
    Action(Vec<Step>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// A field; the whole object if the path is empty.
    Field(Vec<String>),
    Literal(String),
    Json,
    Join(String),
    Lower,
    Upper,
    Truncate(usize),
}

impl Template {
    /// Parses a template over sessions, or returns what is wrong with it.
    pub(crate) fn parse(typed: &str) -> Result<Self, String> {
        // Every `json` may double its input, and every field is written for every session.
        let steps = typed.matches("{{").count() + typed.matches('|').count();
        if typed.len() > LONGEST || steps > MOST_STEPS {
            return Err(format!("it is longer than {LONGEST} bytes or has more than {MOST_STEPS} steps"));
        }
        let schema = schemars::schema_for!(Session).to_value();
        let (table, rest) = match typed.strip_prefix("table") {
            Some("") => (true, "{{.id}}\\t{{.status}}\\t{{.adapter}}\\t{{.cwd}}"),
            Some(rest) if rest.starts_with([' ', '\t']) || rest.starts_with("\\t") => {
                (true, rest.trim_start())
            }
            _ => (false, typed),
        };
        // docker's name for one object per line.
        let rest = if rest == "json" { "{{json .}}" } else { rest };
        let mut pieces = Vec::new();
        let mut left = rest;
        while let Some((before, behind)) = left.split_once("{{") {
            let Some((inside, after)) = behind.split_once("}}") else {
                return Err("`{{` is not closed by `}}`".to_owned());
            };
            pieces.push(Piece::Text(unescaped(before)));
            let steps = action(inside, &schema)?;
            if steps.iter().filter(|step| **step == Step::Json).count() > MOST_JSON {
                return Err(format!("`{inside}` makes JSON of JSON more than {MOST_JSON} times"));
            }
            pieces.push(Piece::Action(steps));
            left = after;
        }
        if left.contains("}}") {
            return Err("`}}` stands without `{{`".to_owned());
        }
        pieces.push(Piece::Text(unescaped(left)));
        if !pieces.iter().any(|piece| matches!(piece, Piece::Action(_))) {
            return Err(format!(
                "`{typed}` names no field, as in {{{{.id}}}} {{{{.status}}}}; {}",
                known(&schema)
            ));
        }
        Ok(Self { pieces, table })
    }

    /// One text per session; a table has headings and aligned columns.
    pub(crate) fn lines<'s>(&self, sessions: impl Iterator<Item = &'s Session>) -> Vec<String> {
        let rows = sessions.map(|session| {
            let whole = serde_json::to_value(session).unwrap_or(Value::Null);
            self.pieces.iter().map(|piece| piece.fill(&whole)).collect::<String>()
        });
        if !self.table {
            return rows.collect();
        }
        let heading: String = self.pieces.iter().map(Piece::heading).collect();
        lined_up(&std::iter::once(heading).chain(rows).collect::<Vec<_>>())
    }
}

impl Piece {
    fn fill(&self, whole: &Value) -> String {
        match self {
            Self::Text(words) => words.clone(),
            Self::Action(steps) => {
                steps.iter().fold(Filled::Value(Value::Null), |value, step| step.apply(value, whole)).words()
            }
        }
    }

    fn heading(&self) -> String {
        match self {
            Self::Text(words) => words.clone(),
            Self::Action(steps) => {
                let named = steps.iter().find_map(|step| match step {
                    Step::Field(path) if !path.is_empty() => Some(path.join(" ")),
                    Step::Literal(words) => Some(words.clone()),
                    _ => None,
                });
                apart(&named.unwrap_or_else(|| "session".to_owned())).to_uppercase()
            }
        }
    }
}

/// The result of the steps so far: a value, or text that is printed as it is.
enum Filled {
    Value(Value),
    Words(String),
}

impl Filled {
    fn words(self) -> String {
        match self {
            Self::Value(value) => shown(&value),
            Self::Words(words) => words,
        }
    }
}

impl Step {
    fn apply(&self, before: Filled, whole: &Value) -> Filled {
        match (self, before) {
            (Self::Field(path), _) => {
                Filled::Value(path.iter().fold(whole, |value, key| &value[key.as_str()]).clone())
            }
            (Self::Literal(words), _) => Filled::Words(words.clone()),
            (Self::Json, Filled::Value(value)) => Filled::Words(json(&value)),
            (Self::Json, Filled::Words(words)) => Filled::Words(json(&Value::from(words))),
            (Self::Join(between), Filled::Value(Value::Array(items))) => {
                Filled::Words(items.iter().map(shown).collect::<Vec<_>>().join(between))
            }
            (Self::Join(_), other) => other,
            (Self::Lower, other) => Filled::Words(other.words().to_lowercase()),
            (Self::Upper, other) => Filled::Words(other.words().to_uppercase()),
            (Self::Truncate(width), other) => Filled::Words(cut_end(&other.words(), *width)),
        }
    }
}

/// A value for people: empty if it is not known, a list joined by commas.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(words) => text::one_line(words),
        Value::Array(items) if items.iter().all(|item| !item.is_object() && !item.is_array()) => {
            items.iter().map(shown).collect::<Vec<_>>().join(",")
        }
        Value::Array(_) | Value::Object(_) => json(value),
        other => other.to_string(),
    }
}

fn json(value: &Value) -> String {
    let mut bytes = Vec::new();
    let written = agentctl_model::text::json::write(&mut bytes, value);
    written.ok().and_then(|()| String::from_utf8(bytes).ok()).unwrap_or_default()
}

/// Replaces `\t`, `\n` and `\\` outside the braces, which a shell passes through unchanged.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            plain.push(letter);
            continue;
        }
        match letters.next() {
            Some('t') => plain.push('\t'),
            Some('n') => plain.push('\n'),
            Some('\\') | None => plain.push('\\'),
            Some(other) => plain.extend(['\\', other]),
        }
    }
    plain
}

/// Parses the content of the braces: steps separated by pipes.
fn action(inside: &str, schema: &Value) -> Result<Vec<Step>, String> {
    let inside = inside.trim().trim_start_matches("- ").trim_end_matches(" -");
    let mut steps = Vec::new();
    for part in parts(inside)? {
        let mut words = part.into_iter();
        let Some(first) = words.next() else { return Err(format!("`{{{{{inside}}}}}` says nothing")) };
        let mut rest: Vec<Token> = words.collect();
        // A function is followed by its arguments and then by the field it is applied to, unless a pipe
        // supplies that.
        if let (Token::Name(_), Some(Token::Field(path))) = (&first, rest.last()) {
            steps.push(Step::Field(field(path, schema)?));
            rest.pop();
        }
        steps.push(match (first, rest.as_slice()) {
            (Token::Field(path), []) => Step::Field(field(&path, schema)?),
            (Token::Quoted(words), []) => Step::Literal(words),
            (Token::Name(name), []) if name == "json" => Step::Json,
            (Token::Name(name), []) if name == "lower" => Step::Lower,
            (Token::Name(name), []) if name == "upper" => Step::Upper,
            (Token::Name(name), [Token::Quoted(between)]) if name == "join" => Step::Join(between.clone()),
            (Token::Name(name), [Token::Name(count)])
                if name == "truncate" && count.parse::<usize>().is_ok() =>
            {
                Step::Truncate(count.parse().unwrap_or_default())
            }
            (Token::Name(name), _) if WORDS.contains(&name.as_str()) => {
                return Err(format!("`{name}` is used as in {{{{{}}}}}", usage(&name)));
            }
            (Token::Name(name), _) => {
                return Err(format!(
                    "`{name}` is not known; fields begin with a dot, and {} may stand beside them",
                    WORDS.join(", ")
                ));
            }
            _ => return Err(format!("`{{{{{inside}}}}}` is not understood")),
        });
    }
    Ok(steps)
}

fn usage(word: &str) -> &'static str {
    match word {
        "join" => "join \", \" .capabilities",
        "truncate" => "truncate 40 .prompt",
        "lower" => "lower .name",
        "upper" => "upper .status",
        _ => "json .",
    }
}

enum Token {
    Field(String),
    Quoted(String),
    Name(String),
}

/// The tokens of an action, for each part between the pipes.
fn parts(inside: &str) -> Result<Vec<Vec<Token>>, String> {
    let mut parts = vec![Vec::new()];
    let mut left = inside.trim_start();
    while let Some(first) = left.chars().next() {
        let end;
        let word = match first {
            '|' => {
                parts.push(Vec::new());
                left = left[1..].trim_start();
                continue;
            }
            '"' | '`' => {
                let close = left[1..].find(first).ok_or_else(|| format!("{left} is not closed"))?;
                end = close + 2;
                let words = &left[1..=close];
                Token::Quoted(if first == '"' { unescaped(words) } else { words.to_owned() })
            }
            _ => {
                end = left.find(|c: char| c.is_whitespace() || c == '|').unwrap_or(left.len());
                let word = left[..end].to_owned();
                if word.starts_with('.') { Token::Field(word) } else { Token::Name(word) }
            }
        };
        if let Some(part) = parts.last_mut() {
            part.push(word);
        }
        left = left[end..].trim_start();
    }
    Ok(parts)
}

/// The path of a field, with the names of the JSON object.
fn field(typed: &str, schema: &Value) -> Result<Vec<String>, String> {
    let mut path = Vec::new();
    let mut place = schema;
    for name in typed.split('.').skip(1).filter(|_| typed != ".") {
        let object = object(place, schema);
        let Some(properties) = object["properties"].as_object() else {
            // The keys that an adapter adds are its own and are not checked; any other value without parts
            // has no fields.
            if object["type"] == "object" {
                path.push(name.to_owned());
                place = &Value::Null;
                continue;
            }
            if place.is_null() {
                path.push(name.to_owned());
                continue;
            }
            return Err(format!("`.{}` has no parts, so `{typed}` names nothing", path.join(".")));
        };
        let same = |key: &&String| key.eq_ignore_ascii_case(name);
        let Some(key) = properties.keys().find(same) else {
            return Err(format!("no field is called `{typed}`; {}", listed(&path, properties.keys())));
        };
        path.push(key.clone());
        place = &properties[key];
    }
    Ok(path)
}

/// The schema of a property, without its null alternative.
fn object<'s>(property: &'s Value, schema: &'s Value) -> &'s Value {
    let mut place = property;
    // A reference may lead to another one, but our own schemas contain no circles.
    for _ in 0..8 {
        if let Some(name) = place["$ref"].as_str().and_then(|reference| reference.strip_prefix("#/$defs/")) {
            place = &schema["$defs"][name];
        } else if let Some(kinds) = place["anyOf"].as_array() {
            let Some(kind) = kinds.iter().find(|kind| kind["type"] != "null") else { return place };
            place = kind;
        } else {
            return place;
        }
    }
    place
}

fn known(schema: &Value) -> String {
    listed(&[], schema["properties"].as_object().into_iter().flat_map(serde_json::Map::keys))
}

fn listed<'k>(path: &[String], keys: impl Iterator<Item = &'k String>) -> String {
    let mut words = String::from("known are");
    for key in keys {
        let whole: Vec<&str> = path.iter().chain(std::iter::once(key)).map(String::as_str).collect();
        let _ = write!(words, " .{}", whole.join("."));
    }
    words
}

/// Splits a name such as "startedAt" into words.
fn apart(name: &str) -> String {
    let letters = name.chars().flat_map(|letter| {
        let space = letter.is_ascii_uppercase().then_some(' ');
        space.into_iter().chain(std::iter::once(letter))
    });
    letters.collect()
}

/// Aligns columns that are separated by tabs, each as wide as its widest cell.
fn lined_up(rows: &[String]) -> Vec<String> {
    let cells: Vec<Vec<&str>> = rows.iter().map(|row| row.split('\t').collect()).collect();
    let columns = cells.iter().map(Vec::len).max().unwrap_or(0);
    let widest =
        |column: usize| cells.iter().filter_map(|row| row.get(column)).map(|cell| measure(cell)).max();
    let widths: Vec<usize> = (0..columns).map(|column| widest(column).unwrap_or(0)).collect();
    let line = |row: &Vec<&str>| {
        let padded = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell}{}", " ".repeat(width.saturating_sub(measure(cell)) + 2)));
        padded.collect::<String>().trim_end().to_owned()
    };
    cells.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use agentctl_model::{Status, Tokens};

    use super::*;
    use agentctl_testkit::sessions::session;

    fn filled(template: &str) -> Vec<String> {
        let one = Session {
            prompt: Some("fix\nit \u{1b}[31mnow".into()),
            tokens: Some(Tokens { input: Some(207), output: None, ..Tokens::default() }),
            ..session("a-1", Status::Running, None)
        };
        let two = session("日本", Status::Idle, None);
        Template::parse(template).unwrap().lines([&one, &two].into_iter())
    }

    #[test]
    fn a_template_has_bounds() {
        assert!(Template::parse(&"{{json .}}".repeat(10_000)).unwrap_err().contains("steps"));
        let deep = format!("{{{{.prompt{}}}}}", "|json".repeat(30));
        assert!(Template::parse(&deep).unwrap_err().contains("more than 3 times"));
        assert!(Template::parse("{{.prompt | json | json}}").is_ok());
    }

    #[test]
    fn fields_are_named_as_in_json_in_whatever_case() {
        assert_eq!(filled("{{.id}} {{ .Status }}"), ["a-1 running", "日本 idle"]);
        assert_eq!(filled("{{.ID}}\\t{{.tokens.in}}|{{.Tokens.Out}}|"), ["a-1\t207||", "日本\t||"]);
        assert!(!filled("{{.prompt}}")[0].contains(['\n', '\u{1b}']), "hostile text");
        assert_eq!(filled("{{.meta.anything.at.all}}")[0], "");
    }

    #[test]
    fn words_stand_before_a_field_or_behind_a_pipe() {
        assert_eq!(filled("{{upper .status}}-{{.status | upper | truncate 4}}")[0], "RUNNING-RUN…");
        assert_eq!(filled("{{join \"+\" .capabilities}}{{\"\\t\"}}{{.id}}")[1], "\t日本");
        for template in ["{{json .}}", "json"] {
            let whole: Value = serde_json::from_str(&filled(template)[0]).unwrap();
            assert_eq!((&whole["id"], &whole["tokens"]["in"]), (&"a-1".into(), &207.into()));
        }
        assert_eq!(filled("{{json .tokens.in}} {{json .name}}")[0], "207 null");
    }

    #[test]
    fn a_table_has_headings_and_lines_up() {
        assert_eq!(
            filled("table {{.ID}}\\t{{.StartedAt}}\\t{{.Status}}"),
            ["ID    STARTED AT  STATUS", "a-1               running", "日本              idle"]
        );
    }

    #[test]
    fn what_is_not_known_is_refused_with_what_is() {
        for (template, words) in [
            ("{{.stauts}}", ".status"),
            ("{{.tokens.inn}}", ".tokens.in"),
            ("{{.status.word}}", "has no parts"),
            ("{{if .id}}x{{end}}", "`if` is not known"),
            ("{{truncate .id}}", "truncate 40 .prompt"),
            ("{{.id", "is not closed"),
            ("plain", "names no field"),
            ("{{}}", "says nothing"),
            ("{{.id | }}", "says nothing"),
            ("{{\"x}}", "is not closed"),
        ] {
            let refused = Template::parse(template).unwrap_err();
            assert!(refused.contains(words), "{template}: {refused}");
        }
    }
}
