//! Real agents in exact versions, which npm installs on demand.
//!
//! Each directory of `tests/agents/` pins one agent (`package.json` and `package-lock.json`). It is installed once into the
//! `cache`, one entry per lock file.

pub mod bridges;
pub mod claude;
pub mod codex;
pub(crate) mod family;
pub mod node_agents;
pub mod openclaw;
pub mod opencode;
pub mod pi;
pub mod pi_rust;

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde_json::Value;

use crate::cache;
use crate::skip::Skip;

/// The pinned Claude Code.
pub fn claude() -> Result<PathBuf, Skip> {
    let modules = install("claude-code")?.join("node_modules/@anthropic-ai");
    let linked = modules.join("claude-code/bin/claude.exe");
    if is_native(&linked) {
        return Ok(linked);
    }
    // Without install scripts the wrapper stays a stub; the package for this platform has the same binary.
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let candidates = ["", "-musl"].map(|libc| modules.join(format!("claude-code-linux-{arch}{libc}/claude")));
    let found = candidates.into_iter().find(|path| is_native(path));
    found.ok_or_else(|| Skip(format!("no native claude under {}", modules.display())))
}

/// The pinned Codex: the native program, and the Node script that npm puts on the `PATH`.
pub fn codex() -> Result<(PathBuf, PathBuf), Skip> {
    let modules = install("codex")?.join("node_modules/@openai");
    Ok((native_codex(&modules, "bin/codex")?, modules.join("codex/bin/codex.js")))
}

/// The native program of the last Codex version without thread locks.
pub fn codex_without_locks() -> Result<PathBuf, Skip> {
    let modules = install("codex-0.104")?.join("node_modules/@openai");
    native_codex(&modules, "codex/codex")
}

fn native_codex(modules: &Path, inside: &str) -> Result<PathBuf, Skip> {
    let (short, long) = if cfg!(target_arch = "aarch64") { ("arm64", "aarch64") } else { ("x64", "x86_64") };
    let folder = modules.join(format!("codex-linux-{short}/vendor/{long}-unknown-linux-musl"));
    let found = Some(folder.join(inside)).filter(|path| is_native(path));
    found.ok_or_else(|| Skip(format!("no native codex under {}", folder.display())))
}

/// The pinned Pi.
pub fn pi() -> Result<PathBuf, Skip> {
    script(&install("pi")?, "pi")
}

/// The last version of Pi under its old name.
pub fn pi_old() -> Result<PathBuf, Skip> {
    script(&install("pi-0.73")?, "pi")
}

/// The Node that both versions of Pi run on.
pub fn pi_node() -> Result<PathBuf, Skip> {
    own_node(&install("pi")?).ok_or_else(|| Skip("the Node of Pi was not installed".to_owned()))
}

/// A command of an installed package.
fn script(installation: &Path, name: &str) -> Result<PathBuf, Skip> {
    let path = installation.join("node_modules/.bin").join(name);
    fs::canonicalize(&path).map_err(|error| Skip(format!("{}: {error}", path.display())))
}

/// The pinned OpenCode: a native program.
pub fn opencode() -> Result<PathBuf, Skip> {
    let modules = install("opencode")?.join("node_modules");
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    // Without install scripts there is only the package for this platform.
    let candidates =
        ["opencode-ai/bin/opencode.exe".to_owned(), format!("opencode-linux-{arch}/bin/opencode")];
    let found = candidates.iter().map(|path| modules.join(path)).find(|path| is_native(path));
    found.ok_or_else(|| Skip(format!("no native opencode under {}", modules.display())))
}

/// OpenCode 1.1.65, the last version that stores a tree of files: a Node script that starts the native program.
pub fn opencode_1_1() -> Result<PathBuf, Skip> {
    let script = install("opencode-1.1.65")?.join("node_modules/opencode-ai/bin/opencode");
    if script.is_file() { Ok(script) } else { Err(Skip(format!("no {}", script.display()))) }
}

/// The Node that an agent's directory has as a dependency, for agents that need a newer one than the machine has: the npm
/// package `node`, or the package for this platform where no install scripts are run. `None` means that the machine's own
/// Node is new enough.
pub fn own_node(installation: &Path) -> Option<PathBuf> {
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let packages = ["node".to_owned(), format!("node-linux-{arch}")];
    let places =
        packages.iter().map(|package| installation.join("node_modules").join(package).join("bin/node"));
    places.into_iter().find(|path| path.is_file())
}

/// Installs the agent that `tests/agents/<folder>` pins, unless that was done before, and returns the directory with its
/// `node_modules`.
pub fn install(folder: &str) -> Result<PathBuf, Skip> {
    installed(folder).map_err(|error| Skip(format!("{folder} could not be installed: {error:#}")))
}

fn installed(folder: &str) -> anyhow::Result<PathBuf> {
    let pinned = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/agents").join(folder);
    let lock_file = pinned.join("package-lock.json");
    let pins = fs::read(&lock_file).with_context(|| format!("read {}", lock_file.display()))?;
    cache::kept(&format!("agents-{folder}"), &pins, |stage| npm_ci(&pinned, stage))
}

/// Installs the packages that one directory pins into another directory.
pub(crate) fn npm_ci(pinned: &Path, folder: &Path) -> anyhow::Result<()> {
    for file in ["package.json", "package-lock.json"] {
        let path = pinned.join(file);
        fs::copy(&path, folder.join(file)).with_context(|| format!("copy {}", path.display()))?;
    }
    // Some install scripts refuse the machine's own Node, although nothing needs them.
    let pins: Value =
        serde_json::from_slice(&fs::read(folder.join("package.json"))?).context("package.json")?;
    let scripts = format!("--ignore-scripts={}", pins["config"]["ignoreScripts"] == true);
    let arguments = ["ci", "--no-audit", "--no-fund", "--loglevel=error", &scripts];
    let npm = Command::new("npm")
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .context("run npm")?;
    if npm.status.success() {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&npm.stderr);
    // The error output of npm names the registry; its first line says what went wrong.
    bail!("npm ci: {}: {}", npm.status, complaint.lines().next().unwrap_or("no message"))
}

fn is_native(path: &Path) -> bool {
    let mut magic = [0; 4];
    File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"\x7fELF"
}
