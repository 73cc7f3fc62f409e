//! Maps project folders to directories, and directories to their folders.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use agentctl_model::Harvest;
use agentctl_model::text::clean_cut;
use serde::Deserialize;

use crate::transcript::folder::list;
use crate::transcript::jsonl::open::read_small;

/// The agent's own list of directories and their folders.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Projects {
    projects: HashMap<String, String>,
}

impl Projects {
    /// A missing or broken list counts as empty, because the folders themselves name their directories.
    pub(super) fn read(root: &Path) -> Self {
        read_small(&root.join("projects.json"), 16 << 20)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default()
    }

    /// The project folders of a directory. If the list does not contain the directory, all folders are
    /// searched.
    pub(super) fn folders(&self, root: &Path, cwd: &str, harvest: &mut Harvest) -> Vec<PathBuf> {
        if let Some(slug) = self.projects.get(cwd).filter(|slug| !slug.contains('/')) {
            return vec![root.join("tmp").join(slug)];
        }
        let all = list(&root.join("tmp"), harvest).into_iter();
        all.map(|entry| entry.path).filter(|path| stands_for(path).as_deref() == Some(cwd)).collect()
    }

    /// The directory of a project folder, from the folder itself or else from the list.
    pub(super) fn directory(&self, folder: &Path) -> Option<String> {
        stands_for(folder).or_else(|| {
            let slug = folder.file_name()?.to_str()?;
            let known = self.projects.iter().find(|(_, known)| *known == slug);
            known.map(|(cwd, _)| clean_cut(cwd, None))
        })
    }
}

fn stands_for(folder: &Path) -> Option<String> {
    let bytes = read_small(&folder.join(".project_root"), 64 << 10).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    Some(clean_cut(text.trim_end_matches('\n'), None)).filter(|cwd| !cwd.is_empty())
}
