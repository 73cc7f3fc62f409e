//! Finds out in which of our config roots the native sessions of a gateway live. A gateway names a directory as the
//! other agent does, which may be another path to the same place. Here it gets the path that our source has, so that
//! gateway and native sessions can be matched by comparing.

use std::path::Path;

use agentctl_files::real_path_within;
use agentctl_model::{NativeSession, Surveyed};

use crate::Source;

pub(crate) fn settle(sessions: &mut [Surveyed], sources: &[Source]) {
    for one in sessions {
        let Some(native) = &mut one.session.meta.native else { continue };
        if let Some(ours) = ours(native, sources) {
            native.root = Some(ours);
        }
    }
}

/// Returns our own path of the root; `None` if it has that already, is not known, or is none of ours.
fn ours(native: &NativeSession, sources: &[Source]) -> Option<String> {
    let root = Path::new(native.root.as_deref()?);
    let mut roots = sources
        .iter()
        .filter(|source| native.adapter == source.name())
        .map(|source| source.root.path.as_path());
    if roots.clone().any(|known| known == root) {
        return None;
    }
    let wanted = real_path_within(root)?;
    let same = roots.find(|known| real_path_within(known).is_some_and(|known| known == wanted))?;
    Some(same.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentctl_testkit::sessions::{session, surveyed};

    #[test]
    fn a_root_gets_the_name_that_our_source_has() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let adapters = agentctl_adapters::registry();
        let adapter = *adapters.iter().find(|adapter| adapter.card().name == "codex").unwrap();
        let root = agentctl_adapters::Root::at(&link);
        let sources = [Source { adapter, root, timeout: std::time::Duration::ZERO }];
        let settled = |adapter: &str, root: Option<&Path>| {
            let mut one = session("x", agentctl_model::Status::Idle, None);
            let root = root.map(|root| root.to_str().unwrap().to_owned());
            let native = NativeSession { adapter: adapter.to_owned(), id: "n".to_owned(), root };
            one.meta.native = Some(Box::new(native));
            let mut sessions = [surveyed(one)];
            settle(&mut sessions, &sources);
            sessions[0].session.meta.native.clone().unwrap().root.map(std::path::PathBuf::from)
        };
        assert_eq!(settled("codex", Some(&real)), Some(link.clone()));
        assert_eq!(settled("codex", Some(&link)), Some(link));
        assert_eq!(settled("claude-code", Some(&real)), Some(real), "another agent's");
        assert_eq!(settled("codex", Some(Path::new("/nowhere"))), Some("/nowhere".into()));
        assert_eq!(settled("codex", None), None);
    }
}
