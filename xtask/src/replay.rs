//! `cargo xtask replay FILE`: a snapshot becomes a test case, with what it answers now as what is expected.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

use crate::workspace;

/// Copies the snapshot to the recorded ones and writes down its list. Whoever reports a wrong status then corrects what is
/// expected, and the test is red until agentctl is right.
pub(crate) fn add_case(file: &Path, name: Option<&str>, program: Option<PathBuf>) -> anyhow::Result<()> {
    let stem = file.file_stem().and_then(|stem| stem.to_str()).context("the file has no name")?;
    let name = name.unwrap_or(stem);
    let is_plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    ensure!(is_plain, "`{name}` is no name of a case: letters, digits and dashes are");
    let folder = workspace::root().join("tests/recorded/snapshots");
    let (case, expected) =
        (folder.join(name).with_extension("snapshot"), folder.join(name).with_extension("json"));
    ensure!(!case.exists(), "{} exists already; give it another --name", case.display());
    let mut command = if let Some(program) = program {
        Command::new(program)
    } else {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(workspace::root()).args(["run", "--quiet", "--package", "agentctl", "--"]);
        cargo
    };
    let whole = fs::canonicalize(file).with_context(|| file.display().to_string())?;
    command.arg("--replay").arg(&whole).args(["list", "-a", "--since", "all", "--all-agents", "--json"]);
    let answer = command.output().context("start agentctl")?;
    if !answer.status.success() {
        bail!("agentctl cannot replay it: {}", String::from_utf8_lossy(&answer.stderr).trim());
    }
    fs::create_dir_all(&folder)?;
    fs::copy(&whole, &case)?;
    fs::write(&expected, &answer.stdout)?;
    println!("{}", case.display());
    println!("{}  what it answers now; correct it where that is wrong", expected.display());
    Ok(())
}
