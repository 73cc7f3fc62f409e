//! Finds an agent's installed program and its version, from the file and its neighbours. No program is
//! started.

use std::path::{Path, PathBuf};

use agentctl_adapters::{Adapter, Card};
use serde_json::Value;

use crate::surroundings::Surroundings;

/// How many levels above the program its package may be: `<package>/dist/bin/cli.js` is the deepest seen.
const LEVELS: usize = 4;

/// The program of this agent on the PATH. If two agents share a name (`pi`), the file shows whose program it
/// is.
pub(crate) fn find(card: &Card, surroundings: &Surroundings) -> Option<PathBuf> {
    card.programs.iter().find_map(|name| {
        let place = surroundings.on_path(Path::new(name))?;
        (!is_of_another(card, name, &place)).then_some(place)
    })
}

/// The line that names the interpreter of a script is shorter.
const LONGEST_FIRST_LINE: u64 = 256;

/// A package description is a few kilobytes.
const LARGEST_PACKAGE: u64 = 1 << 20;

/// Whether the program belongs to another agent: the name is that agent's first one, and the program is a
/// script or has a package beside it, as that agent's has. A port has neither.
fn is_of_another(card: &Card, name: &str, place: &Path) -> bool {
    let first_of = |card: &Card| card.programs.first() == Some(&name);
    let mut cards = agentctl_adapters::registry().into_iter().map(Adapter::card);
    if first_of(card) || !cards.any(|other| other.name != card.name && first_of(other)) {
        return false;
    }
    let real = agentctl_files::real_path(place).unwrap_or_else(|_| place.to_owned());
    let is_script = agentctl_files::read_beginning(&real, 2).is_ok_and(|start| start == b"#!");
    is_script || version(&real).is_some()
}

/// The version of the program at this real path, if the files around it name one.
pub(crate) fn version(real: &Path) -> Option<String> {
    versioned_name(real).or_else(|| {
        real.ancestors().skip(1).take(LEVELS).find_map(|folder| {
            let text = agentctl_files::read_text(&folder.join("package.json"), LARGEST_PACKAGE).ok()?;
            let package: Value = serde_json::from_str(&text).ok()?;
            let version = package.get("version")?.as_str()?;
            Some(agentctl_model::text::one_line(version))
        })
    })
}

/// The version of the Node that runs a script, where the program is one: from the files around the first `node` on the PATH.
pub(crate) fn node_of(program: &Path, surroundings: &Surroundings) -> Option<String> {
    let first = agentctl_files::read_beginning(program, LONGEST_FIRST_LINE).ok()?;
    let first = first.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(first).ok().filter(|line| line.starts_with("#!"))?;
    line.split(['/', ' ']).any(|word| word.trim() == "node").then_some(())?;
    let node = agentctl_files::real_path(&surroundings.on_path(Path::new("node"))?).ok()?;
    let header = node.parent()?.parent()?.join("include/node/node_version.h");
    let text = agentctl_files::read_text(&header, LARGEST_PACKAGE).ok();
    text.as_deref().and_then(node_version).or_else(|| version(&node))
}

/// The version that Node's own header defines.
fn node_version(header: &str) -> Option<String> {
    let part = |name: &str| {
        let define = format!("#define NODE_{name}_VERSION ");
        let value = header.lines().find_map(|line| line.strip_prefix(define.as_str()))?;
        value.trim().parse::<u32>().ok()
    };
    Some(format!("{}.{}.{}", part("MAJOR")?, part("MINOR")?, part("PATCH")?))
}

/// Native installers name a file or folder after each version: `…/versions/2.1.325`.
fn versioned_name(real: &Path) -> Option<String> {
    let name = real.file_name()?.to_str()?;
    let mut parts = name.split('.');
    let numeric = parts.clone().count() == 3 && parts.all(|part| part.parse::<u32>().is_ok());
    numeric.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_says_its_version_in_a_header() {
        let header =
            "#define NODE_MAJOR_VERSION 24\n#define NODE_MINOR_VERSION 21\n#define NODE_PATCH_VERSION 0\n";
        assert_eq!(node_version(header).as_deref(), Some("24.21.0"));
        assert_eq!(node_version("#define NODE_MAJOR_VERSION x\n"), None);
    }

    #[test]
    fn the_nearest_package_with_a_version_is_asked() {
        let home = tempfile::tempdir().unwrap();
        let bin = home.path().join("pkg/dist/bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::write(home.path().join("pkg/dist/package.json"), r#"{"type":"module"}"#).unwrap();
        std::fs::write(home.path().join("pkg/package.json"), r#"{"version":"1.2.3-beta"}"#).unwrap();
        assert_eq!(version(&bin.join("cli.js")), Some("1.2.3-beta".into()));
        assert_eq!(version(Path::new("/opt/agent/versions/2.1.325")), Some("2.1.325".into()));
        assert_eq!(version(&home.path().join("elsewhere/agent")), None);
    }
}
