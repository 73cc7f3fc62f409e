//! Installs what tests need from outside once, into a cache outside the clone.
//!
//! The name of each entry contains a hash of its pins, so a new pin makes a new installation and the old one stays usable.
//! The cache is `$AGENTCTL_TEST_CACHE`, else `agentctl-test` in the user's cache directory.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::Context;

/// The directory for these pins. `fill` fills it unless an earlier call has done so.
pub(crate) fn kept(
    name: &str,
    pins: &[u8],
    fill: impl FnOnce(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<PathBuf> {
    let cache = folder()?;
    fs::create_dir_all(&cache).with_context(|| format!("create {}", cache.display()))?;
    let name = format!("{name}-{:016x}", fnv1a(pins));
    let done = cache.join(&name);
    let guard_path = cache.join(format!("{name}.lock"));
    let guard = File::create(&guard_path).with_context(|| format!("create {}", guard_path.display()))?;
    // Two test processes may want the same entry at once: the second one waits and finds it finished.
    guard.lock().with_context(|| format!("lock {}", guard_path.display()))?;
    if done.is_dir() {
        return Ok(done);
    }
    let stage =
        tempfile::Builder::new().prefix("stage-").tempdir_in(&cache).context("create a staging folder")?;
    fill(stage.path())?;
    // Only a complete installation gets the final name.
    let stage = stage.keep();
    fs::rename(&stage, &done).with_context(|| format!("rename {} to {}", stage.display(), done.display()))?;
    Ok(done)
}

/// The directory for these pins, if an earlier call of [`kept`] has filled it.
pub(crate) fn found(name: &str, pins: &[u8]) -> Option<PathBuf> {
    Some(folder().ok()?.join(format!("{name}-{:016x}", fnv1a(pins)))).filter(|done| done.is_dir())
}

/// The cache itself.
pub fn folder() -> anyhow::Result<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(own) = variable("AGENTCTL_TEST_CACHE") {
        return Ok(own);
    }
    let caches = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    Ok(caches.context("find a cache folder: set AGENTCTL_TEST_CACHE")?.join("agentctl-test"))
}

/// A stable hash, good enough to name a cache entry.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
