//! Seeds, from what real agents wrote (`tests/recorded`).

use std::fs;
use std::path::{Path, PathBuf};

/// A longer input is slower than it is useful.
pub const LARGEST: usize = 12 << 10;
/// A longer line says nothing that a short one does not.
const LONGEST_LINE: usize = 3 << 10;

/// Writes the seeds and ends the program, if it was started for that.
pub fn write(seeds: impl FnOnce() -> Vec<Vec<u8>>) {
    // A finding is told by the fuzzer; what a caught panic would print is noise.
    let Some(folder) = std::env::var_os("AGENTCTL_FUZZ_SEEDS").map(PathBuf::from) else { return };
    fs::create_dir_all(&folder).expect("the folder of the seeds");
    for (number, seed) in seeds().iter().enumerate() {
        fs::write(folder.join(format!("seed-{number:04}")), seed).expect("a seed");
    }
    std::process::exit(0);
}

pub fn recorded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/recorded")
}

/// Every file below a folder, in one order.
pub fn below(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let inside = |path: PathBuf| if path.is_dir() { below(&path) } else { vec![path] };
    paths.into_iter().flat_map(inside).collect()
}

/// As many whole lines of a file as an input may have; very long ones are left out.
pub fn shortened(bytes: &[u8]) -> Vec<u8> {
    if bytes.len() <= LARGEST {
        return bytes.to_vec();
    }
    let mut kept = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.len() <= LONGEST_LINE) {
        if kept.len() + line.len() > LARGEST {
            break;
        }
        kept.extend_from_slice(line);
    }
    kept
}

/// The lines of recorded conversations, as they stand on the wire from the agent (`<`) or to it (`>`).
pub fn conversation(path: &Path, direction: &str) -> Vec<u8> {
    let mut lines = Vec::new();
    for line in fs::read_to_string(path).unwrap_or_default().lines() {
        let Ok(mut line) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        if line["dir"] == direction {
            lines.extend_from_slice(line["line"].take().to_string().as_bytes());
            lines.push(b'\n');
        }
    }
    lines
}

/// The recorded files of an agent with this ending.
pub fn files(agent: &str, ending: &str) -> Vec<Vec<u8>> {
    let has_it = |path: &PathBuf| path.extension().is_some_and(|end| end == ending);
    let paths = below(&recorded().join(agent)).into_iter().filter(has_it);
    paths.filter_map(|path| fs::read(path).ok()).map(|bytes| shortened(&bytes)).collect()
}

/// The payloads of recorded answers.
pub fn payloads(agent: &str) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for path in below(&recorded().join(agent))
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
    {
        for line in fs::read_to_string(path).unwrap_or_default().lines() {
            let Ok(line) = serde_json::from_str::<serde_json::Value>(line) else { continue };
            let payload = line["frame"]["payload"].to_string();
            if line["frame"]["type"] == "res" && payload.len() <= LARGEST {
                all.push(payload.into_bytes());
            }
        }
    }
    all
}

pub fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

pub const SETTINGS: &[&str] = &[
    "{\n  // comment\n  gateway: { port: 18789, auth: { token: '${TOKEN}', }, },\n  'a': [1, -0x1F, .5, +3e2, Infinity, \"x\\u0041\\\n y\"],\n}\n",
    r#"{"gateway":{"mode":"local","port":18789,"bind":"loopback","auth":{"mode":"token","token":"t"}},"$include":"./other.json5"}"#,
    "export A=b\n# comment\nTOKEN=\"x\\n${A}\"\nB='c' # d\n",
    "wss://user@box.example:18789/path?x=1",
    "ws://[::1]:1",
];
