//! The licences of what is linked into the program: a static program carries its libraries, so it carries their licences.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::workspace;

/// What the files are called in which a crate keeps its licences.
const NAMES: [&str; 5] = ["licen", "copying", "notice", "unlicense", "copyright"];

/// One text: each crate with its licence, and each licence text once, with the crates that it is of.
pub(super) fn of_dependencies(target: &str) -> anyhow::Result<String> {
    let tree = asked(&[
        "tree",
        "--locked",
        "--package",
        "agentctl",
        "--edges",
        "normal",
        "--target",
        target,
        "--prefix",
        "none",
        "--format",
        "{p}",
    ])?;
    let linked: Vec<(&str, &str)> = tree
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some((words.next()?, words.next()?.strip_prefix('v')?))
        })
        .collect();
    let metadata: Value = serde_json::from_str(&asked(&[
        "metadata",
        "--locked",
        "--format-version",
        "1",
        "--filter-platform",
        target,
    ])?)?;
    let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
    let mut crates = BTreeMap::new();
    let mut texts = BTreeMap::<String, Vec<String>>::new();
    for package in packages {
        let word = |key: &str| package[key].as_str().unwrap_or_default();
        // Our own crates come from no registry.
        if package["source"].is_null() || !linked.contains(&(word("name"), word("version"))) {
            continue;
        }
        let title = format!("{} {}", word("name"), word("version"));
        let folder = Path::new(word("manifest_path")).parent().context("a manifest lies in a folder")?;
        for text in licence_texts(folder)? {
            texts.entry(text).or_default().push(title.clone());
        }
        crates.insert(title, word("license").to_owned());
    }
    let mut written = "Libraries that are linked into agentctl, and their licences.\n\n".to_owned();
    for (title, licence) in &crates {
        writeln!(written, "{title}: {licence}")?;
    }
    let mut texts: Vec<(String, Vec<String>)> = texts.into_iter().collect();
    texts.sort_by(|a, b| a.1.cmp(&b.1).then_with(|| a.0.cmp(&b.0)));
    for (text, owners) in texts {
        write!(written, "\n{}\n{}\n\n{}\n", "-".repeat(78), owners.join(", "), text)?;
    }
    Ok(written)
}

/// Some crates of a repository carry no file of their own; the expression in their manifest still names the licence.
fn licence_texts(folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        if NAMES.iter().any(|start| name.starts_with(start)) && entry.file_type()?.is_file() {
            let text = String::from_utf8_lossy(&fs::read(entry.path())?).replace("\r\n", "\n");
            texts.push(text.trim_end().to_owned());
        }
    }
    Ok(texts)
}

fn asked(arguments: &[&str]) -> anyhow::Result<String> {
    let answer = workspace::cargo().args(arguments).output().context("cannot start cargo")?;
    ensure!(
        answer.status.success(),
        "`cargo {}` failed: {}",
        arguments[0],
        String::from_utf8_lossy(&answer.stderr)
    );
    Ok(String::from_utf8(answer.stdout)?)
}
