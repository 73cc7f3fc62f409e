//! The files of all packages, by their place below `/usr`. What agentctl can say itself, it is asked for: its manual, its
//! completions and its service.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use super::{Release, licences};
use crate::workspace;

/// Below `/usr`, sorted.
pub(super) struct Contents(pub(super) BTreeMap<String, File>);

#[derive(Clone)]
pub(super) struct File {
    pub(super) bytes: Vec<u8>,
    pub(super) mode: u32,
}

impl File {
    pub(super) fn plain(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), mode: 0o644 }
    }
}

/// What a shell loads when agentctl is completed for the first time.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/agentctl"),
    ("zsh", "share/zsh/site-functions/_agentctl"),
    ("fish", "share/fish/vendor_completions.d/agentctl.fish"),
];

pub(super) const UNIT: &str = "lib/systemd/user/agentctl.service";
pub(super) const DOCS: &str = "share/doc/agentctl";
pub(super) const MAN: &str = "share/man/man1/";

impl Contents {
    pub(super) fn of(built: &Path, program: Vec<u8>, release: &Release) -> anyhow::Result<Self> {
        let mut files = BTreeMap::new();
        files.insert("bin/agentctl".to_owned(), File { bytes: program, mode: 0o755 });
        for (shell, place) in COMPLETIONS {
            files.insert(place.to_owned(), File::plain(said(built, &["completions", shell], release)?));
        }
        files.insert(
            UNIT.to_owned(),
            File::plain(service(&said(built, &["daemon", "install", "--print"], release)?)?),
        );
        let pages = tempfile::tempdir()?;
        said(built, &["man", "--dir", &pages.path().to_string_lossy()], release)?;
        for page in fs::read_dir(pages.path())? {
            let page = page?;
            let name = page.file_name().to_string_lossy().into_owned();
            files.insert(format!("{MAN}{name}"), File::plain(fs::read(page.path())?));
        }
        for name in ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            let path = workspace::root().join(name);
            let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            files.insert(format!("{DOCS}/{name}"), File::plain(bytes));
        }
        files.insert(format!("{DOCS}/THIRD-PARTY"), File::plain(licences::of_dependencies(&release.target)?));
        Ok(Self(files))
    }
}

/// What the program prints, in an environment that says nothing about this machine.
fn said(program: &Path, arguments: &[&str], release: &Release) -> anyhow::Result<Vec<u8>> {
    let mut command = Command::new(program.canonicalize()?);
    // A program that is called by name alone tells shells to look it up in the PATH.
    command.arg0("agentctl").args(arguments).current_dir("/").env_clear();
    command.env("HOME", "/nonexistent").env("TZ", "UTC").env("AGENTCTL_NO_DAEMON", "1");
    command.env("SOURCE_DATE_EPOCH", release.time.to_string());
    let answer = command.output().with_context(|| format!("cannot start {}", program.display()))?;
    let words = String::from_utf8_lossy(&answer.stderr);
    ensure!(answer.status.success(), "`agentctl {}` failed: {}", arguments.join(" "), words.trim());
    Ok(answer.stdout)
}

/// The unit that agentctl would install, for the place where the package puts the program.
fn service(unit: &[u8]) -> anyhow::Result<String> {
    let unit = String::from_utf8_lossy(unit);
    let (before, rest) = unit.split_once("ExecStart=").context("the unit starts nothing")?;
    let (_, after) = rest.split_once('\n').context("the unit ends too early")?;
    Ok(format!("{before}ExecStart=/usr/bin/agentctl daemon run\n{after}"))
}
