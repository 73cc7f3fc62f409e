//! Which version of an agent is installed, read from files beside its program. Nothing is started.

use std::path::Path;

use serde_json::Value;

/// How far above the program its package may be: `<package>/dist/bin/cli.js` is the deepest seen.
const LEVELS: usize = 4;

/// The version of the program at this real path, if its surroundings say so.
pub(crate) fn version(real: &Path) -> Option<String> {
    versioned_name(real).or_else(|| {
        real.ancestors().skip(1).take(LEVELS).find_map(|folder| {
            let text = std::fs::read_to_string(folder.join("package.json")).ok()?;
            let package: Value = serde_json::from_str(&text).ok()?;
            let version = package.get("version")?.as_str()?;
            Some(agentctl_model::text::one_line(version))
        })
    })
}

/// Native installers keep each version as a file or folder of that name: `…/versions/2.1.325`.
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
