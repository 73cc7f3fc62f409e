//! The program that is packed: built static, and the same from the same commit in any folder.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

use super::Release;
use crate::workspace;

/// The target of a release for this machine's architecture, or the static one that can be built where its standard library is
/// missing.
pub(super) fn usual_target() -> anyhow::Result<String> {
    let [usual, instead] = ["musl", "gnu"].map(|c| format!("{}-unknown-linux-{c}", std::env::consts::ARCH));
    if has_standard_library(&library_folder(&usual)?) {
        return Ok(usual);
    }
    println!(
        "the standard library for {usual} is not installed (`rustup target add {usual}` brings it), so the program is linked \
         with the C library of this machine, for {instead}; docs/install.md says what it lacks"
    );
    Ok(instead)
}

/// Builds agentctl for the target and returns the path of the program.
pub(super) fn build(release: &Release) -> anyhow::Result<PathBuf> {
    let target = &release.target;
    check_target(target)?;
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--release", "--locked", "--package", "agentctl", "--target", target]);
    // These would be mixed with the flags that make the build reproducible.
    for name in ["RUSTFLAGS", "CFLAGS"] {
        cargo.env_remove(name);
    }
    cargo.env("CARGO_ENCODED_RUSTFLAGS", rust_flags());
    // The C compiler's flags for the target alone; build scripts of this machine keep theirs.
    cargo.env("TARGET_CFLAGS", c_flags()?);
    cargo.env("SOURCE_DATE_EPOCH", release.time.to_string());
    let status = cargo.status().context("cannot start cargo")?;
    ensure!(status.success(), "the build for {target} failed");
    Ok(workspace::target_dir().join(target).join("release/agentctl"))
}

/// The folders of this machine that compilers would write into the program, and what stands there instead. The later one counts
/// where two fit.
fn folders() -> [(PathBuf, &'static str); 3] {
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo_home = cargo_home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    [
        (workspace::root(), "/agentctl"),
        (workspace::target_dir(), "/target"),
        (cargo_home.unwrap_or_else(|| PathBuf::from("/cargo")), "/cargo"),
    ]
}

/// In the form in which a folder may have blanks in its name.
fn rust_flags() -> OsString {
    let mut flags = OsString::from("-Ctarget-feature=+crt-static");
    for (folder, instead) in folders() {
        flags.push("\x1f--remap-path-prefix=");
        flags.push(folder);
        flags.push(format!("={instead}"));
    }
    flags
}

fn c_flags() -> anyhow::Result<String> {
    let flag = |(folder, instead): &(PathBuf, &str)| {
        let folder = folder.to_str().filter(|folder| !folder.contains(char::is_whitespace));
        folder.map(|folder| format!("-ffile-prefix-map={folder}={instead}"))
    };
    let flags: Option<Vec<String>> = folders().iter().map(flag).collect();
    flags
        .map(|flags| flags.join(" "))
        .context("a folder with a blank in its name cannot be told to the C compiler; build elsewhere")
}

/// Says what is missing before anything is built.
fn check_target(target: &str) -> anyhow::Result<()> {
    if !has_standard_library(&library_folder(target)?) {
        bail!(
            "the standard library for {target} is not installed: `rustup target add {target}` brings it. \
             A static program with the C library of this system needs no other target: `--target {}`",
            target.replace("musl", "gnu")
        );
    }
    let compiler = format!("CC_{}", target.replace('-', "_"));
    let names_compiler = std::env::var_os(&compiler).is_some() || std::env::var_os("TARGET_CC").is_some();
    if target.ends_with("-musl") && !names_compiler && !on_path("musl-gcc") {
        bail!(
            "`musl-gcc` is missing, with which SQLite and ring are compiled for {target}: install musl-tools \
             (Debian, Ubuntu) or musl-gcc (Fedora), or name a compiler in {compiler}"
        );
    }
    Ok(())
}

/// Where the compiler looks for the libraries of this target.
fn library_folder(target: &str) -> anyhow::Result<PathBuf> {
    let asked = Command::new("rustc")
        .current_dir(workspace::root())
        .args(["--print", "target-libdir", "--target", target])
        .output()
        .context("cannot start rustc")?;
    ensure!(
        asked.status.success(),
        "rustc knows no target {target}; `rustc --print target-list` has those it knows"
    );
    Ok(PathBuf::from(String::from_utf8_lossy(&asked.stdout).trim()))
}

fn has_standard_library(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().starts_with("libstd-")
            && Path::new(&name).extension().is_some_and(|ext| ext == "rlib")
    })
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Whether the kernel starts a loader for this program, which then looks for libraries. A static program names none.
pub(super) fn asks_for_a_loader(program: &[u8]) -> bool {
    const PT_INTERP: u32 = 3;
    let number = |at: usize, size: usize| -> Option<usize> {
        let bytes = program.get(at..at.checked_add(size)?)?;
        Some(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    };
    // The table of segments of a 64-bit little-endian ELF file: where it is, how long an entry is, how many there are.
    let table = || {
        let (start, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
        (0..count).map(|index| number(start.checked_add(index * size)?, 4)).collect::<Option<Vec<usize>>>()
    };
    program.starts_with(b"\x7fELF\x02\x01")
        && table().is_none_or(|kinds| kinds.contains(&(PT_INTERP as usize)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with a table of these kinds of segments.
    fn elf(kinds: &[u8]) -> Vec<u8> {
        let mut file = vec![0; 64];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (file[32], file[54], file[56]) = (64, 56, u8::try_from(kinds.len()).unwrap());
        for kind in kinds {
            let mut entry = [0; 56];
            entry[0] = *kind;
            file.extend(entry);
        }
        file
    }

    #[test]
    fn a_program_that_names_a_loader_is_not_static() {
        assert!(asks_for_a_loader(&elf(&[6, 3, 1])));
        assert!(!asks_for_a_loader(&elf(&[1, 2, 1])));
        // A table that is not there is no proof.
        assert!(asks_for_a_loader(&elf(&[1, 2, 1])[..100]));
    }

    #[test]
    fn without_a_choice_there_is_always_something_to_build() {
        let target = usual_target().unwrap();
        assert!(target.starts_with(std::env::consts::ARCH));
        assert!(has_standard_library(&library_folder(&target).unwrap()), "{target}");
    }

    #[test]
    fn a_missing_standard_library_is_told_with_what_to_do() {
        let scratch = tempfile::tempdir().unwrap();
        assert!(!has_standard_library(scratch.path()) && !has_standard_library(&scratch.path().join("none")));
        std::fs::write(scratch.path().join("libstd-0123.rlib"), "").unwrap();
        assert!(has_standard_library(scratch.path()));
        // Nobody has this one installed.
        let told = check_target("riscv64gc-unknown-linux-musl").unwrap_err().to_string();
        assert!(told.contains("rustup target add riscv64gc-unknown-linux-musl"), "{told}");
        assert!(told.contains("--target riscv64gc-unknown-linux-gnu"), "{told}");
        assert!(check_target("no-such-target").unwrap_err().to_string().contains("knows no target"));
    }
}
