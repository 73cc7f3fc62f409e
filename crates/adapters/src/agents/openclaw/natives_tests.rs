//! Databases as OpenClaw 2026.9.6 and its plugin for Codex 2026.9.5 write them.

use serde_json::{Value, json};

use super::*;

const KEY: &str = "agent:main:dashboard:6ab1cc53-1ba5-4ffe-8416-a877c6e6c659";
/// Recorded: the name under which the plugin stores the thread of [`KEY`].
const ENTRY: &str = "session-key:main:NWROylukYCuPsfH7bL7P74fU-wzcS9buBYpDF0nPTY0";
const SESSION: &str = "c86c3012-2eeb-4584-855a-b095380a4d1b";
const THREAD: &str = "01a1e07b-bdcb-77a2-9243-f34b5408c27f";
const HOME: &str = "/home/dev/.openclaw/agents/main/agent/codex-home";

fn row(key: &str, runtime: &str) -> Row {
    let row = json!({"key": key, "agentId": "main", "sessionId": SESSION, "agentRuntime": {"id": runtime}});
    serde_json::from_value(row).unwrap()
}

fn found(state: &Path, rows: &[Row]) -> HashMap<String, Native> {
    let mut warnings = Vec::new();
    let natives = read(state, rows.iter(), &mut warnings);
    assert_eq!(warnings, Vec::<String>::new());
    natives
}

fn database(state: &Path, path: &str, schema: &str) -> Connection {
    let path = state.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let database = Connection::open(path).unwrap();
    database.execute_batch(schema).unwrap();
    database
}

#[test]
fn claude_code_is_named_by_the_session_itself() {
    let state = tempfile::tempdir().unwrap();
    let rows = [row("agent:main:a", "claude-cli"), row("agent:main:b", "openclaw")];
    assert!(found(state.path(), &rows).is_empty(), "no database");
    let schema =
        "CREATE TABLE session_nodes (session_key TEXT NOT NULL PRIMARY KEY, entry_json TEXT NOT NULL)";
    let database = database(state.path(), "agents/main/agent/openclaw-agent.sqlite", schema);
    let bound = json!({"cliSessionBindings": {"claude-cli": {"sessionId": "native-1"}}}).to_string();
    // The second session was bound once, and another runtime runs it now.
    for (key, entry) in [("agent:main:a", &*bound), ("agent:main:b", &*bound), ("agent:main:odd", "no json")]
    {
        database.execute("INSERT INTO session_nodes VALUES (?1, ?2)", [key, entry]).unwrap();
    }
    drop(database);
    let native = Native { adapter: "claude-code", id: "native-1".to_owned(), root: None };
    assert_eq!(found(state.path(), &rows), HashMap::from([("agent:main:a".to_owned(), native)]));
    let others = [row("agent:main:odd", "claude-cli"), row("agent:main:new", "claude-cli")];
    assert!(found(state.path(), &others).is_empty());
    let mut outside = row("agent:main:a", "claude-cli");
    outside.agent_id = Some("../main".to_owned());
    assert!(found(state.path(), &[outside]).is_empty());
}

/// What the plugin stored about a real thread, without the fingerprints.
fn recorded() -> Value {
    json!({"version": 1, "state": "active", "sessionId": SESSION, "binding": {
        "threadId": THREAD, "clientId": "7dfee3b8-0eb6-49c1-b123-677f6221ad0b", "cwd": "/home/dev/work",
        "rolloutPath": format!("{HOME}/sessions/2026/11/15/rollout-2026-11-15T18-32-48-{THREAD}.jsonl"),
        "model": "gpt-5.5", "modelProvider": "openai", "historyCoveredThrough": "2026-11-15T18:32:55.076Z"}})
}

#[test]
fn a_thread_of_codex_is_named_by_the_state_of_the_plugin_and_with_its_home() {
    let state = tempfile::tempdir().unwrap();
    let rows = [row(KEY, "codex"), row("agent:main:new", "codex")];
    let schema = "CREATE TABLE plugin_state_entries (plugin_id TEXT NOT NULL, namespace TEXT NOT NULL, \
        entry_key TEXT NOT NULL, value_json TEXT NOT NULL, created_at INTEGER NOT NULL, expires_at INTEGER, \
        PRIMARY KEY (plugin_id, namespace, entry_key)) STRICT";
    let database = database(state.path(), "state/openclaw.sqlite", schema);
    let insert =
        "INSERT INTO plugin_state_entries VALUES ('codex', 'app-server-thread-bindings', ?1, ?2, 0, NULL)";
    database.execute(insert, [ENTRY, &recorded().to_string()]).unwrap();
    drop(database);
    let native = Native { adapter: "codex", id: THREAD.to_owned(), root: Some(HOME.into()) };
    assert_eq!(found(state.path(), &rows), HashMap::from([(KEY.to_owned(), native)]));
    assert!(found(state.path(), &[row(KEY, "openclaw")]).is_empty(), "another runtime carries it now");
}

#[test]
fn only_a_binding_that_holds_now_names_a_thread() {
    let thread = |change: &dyn Fn(&mut Value)| {
        let mut stored = recorded();
        change(&mut stored);
        thread_of(&stored.to_string(), Some(SESSION)).map(|native| (native.id, native.root.is_some()))
    };
    let whole = Some((THREAD.to_owned(), true));
    assert_eq!(thread(&|_| ()), whole);
    assert_eq!(thread(&|stored| stored["sessionId"] = Value::Null), whole);
    assert_eq!(
        thread(&|stored| stored["sessionId"] = json!("older")),
        None,
        "of a transcript that was reset"
    );
    assert_eq!(thread(&|stored| *stored = json!({"version": 1, "state": "cleared"})), None);
    let pending = json!({"sourceThreadId": THREAD});
    assert_eq!(
        thread(&|stored| stored["binding"]["pendingSupervisionBranch"] = pending.clone()),
        None,
        "the thread that it will be copied from is another conversation"
    );
    let no_place = |stored: &mut Value| stored["binding"]["rolloutPath"] = Value::Null;
    assert_eq!(thread(&no_place), Some((THREAD.to_owned(), false)));
    assert_eq!(thread_of("no json", None), None);
}

#[test]
fn a_database_that_is_none_is_a_warning_and_hides_no_other() {
    let state = tempfile::tempdir().unwrap();
    drop(database(state.path(), "state/openclaw.sqlite", "CREATE TABLE other (x)"));
    let mut warnings = Vec::new();
    assert!(read(state.path(), [row(KEY, "codex")].iter(), &mut warnings).is_empty());
    assert!(warnings.len() == 1 && warnings[0].contains("plugin_state_entries"), "{warnings:?}");
}
