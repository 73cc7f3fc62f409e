//! Compressed files: snapshots from anybody, and rollouts that Codex put away.

use std::fs;
use std::path::PathBuf;

use agentctl_adapters::agents::codex::Codex;
use agentctl_adapters::{Adapter, Reach, Root, Scope};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use crate::seeds;

/// The input as it is, or what it becomes when it is compressed: so that what stands behind the compression is reached.
pub fn packed(bytes: &[u8]) -> Option<Vec<u8>> {
    let (first, rest) = bytes.split_first()?;
    Some(if first % 2 == 0 { rest.to_vec() } else { compress_to_vec(rest, CompressionLevel::Fastest) })
}

/// A rollout that was put away is read like the same rollout before.
pub fn rollout(bytes: &[u8]) {
    let Some(file) = packed(bytes) else { return };
    let folder = std::env::temp_dir().join(format!("agentctl-fuzz-{}", std::process::id()));
    let name = "sessions/2026/11/15/rollout-2026-11-15T07-00-37-019e8d4b-1111-7111-8111-111111111111.jsonl";
    let plain = folder.join("plain").join(name);
    let put_away = folder.join("packed").join(format!("{name}.zst"));
    let told = |root: PathBuf, path: &PathBuf, bytes: &[u8]| {
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, bytes).expect("the input");
        let scope = Scope { usage: true, calls: true, ..Scope::new(Reach::All { since: None }) };
        let harvest = Codex.survey(&Root::at(root), &scope);
        let entries = harvest.found.iter().map(|found| Codex.read(&found.place, &found.id, 20).ok());
        let entries = format!("{:?}", entries.collect::<Vec<_>>());
        let found = harvest.found.into_iter().map(|found| (found.id, format!("{:?}", found.facts)));
        (found.collect::<Vec<_>>(), entries)
    };
    let packed = told(folder.join("packed"), &put_away, &file);
    if bytes.first().is_some_and(|first| first % 2 == 1) {
        assert_eq!(told(folder.join("plain"), &plain, &bytes[1..]), packed);
    }
}

pub fn rollout_seeds() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for path in seeds::below(&seeds::recorded().join("codex")) {
        if path.extension().is_some_and(|end| end == "jsonl") {
            let bytes = seeds::shortened(&fs::read(path).unwrap_or_default());
            all.push([&[0][..], &compress_to_vec(bytes.as_slice(), CompressionLevel::Fastest)].concat());
            all.push([&[1][..], &bytes].concat());
        }
    }
    all
}
