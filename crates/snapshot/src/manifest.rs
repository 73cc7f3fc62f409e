//! What a snapshot says of itself: `manifest.json`, the first part of the file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use agentctl_model::{Coverage, CoverageKind};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kernel::KernelRecord;

/// The version of the format. A file of a later one is refused. Version 1 had no databases.
pub(crate) const VERSION: u32 = 2;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    pub version: u32,
    /// The agentctl that wrote it.
    pub agentctl: String,
    /// The operating system and the kind of machine.
    pub platform: String,
    /// The moment that it answers about.
    pub taken_at: Timestamp,
    pub host: String,
    /// The home folder of the user.
    pub home: Option<PathBuf>,
    /// The variables that chose the roots.
    pub environ: BTreeMap<String, String>,
    /// Whether texts were replaced.
    pub redacted: bool,
    pub sources: Vec<SourceEntry>,
    /// agentctl's own launch records.
    pub launches: Option<PathBuf>,
    /// The launches that a runner held.
    pub held: Vec<PathBuf>,
    /// The folders that were listed, so that an empty one is there too.
    pub folders: Vec<PathBuf>,
    /// The records, in the order in which they follow.
    pub files: Vec<FileEntry>,
    pub kernel: KernelRecord,
    /// The branch in each folder where a live session worked.
    pub branches: BTreeMap<String, String>,
    pub not_carried: Vec<NotCarried>,
}

/// One place that was read.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceEntry {
    pub adapter: String,
    pub root: PathBuf,
    pub store: Option<PathBuf>,
    /// How it was heard, if not completely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unheard: Option<UnheardSource>,
}

/// How a source was heard that did not tell everything.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnheardSource {
    pub coverage: CoverageKind,
    pub error: Option<String>,
    pub warnings: Vec<String>,
    /// How long it was waited for.
    pub timeout_ms: u64,
}

impl UnheardSource {
    /// Whether the source said anything about its sessions.
    pub(crate) fn has_answered(&self) -> bool {
        matches!(self.coverage, CoverageKind::Complete | CoverageKind::Partial)
    }

    /// The same as the fleet says it.
    pub(crate) fn coverage(&self) -> Coverage {
        match self.coverage {
            CoverageKind::Complete => Coverage::Complete,
            CoverageKind::Partial => Coverage::Partial,
            CoverageKind::NotInstalled => Coverage::NotInstalled,
            CoverageKind::TimedOut => Coverage::TimedOut { after_ms: self.timeout_ms },
            CoverageKind::Failed => Coverage::Failed { error: self.error.clone().unwrap_or_default() },
        }
    }
}

/// One record.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileEntry {
    pub path: PathBuf,
    /// Its size in the snapshot.
    pub size: u64,
    /// When it was written last; the kernel counts finer than a timestamp of ours.
    pub modified: (i64, u32),
    /// The file that a lock is on.
    pub device: u64,
    pub inode: u64,
    /// How many bytes in the middle of the original were left out.
    pub left_out: u64,
    /// The adapter whose database it is; the record then holds rows of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database_of: Option<String>,
}

/// What the answer rested on and is not in the snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotCarried {
    pub what: String,
    pub why: String,
}
