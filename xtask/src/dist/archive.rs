//! Archives with the same bytes for the same files: one time, root as the owner, entries in order.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

use flate2::{Compression, GzBuilder};

use super::Release;
use super::contents::{Contents, File, UNIT};

/// `agentctl-<version>-<target>.tar.gz`, to be unpacked over `/usr/local` or `~/.local`. Where it will lie is not known, so it
/// has no service unit: `agentctl daemon install` writes one.
pub(super) fn package(contents: &Contents, release: &Release) -> anyhow::Result<(String, Vec<u8>)> {
    let name = format!("agentctl-{}-{}", release.version, release.target);
    let files = contents.0.iter().filter(|(place, _)| *place != UNIT);
    let files = files.map(|(place, file)| (format!("{name}/{place}"), file.clone())).collect();
    Ok((format!("{name}.tar.gz"), gz(&tar(&files, release)?)?))
}

/// A tar file with every folder before what is in it.
pub(super) fn tar(files: &BTreeMap<String, File>, release: &Release) -> anyhow::Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    let mut folders = BTreeSet::new();
    for (place, file) in files {
        for (end, _) in place.match_indices('/') {
            let folder = format!("{}/", &place[..end]);
            if folders.insert(folder.clone()) {
                let mut header = header(0, 0o755, tar::EntryType::Directory, release)?;
                tar.append_data(&mut header, folder, std::io::empty())?;
            }
        }
        let mut header = header(file.bytes.len(), file.mode, tar::EntryType::Regular, release)?;
        tar.append_data(&mut header, place, file.bytes.as_slice())?;
    }
    Ok(tar.into_inner()?)
}

fn header(size: usize, mode: u32, kind: tar::EntryType, release: &Release) -> anyhow::Result<tar::Header> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(u64::try_from(size)?);
    header.set_mode(mode);
    header.set_mtime(release.time);
    header.set_uid(0);
    header.set_gid(0);
    header.set_username("root")?;
    header.set_groupname("root")?;
    Ok(header)
}

/// Compressed without the name and the time that gzip would note.
pub(super) fn gz(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut writer = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    writer.write_all(bytes)?;
    Ok(writer.finish()?)
}
