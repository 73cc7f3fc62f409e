//! The Debian package: an `ar` archive of two tar files, as deb(5) describes it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Context;
use md5::{Digest as _, Md5};

use super::archive::{gz, tar};
use super::contents::{Contents, DOCS, File, MAN};
use super::{DESCRIPTION, MAINTAINER, Release, SUMMARY, hex};

/// The package's own revision of a version.
const REVISION: u32 = 1;

pub(super) fn package(contents: &Contents, release: &Release) -> anyhow::Result<(String, Vec<u8>)> {
    let arch = match release.arch() {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let version = format!("{}-{REVISION}", release.version);
    let data = data(contents, &version, release)?;
    let control = control(&data, arch, &version);
    let members = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", gz(&tar(&control, release)?)?),
        ("data.tar.gz", gz(&tar(&data, release)?)?),
    ];
    Ok((format!("agentctl_{version}_{arch}.deb"), ar(&members, release)))
}

/// The files as Debian's policy wants them: the manual and changelogs compressed, the licence in one file.
fn data(contents: &Contents, version: &str, release: &Release) -> anyhow::Result<BTreeMap<String, File>> {
    let mut files = BTreeMap::new();
    for (place, file) in &contents.0 {
        let (place, file) = match place.as_str() {
            page if page.starts_with(MAN) => (format!("{page}.gz"), File::plain(gz(&file.bytes)?)),
            "share/zsh/site-functions/_agentctl" => {
                ("share/zsh/vendor-completions/_agentctl".to_owned(), file.clone())
            }
            place if place == format!("{DOCS}/CHANGELOG.md") => {
                (format!("{DOCS}/changelog.gz"), File::plain(gz(&file.bytes)?))
            }
            place if place == format!("{DOCS}/THIRD-PARTY") => {
                (format!("{place}.gz"), File::plain(gz(&file.bytes)?))
            }
            // These are in `copyright`, and on every Debian system.
            place if place.contains("/LICENSE-") => continue,
            place => (place.to_owned(), file.clone()),
        };
        files.insert(format!("usr/{place}"), file);
    }
    let licence = contents.0.get(&format!("{DOCS}/LICENSE-MIT")).context("the licence is missing")?;
    let plain = |text: String| File::plain(text.into_bytes());
    files.insert(format!("usr/{DOCS}/copyright"), plain(copyright(&String::from_utf8_lossy(&licence.bytes))));
    let log = gz(changelog(version, release)?.as_bytes())?;
    files.insert(format!("usr/{DOCS}/changelog.Debian.gz"), File::plain(log));
    // It is static on purpose, one program for every system, and nobody asked Debian's bug tracker for it.
    let overrides =
        "agentctl: initial-upload-closes-no-bugs\nagentctl: statically-linked-binary [usr/bin/agentctl]\n";
    files.insert("usr/share/lintian/overrides/agentctl".to_owned(), File::plain(overrides));
    Ok(files)
}

fn control(data: &BTreeMap<String, File>, arch: &str, version: &str) -> BTreeMap<String, File> {
    let kib: usize = data.values().map(|file| file.bytes.len().div_ceil(1024)).sum();
    let mut control = format!(
        "Package: agentctl\nVersion: {version}\nArchitecture: {arch}\nMaintainer: {MAINTAINER}\n\
         Installed-Size: {kib}\nSuggests: git, openssh-client, tmux\nSection: devel\nPriority: optional\n\
         Description: {SUMMARY}\n"
    );
    let mut sums = String::new();
    for line in DESCRIPTION {
        let _ = writeln!(control, " {line}");
    }
    for (place, file) in data {
        let _ = writeln!(sums, "{}  {}", hex(&Md5::digest(&file.bytes)), place);
    }
    BTreeMap::from([("control".to_owned(), File::plain(control)), ("md5sums".to_owned(), File::plain(sums))])
}

fn copyright(mit: &str) -> String {
    let mut text = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
                    Upstream-Name: agentctl\n\n\
                    Files: *\nCopyright: 2026 The agentctl authors\nLicense: Expat or Apache-2.0\n\
                    Comment: Of what is linked into the program, THIRD-PARTY.gz has the licences.\n\n\
                    License: Apache-2.0\n See /usr/share/common-licenses/Apache-2.0\n\n\
                    License: Expat\n"
        .to_owned();
    for line in mit.lines() {
        let _ = writeln!(text, " {}", if line.trim().is_empty() { "." } else { line });
    }
    text
}

fn changelog(version: &str, release: &Release) -> anyhow::Result<String> {
    let time = jiff::Timestamp::from_second(i64::try_from(release.time)?)?;
    let date = time.strftime("%a, %d %b %Y %H:%M:%S +0000");
    Ok(format!(
        "agentctl ({version}) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- {MAINTAINER}  {date}\n"
    ))
}

fn ar(members: &[(&str, Vec<u8>)], release: &Release) -> Vec<u8> {
    let mut archive = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        let (time, size) = (release.time, bytes.len());
        archive
            .extend(format!("{name:<16}{time:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 0, 0, "100644").into_bytes());
        archive.extend(bytes);
        // Members begin at even places.
        if size % 2 == 1 {
            archive.push(b'\n');
        }
    }
    archive
}
