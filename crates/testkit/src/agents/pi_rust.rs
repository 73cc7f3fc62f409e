//! Pi Rust in a [`TestHome`], talking to a fake model.
//!
//! It takes most of an hour to build, so nothing builds it but `cargo xtask pi-rust`; without that its tests are skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use super::pi::write_models;
use crate::background::Background;
use crate::cache;
use crate::home::TestHome;
use crate::skip::Skip;

/// The pinned version.
const VERSION: &str = "0.8.0";

/// What its build depends on: its program needs the feature `tui`, and one of its dependencies a nightly feature.
const FEATURES: &str = "sqlite-sessions,tui";

const ENTRY: &str = "pi-rust";

/// Pi Rust, set up in one home.
pub struct PiRust {
    executable: PathBuf,
}

impl PiRust {
    /// Makes Pi Rust usable in `home`: it is on the `PATH` as `pi-rust`, and uses the fake model.
    pub fn settle(home: &mut TestHome, model_url: &str) -> Result<Self, Skip> {
        let missing = || Skip(format!("Pi Rust {VERSION} is not built here: `cargo xtask pi-rust` does it"));
        let executable = cache::found(ENTRY, &pins()).map(|folder| folder.join("pi")).ok_or_else(missing)?;
        home.put_on_path("pi-rust", &executable);
        home.set_env("PI_OFFLINE", "1");
        write_models(home, model_url);
        Ok(Self { executable })
    }

    /// A command of it with these arguments, not yet started.
    pub fn command(&self, home: &TestHome, cwd: &Path, arguments: &[&str]) -> Command {
        let mut command = home.command(&self.executable);
        command.args(["--model", super::pi::MODEL]).args(arguments).current_dir(cwd);
        command
    }

    /// Runs one prompt and keeps the session in the usual folder.
    pub fn headless(&self, home: &TestHome, cwd: &Path, prompt: &str, more: &[&str]) -> Background {
        let store = home.path().join(".pi/agent/sessions");
        let mut command = self.command(home, cwd, &["-p", "--mode", "json", "--session-dir"]);
        command.arg(store).args(more);
        Background::spawn_with_input(home, command, prompt)
    }
}

fn pins() -> Vec<u8> {
    format!("{VERSION} {FEATURES}").into_bytes()
}

/// Builds Pi Rust into the cache, unless it is there, and returns its folder.
pub fn build() -> anyhow::Result<PathBuf> {
    cache::kept(ENTRY, &pins(), |stage| {
        // The build directory is removed when this value is dropped; only the program is kept.
        let target = tempfile::tempdir_in(stage).context("create a folder for the build")?;
        let mut install = Command::new("cargo");
        install.args([
            "install",
            "pi_agent_rust",
            "--version",
            VERSION,
            "--locked",
            "--debug",
            "--bin",
            "pi",
        ]);
        install.args(["--no-default-features", "--features", FEATURES, "--root"]).arg(target.path());
        install.env("RUSTC_BOOTSTRAP", "1").env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "0");
        install.env("CARGO_TARGET_DIR", target.path().join("target")).current_dir(stage);
        let ended = install.status().context("run cargo install")?;
        if !ended.success() {
            bail!("cargo install pi_agent_rust: {ended}");
        }
        fs::rename(target.path().join("bin/pi"), stage.join("pi")).context("keep the program")
    })
}
