//! All launch records, read at once to be joined with sessions.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use agentctl_files::own;
use agentctl_model::{LaunchInfo, ProcessRef, SessionKey};
use serde_json::Map;

use super::folder::LaunchFolder;
use super::record::{Exit, LaunchOrder, ProcessMark, Record};

/// What agentctl knows about sessions because it launched them.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Oldest first.
    entries: Vec<(LaunchFolder, Record)>,
    /// The entries of one session, oldest first.
    by_session: HashMap<(String, String, String), Vec<usize>>,
}

/// The launches of a session that a runner holds now.
pub(crate) struct HeldLaunches<'l> {
    pub(crate) first: &'l (LaunchFolder, Record),
    pub(crate) newest: &'l (LaunchFolder, Record),
}

impl Ledger {
    /// Reads all records; a missing directory means that there are none. A record that cannot be read makes no session
    /// and hides none.
    pub fn read(launches: &Path) -> Self {
        let folders = own::entries(launches).into_iter().flatten().flatten();
        let named = folders.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
        let mut entries: Vec<(LaunchFolder, Record)> = named
            .filter_map(|entry| {
                let folder = LaunchFolder::at(entry.path());
                let record = folder.record().ok()?;
                Some((folder, record))
            })
            .collect();
        entries.sort_by_key(|(_, record)| record.launched_at);
        let mut by_session: HashMap<_, Vec<usize>> = HashMap::new();
        for (index, (_, record)) in entries.iter().enumerate() {
            if let Some(id) = &record.session_id {
                let LaunchOrder { adapter, root, .. } = &record.order;
                by_session.entry((adapter.clone(), root.clone(), id.clone())).or_default().push(index);
            }
        }
        Self { entries, by_session }
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn entries(&self) -> &[(LaunchFolder, Record)] {
        &self.entries
    }

    /// Returns the id of the session that a launch made, once it is known.
    pub fn session_of(&self, launch: &str, adapter: &str) -> Option<&str> {
        self.launch(launch, adapter)?.session_id.as_deref()
    }

    /// Returns the record of one launch of this agent.
    pub(crate) fn launch(&self, launch: &str, adapter: &str) -> Option<&Record> {
        let fits = |record: &&Record| record.id == launch && record.order.adapter == adapter;
        self.entries.iter().map(|(_, record)| record).find(fits)
    }

    /// Returns the folder of the runner through which this session is spoken with now. A session in a private server is
    /// asked there.
    pub(crate) fn holder_of(&self, adapter: &str, root: &str, id: &str) -> Option<&LaunchFolder> {
        let (folder, record) = self.newest(adapter, root, id)?;
        (record.order.hold && folder.is_served()).then_some(folder)
    }

    /// Returns the newest launch of a session.
    pub(crate) fn newest(&self, adapter: &str, root: &str, id: &str) -> Option<&(LaunchFolder, Record)> {
        let indices = self.by_session.get(&(adapter.to_owned(), root.to_owned(), id.to_owned()))?;
        self.entries.get(*indices.last()?)
    }

    /// Returns the first launch of a session and the newest, if a runner holds it now and its first turn was seen.
    pub(crate) fn held_launches(&self, adapter: &str, root: &str, id: &str) -> Option<HeldLaunches<'_>> {
        let indices = self.by_session.get(&(adapter.to_owned(), root.to_owned(), id.to_owned()))?;
        let (first, newest) = (&self.entries[*indices.first()?], &self.entries[*indices.last()?]);
        let (folder, record) = newest;
        let is_held = record.order.hold && record.settled && folder.is_served();
        is_held.then_some(HeldLaunches { first, newest })
    }

    /// Returns the processes that were started for an adapter whose agent only these records know.
    pub(crate) fn processes_of(&self, adapter: &str) -> HashSet<ProcessRef> {
        let records = self.entries.iter().map(|(_, record)| record);
        let of_adapter = records.filter(|record| record.order.adapter == adapter);
        of_adapter.filter_map(|record| record.process.as_ref().and_then(ProcessMark::process)).collect()
    }

    /// Returns the adapter over which a session was started last, where that is another way than its agent's own.
    pub(crate) fn via(&self, key: &SessionKey) -> Option<&str> {
        let indices = self.by_session.get(&(key.adapter.clone(), key.root.clone(), key.id.clone()))?;
        let via = self.entries[*indices.last()?].1.order.via.as_deref();
        via.filter(|via| *via != key.adapter)
    }

    /// Returns the folders of all runners that hold a session of this source now.
    pub(crate) fn held<'l>(
        &'l self,
        adapter: &'l str,
        root: &'l str,
    ) -> impl Iterator<Item = &'l LaunchFolder> {
        let of_source = self.newest_of(adapter, root).filter(|(_, (_, record))| record.order.hold);
        of_source.map(|(_, (folder, _))| folder).filter(|folder| folder.is_served())
    }

    /// Returns the newest launch of every session of one source, by the id of the session.
    pub(super) fn newest_of<'l>(
        &'l self,
        adapter: &'l str,
        root: &'l str,
    ) -> impl Iterator<Item = (&'l str, &'l (LaunchFolder, Record))> {
        let of_source = self.by_session.iter().filter(move |(key, _)| key.0 == adapter && key.1 == root);
        of_source.filter_map(|(key, indices)| Some((key.2.as_str(), &self.entries[*indices.last()?])))
    }

    /// Returns the newest launch of a session, and the group of its first launch.
    pub fn of(&self, key: &SessionKey, text_limit: Option<usize>) -> Option<(LaunchInfo, Option<String>)> {
        if self.entries.is_empty() {
            return None;
        }
        let indices = self.by_session.get(&(key.adapter.clone(), key.root.clone(), key.id.clone()))?;
        let (folder, record) = &self.entries[*indices.last()?];
        let group = indices.first().and_then(|first| self.entries[*first].1.order.group.clone());
        Some((info(folder, record, text_limit), group))
    }
}

fn info(folder: &LaunchFolder, record: &Record, text_limit: Option<usize>) -> LaunchInfo {
    let order = &record.order;
    let exit = folder.exit();
    let prompt = match text_limit {
        Some(limit) => folder.first_words(limit),
        None => folder.words().ok(),
    };
    let shown = |path: &Path| path.to_string_lossy().into_owned();
    let made = record.made.as_ref();
    LaunchInfo {
        id: record.id.clone(),
        launched_at: Some(record.launched_at),
        prompt,
        group: order.group.clone(),
        labels: order
            .labels
            .iter()
            .map(|(key, value)| (key.clone(), value.clone().into()))
            .collect::<Map<_, _>>(),
        worktree: made.map(|made| shown(&made.path)),
        branch: made.map(|made| made.branch.clone()),
        spec: order.spec.as_deref().map(shown),
        files: order.files.iter().map(|path| shown(path)).collect(),
        exit_code: exit.as_ref().and_then(|exit| exit.exit_code),
        exit_signal: exit.as_ref().and_then(|exit| exit.exit_signal),
        ended_by: exit.as_ref().and_then(Exit::ended_by),
        exited_at: exit.and_then(|exit| exit.exited_at),
    }
}
