//! The package for systems with RPM.

use anyhow::Context;
use rpm::{BuildConfig, CompressionType, FileOptions, PackageBuilder};

use super::archive::gz;
use super::contents::{Contents, DOCS, File, MAN};
use super::{DESCRIPTION, LICENSE, MAINTAINER, Release, SUMMARY};

const REVISION: &str = "1";

pub(super) fn package(contents: &Contents, release: &Release) -> anyhow::Result<(String, Vec<u8>)> {
    let time = u32::try_from(release.time).context("the commit is from a time that RPM cannot write")?;
    let arch = release.arch();
    let mut builder = PackageBuilder::new("agentctl", release.version, LICENSE, arch, SUMMARY);
    let config = BuildConfig::v4().compression(CompressionType::Gzip).source_date(time);
    builder.using_config(config).release(REVISION).description(DESCRIPTION.join("\n")).packager(MAINTAINER);
    builder.build_host("localhost");
    for (place, file) in &contents.0 {
        let (place, file) = match place.as_str() {
            page if page.starts_with(MAN) => (format!("/usr/{page}.gz"), File::plain(gz(&file.bytes)?)),
            place => (format!("/usr/{place}"), file.clone()),
        };
        let mut options = FileOptions::new(&place).permissions(u16::try_from(file.mode)?);
        if place.contains(DOCS) {
            options = if place.contains("LICENSE") { options.license() } else { options.doc() };
        }
        builder.with_file_contents(file.bytes, options)?;
    }
    // Gone with the last file in it; the other folders are everybody's.
    builder.with_dir_entry(FileOptions::dir(format!("/usr/{DOCS}")).permissions(0o755))?;
    let mut bytes = Vec::new();
    builder.build()?.write(&mut bytes)?;
    Ok((format!("agentctl-{}-{REVISION}.{arch}.rpm", release.version), bytes))
}
