//! Paths as a person writes them.

use std::path::{Component, Path, PathBuf};

use agentctl_model::text;

/// A path with the home folder as `~`, cleaned for the screen.
pub(crate) fn shown(path: &str, home: Option<&Path>) -> String {
    let home = home.and_then(Path::to_str).filter(|home| home.len() > 1);
    let short = match home.and_then(|home| path.strip_prefix(home.trim_end_matches('/'))) {
        Some("") => "~".to_owned(),
        Some(rest) if rest.starts_with('/') => format!("~{rest}"),
        _ => path.to_owned(),
    };
    text::one_line(&short)
}

/// Expands `~` and `~/x` as the shell would.
pub(crate) fn expand(path: &Path, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) if rest.as_os_str().is_empty() => home.to_owned(),
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}

/// The folder that a person means: absolute, and its real path if it exists (agents record the real path).
pub(crate) fn meant(path: &Path, home: Option<&Path>, cwd: Option<&Path>) -> PathBuf {
    let expanded = expand(path, home);
    let absolute = cwd.map_or_else(|| expanded.clone(), |cwd| cwd.join(&expanded));
    agentctl_files::real_path_within(&absolute).unwrap_or_else(|| without_dots(&absolute))
}

fn without_dots(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            other => clean.push(other),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn home_is_a_tilde_and_nothing_else_is() {
        let home = Some(Path::new("/home/dev"));
        assert_eq!(shown("/home/dev/w/x", home), "~/w/x");
        assert_eq!(shown("/home/dev", home), "~");
        assert_eq!(shown("/home/developer/x", home), "/home/developer/x");
        assert_eq!(shown("/x", Some(Path::new("/"))), "/x");
        assert_eq!(shown("/a\u{1b}[2J\nb", None), "/a[2J b");
    }

    #[test]
    fn a_folder_that_does_not_exist_is_still_made_absolute() {
        let (home, cwd) = (Some(Path::new("/home/dev")), Some(Path::new("/no/such/place")));
        assert_eq!(meant(Path::new("~/no-x/../y-no"), home, cwd), Path::new("/home/dev/y-no"));
        assert_eq!(meant(Path::new("./a/."), home, cwd), Path::new("/no/such/place/a"));
        assert_eq!(expand(Path::new("~other/x"), home), Path::new("~other/x"));
        assert_eq!(expand(Path::new("~"), home), Path::new("/home/dev"));
    }
}
