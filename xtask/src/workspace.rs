//! Finds the repository, the target directory and cargo.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};

/// The top of the repository.
pub(crate) fn root() -> PathBuf {
    // Cargo sets the checkout at run time; a binary that is started by hand uses the path where it was built.
    let here = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.parent().map(PathBuf::from).unwrap_or(here)
}

/// The target directory in which this program was built.
pub(crate) fn target_dir() -> PathBuf {
    std::env::current_exe()
        .ok()
        .and_then(|program| Some(program.parent()?.parent()?.to_owned()))
        .unwrap_or_else(|| root().join("target"))
}

/// The cargo that runs this program.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    command.current_dir(root());
    command.env("CARGO_TARGET_DIR", target_dir());
    command
}

/// Builds packages in release mode and returns the directory of the binaries.
pub(crate) fn build_release(packages: &[&str]) -> anyhow::Result<PathBuf> {
    let mut command = cargo();
    command.args(["build", "--release", "--locked"]);
    for package in packages {
        command.args(["--package", package]);
    }
    let status = command.status().context("cannot start cargo")?;
    if !status.success() {
        bail!("the release build of {} failed", packages.join(", "));
    }
    Ok(target_dir().join("release"))
}
