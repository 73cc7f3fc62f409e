//! `snapshot` and `--replay`: the same answers from the file, nothing readable in it, and hostile files.
#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests run processes and write what is read"
)]

mod machine;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use agentctl_snapshot::archive::{self, Parts};
use agentctl_testkit::agents::openclaw::{Ledger, ScriptedGateway};
use agentctl_testkit::{Pty, until};
use machine::agent::Agent;
use machine::{DIED, Ended, Machine, TOOLS};
use serde_json::{Value, json};

const AGENTS: [&str; 10] =
    ["claude-code", "codex", "copilot", "gemini", "kimi", "opencode", "pi", "pi-rust", "qwen", "slate"];
/// What must not be found in a redacted file. It is no word of ours.
const CANARY: &str = "zqcanary";

/// A recorded home, copied, with the variables that its case needs.
struct Recorded {
    name: String,
    home: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

impl Recorded {
    /// Every recorded case of every agent that keeps its sessions on disk.
    fn all() -> Vec<Self> {
        let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recorded");
        let mut all = Vec::new();
        let cases = AGENTS.iter().flat_map(|agent| {
            let mut cases: Vec<PathBuf> =
                fs::read_dir(recorded.join(agent)).unwrap().map(|entry| entry.unwrap().path()).collect();
            cases.retain(|case| case.is_dir());
            cases.sort();
            cases
        });
        for case in cases {
            let home = tempfile::tempdir().unwrap();
            machine::copy(&case, home.path());
            let expected = fs::read(case.parent().unwrap().join("expected.json")).unwrap_or_default();
            let expected: Value = serde_json::from_slice(&expected).unwrap_or_default();
            let case_name = case.file_name().unwrap().to_str().unwrap();
            let environ = expected["cases"][case_name]["env"].as_object().cloned().unwrap_or_default();
            let place = home.path().to_str().unwrap().to_owned();
            let variables = environ.into_iter();
            let variables =
                variables.map(|(name, value)| (name, value.as_str().unwrap().replace("{CASE}", &place)));
            let agent = case.parent().unwrap().file_name().unwrap().to_str().unwrap();
            all.push(Self { name: format!("{agent}/{case_name}"), variables: variables.collect(), home });
        }
        assert!(all.len() > 75, "{} recorded homes", all.len());
        all
    }

    fn keeps_a_database(&self) -> bool {
        self.name.starts_with("opencode/") && self.name != "opencode/v1.1-json"
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(agentctl_testkit::tested(env!("CARGO_BIN_EXE_agentctl")));
        command.args(args).env_clear().env("HOME", self.home.path()).env("TZ", "UTC").env("PATH", "/nowhere");
        command.env("AGENTCTL_NO_DAEMON", "1");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    fn json(&self, args: &[&str]) -> Value {
        let ended = Ended::of(&self.command(args).output().unwrap());
        assert_eq!(ended.code, Some(0), "{}: {args:?}: {ended:?}", self.name);
        serde_json::from_str(&ended.out).unwrap()
    }

    /// What `list` and, for each session, `explain`, `status` and `logs` answer.
    fn answers(&self, replay: &[&str]) -> Value {
        let all = ["list", "-a", "--since", "all", "--all-agents", "--json"];
        let mut list = self.json(&[replay, &all].concat());
        list.as_object_mut().unwrap().remove("asOf");
        list.as_object_mut().unwrap().remove("hosts");
        let ids: Vec<(String, String)> =
            list["sessions"].as_array().unwrap().iter().map(id_and_folder).collect();
        let mut each = Vec::new();
        let most = if is_long() { usize::MAX } else { 1 };
        for (id, cwd) in ids.iter().take(most) {
            let named: Vec<&str> = if cwd.is_empty() { vec![id] } else { vec![id, "--cwd", cwd] };
            let of = |command: &'static str| [replay, &[command], &named, &["--json"]].concat();
            each.push(self.json(&of("explain")));
            if !is_long() {
                continue;
            }
            each.push(self.json(&of("status")));
            let logs = Ended::of(&self.command(&of("logs")).output().unwrap());
            each.push(logs.out.into());
        }
        let mut all = json!({"list": list, "each": each});
        normalise(&mut all);
        all
    }

    fn snapshot(&self, name: &str, more: &[&str]) -> PathBuf {
        let file = self.home.path().join(name);
        let args = ["snapshot", file.to_str().unwrap(), "--since", "all", "--yes", "--json"];
        let taken = self.json(&[&args, more].concat());
        assert_eq!(taken["redacted"], !more.contains(&"--with-text"), "{taken:#}");
        file
    }
}

/// A short run takes a part of the recorded homes, and one session of each.
fn is_long() -> bool {
    std::env::var_os("AGENTCTL_LONG").is_some()
}

fn some_of_all() -> impl Iterator<Item = Recorded> {
    let step = if is_long() { 1 } else { 3 };
    let all = Recorded::all().into_iter().enumerate();
    all.filter(move |(at, recorded)| at % step == 0 || recorded.keeps_a_database())
        .map(|(_, recorded)| recorded)
}

/// An id may stand twice, in two folders.
fn id_and_folder(row: &Value) -> (String, String) {
    (row["id"].as_str().unwrap().to_owned(), row["cwd"].as_str().unwrap_or_default().to_owned())
}

/// Leaves out how long it took and when it was looked at, and the sources that no snapshot holds.
fn normalise(value: &mut Value) {
    match value {
        Value::Array(values) => {
            values.retain(|value| {
                let adapter = value["adapter"].as_str().unwrap_or_default();
                !(value.get("coverage").is_some() && (adapter == "openclaw" || adapter.starts_with("acp:")))
            });
            values.iter_mut().for_each(normalise);
        }
        Value::Object(pairs) => {
            pairs.remove("tookMs");
            pairs.remove("asOf");
            if pairs.get("source").is_some_and(|source| source == "kernel") {
                pairs.remove("at");
            }
            pairs.values_mut().for_each(normalise);
        }
        _ => {}
    }
}

/// The shape of every text: what the replacement leaves as it was.
fn shape(value: &Value) -> Value {
    let class = |c: char| match c {
        'a'..='z' => 'a',
        'A'..='Z' => 'A',
        '0'..='9' => '0',
        c if c.is_ascii() => c,
        _ => 'u',
    };
    match value {
        Value::String(text) => text.chars().map(class).collect::<String>().into(),
        Value::Array(values) => {
            let mut shapes: Vec<Value> = values.iter().map(shape).collect();
            shapes.sort_by_key(Value::to_string);
            shapes.into()
        }
        Value::Object(pairs) => pairs
            .iter()
            .map(|(key, value)| (key.clone(), shape(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

/// A whole snapshot without its compression.
fn unpacked(file: &Path) -> String {
    let parts = archive::unpack(&fs::read(file).unwrap()).unwrap();
    let mut all = String::from_utf8(parts.manifest).unwrap();
    for part in parts.files {
        all.push_str(&String::from_utf8_lossy(&part));
    }
    all
}

#[test]
fn a_replay_of_every_recorded_home_answers_as_the_machine_did() {
    let mut wrong = Vec::new();
    for recorded in some_of_all() {
        let live = recorded.answers(&[]);
        let whole = recorded.snapshot("whole.snapshot", &["--with-text"]);
        let replay = recorded.answers(&["--replay", whole.to_str().unwrap()]);
        assert_eq!(live, replay, "{}", recorded.name);
        let redacted = recorded.snapshot("redacted.snapshot", &[]);
        let redacted = redacted.to_str().unwrap();
        if recorded.keeps_a_database() {
            // Its records are put in order by their ids, so these stay, and so does everything that rests on them.
            let replay = recorded.answers(&["--replay", redacted]);
            let ids = |answers: &Value| -> Vec<String> {
                answers["list"]["sessions"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|row| id_and_folder(row).0)
                    .collect()
            };
            assert_eq!(ids(&replay), ids(&live), "{}", recorded.name);
            assert_eq!(shape(&replay["each"]), shape(&live["each"]), "{}", recorded.name);
        } else if is_long() {
            // The ids are others, and the order of the list says which belong together.
            let replay = recorded.answers(&["--replay", redacted]);
            let [then, now] = [&live, &replay].map(|answers| answers["each"].as_array().unwrap());
            assert_eq!(then.len(), now.len(), "{}", recorded.name);
            for (then, now) in then.iter().zip(now) {
                assert_eq!(shape(now), shape(then), "{}", recorded.name);
            }
        }
        let all = ["--replay", redacted, "list", "-a", "--since", "all", "--all-agents", "--json"];
        let mut replay = json!({"list": recorded.json(&all)});
        replay["list"].as_object_mut().unwrap().remove("hosts");
        normalise(&mut replay);
        if shape(&live["list"]) != shape(&replay["list"]) {
            wrong.push(format!(
                "{}: {:#}\n{:#}",
                recorded.name,
                shape(&live["list"]),
                shape(&replay["list"])
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A replay reads where the machine read, in whatever environment it is asked.
#[test]
fn the_variables_that_moved_a_root_are_in_the_snapshot() {
    for (case, root, variable) in [
        ("codex/simple", ".codex", "CODEX_HOME"),
        ("claude-code/simple-finished", ".claude", "CLAUDE_CONFIG_DIR"),
    ] {
        let mut recorded = Recorded::all().into_iter().find(|one| one.name == case).unwrap();
        let moved = recorded.home.path().join("moved/away");
        fs::create_dir_all(moved.parent().unwrap()).unwrap();
        fs::rename(recorded.home.path().join(root), &moved).unwrap();
        recorded.variables.push((variable.to_owned(), moved.to_str().unwrap().to_owned()));
        let live = recorded.answers(&[]);
        assert_eq!(live["list"]["sessions"].as_array().unwrap().len(), 1, "{case}: {live:#}");
        let whole = recorded.snapshot("whole.snapshot", &["--with-text"]);
        let manifest = archive::unpack(&fs::read(&whole).unwrap()).unwrap().manifest;
        let manifest: Value = serde_json::from_slice(&manifest).unwrap();
        assert_eq!(manifest["environ"][variable], moved.to_str().unwrap(), "{case}");
        let redacted = recorded.snapshot("redacted.snapshot", &[]);
        recorded.variables.clear();
        fs::remove_dir_all(&moved).unwrap();
        assert_eq!(recorded.answers(&["--replay", whole.to_str().unwrap()]), live, "{case}");
        let replay = recorded.answers(&["--replay", redacted.to_str().unwrap()]);
        assert_eq!(shape(&replay["list"]), shape(&live["list"]), "{case}");
    }
}

/// Plants the canary into every string of a JSON value, as a value, as a key and beside what is there. With `all` also
/// into the words that readers know.
fn plant(value: &mut Value, known: &BTreeSet<&str>, all: bool) {
    match value {
        Value::String(text) => {
            let is_time = text.parse::<jiff::Timestamp>().is_ok();
            let is_id = text.len() == 36 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
            let is_number = text.parse::<f64>().is_ok();
            if all || !(known.contains(text.as_str()) || is_time || is_id || is_number) {
                text.push_str(CANARY);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| plant(value, known, all)),
        Value::Object(pairs) => {
            pairs.values_mut().for_each(|value| plant(value, known, all));
            pairs.insert(format!("{CANARY}Key"), format!("my {CANARY} words").into());
        }
        _ => {}
    }
}

/// Plants the canary into every text of every table, into JSON as into files.
fn plant_in_database(path: &Path, known: &BTreeSet<&str>, all: bool) {
    let database = rusqlite::Connection::open(path).unwrap();
    database.execute_batch("PRAGMA foreign_keys=OFF; PRAGMA wal_autocheckpoint=0").unwrap();
    let names = |sql: &str, column: &str| -> Vec<String> {
        let mut statement = database.prepare(sql).unwrap();
        let names = statement.query_map([], |row| row.get(column)).unwrap();
        names.map(Result::unwrap).collect()
    };
    for table in names("SELECT name FROM sqlite_master WHERE type = 'table'", "name") {
        for column in names(&format!("PRAGMA table_info({table})"), "name") {
            let mut statement = database
                .prepare(&format!("SELECT rowid, {column} FROM {table} WHERE typeof({column}) = 'text'"))
                .unwrap();
            let cells = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
            let cells: Vec<(i64, String)> = cells.map(Result::unwrap).collect();
            for (row, cell) in cells {
                let mut value = match serde_json::from_str::<Value>(&cell) {
                    Ok(value @ (Value::Object(_) | Value::Array(_))) => value,
                    _ => cell.clone().into(),
                };
                plant(&mut value, known, all);
                let planted = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let update = format!("UPDATE {table} SET {column} = ?1 WHERE rowid = ?2");
                database.execute(&update, rusqlite::params![planted, row]).unwrap();
            }
        }
    }
}

fn plant_below(folder: &Path, known: &BTreeSet<&str>, all: bool) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.symlink_metadata().unwrap().is_dir() {
            plant_below(&entry, known, all);
            continue;
        }
        if entry.extension().is_some_and(|extension| extension == "db") {
            plant_in_database(&entry, known, all);
            continue;
        }
        let Ok(text) = fs::read_to_string(&entry) else { continue };
        let planted = if let Ok(mut whole) = serde_json::from_str::<Value>(&text) {
            plant(&mut whole, known, all);
            whole.to_string()
        } else {
            let lines = text.lines().map(|line| match serde_json::from_str::<Value>(line) {
                Ok(mut record) => {
                    plant(&mut record, known, all);
                    record.to_string()
                }
                Err(_) => format!("{line} {CANARY}"),
            });
            lines.map(|line| line + "\n").collect()
        };
        fs::write(&entry, planted).unwrap();
    }
}

#[test]
fn a_canary_in_every_string_of_every_recorded_home_is_not_in_the_file() {
    let words = include_str!("../../snapshot/src/words.txt");
    let known: BTreeSet<&str> = words.lines().collect();
    let (mut found, mut in_databases) = (0, 0);
    for all in [false, true] {
        for (number, recorded) in some_of_all().enumerate() {
            plant_below(recorded.home.path(), &known, all);
            let mut file = recorded.home.path().join("x.snapshot");
            let args = ["snapshot", file.to_str().unwrap(), "--since", "all", "--yes", "--json"];
            let mut command = recorded.command(&args);
            command.env("CODEX_SANDBOX", CANARY);
            let ended = Ended::of(&command.output().unwrap());
            assert_eq!(ended.code, Some(0), "{}: {ended:?}", recorded.name);
            let text = unpacked(&file).to_lowercase();
            let at = text.find(CANARY).map(|at| &text[at.saturating_sub(200)..(at + 60).min(text.len())]);
            assert_eq!(at, None, "{} (all: {all})", recorded.name);
            // With texts it is there, so it was planted where it is read.
            if number % 4 > 0 && !recorded.keeps_a_database() {
                continue;
            }
            file.set_extension("whole");
            let whole = ["snapshot", file.to_str().unwrap(), "--since", "all", "--yes", "--with-text"];
            assert_eq!(recorded.command(&whole).output().unwrap().status.code(), Some(0));
            let is_there = unpacked(&file).contains(CANARY);
            found += usize::from(is_there);
            in_databases += usize::from(is_there && recorded.keeps_a_database());
        }
    }
    assert_eq!(in_databases, 8, "it was in every database");
    assert!(found > 8, "the canary was in {found} snapshots with their texts");
}

/// Names say as much as texts: of folders, of files, and what a process was started with.
#[test]
fn a_canary_in_names_and_arguments_is_not_in_the_file() {
    let machine = Machine::furnished();
    let folder = machine.home().join(format!("my-{CANARY}-folder"));
    fs::create_dir(&folder).unwrap();
    let id = "cafe0000-0000-4000-8000-000000000001";
    let prompt = json!({"type": "user", "timestamp": "2026-11-15T10:00:00.000Z", "cwd": folder, "sessionId": id,
        "message": {"role": "user", "content": "go"}});
    let project = format!(".claude/projects/{}", folder.to_str().unwrap().replace('/', "-"));
    machine.write(&format!("{project}/{id}.jsonl"), &format!("{prompt}\n"));
    machine.write(&format!(".pi/agent/sessions/--{CANARY}--/{CANARY}.jsonl"), &{
        let header = json!({"type": "session", "version": 3, "id": "p1", "timestamp": "2026-11-15T10:00:00Z", "cwd": "/w"});
        format!("{header}\n")
    });
    let argument = folder.join(format!("{CANARY}.txt"));
    fs::write(&argument, "").unwrap();
    let started = Command::new("tail")
        .arg0("claude")
        .arg("-f")
        .arg(&argument)
        .env_clear()
        .env("HOME", machine.home())
        .env("SOME_VARIABLE", CANARY)
        .current_dir(&folder)
        .spawn();
    let agent = Agent::of(started.unwrap(), &machine, id, &folder);
    let file = machine.home().join("x.snapshot");
    for (with_text, more) in [(false, &[][..]), (true, &["--with-text"][..])] {
        let path = file.with_extension(with_text.to_string());
        let args = ["snapshot", path.to_str().unwrap(), "--since", "all", "--yes"];
        let taken = machine.run(&[&args, more].concat());
        assert_eq!(taken.code, Some(0), "{taken:?}");
        let text = unpacked(&path).to_lowercase();
        let at = text.find(CANARY).map(|at| &text[at.saturating_sub(200)..(at + 60).min(text.len())]);
        assert_eq!(at.is_some(), with_text, "{at:?}");
        let list = machine.json(&["--replay", path.to_str().unwrap(), "list", "--json"]);
        assert_eq!(list["sessions"][0]["status"], "running", "the process was taken along: {list:#}");
    }
    drop(agent);
}

#[test]
fn what_is_taken_is_confirmed_and_nothing_is_overwritten() {
    let machine = Machine::furnished();
    let file = machine.home().join("x.snapshot");
    let path = file.to_str().unwrap();
    let unasked = machine.run(&["snapshot", path, "--since", "all"]);
    assert!(unasked.code == Some(2) && unasked.err.contains("--yes"), "{unasked:?}");
    assert!(!file.exists());
    // On a terminal it asks, and only a yes is one.
    for (answer, is_written) in [("n\r", false), ("\r", false), ("y\r", true)] {
        let mut command = machine.command(&["snapshot", path, DIED]);
        let mut terminal = Pty::spawn(command.env("PATH", "/usr/bin:/bin"));
        let asked = terminal.wait_for("[y/N]");
        assert!(asked.contains("1 session") && !file.exists(), "{asked}");
        terminal.send(answer);
        let ended = until(Duration::from_mins(1), "the end of it", || terminal.try_wait());
        assert_eq!((ended.success(), file.exists()), (is_written, is_written), "{answer:?}");
    }
    fs::remove_file(&file).unwrap();
    let taken = machine.run(&["snapshot", path, DIED, "--yes"]);
    assert_eq!(taken.code, Some(0), "{taken:?}");
    assert!(
        taken.err.contains(DIED) && taken.err.contains("1 session") && taken.err.contains("filler"),
        "{taken:?}"
    );
    assert!(!taken.err.contains(TOOLS), "only what was chosen: {taken:?}");
    let again = machine.run(&["snapshot", path, DIED, "--yes"]);
    assert!(again.code == Some(7) && again.err.contains("exists already"), "{again:?}");
    assert_eq!(machine.run(&["snapshot", "/nowhere/x", "nobody", "--yes"]).code, Some(3));
    let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);

    let list = machine.json(&["--replay", path, "list", "-a", "--since", "all", "--json"]);
    let ids: Vec<&str> =
        list["sessions"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [DIED], "{list:#}");
    let shown = machine.run(&["--replay", path, "explain", DIED]);
    assert!(shown.out.contains("is ✕ died") && !shown.out.contains("agentctl-copy-"), "{shown:?}");
    for refused in [
        &["stop", DIED][..],
        &["resume", DIED, "x"],
        &["logs", "-f", DIED],
        &["recover"],
        &["daemon", "status"],
    ] {
        let ended = machine.run(&[&["--replay", path], refused].concat());
        assert!(ended.code == Some(2) && ended.err.contains("a snapshot answers"), "{refused:?}: {ended:?}");
    }
    let left = fs::read_dir(machine.home().join(".agentctl/copies")).map(Iterator::count);
    assert_eq!(left.unwrap_or(0), 0, "the private folder is removed");
}

#[test]
fn a_hostile_file_is_only_data() {
    let machine = Machine::furnished();
    let file = machine.home().join("x.snapshot");
    let path = file.to_str().unwrap();
    assert_eq!(machine.run(&["snapshot", path, DIED, "--yes"]).code, Some(0));
    let good = archive::unpack(&fs::read(&file).unwrap()).unwrap();
    let refused = |bytes: &[u8], what: &str| {
        fs::write(&file, bytes).unwrap();
        let ended = machine.run(&["--replay", path, "list", "-a", "--since", "all"]);
        assert_eq!(ended.code, Some(1), "{what}: {ended:?}");
        assert!(ended.err.starts_with("error: ") && ended.err.contains("x.snapshot"), "{what}: {ended:?}");
    };
    let whole = fs::read(&file).unwrap();
    refused(b"", "empty");
    refused(b"garbage", "garbage");
    refused(&whole[..whole.len() / 2], "truncated");
    let outside = machine.home().join("outside");
    let escapes = [
        outside.to_str().unwrap().to_owned() + "/../../../../../../../../../../tmp/agentctl-escaped",
        "../../outside".to_owned(),
        "relative".to_owned(),
        "/".to_owned(),
        String::new(),
        "/a\u{0}b".to_owned(),
        "/x".repeat(2000),
    ];
    let manifest: Value = serde_json::from_slice(&good.manifest).unwrap();
    let packed = |manifest: &Value| {
        let files = good.files.clone();
        archive::pack(&Parts { manifest: manifest.to_string().into_bytes(), files }).unwrap()
    };
    for escape in &escapes {
        for place in ["/files/0/path", "/folders/0"] {
            let mut changed = manifest.clone();
            *changed.pointer_mut(place).unwrap() = escape.as_str().into();
            refused(&packed(&changed), &format!("{place} {escape:?}"));
        }
    }
    let change = |pointer: &str, value: Value| {
        let mut changed = manifest.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        packed(&changed)
    };
    refused(&change("/version", 99.into()), "a later version");
    refused(&change("/files", json!([])), "records without a path");
    refused(&change("/held", json!(["/../x"])), "a lock outside");
    // Two records at one path, and a record where a folder is.
    let first = manifest["files"][0].clone();
    let twice = vec![first; manifest["files"].as_array().unwrap().len()];
    if twice.len() > 1 {
        refused(&change("/files", twice.into()), "two records at one path");
    }
    refused(&change("/files/0/path", manifest["folders"][0].clone()), "a record at a folder's path");
    assert!(!outside.exists() && !Path::new("/tmp/agentctl-escaped").exists());
    // A root outside is not read: there is nothing but what was unpacked.
    fs::write(&file, change("/sources/0/root", machine.home().join(".claude").to_str().unwrap().into()))
        .unwrap();
    let list = machine.json(&["--replay", path, "list", "-a", "--since", "all", "--json"]);
    assert_eq!(list["sessions"].as_array().unwrap().len(), 0, "{list:#}");
    fs::write(&file, &whole).unwrap();
    assert_eq!(machine.run(&["--replay", path, "list"]).code, Some(0));
}

#[test]
fn a_database_of_somebody_else_is_refused_and_rows_are_only_values() {
    let recorded = Recorded::all().into_iter().find(|one| one.name == "opencode/v1.18-sqlite").unwrap();
    let file = recorded.snapshot("x.snapshot", &["--with-text"]);
    let good = archive::unpack(&fs::read(&file).unwrap()).unwrap();
    let manifest: Value = serde_json::from_slice(&good.manifest).unwrap();
    let entries = manifest["files"].as_array().unwrap();
    let at = entries.iter().position(|entry| entry["databaseOf"] == "opencode").unwrap();
    let path = entries[at]["path"].as_str().unwrap();
    assert!(!good.files.iter().any(|part| part.starts_with(b"SQLite")), "no database is copied");
    let answer = |entry: Value, part: &[u8]| {
        let (mut manifest, mut files) = (manifest.clone(), good.files.clone());
        manifest["files"][at] = entry;
        files[at] = part.to_owned();
        let parts = Parts { manifest: manifest.to_string().into_bytes(), files };
        fs::write(&file, archive::pack(&parts).unwrap()).unwrap();
        let args = ["--replay", file.to_str().unwrap(), "list", "-a", "--since", "all", "--json"];
        Ended::of(&recorded.command(&args).output().unwrap())
    };
    let refused = |entry: &Value, part: &[u8], what: &str| {
        let ended = answer(entry.clone(), part);
        assert_eq!(ended.code, Some(1), "{what}: {ended:?}");
        assert!(ended.err.starts_with("error: ") && ended.err.contains("x.snapshot"), "{what}: {ended:?}");
    };
    let entry = &entries[at];
    let with = |key: &str, value: Value| {
        let mut changed = entry.clone();
        changed[key] = value;
        changed
    };
    let database = fs::read(path).unwrap();
    refused(entry, &database, "a database instead of rows");
    refused(&with("databaseOf", Value::Null), &database, "a database as a record");
    refused(&with("path", format!("{path}-wal").into()), b"{}", "a log beside a database");
    refused(&with("path", format!("{path}-journal").into()), b"", "a journal beside a database");
    refused(&with("databaseOf", "claude-code".into()), &good.files[at], "an agent without a database");
    refused(&with("databaseOf", "nobody".into()), &good.files[at], "no agent");
    refused(entry, br#"{"table":"sqlite_master","columns":["sql"]}"#, "a schema");
    // What is text in a cell stays text: nothing of it is ever SQL.
    let rows = "{\"table\":\"session\",\"columns\":[\"id\",\"parent_id\",\"directory\",\"title\",\"time_created\",\"time_updated\"]}\n\
        [\"ses_x'); DROP TABLE session; --\",null,\"/w\",\"'||load_extension('x')||'\",1,2]\n\
        {\"table\":\"message\",\"columns\":[\"id\",\"session_id\",\"time_created\",\"data\"]}\n\
        {\"table\":\"part\",\"columns\":[\"id\",\"message_id\",\"data\"]}\n";
    let shown = answer(entry.clone(), rows.as_bytes());
    let list: Value = serde_json::from_str(&shown.out).unwrap();
    assert_eq!(list["sessions"][0]["name"], "'||load_extension('x')||'", "{shown:?}");
}

/// How one source was heard, without how long it took.
fn heard(list: &Value, adapter: &str) -> Value {
    let sources = list["sources"].as_array().unwrap();
    let mut source = sources.iter().find(|source| source["adapter"] == adapter).unwrap().clone();
    source.as_object_mut().unwrap().remove("tookMs");
    source
}

const LIST: [&str; 5] = ["list", "-a", "--since", "all", "--json"];

#[test]
fn what_was_not_heard_is_not_heard_in_a_replay() {
    let recorded = Recorded::all().into_iter().find(|one| one.name == "opencode/v1.18-sqlite").unwrap();
    // A database that begins like one and holds nothing that can be read.
    let database = recorded.home.path().join(".local/share/opencode/opencode.db");
    let mut bytes = fs::read(&database).unwrap();
    bytes[100..4096].fill(0xff);
    fs::write(&database, bytes).unwrap();
    // A folder of which only a part can be read.
    let projects = recorded.home.path().join(".claude/projects/-w");
    fs::create_dir_all(&projects).unwrap();
    let dangling = projects.join("11111111-0000-4000-8000-000000000001.jsonl");
    std::os::unix::fs::symlink(recorded.home.path().join("nothing"), dangling).unwrap();

    let live = recorded.json(&LIST);
    let [database, folder] = ["opencode", "claude-code"].map(|adapter| heard(&live, adapter));
    assert_eq!((&database["coverage"], &database["sessions"]), (&json!("failed"), &Value::Null), "{live:#}");
    assert_eq!(folder["coverage"], "partial", "{folder:#}");
    let unknown = recorded.command(&["status", "ses_nobody"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(6));
    for (name, more) in [("whole.snapshot", &["--with-text"][..]), ("redacted.snapshot", &[])] {
        let file = recorded.snapshot(name, more);
        let replay = ["--replay", file.to_str().unwrap()];
        let replayed = recorded.json(&[&replay[..], &LIST].concat());
        for (adapter, then) in [("opencode", &database), ("claude-code", &folder)] {
            let now = heard(&replayed, adapter);
            if more.is_empty() {
                assert_eq!(shape(&now), shape(then), "{name}");
            } else {
                assert_eq!(&now, then, "{name}");
            }
        }
        let error = heard(&replayed, "opencode")["error"].as_str().unwrap().to_owned();
        assert!(error.ends_with(": database disk image is malformed"), "the reason stays: {error}");
        let unknown = recorded.command(&[&replay[..], &["status", "ses_nobody"]].concat()).output().unwrap();
        assert_eq!(unknown.status.code(), Some(6), "{name} {unknown:?}");
    }
    // The reason names a file, whose folders are those of a person.
    let home = recorded.home.path().file_name().unwrap().to_str().unwrap().to_owned();
    let inside = unpacked(&recorded.home.path().join("redacted.snapshot"));
    assert!(!inside.contains(&home), "{home} is in it");
}

#[test]
fn a_snapshot_without_sessions_says_nothing_about_this_machine() {
    let machine = Machine::empty();
    let file = machine.home().join("x.snapshot");
    let file = file.to_str().unwrap();
    let _ = machine.json(&["snapshot", file, "--yes", "--json"]);
    let ended = machine.run(&["--replay", file, "list", "-a"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!ended.out.contains("this machine") && !ended.out.contains("copies"), "{ended:?}");
}

#[test]
fn a_gateway_is_asked_in_no_replay_and_says_so() {
    let machine = Machine::furnished();
    let row =
        json!({"key": "agent:main:own", "hasActiveRun": true, "workspaceDir": "/w", "displayName": "a run"});
    let ledger = Ledger { rows: vec![row], ..Ledger::default() };
    let gateway = ScriptedGateway::start(move |step| ledger.answer(step));
    let (open, away) = (&*gateway.url(), "ws://127.0.0.1:1");
    let settings = format!(
        "[adapters.openclaw]\ntimeout = \"30s\"\ngateways = [{{url = \"{open}\", token = \"t\"}}, \
         {{url = \"{away}\", token = \"t\"}}]\n"
    );
    machine.write(".agentctl/config.toml", &settings);
    let file = machine.home().join("x.snapshot");
    let file = file.to_str().unwrap();
    let _ = machine.json(&["snapshot", file, "--since", "all", "--yes", "--with-text", "--json"]);
    let connections = gateway.connections();
    let list = machine.json(&[&["--replay", file], &LIST[..]].concat());
    let row = |root: &str| {
        let mut sources = list["sources"].as_array().unwrap().iter();
        sources.find(|source| source["root"] == root).unwrap_or_else(|| panic!("{root}: {list:#}")).clone()
    };
    assert_eq!(row(open)["coverage"], "failed");
    assert_eq!(row(open)["error"], "its sessions are in a server, which cannot be packed");
    assert_eq!(row(away)["error"], "connection refused", "as the machine said");
    let ended = machine.run(&["--replay", file, "status", "agent:main:own"]);
    assert_eq!(ended.code, Some(6), "{ended:?}");
    assert_eq!(gateway.connections(), connections, "nobody was asked");
}

/// The cases that `cargo xtask replay` made of snapshots.
#[test]
fn every_snapshot_that_became_a_case_is_answered_as_expected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recorded/snapshots");
    let machine = Machine::empty();
    let mut cases = 0;
    for entry in fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()) {
        let expected = entry.with_extension("json");
        if entry.extension().is_none_or(|extension| extension != "snapshot") {
            continue;
        }
        cases += 1;
        let args =
            ["--replay", entry.to_str().unwrap(), "list", "-a", "--since", "all", "--all-agents", "--json"];
        let mut list = machine.json(&args);
        normalise(&mut list);
        let mut expected: Value = serde_json::from_slice(&fs::read(expected).unwrap()).unwrap();
        normalise(&mut expected);
        assert_eq!(list, expected, "{}", entry.display());
    }
    assert!(cases > 0, "there is a case at least");
}
