//! Finds unused dependencies: the sources beside a `Cargo.toml` must name each of its dependencies, and some member must use
//! each dependency of the workspace.
//!
//! It reads text and builds nothing. A name in a comment or after another path segment (`crate::toml::`) does not count.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use toml::{Table, Value};

/// The dependency tables of a manifest, with the sources that may use them.
const KINDS: [(&str, &[&str]); 3] = [
    ("dependencies", &["src"]),
    ("dev-dependencies", &["src", "tests", "benches", "examples"]),
    ("build-dependencies", &["build.rs"]),
];

/// One line for each unused dependency.
pub(crate) fn dependencies(root: &Path) -> anyhow::Result<Vec<String>> {
    let workspace = manifest(root)?;
    let mut lines = Vec::new();
    let mut inherited = BTreeSet::new();
    for member in members(root, &workspace)? {
        let place = member.strip_prefix(root).unwrap_or(&member).join("Cargo.toml");
        let own = manifest(&member)?;
        let everywhere = own.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
        let tables: Vec<&Table> =
            std::iter::once(&own).chain(everywhere.filter_map(Value::as_table)).collect();
        for (kind, sources) in KINDS {
            let named = tables.iter().filter_map(|table| table.get(kind)?.as_table()).flatten();
            let named: Vec<(&String, &Value)> = named.collect();
            if named.is_empty() {
                continue;
            }
            let mut text = String::new();
            for source in sources {
                collect(&member.join(source), &mut text)?;
            }
            for (name, value) in named {
                if value.get("workspace").is_some() {
                    inherited.insert(name.clone());
                }
                if !is_used(&text, &name.replace('-', "_")) {
                    lines.push(format!("{}: {name} is in [{kind}], and no source names it", place.display()));
                }
            }
        }
    }
    let shared = workspace.get("workspace").and_then(|table| table.get("dependencies")?.as_table());
    for name in shared.into_iter().flat_map(Table::keys).filter(|name| !inherited.contains(*name)) {
        lines.push(format!("Cargo.toml: {name} is in [workspace.dependencies], and no member takes it"));
    }
    Ok(lines)
}

fn manifest(folder: &Path) -> anyhow::Result<Table> {
    let path = folder.join("Cargo.toml");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    text.parse().with_context(|| format!("cannot understand {}", path.display()))
}

/// The directories of the members; `folder/*` means all directories inside.
fn members(root: &Path, workspace: &Table) -> anyhow::Result<Vec<PathBuf>> {
    let listed = workspace.get("workspace").and_then(|table| table.get("members")?.as_array());
    let mut folders = Vec::new();
    for member in listed.into_iter().flatten().filter_map(Value::as_str) {
        match member.strip_suffix("/*") {
            None => folders.push(root.join(member)),
            Some(parent) => {
                for entry in
                    fs::read_dir(root.join(parent)).with_context(|| format!("cannot read {parent}"))?
                {
                    folders.push(entry?.path());
                }
            }
        }
    }
    folders.retain(|folder| folder.join("Cargo.toml").is_file());
    folders.sort();
    Ok(folders)
}

/// Appends all Rust code below a path, without comments.
fn collect(path: &Path, text: &mut String) -> anyhow::Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            collect(&entry?.path(), text)?;
        }
    } else if path.extension().is_some_and(|extension| extension == "rs") && path.is_file() {
        let source = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        for line in source.lines() {
            text.push_str(line.split("//").next().unwrap_or_default());
            text.push('\n');
        }
    }
    Ok(())
}

/// Whether the code names a crate, at the beginning of a path or alone in a `use`.
fn is_used(text: &str, name: &str) -> bool {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + name.len()..]);
        if before.ends_with(in_word) || before.ends_with("::") || after.starts_with(in_word) {
            return false;
        }
        after.starts_with("::") || before.ends_with("use ") || before.ends_with("extern crate ")
    })
}

#[cfg(test)]
mod tests {
    use super::{dependencies, is_used};

    #[test]
    fn a_crate_is_used_where_a_path_begins_with_it() {
        for used in ["use serde_json::Value;", "let a = serde_json::json!(1);", "use serde_json as json;"] {
            assert!(is_used(used, "serde_json"), "{used}");
        }
        for other in
            ["crate::serde_json::x()", "my_serde_json::x()", "serde_jsonx::y()", "let serde_json = 1;"]
        {
            assert!(!is_used(other, "serde_json"), "{other}");
        }
    }

    #[test]
    fn what_nobody_names_is_told_wherever_it_stands() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(
            "Cargo.toml",
            "[workspace]\nmembers = [\"crates/*\"]\n[workspace.dependencies]\nserde = \"1\"\nprocfs = \"1\"\n",
        );
        write(
            "crates/a/Cargo.toml",
            "[dependencies]\nserde.workspace = true\ndead-one = \"1\"\n[dev-dependencies]\nonly-tests = \"1\"\n\
             [target.'cfg(unix)'.dependencies]\nlibc = \"0.2\"\n",
        );
        write("crates/a/src/lib.rs", "use serde::Serialize; // dead_one::x\n");
        write("crates/a/tests/t.rs", "use only_tests::x; use libc::c_int;\n");
        let found = dependencies(root.path()).unwrap();
        assert_eq!(found.len(), 3, "{found:#?}");
        assert!(found[0].starts_with("crates/a/Cargo.toml: dead-one"), "{found:#?}");
        assert!(found[1].contains("libc"), "tests of a crate are no use of its dependencies: {found:#?}");
        assert!(found[2].starts_with("Cargo.toml: procfs"), "{found:#?}");
    }
}
