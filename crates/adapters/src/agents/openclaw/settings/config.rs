//! OpenClaw's config file, read as its own command line reads it: JSON5, with included files and substituted
//! variables. Nothing is written.

use std::io;
use std::path::{Path, PathBuf};

use agentctl_model::Environ;
use serde_json::{Map, Value};

use super::json5;

/// A config file has a few kilobytes; a larger file is not one.
const LARGEST: u64 = 4 << 20;
/// Files may include files, but not endlessly.
const MOST_FILES: usize = 100;
const INCLUDE: &str = "$include";

/// The settings with everything they include. Only files beside the config file, or below a directory that
/// `OPENCLAW_INCLUDE_ROOTS` names, are included: OpenClaw refuses others, too (`src/config/includes.ts`).
pub(crate) fn read(config: &Path, include_roots: &[PathBuf]) -> io::Result<Value> {
    let settings = parse(config)?;
    let own = config.parent().unwrap_or(Path::new("/"));
    let roots = std::iter::once(own).chain(include_roots.iter().map(PathBuf::as_path));
    let roots = roots.filter_map(|root| agentctl_files::real_path(root).ok()).collect();
    Reader { roots, files_left: MOST_FILES }.whole(settings, own)
}

fn parse(path: &Path) -> io::Result<Value> {
    json5::parse(&agentctl_files::read_text(path, LARGEST)?).map_err(io::Error::other)
}

struct Reader {
    roots: Vec<PathBuf>,
    files_left: usize,
}

impl Reader {
    fn whole(&mut self, value: Value, folder: &Path) -> io::Result<Value> {
        let mut fields = match value {
            Value::Object(fields) => fields,
            Value::Array(items) => {
                let items = items.into_iter().map(|item| self.whole(item, folder));
                return Ok(Value::Array(items.collect::<io::Result<_>>()?));
            }
            other => return Ok(other),
        };
        let named = match fields.shift_remove(INCLUDE) {
            None => Vec::new(),
            Some(Value::Array(names)) => names,
            Some(name) => vec![name],
        };
        let mut merged = Value::Object(Map::new());
        for name in &named {
            let name = name.as_str().ok_or_else(|| io::Error::other("$include names no file"))?;
            merge(&mut merged, self.file(name, folder)?);
        }
        for (name, value) in fields {
            let own = Map::from_iter([(name, self.whole(value, folder)?)]);
            merge(&mut merged, Value::Object(own));
        }
        Ok(merged)
    }

    fn file(&mut self, name: &str, folder: &Path) -> io::Result<Value> {
        // The kind of the error is changed on purpose: a missing included file does not mean that there is no config.
        let named = |error: io::Error| io::Error::other(format!("$include {name}: {error}"));
        self.files_left =
            self.files_left.checked_sub(1).ok_or_else(|| io::Error::other("$include never ends"))?;
        let path = agentctl_files::real_path(&folder.join(name)).map_err(named)?;
        if !self.roots.iter().any(|root| path.starts_with(root)) {
            return Err(io::Error::other(format!("$include {name} lies outside the config folder")));
        }
        let value = parse(&path).map_err(named)?;
        self.whole(value, path.parent().unwrap_or(folder))
    }
}

/// Objects are merged, lists are concatenated, and of two other values the later one wins.
fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                match into.get_mut(&name) {
                    Some(known) => merge(known, value),
                    None => drop(into.insert(name, value)),
                }
            }
        }
        (Value::Array(into), Value::Array(from)) => into.extend(from),
        (into, from) => *into = from,
    }
}

/// A text with its variables substituted: `${NAME}` in capital letters, `$${NAME}` for the literal text
/// (`src/config/env-substitution.ts`). `None` if a variable is missing: OpenClaw does not use such a text either.
pub(crate) fn substituted(text: &str, settings: &Value, environ: &Environ) -> Option<String> {
    let mut substituted = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, behind) = rest.split_at(at);
        // Only as far as a name goes: an end that is missing is not looked for in all the rest, again and again.
        let name = &behind[2..];
        let end = name.find(|c: char| !is_in_name(c)).unwrap_or(name.len());
        let name = Some(&name[..end]).filter(|name| behind[2 + end..].starts_with('}') && is_name(name));
        let (literal, name) = match (before.strip_suffix('$'), name) {
            (Some(before), Some(name)) => (Some(before), name),
            (None, Some(name)) => (None, name),
            (_, None) => {
                substituted.push_str(&rest[..at + 2]);
                rest = &rest[at + 2..];
                continue;
            }
        };
        match literal {
            Some(before) => substituted.extend([before, "${", name, "}"]),
            None => substituted.extend([before, variable(name, settings, environ)?]),
        }
        rest = &behind[name.len() + 3..];
    }
    substituted.push_str(rest);
    Some(substituted)
}

/// A variable, or its value in the config itself: `env.NAME`, which overrides `env.vars.NAME`.
pub(crate) fn variable<'a>(name: &str, settings: &'a Value, environ: &'a Environ) -> Option<&'a str> {
    let own = &settings["env"];
    let said = |place: &'a Value| place.as_str().filter(|text| !text.trim().is_empty());
    environ.text(name).or_else(|| said(&own[name])).or_else(|| said(&own["vars"][name]))
}

/// Whether OpenClaw accepts this as the name of a variable.
pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(is_in_name)
}

fn is_in_name(c: char) -> bool {
    c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentctl_testkit::costs_what_its_size_says;
    use serde_json::json;

    #[test]
    fn variables_are_put_in_their_places() {
        let environ: Environ = [("A", "1"), ("B_2", "two")].into_iter().collect();
        let settings =
            json!({"env": {"vars": {"C": "three", "D": "overwritten"}, "D": "four", "A": "never"}});
        for (text, expected) in [
            ("plain $ {", Some("plain $ {")),
            ("${A}-${B_2}", Some("1-two")),
            ("${C}${D}", Some("threefour")),
            ("$${A} ${A}", Some("${A} 1")),
            ("${lower} ${", Some("${lower} ${")),
            ("x${MISSING}", None),
        ] {
            assert_eq!(substituted(text, &settings, &environ).as_deref(), expected, "{text}");
        }
    }

    /// Who looks for the end of each in all the rest takes minutes for the largest file.
    #[test]
    fn variables_without_an_end_are_passed_over_at_once() {
        let text = |count: usize| "${A".repeat(count);
        let read = |text: &String| substituted(text, &Value::Null, &Environ::default());
        assert_eq!(read(&text(1000)), Some(text(1000)));
        costs_what_its_size_says(1 << 14, text, read);
    }

    #[test]
    fn files_are_taken_in_from_beside_the_config_only() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("claw");
        std::fs::create_dir_all(folder.join("parts")).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        write("openclaw.json", "{$include: ['./parts/a.json5', 'b.json'], gateway: {port: 9}, list: [3]}");
        write("parts/a.json5", "{gateway: {port: 7, auth: {$include: './auth.json5'}}, list: [1]}");
        write("parts/auth.json5", "{token: 't'}");
        write("b.json", r#"{"gateway": {"mode": "local"}, "list": [2]}"#);
        let read = |name: &str, roots: &[PathBuf]| super::read(&folder.join(name), roots);
        let expected =
            json!({"gateway": {"port": 9, "auth": {"token": "t"}, "mode": "local"}, "list": [1, 2, 3]});
        assert_eq!(read("openclaw.json", &[]).unwrap(), expected);

        std::fs::write(home.path().join("outside.json"), "{x: 1}").unwrap();
        write("out.json", "{$include: '../outside.json'}");
        assert!(read("out.json", &[]).unwrap_err().to_string().contains("outside the config folder"));
        assert_eq!(read("out.json", &[home.path().to_owned()]).unwrap(), json!({"x": 1}));
        write("self.json", "{$include: './self.json'}");
        assert!(read("self.json", &[]).unwrap_err().to_string().contains("never ends"));
        write("gone.json", "{$include: './nowhere.json'}");
        let gone = read("gone.json", &[]).unwrap_err();
        assert!(
            gone.kind() != io::ErrorKind::NotFound && gone.to_string().contains("nowhere.json"),
            "{gone}"
        );
    }
}
