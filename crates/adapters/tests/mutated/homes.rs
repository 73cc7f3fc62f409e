//! The recorded homes of every agent, each copied to a folder of its own that may be damaged.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agentctl_adapters::cancel::with_cancellation;
use agentctl_adapters::{Adapter, Keys, Memory, Peer, PeerCheck, Progress, Reach, Root, Scope};
use agentctl_model::{Environ, Harvest};
use agentctl_testkit::agents::openclaw::{Act, Ledger, ScriptedGateway, Step};
use serde_json::Value;

/// A copy of one recorded home. The damage of each check is undone before the next one.
pub(crate) struct Home {
    pub(crate) adapter: &'static dyn Adapter,
    /// `agent/case`, shown in failures.
    pub(crate) name: String,
    pub(crate) folder: tempfile::TempDir,
    /// The files that may be damaged.
    pub(crate) files: Vec<(PathBuf, Vec<u8>)>,
    root: Root,
    /// Answers from the files in the folder.
    gateway: Option<ScriptedGateway>,
}

/// The homes of one adapter. Every adapter has at least one, because only a recording shows how it handles a
/// damaged home.
pub(crate) fn of(adapter: &'static dyn Adapter) -> Vec<Home> {
    let name = adapter.card().name;
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recorded").join(name);
    let mut cases: Vec<PathBuf> = fs::read_dir(&recorded)
        .unwrap_or_else(|error| panic!("{name} has no recorded home in {}: {error}", recorded.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    cases.sort();
    let homes: Vec<Home> = cases
        .iter()
        .filter_map(|case| {
            if adapter.gateway().is_some() { behind_gateway(adapter, case) } else { on_disk(adapter, case) }
        })
        .collect();
    assert!(!homes.is_empty(), "{name} has no recorded home in {}", recorded.display());
    homes
}

fn on_disk(adapter: &'static dyn Adapter, case: &Path) -> Option<Home> {
    let folder = tempfile::tempdir().unwrap();
    copy(case, folder.path());
    let environ: Environ = [("HOME", folder.path())].into_iter().collect();
    let root = adapter.root(&environ)?;
    // A case that needs its own environment variables has nothing at the default location.
    root.path.exists().then(|| Home::new(adapter, case, folder, root, None))
}

/// Each last complete answer that was recorded is a file, and the gateway answers with its contents.
fn behind_gateway(adapter: &'static dyn Adapter, case: &Path) -> Option<Home> {
    let folder = tempfile::tempdir().unwrap();
    for recording in below(case).iter().filter(|path| path.extension().is_some_and(|ext| ext == "jsonl")) {
        let lines: Vec<Value> = fs::read_to_string(recording)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["frame"].take())
            .collect();
        for answer in lines.iter().filter(|frame| frame["type"] == "res" && frame["ok"] == true) {
            let asked = lines.iter().find(|frame| frame["type"] == "req" && frame["id"] == answer["id"]);
            let Some(asked) = asked else { continue };
            let method = asked["method"].as_str().unwrap();
            let is_page =
                answer["payload"]["hasMore"] == true || asked["params"]["offset"].as_u64() > Some(0);
            if !is_page && !matches!(method, "connect" | "sessions.subscribe") {
                fs::write(folder.path().join(method), answer["payload"].to_string()).unwrap();
            }
        }
    }
    if !folder.path().join("sessions.list").exists() {
        return None;
    }
    let (ledger, answers) = (Ledger { boot: "b1".into(), ..Ledger::default() }, folder.path().to_owned());
    let gateway = ScriptedGateway::start(move |step| match step {
        Step::Request { method, .. } => match fs::read(answers.join(method)) {
            Err(_) => ledger.answer(step),
            Ok(bytes) => match serde_json::from_slice(&bytes) {
                Ok(payload) => Act::Proper(payload),
                Err(_) => Act::Say(String::from_utf8_lossy(&bytes).into_owned()),
            },
        },
        other => ledger.answer(other),
    });
    let peer_check = PeerCheck::new(|_, _| Peer::Ours);
    let keys = Keys { approvals: Some(true), peer_check, ..Keys::default() };
    let root = adapter.gateway().unwrap().root_at(&gateway.url(), keys).unwrap();
    Some(Home::new(adapter, case, folder, root, Some(gateway)))
}

impl Home {
    fn new(
        adapter: &'static dyn Adapter,
        case: &Path,
        folder: tempfile::TempDir,
        root: Root,
        gateway: Option<ScriptedGateway>,
    ) -> Self {
        let name = format!("{}/{}", adapter.card().name, case.file_name().unwrap().display());
        let files = below(folder.path()).into_iter().map(|path| (path.clone(), fs::read(path).unwrap()));
        Self { adapter, name, files: files.collect(), folder, root, gateway }
    }

    /// Whether one file contains many sessions, so that damage to it may affect any of them.
    pub(crate) fn is_shared(&self, file: &Path) -> bool {
        self.gateway.is_some() || file.to_string_lossy().contains(".db")
    }

    /// Reads everything from a home: the sessions, and the messages of each.
    pub(crate) fn survey(&self) -> Harvest {
        let progress = Progress::awaited_for(Duration::from_secs(20));
        let all = Scope::new(Reach::All { since: None });
        let scope = Scope { usage: true, calls: true, subagents: true, progress: progress.clone(), ..all };
        let harvest = with_cancellation(Some(&progress), || self.adapter.survey(&self.root, &scope));
        for found in &harvest.found {
            // An error is a valid answer; a panic or no answer is not.
            if let Some(gateway) = self.adapter.gateway() {
                let _ = gateway.read(&self.root, &found.id, 50);
                continue;
            }
            let _ = self.adapter.read(&found.place, &found.id, 50);
            if let Ok(mut follow) = self.adapter.follow(&found.place, &found.id, 10) {
                let _ = follow.next();
            }
        }
        harvest
    }

    /// Whether its sessions are told by a server.
    pub(crate) fn is_remote(&self) -> bool {
        self.gateway.is_some()
    }

    /// What a list reads of a home, with this memory; with `usage` everything is counted too.
    pub(crate) fn listed(&self, usage: bool, memory: Option<Arc<Memory>>) -> Harvest {
        let all = Scope::new(Reach::All { since: None });
        let scope = Scope { subagents: true, usage, calls: usage, text_limit: Some(200), memory, ..all };
        self.adapter.survey(&self.root, &scope)
    }

    /// All bytes of the home and all its paths; anything not in them was invented.
    pub(crate) fn contents(&self) -> Vec<u8> {
        let mut all = Vec::new();
        for (path, _) in &self.files {
            all.extend_from_slice(path.as_os_str().as_encoded_bytes());
            all.push(b'\n');
            all.extend(fs::read(path).unwrap());
            all.push(b'\n');
        }
        all
    }
}

fn below(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let inside = |path: PathBuf| if path.is_dir() { below(&path) } else { vec![path] };
    paths.into_iter().flat_map(inside).collect()
}

fn copy(from: &Path, to: &Path) {
    for path in below(from) {
        let target = to.join(path.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(path, target).unwrap();
    }
}
