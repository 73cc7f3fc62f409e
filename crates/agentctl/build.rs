//! What `agentctl --version` says: the version, the commit and the target.
//!
//! Only an optimised build says its commit. A build for development would otherwise be compiled again after
//! every commit.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a build script speaks with cargo and asks git"
)]

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=AGENTCTL_COMMIT");
    let said = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let version = said("CARGO_PKG_VERSION").unwrap_or_default();
    let target = said("TARGET").unwrap_or_default();
    let optimised = said("PROFILE").is_some_and(|profile| profile == "release");
    // Who builds from a source archive can name the commit it was made of.
    let commit = said("AGENTCTL_COMMIT").or_else(|| optimised.then(commit).flatten());
    let origin = commit.map_or_else(|| target.clone(), |commit| format!("{commit}, {target}"));
    println!("cargo::rustc-env=AGENTCTL_VERSION={version} ({origin})");
}

/// The commit that is checked out, and whether the sources differ from it. Nothing if these sources are no
/// repository of their own, even if they lie in one of somebody else.
fn commit() -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?.parent()?;
    let top = git(root, &["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    // A commit, a checkout and an edit each change what is said.
    for watched in ["HEAD", "logs/HEAD"] {
        let path = root.join(git(root, &["rev-parse", "--git-path", watched])?);
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    for sources in ["Cargo.toml", "Cargo.lock", "crates"] {
        println!("cargo::rerun-if-changed={}", root.join(sources).display());
    }
    let commit = git(root, &["rev-parse", "--short=12", "HEAD"])?;
    let changes = git(root, &["status", "--porcelain", "--", "Cargo.toml", "Cargo.lock", "crates"])?;
    Some(if changes.is_empty() { commit } else { format!("{commit}+changes") })
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let answer = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    let words = String::from_utf8(answer.stdout).ok()?;
    answer.status.success().then(|| words.trim().to_owned())
}
