//! The targets, and how they are built.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::workspace;

/// Marks every branch, so that the fuzzer sees which inputs lead somewhere new.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing";

/// A program of `fuzz/src/bin`.
pub(super) struct Target {
    pub(super) name: String,
    /// The first line of its source.
    pub(super) words: String,
}

pub(super) fn all() -> anyhow::Result<Vec<Target>> {
    let folder = workspace::root().join("fuzz/src/bin");
    let mut targets = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry?.path();
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let first = text.lines().next().unwrap_or_default();
        let words = first.strip_prefix("//! ").unwrap_or_default().to_owned();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        targets.push(Target { name, words });
    }
    targets.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(targets)
}

/// What builds the targets. Only a nightly compiler has the address sanitizer, which also bounds single allocations.
pub(super) enum Toolchain {
    Nightly,
    Pinned,
}

impl fmt::Display for Toolchain {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Nightly => "with the address sanitizer",
            Self::Pinned => {
                "without the address sanitizer, so single allocations are not bounded \
                 (`rustup toolchain install nightly --profile minimal` brings it)"
            }
        })
    }
}

impl Toolchain {
    pub(super) fn find() -> Self {
        let mut rustup = Command::new("rustup");
        rustup.args(["run", "nightly", "rustc", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
        let is_there = rustup.status().is_ok_and(|status| status.success());
        // The pinned compiler marks branches too.
        if is_there { Self::Nightly } else { Self::Pinned }
    }

    fn cargo(&self) -> Command {
        match self {
            Self::Pinned => workspace::cargo(),
            Self::Nightly => {
                let mut command = Command::new("rustup");
                command.args(["run", "nightly", "cargo"]);
                // These name the compiler and the folder that built this program; some dependencies are built again where
                // they differ.
                for name in ["RUSTUP_TOOLCHAIN", "CARGO", "RUSTC", "CARGO_MANIFEST_DIR"] {
                    command.env_remove(name);
                }
                command
            }
        }
    }

    fn flags(&self) -> String {
        match self {
            Self::Nightly => format!("{COVERAGE} -Zsanitizer=address -Ccodegen-units=1"),
            Self::Pinned => format!("{COVERAGE} -Ccodegen-units=1"),
        }
    }
}

/// Builds the targets and returns the folder of their programs.
pub(super) fn build(targets: &[Target], toolchain: &Toolchain) -> anyhow::Result<PathBuf> {
    let folder = workspace::target_dir().join("fuzz");
    let system = system()?;
    let mut command = toolchain.cargo();
    command.current_dir(workspace::root().join("fuzz")).env("CARGO_TARGET_DIR", &folder);
    // With a named system, build scripts and macros are built without these flags.
    command.args(["build", "--release", "--locked", "--target", &system]).env("RUSTFLAGS", toolchain.flags());
    for target in targets {
        command.args(["--bin", &target.name]);
    }
    println!("building {} targets {toolchain}; the first time takes some minutes", targets.len());
    let status = command.stdin(Stdio::null()).status().context("cannot start cargo")?;
    if !status.success() {
        bail!("the targets cannot be built");
    }
    Ok(folder.join(system).join("release"))
}

/// The system that this compiler builds for.
fn system() -> anyhow::Result<String> {
    let said = Command::new("rustc").arg("-vV").output().context("cannot start rustc")?;
    let said = String::from_utf8_lossy(&said.stdout);
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc does not say for which system it builds")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_every_target_and_no_other() {
        let readme = fs::read_to_string(workspace::root().join("fuzz/README.md")).unwrap();
        let rows = readme.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
        let mut rows: Vec<&str> = rows.map(|(name, _)| name).collect();
        rows.sort_unstable();
        let targets = all().unwrap();
        let names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
        assert_eq!(rows, names);
        assert!(
            targets.iter().all(|target| !target.words.is_empty()),
            "each says in its first line what it reads"
        );
    }
}
