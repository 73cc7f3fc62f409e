//! The search against a slow reader: one that lists every session first, decodes every record of each, and knows neither a
//! sieve nor files. Over the recorded homes of all agents, as they are and with their records spelled otherwise.

#![allow(clippy::disallowed_methods, reason = "tests write what is read")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs::{self, File};
use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use agentctl_adapters::agents::pi::Pi;
use agentctl_adapters::search::Pattern;
use agentctl_adapters::{Adapter, Card, Conversation, Follow, ListFiles, ReadError, Root, Scope, registry};
use agentctl_fleet::{Fleet, ListFilter, Query, SearchEnd, SearchQuery, Since, Sort, Source, Told, Wanted};
use agentctl_model::{Entry, Environ, Harvest, Joined, KernelView, ProcessHead, Role, Status, Surveyed};
use agentctl_process::fake::Scripted;
use jiff::Timestamp;
use serde_json::Value;

/// What is compared: the session, the place in it, who spoke, the line, and the session's status.
type Row = (String, String, Role, String, Status);

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The recorded homes of every agent that keeps its sessions here. The short run takes every third.
fn homes() -> Vec<PathBuf> {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recorded");
    let folders = |of: PathBuf| -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> = fs::read_dir(of).unwrap().map(|entry| entry.unwrap().path()).collect();
        all.retain(|path| path.is_dir());
        all.sort();
        all
    };
    let step = if std::env::var_os("AGENTCTL_LONG").is_some() { 1 } else { 3 };
    let agents = registry().into_iter().filter(|adapter| adapter.gateway().is_none());
    agents.flat_map(|adapter| folders(recorded.join(adapter.card().name)).into_iter().step_by(step)).collect()
}

fn fleet(home: &Path) -> Fleet {
    let environ = Environ::from_iter([("HOME", home.to_owned())]);
    let source = |adapter: &'static dyn agentctl_adapters::Adapter| {
        let root = adapter.root(&environ)?;
        Some(Source { adapter, root, timeout: Duration::from_mins(1) })
    };
    let sources = registry().into_iter().filter(|adapter| adapter.gateway().is_none()).filter_map(source);
    Fleet::new(sources.collect(), Arc::new(Scripted::new()))
}

fn sessions(fleet: &Fleet) -> Vec<Surveyed> {
    let filter = ListFilter { sort: Sort::Updated, ..ListFilter::default() };
    let query = Query { subagents: true, filter, ..Query::new(Wanted::All { since: Since::Ever }) };
    fleet.list(&query).sessions
}

/// Every entry of a session with its name, oldest first.
fn entries(fleet: &Fleet, session: &Surveyed) -> Vec<(String, Entry)> {
    let source = fleet.source(&session.key.adapter, &session.key.root).unwrap();
    match source.adapter.conversation(&session.place, &session.key.id) {
        Conversation::Nothing => Vec::new(),
        Conversation::Records { read, .. } => read(&|_| true).unwrap().entries,
        Conversation::Lines { path, parse, compressed, .. } => {
            let mut bytes = Vec::new();
            let Ok(mut file) = File::open(&path) else { return Vec::new() };
            file.read_to_end(&mut bytes).unwrap();
            if compressed {
                let mut unpacked = Vec::new();
                let mut decoder = ruzstd::decoding::StreamingDecoder::new(bytes.as_slice()).unwrap();
                decoder.read_to_end(&mut unpacked).unwrap();
                bytes = unpacked;
            }
            let mut at = 0;
            let mut all = Vec::new();
            for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                let shown = parse(line).into_iter().enumerate();
                all.extend(shown.map(|(index, entry)| (format!("{at}.{index}"), entry)));
                at += line.len();
            }
            all
        }
    }
}

/// What stands in no record: the words that are shown in the place of one.
fn is_own_word(role: Role, line: &str) -> bool {
    let own = ["interrupted", "the turn failed", "error", "the conversation was compacted"];
    role == Role::System && own.iter().any(|word| line.starts_with(word))
}

struct Slow {
    sessions: Vec<(Surveyed, Vec<(String, Entry)>)>,
}

impl Slow {
    fn read(fleet: &Fleet) -> Self {
        let sessions = sessions(fleet).into_iter().map(|session| {
            let entries = entries(fleet, &session);
            (session, entries)
        });
        Self { sessions: sessions.collect() }
    }

    fn search(&self, asked: &SearchQuery) -> Vec<Row> {
        let since = asked.since.start(Timestamp::now());
        let is_old = |at: Option<Timestamp>| at.zip(since).is_some_and(|(at, since)| at < since);
        let mut rows = Vec::new();
        for (session, entries) in &self.sessions {
            let is_there = |cwd: &str| asked.folders.iter().any(|folder| Path::new(cwd).starts_with(folder));
            let is_elsewhere =
                !asked.folders.is_empty() && !session.session.cwd.as_deref().is_some_and(is_there);
            if is_elsewhere || is_old(session.session.updated_at) {
                continue;
            }
            let before = rows.len();
            for (position, entry) in entries.iter().rev() {
                let is_asked = asked.roles.is_empty() || asked.roles.contains(&entry.role);
                let found = (is_asked && !is_old(entry.at))
                    .then(|| asked.pattern.find(entry, asked.around))
                    .flatten();
                rows.extend(found.map(|shown| {
                    let id = session.key.id.clone();
                    (id, position.clone(), entry.role, shown.line, session.session.status)
                }));
            }
            rows.truncate(if asked.once { before + 1 } else { usize::MAX });
        }
        rows.retain(|row| !is_own_word(row.2, &row.3));
        rows.truncate(asked.limit);
        rows
    }

    /// Words of one message: its first and its last one.
    fn pair(&self) -> Option<[String; 2]> {
        let texts = self.sessions.iter().flat_map(|(_, entries)| entries).map(|(_, entry)| &entry.text);
        let pairs = texts.filter_map(|text| {
            let mut words = text.split_whitespace().map(str::to_owned);
            Some([words.next()?, words.next_back()?])
        });
        pairs.max_by_key(|pair| pair.concat().len())
    }

    /// A few words that really stand there, of each role and with letters beyond ASCII.
    fn words(&self) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        for entry in self.sessions.iter().flat_map(|(_, entries)| entries).map(|(_, entry)| entry) {
            let own =
                entry.text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.chars().count() > 3);
            words.extend(own.clone().max_by_key(|word| word.len()).map(str::to_owned));
            words.extend(own.clone().find(|word| !word.is_ascii()).map(str::to_owned));
            // A part of a line as it stands, with whatever is in it.
            words.push(entry.text.chars().skip(3).take(9).collect());
        }
        words.retain(|word| !word.trim().is_empty());
        words.sort();
        words.dedup();
        let step = words.len().div_ceil(24).max(1);
        words.into_iter().step_by(step).collect()
    }
}

fn asked(pattern: Pattern, roles: &[Role]) -> SearchQuery {
    SearchQuery {
        pattern,
        roles: roles.to_vec(),
        adapters: Vec::new(),
        folders: Vec::new(),
        group: None,
        since: Since::Ever,
        limit: 100_000,
        around: 0,
        once: false,
    }
}

fn found(fleet: &Fleet, asked: &SearchQuery) -> (Vec<Row>, SearchEnd) {
    let mut rows = Vec::new();
    let end = fleet.search(asked, &mut |told| {
        if let Told::Hit(hit) = told {
            rows.push((hit.session_id, hit.hit, hit.role, hit.line, hit.status));
        }
        ControlFlow::Continue(())
    });
    (rows, end)
}

/// Compares every question that can be asked of a home; returns how many hits there were.
fn agree(home: &Path, what: &str) -> usize {
    let fleet = fleet(home);
    let slow = Slow::read(&fleet);
    let mut hits = 0;
    let mut compare = |asked: &SearchQuery| {
        let (mut rows, end) = found(&fleet, asked);
        assert_eq!(end.hits, rows.len(), "{what}");
        rows.retain(|row| !is_own_word(row.2, &row.3));
        assert_eq!(rows, slow.search(asked), "{what}: {asked:?}");
        hits += rows.len();
    };
    let literal = |word: &str| Pattern::new(&[word.to_owned()], false, false).unwrap();
    for word in slow.words() {
        compare(&asked(literal(&word), &[]));
        compare(&asked(Pattern::new(&[word.to_uppercase()], false, true).unwrap(), &[]));
    }
    for role in [Role::User, Role::Agent, Role::Tool] {
        compare(&asked(Pattern::new(&["[a-z]{3}".to_owned()], true, false).unwrap(), &[role]));
        compare(&asked(literal("e"), &[role]));
    }
    // Several words, a time in the middle, few hits, one for each session, one folder. What agentctl itself says for a
    // record is of no role that is asked for here, so that it takes nobody's place among few.
    let people = [Role::User, Role::Agent, Role::Tool];
    if let Some(pair) = slow.pair() {
        compare(&asked(Pattern::new(&pair, false, false).unwrap(), &people));
    }
    let some = || asked(literal("e"), &people);
    let mut times: Vec<Timestamp> =
        slow.sessions.iter().flat_map(|(_, entries)| entries).filter_map(|(_, entry)| entry.at).collect();
    times.sort_unstable();
    // OpenCode's sessions are chosen by when their newest message began, and none of those recorded was written over the
    // turn of a minute.
    let middle =
        times.get(times.len() / 2).map(|at| Timestamp::from_second(at.as_second() / 60 * 60).unwrap());
    for since in middle.map(Since::Moment).into_iter().chain([Since::Ever]) {
        for limit in [1, 3, 100_000] {
            for once in [false, true] {
                compare(&SearchQuery { since, limit, once, around: limit % 2, ..some() });
            }
        }
    }
    for folder in slow.sessions.iter().filter_map(|(session, _)| session.session.cwd.as_ref()).take(2) {
        compare(&SearchQuery { folders: vec![folder.into()], ..some() });
    }
    opens(&fleet, &slow, &some(), what);
    hits
}

/// Every place at which something was found opens there. The short run takes some of each home.
fn opens(fleet: &Fleet, slow: &Slow, asked: &SearchQuery, what: &str) {
    let (rows, _) = found(fleet, asked);
    let most = if std::env::var_os("AGENTCTL_LONG").is_some() { usize::MAX } else { 16 };
    for (id, hit, role, ..) in rows.iter().step_by(rows.len().div_ceil(most).max(1)) {
        let of = |one: &&(Surveyed, Vec<(String, Entry)>)| {
            one.0.key.id == *id && one.1.iter().any(|(position, _)| position == hit)
        };
        let (session, entries) = slow.sessions.iter().find(of).unwrap();
        let index = entries.iter().position(|(position, _)| position == hit).unwrap();
        let (shown, at) = fleet.read_around(session, hit, (1, 1)).unwrap().expect(what);
        let told: Vec<_> = shown.iter().map(|entry| (entry.at, entry.role, first(&entry.text))).collect();
        let around = &entries[index.saturating_sub(1)..(index + 2).min(entries.len())];
        let meant: Vec<_> =
            around.iter().map(|(_, entry)| (entry.at, entry.role, first(&entry.text))).collect();
        assert_eq!((told, shown[at].role), (meant, *role), "{what}: {id} at {hit}");
    }
    let nowhere = slow.sessions.first().map(|(session, _)| fleet.read_around(session, "7777777.0", (1, 1)));
    assert!(nowhere.is_none_or(|shown| shown.unwrap().is_none()), "{what}");
}

/// The beginning of a text: what is shown is shorter than what was searched.
fn first(text: &str) -> String {
    text.chars().take(100).collect()
}

/// The same JSON in another spelling: every third character of every text as an escape.
fn respelled(line: &str) -> Option<String> {
    fn write(value: &Value, out: &mut String) {
        match value {
            Value::String(text) => {
                out.push('"');
                for (index, letter) in text.chars().enumerate() {
                    let mut units = [0; 2];
                    if index % 3 == 1 || letter < ' ' || letter == '"' || letter == '\\' {
                        let units = letter.encode_utf16(&mut units).iter();
                        out.extend(units.map(|unit| format!("\\u{unit:04x}")));
                    } else {
                        out.push(letter);
                    }
                }
                out.push('"');
            }
            Value::Array(values) => {
                out.push('[');
                for (index, value) in values.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    write(value, out);
                }
                out.push(']');
            }
            Value::Object(values) => {
                out.push('{');
                for (index, (name, value)) in values.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    out.push_str(&Value::String(name.clone()).to_string());
                    out.push(':');
                    // Agents find their records by these words, which they never escape.
                    let is_mark = matches!(name.as_str(), "type" | "role" | "kind" | "event" | "id");
                    if is_mark { out.push_str(&value.to_string()) } else { write(value, out) }
                }
                out.push('}');
            }
            other => out.push_str(&other.to_string()),
        }
    }
    let value: Value = serde_json::from_str(line).ok()?;
    let mut out = String::new();
    write(&value, &mut out);
    Some(out)
}

/// Changes every file of JSON lines below a folder.
fn change(folder: &Path, with: &dyn Fn(&Path, String)) {
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            change(&path, with);
        } else if path.extension().is_some_and(|extension| extension == "jsonl")
            && let Ok(text) = fs::read_to_string(&path)
        {
            with(&path, text);
        }
    }
}

fn placed(home: &Path) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    copy(home, place.path());
    place
}

#[test]
fn every_recorded_home_is_searched_as_a_slow_reader_would() {
    let mut hits = 0;
    for home in homes() {
        let place = placed(&home);
        let path = fs::canonicalize(place.path()).unwrap();
        hits += agree(&path, &format!("{}", home.display()));
        // The times of files decide what is read first, and must not decide what is told first: every other one is as old
        // as its last record, so that its session may be told before the others were read.
        for (index, session) in sessions(&fleet(&path)).iter().enumerate() {
            if let (0, Some(at), Ok(file)) =
                (index % 2, session.session.updated_at, File::open(&session.place))
            {
                file.set_modified(at.into()).unwrap();
            }
        }
        hits += agree(&path, &format!("{} with the times of its records", home.display()));
    }
    assert!(hits > 1000, "{hits}");
}

#[test]
fn a_text_is_found_however_its_record_spells_it() {
    let mut hits = 0;
    for home in homes() {
        let place = placed(&home);
        let path = fs::canonicalize(place.path()).unwrap();
        change(&path, &|file, text| {
            let lines = text.lines().map(|line| respelled(line).unwrap_or_else(|| line.to_owned()));
            fs::write(file, lines.map(|line| line + "\n").collect::<String>()).unwrap();
        });
        hits += agree(&path, &format!("{} spelled otherwise", home.display()));
    }
    assert!(hits > 500, "{hits}");
}

#[test]
fn compressed_rollouts_are_searched_like_others() {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recorded/codex/tools");
    let place = placed(&home);
    let path = fs::canonicalize(place.path()).unwrap();
    change(&path, &|file, text| {
        let name = file.file_name().unwrap().to_str().unwrap();
        if name.starts_with("rollout-") {
            let packed = compress_to_vec(text.as_bytes(), CompressionLevel::Fastest);
            fs::write(file.with_file_name(format!("{name}.zst")), packed).unwrap();
            fs::remove_file(file).unwrap();
        }
    });
    assert!(agree(&path, "compressed") > 20);
}

#[test]
fn what_is_not_heard_is_told_and_an_older_copy_is_not_searched() {
    let home = tempfile::tempdir().unwrap();
    let path = fs::canonicalize(home.path()).unwrap();
    let id = "aaaaaaaa-0000-4000-8000-00000000000a";
    let said = |at: &str, text: &str| {
        format!(
            "{}\n",
            serde_json::json!({"type": "user", "timestamp": at, "cwd": "/w", "sessionId": id,
                "message": {"role": "user", "content": text}})
        )
    };
    let put = |folder: &str, text: &str| {
        let file = path.join(".claude/projects").join(folder).join(format!("{id}.jsonl"));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    };
    put("-w", &said("2026-11-11T10:00:00.000Z", "the newer needle"));
    put("-copy", &said("2026-11-10T10:00:00.000Z", "the older needle"));
    let ask = |word: &str| {
        let (rows, end) =
            found(&fleet(&path), &asked(Pattern::new(&[word.to_owned()], false, false).unwrap(), &[]));
        (rows.into_iter().map(|row| row.3).collect::<Vec<_>>(), end.heard_all())
    };
    assert_eq!(ask("needle"), (vec!["the newer needle".to_owned()], true));
    assert_eq!(ask("older"), (Vec::new(), true), "one id is one session");
    // A file of which nothing can be read may hold anything.
    fs::write(path.join(".claude/projects/-w/bbbbbbbb-0000-4000-8000-00000000000b.jsonl"), "no record\n")
        .unwrap();
    assert_eq!(ask("needle"), (vec!["the newer needle".to_owned()], false));
    assert_eq!(ask("nowhere"), (Vec::new(), false));
    fs::remove_file(path.join(".claude/projects/-w/bbbbbbbb-0000-4000-8000-00000000000b.jsonl")).unwrap();
    std::os::unix::fs::symlink(
        "nothing",
        path.join(".claude/projects/-w/cccccccc-0000-4000-8000-00000000000c.jsonl"),
    )
    .unwrap();
    assert_eq!(ask("nowhere"), (Vec::new(), false), "a link to nothing is still there");
}

/// A name that a user chose says nothing of the id, and a name can lie.
#[test]
fn files_with_any_name_are_found() {
    let home = tempfile::tempdir().unwrap();
    let path = fs::canonicalize(home.path()).unwrap();
    let store = path.join(".pi/agent/sessions/--w--");
    fs::create_dir_all(&store).unwrap();
    for (name, id) in [
        ("mine.jsonl", "aaaaaaaa-0000-4000-8000-00000000000a"),
        ("2026-11-15T06-53-06-724Z_dddddddd.jsonl", "bbbbbbbb-0000-4000-8000-00000000000b"),
    ] {
        let header = serde_json::json!({"type": "session", "version": 3, "id": id, "cwd": "/w",
            "timestamp": "2026-11-15T06:53:06.724Z"});
        let message = serde_json::json!({"type": "message", "id": "m1", "parentId": null,
            "timestamp": "2026-11-15T06:53:07.724Z",
            "message": {"role": "user", "content": [{"type": "text", "text": format!("needle in {name}")}]}});
        fs::write(store.join(name), format!("{header}\n{message}\n")).unwrap();
    }
    let (rows, end) =
        found(&fleet(&path), &asked(Pattern::new(&["needle".to_owned()], false, false).unwrap(), &[]));
    assert_eq!(rows.len(), 2, "{rows:?} {:?}", end.sources);
    assert!(agree(&path, "any name") > 0);
}

/// Pi, whose files with `long` in their names are not read to their end before a hit was told, or the deadline is over.
struct Slowly;

static HAS_HIT: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());
const DEADLINE: Duration = Duration::from_secs(20);

impl Adapter for Slowly {
    fn card(&self) -> &'static Card {
        Pi.card()
    }

    fn root(&self, environ: &Environ) -> Option<Root> {
        Pi.root(environ)
    }

    fn survey(&self, root: &Root, scope: &Scope<'_>) -> Harvest {
        Pi.survey(root, scope)
    }

    fn recognises(&self, head: &ProcessHead) -> bool {
        Pi.recognises(head)
    }

    fn join(&self, root: &Root, harvest: &Harvest, kernel: &KernelView) -> Joined {
        Pi.join(root, harvest, kernel)
    }

    fn read(&self, place: &Path, id: &str, limit: usize) -> Result<Vec<Entry>, ReadError> {
        Pi.read(place, id, limit)
    }

    fn follow(&self, place: &Path, id: &str, backlog: usize) -> Result<Box<dyn Follow>, ReadError> {
        Pi.follow(place, id, backlog)
    }

    fn conversation(&self, place: &Path, id: &str) -> Conversation<'_> {
        if !place.to_string_lossy().contains("long") {
            return Pi.conversation(place, id);
        }
        Conversation::records(|_| {
            let (told, changed) = &HAS_HIT;
            let _ = changed.wait_timeout_while(told.lock().unwrap(), DEADLINE, |told| !*told).unwrap();
            Ok(Vec::new())
        })
    }

    fn stored(&self) -> Option<ListFiles> {
        Pi.stored()
    }
}

#[test]
fn a_hit_does_not_wait_for_older_files_that_are_long() {
    let home = tempfile::tempdir().unwrap();
    let path = fs::canonicalize(home.path()).unwrap();
    let store = path.join(".pi/agent/sessions/--w--");
    fs::create_dir_all(&store).unwrap();
    // Every thread ends up in a long file; the one that searched the newest file too.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let long = (0..cores).map(|number| format!("long-{number}"));
    let mut modified = std::time::SystemTime::now() - Duration::from_hours(1);
    for (number, name) in ["vain".to_owned(), "hit".to_owned()].into_iter().chain(long).enumerate() {
        let at = Timestamp::try_from(modified).unwrap().to_string();
        let header = serde_json::json!({"type": "session", "version": 3, "cwd": "/w", "timestamp": at,
            "id": format!("aaaaaaaa-0000-4000-8000-{number:012}")});
        let text = if name == "hit" { "needle" } else { "hay" };
        let message = serde_json::json!({"type": "message", "id": "m1", "parentId": null, "timestamp": at,
            "message": {"role": "user", "content": [{"type": "text", "text": text}]}});
        let file = store.join(format!("{name}.jsonl"));
        fs::write(&file, format!("{header}\n{message}\n")).unwrap();
        File::options().write(true).open(&file).unwrap().set_modified(modified).unwrap();
        modified -= Duration::from_hours(1);
    }
    let environ = Environ::from_iter([("HOME", path)]);
    let source =
        Source { adapter: &Slowly, root: Pi.root(&environ).unwrap(), timeout: Duration::from_mins(1) };
    let fleet = Fleet::new(vec![source], Arc::new(Scripted::new()));
    let mut hits = 0;
    let began = std::time::Instant::now();
    let needle = asked(Pattern::new(&["needle".to_owned()], false, false).unwrap(), &[]);
    let end = fleet.search(&needle, &mut |told| {
        if matches!(told, Told::Hit(_)) {
            hits += 1;
            *HAS_HIT.0.lock().unwrap() = true;
            HAS_HIT.1.notify_all();
        }
        ControlFlow::Continue(())
    });
    assert_eq!((hits, end.searched), (1, cores + 2), "{:?}", end.sources);
    assert!(began.elapsed() < DEADLINE, "it waited for what is older");
}
