//! Snapshots: whatever the file is, it is refused or read within its bounds, and nothing is written outside its folder.

use std::fs;
use std::path::PathBuf;

use agentctl_snapshot::Replay;
use agentctl_snapshot::archive::{self, LARGEST_WHOLE, Parts};

use crate::compressed::packed;
use crate::seeds;

/// The first byte says what the rest is: the file itself, the archive in it, or the list in that.
pub fn check(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let file = if first % 4 < 2 {
        packed(bytes)
    } else {
        // A list that names files has as many as it names, all alike.
        let count = rest.windows(7).filter(|seven| seven == b"\"inode\"").count();
        archive::pack(&Parts { manifest: rest.to_vec(), files: vec![b"{}\n".to_vec(); count] }).ok()
    };
    let Some(file) = file else { return };
    if let Ok(parts) = archive::unpack(&file) {
        let sum: usize = parts.files.iter().map(Vec::len).sum();
        assert!((sum + parts.manifest.len()) as u64 <= LARGEST_WHOLE);
        let again =
            archive::unpack(&archive::pack(&parts).expect("packed")).expect("what was packed is unpacked");
        assert_eq!(again, parts);
    }
    let folder = std::env::temp_dir().join(format!("agentctl-fuzz-{}", std::process::id()));
    let home = folder.join("home");
    let path = folder.join("file.snapshot");
    fs::create_dir_all(&home).expect("a folder");
    fs::write(&path, &file).expect("the input");
    if let Ok(replay) = Replay::open(&path, Some(&home)) {
        for file in &replay.manifest.files {
            if let Some(here) = replay.here(&file.path) {
                assert!(here.starts_with(&home), "{}", here.display());
            }
        }
    }
    let left: Vec<PathBuf> = seeds::below(&folder);
    assert_eq!(left.iter().filter(|left| **left != path).count(), 0, "{left:?}");
}

pub fn seeds() -> Vec<Vec<u8>> {
    let recorded = seeds::recorded().join("snapshots");
    let mut all = Vec::new();
    for path in seeds::below(&recorded)
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "snapshot"))
    {
        let file = fs::read(path).unwrap_or_default();
        all.push([&[0][..], &file].concat());
        if let Ok(parts) = archive::unpack(&file) {
            all.push([&[2][..], &parts.manifest].concat());
            let small =
                Parts { manifest: b"{\"version\":1}".to_vec(), files: vec![b"a\n".to_vec(), Vec::new()] };
            for parts in [&parts, &small] {
                let packed = archive::pack(parts).unwrap_or_default();
                let mut tar = Vec::new();
                let mut decoder =
                    ruzstd::decoding::StreamingDecoder::new(packed.as_slice()).expect("our own file");
                std::io::Read::read_to_end(&mut decoder, &mut tar).expect("our own file");
                all.push([&[0][..], &packed].concat());
                all.push([&[1][..], &tar].concat());
            }
        }
    }
    all
}
