//! A period limits stopped sessions only: everything live is listed, however long it was inactive. This runs over every
//! adapter.

#![allow(clippy::disallowed_methods, reason = "tests write what is read")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agentctl_adapters::search::Pattern;
use agentctl_adapters::{Adapter, Conversation, Keys, Root, Secret, registry};
use agentctl_fleet::keep::marks::Marks;
use agentctl_fleet::read::inbox;
use agentctl_fleet::{Fleet, Query, SearchQuery, Source, Store, Told, Wanted};
use agentctl_model::text::period::Since;
use agentctl_model::{Environ, Status, Survey};
use agentctl_process::fake::{Scripted, ScriptedProcess};
use agentctl_testkit::agents::openclaw::{Ledger, ScriptedGateway};
use jiff::Timestamp;
use serde_json::json;
use tempfile::TempDir;

const LIVE: &str = "aaaaaaaa-0000-4000-8000-00000000000a";
const OVER: &str = "bbbbbbbb-0000-4000-8000-00000000000b";

/// Minutes after a moment that is years ago.
fn minute(minutes: i64) -> Timestamp {
    Timestamp::from_second(1_600_000_000 + minutes * 60).unwrap()
}

/// One agent in its own home: a session in `/w` that a process has owned since minute 10 and that was last written at
/// minute 12, and one in `/elsewhere` that has been over since then.
struct Scene {
    home: TempDir,
    adapter: &'static dyn Adapter,
    live: String,
    /// Kept for as long as it has to answer.
    gateway: Option<ScriptedGateway>,
    /// Each way in which the session can be tied to a process: its name, and the processes.
    tables: Vec<(&'static str, Arc<Scripted>)>,
}

impl Scene {
    fn new(adapter: &'static dyn Adapter) -> Self {
        let home = tempfile::tempdir().unwrap();
        Self { home, adapter, live: LIVE.to_owned(), gateway: None, tables: Vec::new() }
    }

    fn path(&self) -> PathBuf {
        fs::canonicalize(self.home.path()).unwrap()
    }

    fn write(&self, place: &str, lines: &[String]) -> &Self {
        let path = self.path().join(place);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect::<String>()).unwrap();
        self
    }

    /// A process of this home in `/w`.
    fn process(&self, argv: &[&str]) -> ScriptedProcess {
        let home = self.path();
        ScriptedProcess::new(42, argv)
            .cwd("/w")
            .variable("HOME", home.to_str().unwrap())
            .started_at(minute(10))
    }

    fn tied(mut self, how: &'static str, process: ScriptedProcess) -> Self {
        self.tables.push((how, Arc::new(Scripted::new().process(process))));
        self
    }

    fn fleet(&self, kernel: &Arc<Scripted>) -> Fleet {
        let root = match &self.gateway {
            Some(gateway) => {
                let keys = Keys { token: Secret::new("s3cret-of-the-test"), ..Keys::default() };
                self.adapter.gateway().unwrap().root_at(&gateway.url(), keys).unwrap()
            }
            None => self.adapter.root(&Environ::from_iter([("HOME", self.path())])).unwrap(),
        };
        let source = Source { adapter: self.adapter, root, timeout: Duration::from_mins(1) };
        Fleet::new(vec![source], Arc::clone(kernel) as _)
    }

    /// Sets the times of all its files to minute 12.
    fn age(&self) {
        fn age(folder: &Path) {
            for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if entry.is_dir() {
                    age(&entry);
                }
                File::open(&entry).unwrap().set_modified(minute(12).into()).unwrap();
            }
        }
        age(self.home.path());
    }
}

fn claude_code(scene: Scene) -> Scene {
    for (id, cwd) in [(LIVE, "/w"), (OVER, "/elsewhere")] {
        let prompt = json!({"type": "user", "message": {"role": "user", "content": "do it"},
            "timestamp": minute(11), "cwd": cwd, "sessionId": id});
        let reply = json!({"message": {"id": "m", "content": [{"type": "text", "text": "words"}],
            "stop_reason": "end_turn"}, "type": "assistant", "timestamp": minute(12), "cwd": cwd, "sessionId": id});
        let slug = cwd.replace('/', "-");
        scene.write(&format!(".claude/projects/{slug}/{id}.jsonl"), &[prompt.to_string(), reply.to_string()]);
    }
    let (resumed, alone) = (scene.process(&["claude", "--resume", LIVE]), scene.process(&["claude"]));
    scene.tied("argv", resumed).tied("the only candidate", alone)
}

fn codex(mut scene: Scene) -> Scene {
    for (id, cwd) in [(LIVE, "/w"), (OVER, "/elsewhere")] {
        let record = |at: i64, kind: &str, payload: serde_json::Value| {
            json!({"timestamp": minute(at), "type": kind, "payload": payload}).to_string()
        };
        let lines = [
            record(
                11,
                "session_meta",
                json!({"id": id, "session_id": id, "cwd": cwd, "timestamp": minute(11)}),
            ),
            record(11, "event_msg", json!({"type": "task_started", "turn_id": "t"})),
            record(11, "event_msg", json!({"type": "user_message", "message": "do it"})),
            record(12, "event_msg", json!({"type": "task_complete", "turn_id": "t"})),
        ];
        scene.write(&format!(".codex/sessions/2020/09/13/rollout-2020-09-13T12-37-40-{id}.jsonl"), &lines);
    }
    let lock = format!(".codex/thread-writer-locks/{LIVE}.lock");
    scene.write(&lock, &[]);
    let held = fs::metadata(scene.path().join(lock)).unwrap();
    let terminal = scene.process(&["/opt/codex/bin/codex", "--no-daemon"]);
    let table = Scripted::new().process(terminal).lock(42, held.dev(), held.ino());
    scene.tables.push(("a lock", Arc::new(table)));
    scene
}

fn pi(scene: Scene) -> Scene {
    let process = scene.process(&["pi"]).exe("/usr/bin/node");
    pi_store(&scene, "2020-09-13T12-37-40-000Z", [LIVE, OVER]);
    scene.tied("the only candidate", process)
}

fn pi_rust(mut scene: Scene) -> Scene {
    scene.live = String::from("aaaaaaaa");
    pi_store(&scene, "2020-09-13T12-37-40.000Z", ["aaaaaaaa", "bbbbbbbb"]);
    let process = scene.process(&["pi"]).exe("/usr/local/bin/pi");
    scene.tied("the only candidate", process)
}

fn pi_store(scene: &Scene, clock: &str, [live, over]: [&str; 2]) {
    for (id, cwd) in [(live, "/w"), (over, "/elsewhere")] {
        let lines = [
            json!({"type": "session", "version": 3, "id": id, "timestamp": minute(11), "cwd": cwd,
                "provider": "p", "modelId": "m"}),
            json!({"type": "message", "id": "r1", "parentId": null, "timestamp": minute(11),
                "message": {"role": "user", "content": [{"type": "text", "text": "do it"}]}}),
            json!({"type": "message", "id": "r2", "parentId": "r1", "timestamp": minute(12), "message": {
                "role": "assistant", "content": [{"type": "text", "text": "words"}], "provider": "p",
                "model": "m", "usage": {"input": 1, "output": 2}, "stopReason": "stop"}}),
        ];
        let folder = format!("--{}--", cwd.trim_start_matches('/'));
        let place = format!(".pi/agent/sessions/{folder}/{clock}_{id}.jsonl");
        scene.write(&place, &lines.map(|line| line.to_string()));
    }
}

fn opencode(mut scene: Scene) -> Scene {
    scene.live = String::from("ses_live");
    let folder = scene.path().join(".local/share/opencode");
    fs::create_dir_all(&folder).unwrap();
    let database = rusqlite::Connection::open(folder.join("opencode.db")).unwrap();
    database
        .execute_batch(
            "CREATE TABLE session (id text PRIMARY KEY, parent_id text, directory text NOT NULL, title text NOT NULL,
               version text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL);
             CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL,
               time_updated integer NOT NULL, data text NOT NULL);
             CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL,
               time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);",
        )
        .unwrap();
    for (id, cwd) in [("ses_live", "/w"), ("ses_over", "/elsewhere")] {
        let [asked, answered] = [11, 12].map(|at| minute(at).as_millisecond());
        let session = rusqlite::params![id, cwd, asked, answered];
        database
            .execute("INSERT INTO session VALUES(?1, NULL, ?2, 'title', '1.18', ?3, ?4)", session)
            .unwrap();
        let reply =
            json!({"role": "assistant", "finish": "stop", "time": {"created": asked, "completed": answered}});
        for (at, data) in [(asked, json!({"role": "user", "time": {"created": asked}})), (answered, reply)] {
            let message = rusqlite::params![format!("msg_{id}{at}"), id, at, data.to_string()];
            database.execute("INSERT INTO message VALUES(?1, ?2, ?3, ?3, ?4)", message).unwrap();
        }
    }
    let (named, alone) = (scene.process(&["opencode", "-s", "ses_live"]), scene.process(&["opencode"]));
    scene.tied("argv", named).tied("the only candidate", alone)
}

fn slate(mut scene: Scene) -> Scene {
    scene.live = String::from("ses_live");
    for (id, cwd) in [("ses_live", "/w"), ("ses_over", "/elsewhere")] {
        let [made, written] = [11, 12].map(|at| minute(at).as_millisecond());
        let session = json!({"id": id, "directory": cwd, "title": "t", "version": "1.0.45",
            "time": {"created": made, "updated": written}});
        scene.write(&format!(".local/share/slate/storage/session/p/{id}.json"), &[session.to_string()]);
    }
    let (named, alone) = (scene.process(&["slate", "-s", "ses_live"]), scene.process(&["slate"]));
    scene.tied("argv", named).tied("the only candidate", alone)
}

fn copilot(scene: Scene) -> Scene {
    for (id, cwd) in [(LIVE, "/w"), (OVER, "/elsewhere")] {
        let event = |kind: &str, at: i64, data: serde_json::Value| {
            json!({"type": kind, "data": data, "id": format!("e{at}"), "timestamp": minute(at)}).to_string()
        };
        let folder = format!(".copilot/session-state/{id}");
        let yaml =
            format!("id: {id}\ncwd: {cwd}\nname: do it\nuser_named: false\ncreated_at: {}", minute(11));
        scene.write(&format!("{folder}/workspace.yaml"), &[yaml]);
        let events = [
            event("session.start", 11, json!({"context": {"cwd": cwd}})),
            event("user.message", 11, json!({"content": "do it"})),
            event("assistant.turn_start", 11, json!({})),
            event("assistant.message", 12, json!({"content": "done", "model": "m", "toolRequests": []})),
            event("assistant.turn_end", 12, json!({})),
        ];
        scene.write(&format!("{folder}/events.jsonl"), &events);
    }
    let folder = format!(".copilot/session-state/{LIVE}");
    scene.write(&format!("{folder}/inuse.42.lock"), &["42".to_owned()]);
    scene.write(&format!("{folder}/inuse.42.hold"), &[]);
    let native = || scene.process(&["/n/@github/copilot-linux-x64/copilot", "--resume", LIVE]);
    let (holding, starting) =
        (native().open(scene.path().join(format!("{folder}/inuse.42.hold")), true), native());
    scene.tied("a file held open", holding).tied("argv", starting)
}

fn qwen(scene: Scene) -> Scene {
    for (id, cwd) in [(LIVE, "/w"), (OVER, "/elsewhere")] {
        let record = |kind: &str, at: i64, text: &str| {
            json!({"uuid": format!("{kind}{at}"), "sessionId": id, "timestamp": minute(at), "type": kind, "cwd": cwd,
                "version": "0.24.4", "model": "m", "message": {"parts": [{"text": text}]}})
            .to_string()
        };
        let slug = cwd.replace('/', "-");
        let lines = [record("user", 11, "do it"), record("assistant", 12, "done")];
        scene.write(&format!(".qwen/projects/{slug}/chats/{id}.jsonl"), &lines);
    }
    let node = |arguments: &[&str]| {
        scene.process(&[&["node", "/n/@qwen-code/qwen-code/cli.js"], arguments].concat()).comm("MainThread")
    };
    let (resumed, alone) = (node(&["-r", LIVE]), node(&[]));
    scene.tied("argv", resumed).tied("the only candidate", alone)
}

fn gemini(scene: Scene) -> Scene {
    scene.write(".gemini/projects.json", &[json!({"projects": {"/w": "w", "/elsewhere": "e"}}).to_string()]);
    for (id, cwd, slug) in [(LIVE, "/w", "w"), (OVER, "/elsewhere", "e")] {
        scene.write(&format!(".gemini/tmp/{slug}/.project_root"), &[cwd.to_owned()]);
        let lines = [
            json!({"sessionId": id, "projectHash": "h", "startTime": minute(11), "lastUpdated": minute(11),
                "kind": "main"}),
            json!({"id": "u", "timestamp": minute(11), "type": "user", "content": [{"text": "do it"}]}),
            json!({"id": "g", "timestamp": minute(12), "type": "gemini", "content": "done", "model": "m"}),
        ];
        let name = format!("session-2020-09-13T12-37-{}.jsonl", &id[..8]);
        scene.write(&format!(".gemini/tmp/{slug}/chats/{name}"), &lines.map(|line| line.to_string()));
    }
    let node = |arguments: &[&str]| {
        scene.process(&[&["node", "/n/.bin/gemini"], arguments].concat()).comm("MainThread")
    };
    let (resumed, alone) = (node(&["-r", LIVE]), node(&[]));
    scene.tied("argv", resumed).tied("the only candidate", alone)
}

fn kimi(mut scene: Scene) -> Scene {
    scene.live = format!("session_{LIVE}");
    let over = format!("session_{OVER}");
    let workspaces =
        json!({"version": 1, "workspaces": {"wd_w": {"root": "/w"}, "wd_e": {"root": "/elsewhere"}}});
    scene.write(".kimi-code/workspaces.json", &[workspaces.to_string()]);
    for (id, cwd, slug) in [(&scene.live, "/w", "wd_w"), (&over, "/elsewhere", "wd_e")] {
        let folder = format!(".kimi-code/sessions/{slug}/{id}");
        let state = json!({"id": id, "version": 2, "cwd": cwd, "createdAt": minute(11).as_millisecond()});
        scene.write(&format!("{folder}/state.json"), &[state.to_string()]);
        let record = |kind: &str, at: i64, more: &str| {
            let time = minute(at).as_millisecond();
            format!(r#"{{"type":"{kind}","agentId":"main"{more},"time":{time}}}"#)
        };
        let prompt = r#","input":[{"type":"text","text":"do it"}],"origin":{"kind":"user"},"turnId":0"#;
        let lines = [
            record("turn.prompt", 11, prompt),
            record("turn.ended", 12, r#","turnId":0,"reason":"completed""#),
        ];
        scene.write(&format!("{folder}/agents/main/wire.jsonl"), &lines);
    }
    let process = scene.process(&["kimi-code"]).comm("kimi-code");
    scene.tied("the only candidate", process)
}

/// Its sessions live in a gateway: there is no process, and what the gateway calls running is live.
fn openclaw(mut scene: Scene) -> Scene {
    scene.live = String::from("agent:main:live");
    let row = |name: &str, active: bool| {
        json!({"key": format!("agent:main:{name}"), "hasActiveRun": active, "status": "done", "workspaceDir": "/w",
            "updatedAt": minute(12).as_millisecond()})
    };
    let ledger = Ledger { rows: vec![row("live", true), row("over", false)], ..Ledger::default() };
    scene.gateway = Some(ScriptedGateway::start(move |step| ledger.answer(step)));
    scene.tables.push(("the gateway's word", Arc::new(Scripted::new())));
    scene
}

fn scene_of(adapter: &'static dyn Adapter) -> Scene {
    let scene = Scene::new(adapter);
    match adapter.card().name {
        "claude-code" => claude_code(scene),
        "codex" => codex(scene),
        "pi" => pi(scene),
        "pi-rust" => pi_rust(scene),
        "opencode" => opencode(scene),
        "openclaw" => openclaw(scene),
        "slate" => slate(scene),
        "copilot" => copilot(scene),
        "qwen" => qwen(scene),
        "gemini" => gemini(scene),
        "kimi" => kimi(scene),
        new => panic!("{new} has no scene here: a window must not hide its live sessions either"),
    }
}

/// Everything that a person would compare.
fn told(survey: &Survey) -> Vec<(&str, Status, Option<u32>)> {
    survey.sessions.iter().map(|one| (one.key.id.as_str(), one.session.status, one.session.pid)).collect()
}

/// The sessions in which a search finds anything, with the status that it tells.
fn searched(fleet: &Fleet) -> BTreeMap<String, Status> {
    let asked = SearchQuery {
        pattern: Pattern::new(&[".".to_owned()], true, false).unwrap(),
        roles: Vec::new(),
        adapters: Vec::new(),
        folders: Vec::new(),
        group: None,
        since: Since::Ever,
        limit: 100,
        around: 0,
        once: false,
    };
    let mut found = BTreeMap::new();
    fleet.search(&asked, &mut |told| {
        if let Told::Hit(hit) = told {
            found.insert(hit.session_id, hit.status);
        }
        ControlFlow::Continue(())
    });
    found
}

#[test]
fn a_window_hides_no_live_session_of_any_agent() {
    let mut live_found = 0;
    for adapter in registry() {
        let scene = scene_of(adapter);
        scene.age();
        assert!(!scene.tables.is_empty());
        for (how, kernel) in &scene.tables {
            let what = format!("{} by {how}", adapter.card().name);
            let fleet = scene.fleet(kernel);
            let live = fleet.survey(&Query::new(Wanted::Live));
            assert_eq!(live.sessions.len(), 1, "{what}: the scene is wrong: {:?}", live.sources);
            let row = told(&live);
            assert_eq!((row[0].0, live.strays.len()), (scene.live.as_str(), 0), "{what}");

            let windowed = fleet.survey(&Query::new(Wanted::All { since: Since::Moment(minute(1000)) }));
            assert_eq!((told(&windowed), windowed.strays.len()), (row.clone(), 0), "{what}");
            assert_eq!(windowed.sources[0].coverage.as_str(), "complete", "{what}: {:?}", windowed.sources);
            for query in [
                Query::new(Wanted::All { since: Since::DEFAULT }),
                Query::new(Wanted::All { since: Since::Back(Duration::from_secs(8)) }),
            ] {
                let listing = fleet.list(&query);
                let ids: Vec<&str> = listing.sessions.iter().map(|one| one.key.id.as_str()).collect();
                assert_eq!((ids, listing.strays), (vec![scene.live.as_str()], 0), "{what}: {query:?}");
            }
            let ever = fleet.survey(&Query::new(Wanted::All { since: Since::Ever }));
            assert_eq!(ever.sessions.len(), 2, "{what}: the other one is there, and is over");
            if adapter.gateway().is_none() {
                let all: BTreeMap<&str, Status> = told(&ever).iter().map(|row| (row.0, row.1)).collect();
                let found = searched(&fleet);
                live_found += usize::from(found.contains_key(&scene.live));
                assert!(
                    found.iter().all(|(id, status)| all[id.as_str()] == *status),
                    "{what}: {found:?} {all:?}"
                );
            }
        }
    }
    assert!(live_found > 6, "a search finds live sessions too: {live_found}");
}

/// A request that waits for a person waits for as long as it takes.
#[test]
fn what_a_live_session_needs_stays_in_the_inbox() {
    let kimi = |last: &str| {
        let scene = scene_of(registry().into_iter().find(|adapter| adapter.card().name == "kimi").unwrap());
        let place = format!(".kimi-code/sessions/wd_w/{}/agents/main/wire.jsonl", scene.live);
        let wire = fs::read_to_string(scene.path().join(&place)).unwrap();
        scene.write(&place, &[wire.lines().next().unwrap().to_owned(), last.to_owned()]);
        scene.age();
        let fleet = scene.fleet(&scene.tables[0].1);
        let now = minute(12) + Duration::from_hours(48);
        let marks = Marks::of(Store::at(scene.path().join("own")));
        let items = fleet.inbox(inbox::A_DAY, Vec::new(), &marks, now).items;
        items.iter().map(|item| (item.kind.as_str(), item.session.id.clone())).collect::<Vec<_>>()
    };
    let live = format!("session_{LIVE}");
    let time = minute(12).as_millisecond();
    let approval = r#""id":"i","kind":"approval","request":{"toolName":"Bash","display":{"command":"make"}}"#;
    let approval = format!(r#"{{"type":"interaction.request","agentId":"main",{approval},"time":{time}}}"#);
    assert_eq!(kimi(&approval), [("approval", live.clone())]);
    let failure =
        format!(r#"{{"type":"turn.ended","agentId":"main","turnId":0,"reason":"failed","time":{time}}}"#);
    assert_eq!(kimi(&failure), [("failure", live)]);
}

/// If the second reading fails, the report says so, because what it would have shown is not known.
#[test]
fn live_sessions_that_could_not_be_heard_make_the_answer_partial() {
    use std::sync::atomic::{AtomicBool, Ordering};

    use agentctl_adapters::{Card, Follow, Reach, ReadError, Scope};
    use agentctl_model::{Coverage, Entry, Harvest, Joined, KernelView, ProcessHead};

    static HEARD: AtomicBool = AtomicBool::new(false);
    struct Deaf;
    impl Adapter for Deaf {
        fn conversation(&self, _: &Path, _: &str) -> Conversation<'_> {
            Conversation::Nothing
        }

        fn card(&self) -> &'static Card {
            agentctl_adapters::agents::pi::Pi.card()
        }
        fn root(&self, _: &Environ) -> Option<Root> {
            Some(Root::at("/r"))
        }
        fn survey(&self, _: &Root, scope: &Scope<'_>) -> Harvest {
            match scope.reach {
                Reach::Live(_) => {
                    HEARD.store(true, Ordering::Relaxed);
                    Harvest::nothing(Coverage::Failed { error: "it is away".to_owned() })
                }
                Reach::All { .. } | Reach::Ids(_) => Harvest::complete(Vec::new()),
            }
        }
        fn recognises(&self, head: &ProcessHead) -> bool {
            head.program() == "deaf"
        }
        fn join(&self, _: &Root, _: &Harvest, _: &KernelView) -> Joined {
            Joined::default()
        }
        fn read(&self, _: &Path, _: &str, _: usize) -> Result<Vec<Entry>, ReadError> {
            Ok(Vec::new())
        }
        fn follow(&self, path: &Path, _: &str, _: usize) -> Result<Box<dyn Follow>, ReadError> {
            Err(ReadError::new(path, std::io::Error::other("nothing to follow")))
        }
    }
    let asked = |kernel: Scripted, wanted: Wanted| {
        let source = Source { adapter: &Deaf, root: Root::at("/r"), timeout: Duration::from_mins(1) };
        let survey = Fleet::new(vec![source], Arc::new(kernel)).survey(&Query::new(wanted));
        (survey.sources[0].coverage.as_str(), survey.sources[0].warnings.join("; "))
    };
    let window = || Wanted::All { since: Since::Moment(minute(0)) };
    assert_eq!(asked(Scripted::new(), window()).0, "complete");
    assert!(!HEARD.load(Ordering::Relaxed), "where nobody lives, nobody is asked twice");
    let alive = || Scripted::new().process(ScriptedProcess::new(7, &["deaf"]));
    let (coverage, warnings) = asked(alive(), window());
    assert_eq!(coverage, "partial");
    assert!(warnings.contains("it is away"), "{warnings}");
    assert_eq!(
        asked(alive(), Wanted::All { since: Since::Ever }).0,
        "complete",
        "everything was heard at once"
    );
}
