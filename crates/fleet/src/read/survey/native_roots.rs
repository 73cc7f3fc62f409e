//! In which of our config roots the sessions live that gateways run. A gateway names a folder as the other agent does, which
//! may be another way to the same place: here it gets the name that our source has, so that twins are found by comparing.

use std::path::Path;

use agentctl_files::real_path_within;
use agentctl_model::Surveyed;
use serde_json::Value;

use crate::Source;

pub(crate) fn settle(sessions: &mut [Surveyed], sources: &[Source]) {
    for one in sessions {
        let Some(native) = one.session.meta.get_mut("native") else { continue };
        if let Some(ours) = ours(native, sources) {
            native["root"] = ours.into();
        }
    }
}

/// Our own name for the root; `None` when it has it already, is not said, or is none of ours.
fn ours(native: &Value, sources: &[Source]) -> Option<String> {
    let root = Path::new(native["root"].as_str()?);
    let mut roots = sources
        .iter()
        .filter(|source| native["adapter"] == source.name())
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
    use serde_json::json;

    use super::*;
    use crate::read::list::made::{session, surveyed};

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
        let settled = |adapter: &str, root: Value| {
            let mut one = session("x", agentctl_model::Status::Idle, None);
            one.meta.insert("native".into(), json!({"adapter": adapter, "id": "n", "root": root}));
            let mut sessions = [surveyed(one)];
            settle(&mut sessions, &sources);
            sessions[0].session.meta["native"]["root"].clone()
        };
        assert_eq!(settled("codex", json!(real)), json!(link));
        assert_eq!(settled("codex", json!(link)), json!(link));
        assert_eq!(settled("claude-code", json!(real)), json!(real), "another agent's");
        assert_eq!(settled("codex", json!("/nowhere")), json!("/nowhere"));
        assert_eq!(settled("codex", Value::Null), Value::Null);
    }
}
