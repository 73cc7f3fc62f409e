//! What the reading commands report about recorded sessions.
#![allow(clippy::disallowed_methods, reason = "tests write what is read")]
#![allow(clippy::unwrap_used, reason = "a test that cannot read its answer must stop")]

mod machine;

use machine::{DIED, Ended, INTERRUPTED, Machine, PARENT, SUBAGENT, TOOLS};
use serde_json::{Value, json};

const SESSION_KEYS: [&str; 29] = [
    "id",
    "adapter",
    "configRoot",
    "host",
    "status",
    "outcome",
    "statusDetail",
    "since",
    "pending",
    "name",
    "prompt",
    "lastMessage",
    "cwd",
    "branch",
    "model",
    "startedAt",
    "updatedAt",
    "stoppedAt",
    "tokens",
    "cost",
    "pid",
    "processes",
    "parentId",
    "relation",
    "group",
    "launch",
    "capabilities",
    "evidence",
    "meta",
];

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn the_list_answer_has_exactly_the_keys_of_the_contract() {
    let machine = Machine::furnished();
    let answer = machine.json(&["list", "--since", "all", "--json"]);
    assert_eq!(keys(&answer), ["asOf", "host", "sessions", "sources", "hosts"]);
    let sessions = answer["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 4);
    for session in sessions {
        assert_eq!(keys(session), SESSION_KEYS);
        assert!(!session["evidence"].as_array().unwrap().is_empty());
        assert_eq!(session["status"], "stopped");
    }
    let source = &answer["sources"][0];
    assert_eq!(
        keys(source),
        ["adapter", "root", "host", "coverage", "error", "warnings", "sessions", "tookMs"]
    );
    assert_eq!(source["coverage"], "complete");
    let [host] = answer["hosts"].as_array().unwrap().as_slice() else { panic!("{answer:#}") };
    assert_eq!((host["via"].as_str(), host["sessions"].as_u64()), (Some("local"), Some(4)), "{host:#}");
    assert_eq!((&sessions[0]["host"], &source["host"]), (&host["name"], &host["name"]));
}

#[test]
fn sub_agents_are_rows_only_when_asked_for() {
    let machine = Machine::furnished();
    assert!(!machine.ids(&[]).contains(&SUBAGENT.to_owned()));
    assert!(machine.ids(&["--all-agents"]).contains(&SUBAGENT.to_owned()));
    let flat = machine.json(&["list", "--since", "all", "--all-agents", "--json"]);
    let tree = machine.json(&["list", "--since", "all", "--tree", "--json"]);
    assert_eq!(flat["sessions"].as_array().unwrap().len(), tree["sessions"].as_array().unwrap().len());
    let table = machine.run(&["list", "--since", "all", "--tree"]).out;
    let lines: Vec<&str> = table.lines().collect();
    let parent = lines.iter().position(|line| line.starts_with(&PARENT[..8])).unwrap();
    assert!(lines[parent + 1].contains("└ "), "{table}");
}

#[test]
fn lists_are_narrowed_by_status_folder_and_limit() {
    let machine = Machine::furnished();
    assert_eq!(machine.ids(&["--status", "died"]), [DIED]);
    assert_eq!(machine.ids(&["--status", "done", "--status", "interrupted"]).len(), 3);
    assert_eq!(machine.ids(&["--status", "running"]), [""; 0]);
    assert_eq!(machine.ids(&["--cwd", "/home/dev/w/plain"]), [TOOLS]);
    assert_eq!(machine.ids(&["--cwd", "/home/dev/w"]).len(), 4);
    assert_eq!(machine.ids(&["--cwd", "/home/dev/w/pla"]), [""; 0]);
    assert_eq!(machine.ids(&["--limit", "2"]).len(), 2);
    assert_eq!(machine.ids(&["--group", "g-000000"]), [""; 0]);
    let by_folder = machine.ids(&["--sort", "cwd"]);
    assert_eq!((by_folder[0].as_str(), by_folder[1].as_str()), (PARENT, TOOLS));
}

#[test]
fn a_folder_is_found_by_its_link_and_by_its_real_path() {
    let machine = Machine::empty();
    let place = |name: &str| machine.home().join(name).to_str().unwrap().to_owned();
    let (real, link) = (place("real"), place("link"));
    std::fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let id = "dddddddd-0000-4000-8000-00000000000d";
    let prompt = json!({"type": "user", "message": {"role": "user", "content": "do it"},
        "timestamp": "2026-11-15T07:00:00Z", "cwd": link, "sessionId": id});
    machine.write(&format!(".claude/projects/-w/{id}.jsonl"), &format!("{prompt}\n"));
    for folder in [&real, &link] {
        assert_eq!(machine.ids(&["--cwd", folder]), [id], "{folder}");
        assert_eq!(machine.run(&["status", id, "--cwd", folder]).code, Some(0), "{folder}");
    }
    assert!(machine.ids(&["--cwd", &place("elsewhere")]).is_empty());
}

#[test]
fn a_plain_list_shows_only_what_lives_and_says_so() {
    let machine = Machine::furnished();
    let ended = machine.run(&["list"]);
    assert_eq!(ended.code, Some(0));
    assert!(ended.out.contains("no live sessions") && ended.out.contains("list -a"), "{ended:?}");
    let bare = machine.run(&[]);
    assert_eq!(bare.out, ended.out);
}

#[test]
fn a_table_in_a_pipe_is_plain_and_as_narrow_as_it_is_told_to_be() {
    let machine = Machine::furnished();
    for args in
        [&["list", "--since", "all"][..], &["ls", "--since", "all", "--usage", "--tree"], &["ps", "-a"]]
    {
        let ended = Ended::of(&machine.command(args).env("COLUMNS", "80").output().unwrap());
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(!ended.out.contains('\u{1b}'));
        assert!(ended.out.lines().all(|line| line.chars().count() <= 80), "{}", ended.out);
    }
    let wide = machine.command(&["list", "--since", "all"]).env("COLUMNS", "200").output().unwrap();
    assert!(String::from_utf8(wide.stdout).unwrap().contains("MODEL"));
}

#[test]
fn status_is_the_same_session_with_whole_texts() {
    let machine = Machine::furnished();
    let listed = machine.json(&["list", "--since", "all", "--usage", "--cwd", "/home/dev/w/plain", "--json"]);
    let status = machine.json(&["status", TOOLS, "--json"]);
    assert_eq!(keys(&status), SESSION_KEYS);
    for key in ["id", "status", "outcome", "cwd", "model", "tokens", "startedAt", "updatedAt"] {
        assert_eq!(status[key], listed["sessions"][0][key], "{key}");
    }
    assert_eq!(status["tokens"], json!({"in": 207, "out": 66, "cacheRead": 44, "cacheWrite": 22}));
    let sheet = machine.run(&["status", &TOOLS[..8]]).out;
    for words in ["✓ done", TOOLS, "/home/dev/w/plain", "207 in, 66 out", "because", "no live process"] {
        assert!(sheet.contains(words), "{words}: {sheet}");
    }
}

#[test]
fn explain_names_every_witness_and_the_rule() {
    let machine = Machine::furnished();
    let explained = machine.json(&["explain", DIED, "--json"]);
    assert_eq!(explained["status"], "stopped");
    assert_eq!(explained["outcome"], "died");
    assert_eq!(explained["rule"], "nobody-carries-it");
    assert!(explained["ruleText"].as_str().unwrap().contains("nobody carries the session"));
    let witnesses: Vec<&str> = explained["evidence"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|evidence| evidence["source"].as_str())
        .collect();
    assert_eq!(witnesses, ["transcript", "kernel"]);
    assert_eq!(explained["sources"][0]["coverage"], "complete");
    let words = machine.run(&["explain", DIED]).out;
    assert!(
        words.contains("✕ died") && words.contains("nobody carries") && words.contains("kernel"),
        "{words}"
    );
}

#[test]
fn entries_are_lines_oldest_first() {
    let machine = Machine::furnished();
    let ended = machine.run(&["logs", TOOLS, "--json"]);
    let entries: Vec<Value> = ended.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(entries.len() >= 4, "{ended:?}");
    for entry in &entries {
        assert_eq!(keys(entry), ["at", "role", "kind", "text", "tool"]);
    }
    assert_eq!(entries[0]["role"], "user");
    assert!(entries.windows(2).all(|pair| pair[0]["at"].as_str() <= pair[1]["at"].as_str()));
    assert!(entries.iter().any(|entry| entry["kind"] == "tool-call" && entry["tool"] == "Bash"));
    let last = machine.run(&["peek", TOOLS, "-n", "1", "--json"]).out;
    assert_eq!(serde_json::from_str::<Value>(&last).unwrap(), entries[entries.len() - 1]);
    let words = machine.run(&["peek", TOOLS]).out;
    assert!(words.contains("→ Bash") && words.contains("user"), "{words}");
}

#[test]
fn following_a_stopped_session_shows_it_and_ends() {
    let machine = Machine::furnished();
    let ended = machine.run(&["logs", "-f", INTERRUPTED]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.contains("user"), "{ended:?}");
}

#[test]
fn hostile_text_reaches_nobody() {
    let machine = Machine::furnished();
    let place = machine.transcript("-home-dev-w-plain", TOOLS);
    let text = std::fs::read_to_string(&place).unwrap();
    let hostile = r"\u001b]0;owned\u0007\u001b[2J\u009b31m\u202e\r";
    let text = text.replace("do [[bash:", &format!("{hostile}do [[bash:"));
    let text = text.replace("slow reply", &format!("slow{hostile} reply"));
    std::fs::write(&place, text).unwrap();
    let all = ["list", "--since", "all"];
    for args in [
        &all[..],
        &[&all[..], &["--json"]].concat(),
        &["status", TOOLS],
        &["status", TOOLS, "--json"],
        &["explain", TOOLS],
        &["peek", TOOLS],
        &["logs", "-f", TOOLS, "--json"],
    ] {
        let ended = machine.run(args);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let bad = |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{202a}'..='\u{202e}');
        assert!(!ended.out.chars().any(bad), "{args:?}: {:?}", ended.out);
        for escaped in ["\\u001b", "\\u0007", "\\r", "\\u009b"] {
            assert!(!ended.out.contains(escaped), "{args:?}: {}", ended.out);
        }
    }
    assert!(machine.run(&["status", TOOLS]).out.contains("do [[bash:"));
}
