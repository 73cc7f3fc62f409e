//! The packages of `cargo xtask dist`: what others say about them, and what is left when they go.
//!
//! They are made of the release build that lies beside this one, because a fresh static build takes minutes. With
//! `AGENTCTL_LONG` such builds are made too, two of them, and compared.

#![allow(clippy::disallowed_methods, reason = "tests run programs and read files")]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up must stop")]
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use agentctl_testkit::skip;

/// A Tuesday in 2026.
const TIME: &str = "1794000000";

/// The release build, or the reason why there are no packages to look at.
fn released() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_BIN_EXE_xtask")).parent()?.parent()?;
    let program = folder.join("release/agentctl");
    if program.is_file() {
        return Some(program);
    }
    skip(format!("no {}: `cargo build --release` makes it", program.display()));
    None
}

fn is_there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|asked| asked.status.success());
    if !found {
        skip(format!("`{program}` is not installed"));
    }
    found
}

/// Packs the program and returns the folder of the packages.
fn packed(program: &Path, out: &Path) -> BTreeSet<String> {
    let mut dist = Command::new(env!("CARGO_BIN_EXE_xtask"));
    dist.args(["dist", "--target", "x86_64-unknown-linux-gnu", "--program"])
        .arg(program)
        .arg("--out")
        .arg(out);
    run(dist.env("SOURCE_DATE_EPOCH", TIME));
    fs::read_dir(out).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[track_caller]
fn run(command: &mut Command) -> String {
    let done = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{command:?}: {}\n{out}\n{err}", done.status);
    out.into_owned()
}

fn named(names: &BTreeSet<String>, end: &str) -> String {
    names.iter().find(|name| name.ends_with(end)).unwrap_or_else(|| panic!("no {end} in {names:?}")).clone()
}

/// What must be in every package, wherever it puts the manual and zsh's completions.
const PARTS: [&str; 6] = [
    "bin/agentctl",
    "man1/agentctl-launch.1",
    "man1/agentctl-worktree-clean.1",
    "bash-completion/completions/agentctl",
    "_agentctl",
    "doc/agentctl/THIRD-PARTY",
];

#[test]
fn the_same_program_gives_the_same_packages_and_they_are_whole() {
    let Some(program) = released() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let (first, second) = (scratch.path().join("first"), scratch.path().join("second"));
    let names = packed(&program, &first);
    // Nothing of the place may show: neither the folder, nor the name of the program, nor the reader's mask.
    let elsewhere = scratch.path().join("another name");
    fs::copy(&program, &elsewhere).unwrap();
    assert_eq!(packed(&elsewhere, &second), names);
    for name in &names {
        assert!(
            fs::read(first.join(name)).unwrap() == fs::read(second.join(name)).unwrap(),
            "{name} differs"
        );
    }
    run(Command::new("sha256sum").current_dir(&first).args(["--check", "--strict", "SHA256SUMS"]));

    let archive = run(Command::new("tar").arg("-tvzf").arg(first.join(named(&names, ".tar.gz"))));
    assert!(archive.lines().all(|line| line.contains("root/root")), "{archive}");
    assert!(!archive.contains("systemd"), "{archive}");
    check_parts(&archive);
    if is_there("dpkg-deb") {
        let listed = run(Command::new("dpkg-deb").arg("--contents").arg(first.join(named(&names, ".deb"))));
        assert!(listed.contains(" usr/lib/systemd/user/agentctl.service\n"), "{listed}");
        check_parts(&listed);
    }
    // Lintian alone takes longer than everything else here.
    if std::env::var_os("AGENTCTL_LONG").is_some() && is_there("lintian") {
        let mut lintian = Command::new("lintian");
        lintian.args(["--allow-root", "--tag-display-limit", "0", "--fail-on", "error"]);
        // This build is linked as the machine's other programs are, which its package does not say.
        lintian.args(["--suppress-tags", "missing-dependency-on-libc,undeclared-elf-prerequisites"]);
        run(lintian.arg(first.join(named(&names, ".deb"))));
    }
    if is_there("rpm") {
        let package = first.join(named(&names, ".rpm"));
        let listed = run(Command::new("rpm").args(["--query", "--package", "--list"]).arg(&package));
        assert!(listed.contains("/usr/lib/systemd/user/agentctl.service\n"), "{listed}");
        check_parts(&listed);
        run(Command::new("rpm").args(["--checksig", "--nosignature"]).arg(&package));
    }
}

#[track_caller]
fn check_parts(listed: &str) {
    for part in PARTS {
        let ends = [format!("{part}\n"), format!("{part}.gz\n")];
        assert!(ends.iter().any(|end| listed.contains(end.as_str())), "{part} is missing: {listed}");
    }
}

/// What is done in a root of its own. `$1` is the folder for it, `$2` the package. The root shows this machine's files, and what
/// changes there goes to `$1/upper`. The manual is wanted even where dpkg leaves it out, as in small containers.
const VISIT: &str = r#"
set -eu
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
mount -t proc proc "$1/root/proc"
mount --bind /dev "$1/root/dev"
cp "$2" "$1/root/agentctl.deb"
in_root() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/nonexistent LANG=C.UTF-8 AGENTCTL_NO_DAEMON=1 MANPAGER=cat MANWIDTH=80 chroot "$root" "$@"; }
root="$1/root"
in_root dpkg --path-include='/usr/share/man/*' --path-include='/usr/share/doc/*' --install /agentctl.deb >&2
echo "== version"; in_root agentctl --version
echo "== list"; in_root agentctl list --json
echo "== manual"; in_root man agentctl-launch
echo "== completion"; in_root bash -c '
  source /usr/share/bash-completion/completions/agentctl
  words=$(complete -p agentctl); words=${words#*-F }; COMP_WORDS=(agentctl laun); COMP_CWORD=1; COMP_TYPE=9
  "${words%% *}" agentctl laun agentctl; echo "${COMPREPLY[@]}"'
echo "== unit"; in_root cat /usr/lib/systemd/user/agentctl.service
in_root dpkg --purge agentctl >&2
rm "$root/agentctl.deb"
echo "== left"
cd "$1/upper"; find . ! -type d -print
find . -type d | while read -r folder; do [ -d "/$folder" ] || echo "$folder"; done
"#;

#[test]
fn the_deb_is_installed_works_and_leaves_nothing() {
    let Some(program) = released() else { return };
    if !is_there("dpkg") || !is_there("man") || !is_there("unshare") {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    if scratch.path().metadata().unwrap().uid() != 0 {
        return skip("a root of its own can only be made by root");
    }
    let mut probe = Command::new("unshare");
    probe.args(["--mount", "--propagation", "private", "sh", "-c", PROBE, "sh"]).arg(scratch.path());
    if !probe.output().is_ok_and(|asked| asked.status.success()) {
        return skip("the kernel mounts no overlay file systems here");
    }
    let names = packed(&program, &scratch.path().join("packages"));
    let root = scratch.path().join("root");
    fs::create_dir(&root).unwrap();
    let mut visit = Command::new("unshare");
    visit.args(["--mount", "--propagation", "private", "sh", "-c", VISIT, "sh"]);
    let told = run(visit.arg(&root).arg(scratch.path().join("packages").join(named(&names, ".deb"))));
    let part = |name: &str| {
        let (_, from) =
            told.split_once(&format!("== {name}\n")).unwrap_or_else(|| panic!("no {name}: {told}"));
        from.split("== ").next().unwrap().to_owned()
    };
    assert!(part("version").starts_with(concat!("agentctl ", env!("CARGO_PKG_VERSION"), " (")), "{told}");
    assert!(part("list").contains("\"sessions\""), "{told}");
    assert!(part("manual").contains("AGENTCTL-LAUNCH(1)"), "{told}");
    assert_eq!(part("completion").trim(), "launch");
    let unit = part("unit");
    assert!(unit.contains("\nExecStart=/usr/bin/agentctl daemon run\n"), "{unit}");
    assert!(unit.contains("\nKillMode=process\n") && !unit.contains("Environment"), "{unit}");
    // dpkg keeps books about everything it ever saw, and `man` the pages that it has shown. None of dpkg's may name us.
    let books = ["./var/lib/dpkg/", "./var/log/dpkg.log", "./var/log/alternatives.log"];
    let is_book = |path: &str| {
        path.starts_with("./var/cache/man/")
            || books.iter().any(|book| path.starts_with(book)) && !path.contains("agentctl")
    };
    let left = part("left");
    let left: Vec<&str> = left.lines().filter(|path| !is_book(path)).collect();
    assert!(left.is_empty(), "{left:#?}");
}

/// Whether an overlay can be mounted over this machine's files.
const PROBE: &str = r#"
set -eu
mkdir "$1/probe"; mount -t tmpfs tmpfs "$1/probe"; cd "$1/probe"; mkdir upper work root
mount -t overlay overlay -o "lowerdir=/,upperdir=$PWD/upper,workdir=$PWD/work" root
"#;

#[test]
fn the_rpm_is_installed_and_leaves_nothing() {
    let Some(program) = released() else { return };
    let scratch = tempfile::tempdir().unwrap();
    if !is_there("rpm") {
        return;
    }
    if scratch.path().metadata().unwrap().uid() != 0 {
        return skip("a root of its own can only be made by root");
    }
    let names = packed(&program, &scratch.path().join("packages"));
    let root = scratch.path().join("root");
    fs::create_dir(&root).unwrap();
    let rpm = || {
        let mut rpm = Command::new("rpm");
        rpm.arg("--root").arg(&root);
        rpm
    };
    run(rpm().arg("--initdb"));
    let before = files(&root);
    let package = scratch.path().join("packages").join(named(&names, ".rpm"));
    run(rpm().args(["--install", "--nodeps", "--nosignature"]).arg(package));
    let installed = root.join("usr/bin/agentctl");
    assert!(fs::read(&installed).unwrap() == fs::read(&program).unwrap());
    assert_eq!(installed.metadata().unwrap().mode() & 0o7777, 0o755);
    assert!(files(&root).iter().any(|path| path.ends_with("agentctl-launch.1.gz")));
    run(rpm().args(["--erase", "agentctl"]));
    assert_eq!(files(&root), before);
}

/// Every file below the folder, but those of RPM's own database.
fn files(root: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let kind = path.symlink_metadata().unwrap().file_type();
            if kind.is_dir() {
                folders.push(path);
            } else if !path.to_string_lossy().contains("/rpm/") && !kind.is_socket() {
                found.insert(path);
            }
        }
    }
    found
}

#[test]
fn two_builds_in_two_folders_are_the_same_and_static() {
    if std::env::var_os("AGENTCTL_LONG").is_none() {
        return skip("two static builds are for long runs");
    }
    let scratch = tempfile::tempdir().unwrap();
    let target = match Command::new("rustc")
        .args(["--print", "target-libdir", "--target", "x86_64-unknown-linux-musl"])
        .output()
    {
        Ok(asked) if Path::new(String::from_utf8_lossy(&asked.stdout).trim()).is_dir() => {
            "x86_64-unknown-linux-musl"
        }
        _ => "x86_64-unknown-linux-gnu",
    };
    let mut sums = Vec::new();
    for name in ["first", "a/second"] {
        let clone = scratch.path().join(name);
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        run(Command::new("git").args(["clone", "--quiet", "--local"]).arg(here).arg(&clone));
        let mut dist = Command::new("cargo");
        dist.current_dir(&clone).args(["xtask", "dist", "--target", target, "--out", "packages"]);
        // The variables are those of the checkout that runs this test.
        for variable in ["CARGO_MANIFEST_DIR", "CARGO_TARGET_DIR", "CARGO"] {
            dist.env_remove(variable);
        }
        run(&mut dist);
        sums.push(fs::read_to_string(clone.join("packages/SHA256SUMS")).unwrap());
        let program = clone.join("target").join(target).join("release/agentctl");
        // In a root that has nothing else, it can only run if it is static.
        let root = clone.join("root");
        fs::create_dir(&root).unwrap();
        fs::copy(program, root.join("agentctl")).unwrap();
        if root.metadata().unwrap().uid() == 0 {
            let told = run(Command::new("chroot").arg(&root).args(["/agentctl", "--version"]));
            assert!(told.contains(target) && !told.contains("+changes"), "{told}");
        }
        fs::remove_dir_all(clone.join("target")).unwrap();
    }
    assert_eq!(sums[0], sums[1]);
}
