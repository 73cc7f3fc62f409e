//! The fuzzer has a workspace and a lock file of its own, which nobody else builds: whoever adds a dependency would leave it behind.

#![allow(clippy::disallowed_methods, reason = "tests run programs")]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up must stop")]

use std::path::Path;
use std::process::Command;

#[test]
fn the_fuzzer_can_be_built_from_its_lock_file() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/Cargo.toml");
    let mut cargo = Command::new("cargo");
    cargo.args(["update", "--workspace", "--locked", "--manifest-path"]).arg(manifest);
    let told = cargo.output().unwrap();
    assert!(
        told.status.success(),
        "`cargo update --workspace --manifest-path fuzz/Cargo.toml` mends it: {}",
        String::from_utf8_lossy(&told.stderr)
    );
}
