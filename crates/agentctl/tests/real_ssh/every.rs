//! The commands that read or change more than sessions, on another machine: usage, search, fuses, working trees, agents, the
//! list that is kept up to date, metrics and streams.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

use agentctl_testkit::{Background, Signal, TestHome, until};
use serde_json::{Value, json};

use crate::{FAR, NEAR, PATIENCE, Scene, transcript};

/// A session of Claude Code whose one answer cost this many tokens.
fn spent(home: &TestHome, id: &str, tokens: u64) {
    transcript(home, id, "a needle in a haystack");
    let file = home.path().join(format!(".claude/projects/-w/{id}.jsonl"));
    let line = json!({
        "type": "assistant", "uuid": format!("22222222-1111-4111-8111-{:012}", tokens), "sessionId": id,
        "parentUuid": "11111111-1111-4111-8111-111111111111", "timestamp": "2026-11-15T10:00:01.000Z", "cwd": "/w",
        "version": "2.0.0", "requestId": format!("r-{id}-{tokens}"),
        "message": {
            "id": format!("m-{id}-{tokens}"), "role": "assistant", "model": "claude-sonnet-4-5", "type": "message",
            "content": [{"type": "text", "text": "found"}], "stop_reason": "end_turn",
            "usage": {"input_tokens": tokens, "output_tokens": 1},
        },
    });
    let text = fs::read_to_string(&file).unwrap();
    fs::write(file, format!("{text}{line}\n")).unwrap();
}

fn silent(scene: &Scene) -> String {
    let silent = scene.script("silent", "exec cat > /dev/null");
    format!("[hosts.quiet]\nssh = \"box\"\nprogram = \"{}\"\ntimeout = \"2s\"\n", silent.display())
}

#[test]
fn what_was_spent_on_all_machines_counts_once() {
    let Some(scene) = Scene::with_box() else { return };
    let run = |arguments: &[&str]| scene.home.agentctl(arguments);
    spent(&scene.home, NEAR, 100);
    spent(&scene.far, FAR, 1000);
    let tokens = |more: &[&str]| {
        let answer = run(&[&["usage", "--json"][..], more].concat()).ok().json();
        (answer["total"]["tokens"]["in"].as_u64(), answer)
    };
    assert_eq!(tokens(&[]).0, Some(100));
    assert_eq!(tokens(&["--host", "box"]).0, Some(1000));
    let (sum, all) = tokens(&["--host", "all", "--by", "session"]);
    assert_eq!(sum, Some(1100), "{all:#}");
    let hosts: Vec<(&str, &str)> = all["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["key"].as_str().unwrap(), row["host"].as_str().unwrap()))
        .collect();
    assert_eq!(hosts, [(FAR, "box"), (NEAR, all["host"].as_str().unwrap())], "{all:#}");
    assert_eq!(all["hosts"].as_array().unwrap().len(), 2);
    assert!(run(&["usage", "--host", "all", "--by", "session"]).ok().stdout.contains("box/bbbbbbbb"));

    // The times of both machines, each under its own name; one session of the other by its name.
    let times = run(&["timeline", "--since", "all", "--host", "all", "--json"]).ok().json();
    let lanes: Vec<(&str, &str)> = times["lanes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lane| (lane["sessionId"].as_str().unwrap(), lane["host"].as_str().unwrap()))
        .collect();
    assert_eq!(lanes, [(NEAR, all["host"].as_str().unwrap()), (FAR, "box")], "{times:#}");
    let far = run(&["timeline", &format!("box/{FAR}"), "--since", "all", "--json"]).ok().json();
    assert_eq!(far["lanes"][0], times["lanes"][1], "{far:#}");
    // The same session on both machines, as copied homes have it.
    spent(&scene.home, FAR, 1000);
    assert_eq!(tokens(&["--host", "all"]).0, Some(1100));
    assert_eq!(tokens(&["--host", "all", "--by", "session"]).1["rows"].as_array().unwrap().len(), 2);
    // By the clock of the machine whose calls they are.
    assert_eq!(tokens(&["--host", "box", "--since", "1h"]).0, None);

    let config = scene.home.agentctl_home().join("config.toml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{text}{}", silent(&scene))).unwrap();
    let (sum, all) = tokens(&["--host", "all"]);
    assert_eq!((sum, &all["hosts"][2]["coverage"]), (Some(1100), &json!("failed")), "{all:#}");
    assert_eq!(run(&["usage", "--host", "all", "--strict"]).code, Some(6));
    assert!(run(&["usage", "--host", "quiet"]).ok().stdout.contains("not every machine was heard"));
}

#[test]
fn conversations_of_all_machines_are_searched_and_opened() {
    let Some(scene) = Scene::with_box() else { return };
    let run = |arguments: &[&str]| scene.home.agentctl(arguments);
    transcript(&scene.home, NEAR, "a needle here");
    transcript(&scene.far, FAR, "a needle there");
    let hits = |more: &[&str]| -> Vec<Value> {
        let found = run(&[&["search", "needle", "--json"][..], more].concat()).ok().stdout;
        found.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    assert_eq!(hits(&[]).len(), 1);
    let mut all: Vec<(String, String)> = hits(&["--host", "all"])
        .iter()
        .map(|hit| (hit["sessionId"].to_string(), hit["host"].to_string()))
        .collect();
    all.sort();
    assert_eq!(all.len(), 2, "{all:?}");
    assert_eq!(all[1], (format!("\"{FAR}\""), "\"box\"".to_owned()));
    assert_eq!(hits(&["--host", "all", "-n", "1"]).len(), 1, "the limit is for all of them");
    assert_eq!(
        run(&["search", "needle", "--host", "box", "--files-with"]).ok().stdout,
        format!("box/{FAR}\n")
    );
    assert_eq!(run(&["search", "nothing-like-it", "--host", "all"]).code, Some(1));
    let hit = hits(&["--host", "box"])[0]["hit"].as_str().unwrap().to_owned();
    let opened = run(&["logs", "box/bbbb", "--at", &hit]).ok().stdout;
    assert!(opened.contains("a needle there"), "{opened}");
    assert_eq!(run(&["logs", "box/bbbb", "--at", "99999999.9"]).code, Some(3));

    // What was not heard may have it.
    let config = scene.home.agentctl_home().join("config.toml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{text}{}", silent(&scene))).unwrap();
    let nothing = run(&["search", "nothing-like-it", "--host", "all"]);
    assert_eq!(nothing.code, Some(6), "{nothing:?}");
    assert!(nothing.stderr.contains("quiet was not heard"), "{nothing:?}");
    assert_eq!(hits(&["--host", "all"]).len(), 2);
}

#[test]
fn fuses_and_working_trees_of_another_machine_are_its_own() {
    let Some(scene) = Scene::with_box() else { return };
    let run = |arguments: &[&str]| scene.home.agentctl(arguments);
    let folder = scene.far.work_dir("site").display().to_string();
    // Without a daemon there nothing would burn it.
    let unset = run(&["fuse", "set", &folder, "--ttl", "2h", "--host", "box"]);
    assert_ne!(unset.code, Some(0), "{unset:?}");
    let _ = scene.far.run(scene.far_daemon(&["daemon", "start"])).ok();
    let set = run(&["fuse", "set", &folder, "--ttl", "2h", "--label", "tidy", "--host", "box", "--json"])
        .ok()
        .json();
    assert_eq!((&set["host"], &set["directory"]), (&json!("box"), &json!(folder)), "{set:#}");
    let there = scene.far.agentctl(&["fuses", "--json"]).ok().json();
    assert_eq!(there["fuses"][0]["id"], set["id"], "{there:#}");
    assert!(run(&["fuses", "--json"]).ok().json()["fuses"].as_array().unwrap().is_empty());
    let all = run(&["fuses", "--host", "all", "--json"]).ok().json();
    assert_eq!(
        (&all["fuses"][0]["host"], &all["hosts"][1]["name"]),
        (&json!("box"), &json!("box")),
        "{all:#}"
    );
    let shown = run(&["fuses", "--host", "box"]).ok().stdout;
    assert!(shown.contains("in 1h 59m") || shown.contains("in 2h"), "{shown}");
    assert!(shown.contains("site"), "{shown}");
    let extended = run(&["fuse", "extend", &folder, "--ttl", "9h", "--host", "box", "--json"]).ok().json();
    assert_ne!(extended["expiresAt"], set["expiresAt"]);
    let _ = run(&["fuse", "cancel", &folder, "--host", "box"]).ok();
    assert_eq!(run(&["fuse", "cancel", &folder, "--host", "box"]).code, Some(3));
    assert_eq!(run(&["fuse", "set", &folder, "--ttl", "2h", "--host", "all"]).code, Some(2));
    // A session of it, which has stopped.
    transcript(&scene.far, FAR, "there");
    let refused = run(&["fuse", "set", "--session", "box/bbbb", "--max-tokens", "5"]);
    assert_eq!(refused.code, Some(7), "{refused:?}");
    assert!(refused.stderr.contains("has stopped"), "{refused:?}");

    let repository = scene.far.work_dir("repository");
    let git = |arguments: &[&str]| {
        let mut git = scene.far.command("git");
        git.current_dir(&repository).args(arguments);
        let _ = scene.far.run(git).ok();
    };
    git(&["init", "-q", "-b", "main"]);
    git(&["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "--allow-empty", "-m", "one"]);
    let repository = repository.display().to_string();
    let made = run(&["worktree", "create", &repository, "--branch", "try/it", "--host", "box"]).ok().stdout;
    assert!(Path::new(made.trim_end()).is_dir(), "{made}");
    let list = run(&["worktree", "list", &repository, "--host", "box"]).ok().stdout;
    assert!(list.contains("try/it") && list.contains("clean"), "{list}");
    assert_eq!(run(&["worktree", "list", "--host", "box"]).code, Some(2));
    let cleaned = run(&["worktree", "clean", made.trim_end(), "--host", "box"]).ok().stdout;
    assert!(cleaned.starts_with("removed box:/"), "{cleaned}");
    assert!(!Path::new(made.trim_end()).exists());
}

#[test]
fn agents_are_told_and_what_is_done_there_itself_is_refused_with_the_way() {
    let Some(scene) = Scene::with_box() else { return };
    let run = |arguments: &[&str]| scene.home.agentctl(arguments);
    fs::create_dir_all(scene.far.agentctl_home()).unwrap();
    fs::write(scene.far.agentctl_home().join("config.toml"), "[adapters.pi]\nenabled = false\n").unwrap();
    let enabled = |more: &[&str]| {
        let all = run(&[&["adapters", "--json"][..], more].concat()).ok().json();
        all.as_array().unwrap().iter().find(|one| one["name"] == "pi").unwrap()["enabled"].clone()
    };
    assert_eq!((enabled(&[]), enabled(&["--host", "box"])), (json!(true), json!(false)));
    assert!(run(&["adapters", "--host", "box"]).ok().stdout.contains("pi (off)"));
    assert!(run(&["adapters", "codex", "--host", "box"]).ok().stdout.contains("Codex"));
    for command in ["doctor", "prune"] {
        let refused = run(&[command, "--host", "box"]);
        assert_eq!(refused.code, Some(7), "{refused:?}");
        assert!(refused.stderr.contains(&format!("ssh box agentctl {command}")), "{refused:?}");
    }
    for command in [&["daemon", "status"][..], &["config", "show"], &["hosts"], &["schema"]] {
        let refused = run(&[command, &["--host", "box"]].concat());
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains("takes no --host: "), "{refused:?}");
    }
}

#[test]
fn the_list_of_all_machines_is_kept_up_to_date() {
    let Some(scene) = Scene::with_box() else { return };
    transcript(&scene.far, FAR, "there");
    let still = scene.far.work_dir("machine").join("still");
    let first = format!("while [ -e '{}' ]; do sleep 0.05; done", still.display());
    scene.configure_program(&scene.near.program_with(&scene.far, "agentctl", &first), "2s");
    let command = scene.home.agentctl_command(&["list", "--since", "all", "-w", "--host", "all"]);
    let mut watch = Background::spawn(&scene.home, command);
    let said = |watch: &mut Background, words: &str| {
        until(PATIENCE, words, || {
            (watch.stdout().contains(words) || watch.stderr().contains(words)).then_some(())
        });
    };
    said(&mut watch, &format!("box/{FAR}"));
    // It stands still: nothing of its sessions is concluded.
    let serving = || {
        let found = scene.far.processes().into_iter().find(|(_, line)| line.contains("__serve-stdio"));
        found.map(|(pid, _)| pid)
    };
    let pid = until(PATIENCE, "what serves it", serving);
    fs::write(&still, "").unwrap();
    scene.far.signal(pid, Signal::STOP);
    said(&mut watch, "box was not heard");
    assert!(!watch.stdout().contains("left the list"), "{}", watch.stdout());
    fs::remove_file(&still).unwrap();
    scene.far.signal(pid, Signal::CONT);
    said(&mut watch, "box is heard again");
    let other = "cccccccc-0000-4000-8000-00000000000c";
    transcript(&scene.far, other, "later");
    said(&mut watch, &format!("box/{other}"));
    fs::remove_file(scene.far.path().join(format!(".claude/projects/-w/{FAR}.jsonl"))).unwrap();
    said(&mut watch, &format!("box/{FAR} left the list"));
    watch.signal(Signal::INT);
    assert_eq!(watch.wait(PATIENCE).code(), Some(130));
}

/// Over HTTP a stream of another machine is passed on, with its cursors, and metrics are of every machine.
#[test]
fn streams_and_metrics_of_other_machines_are_passed_on() {
    let Some(scene) = Scene::with_box() else { return };
    transcript(&scene.far, FAR, "a needle there");
    let mut command = scene.home.agentctl_command(&["daemon", "run"]);
    command.env_remove("AGENTCTL_NO_DAEMON");
    let _daemon = Background::spawn(&scene.home, command);
    let _ = scene.far.run(scene.far_daemon(&["daemon", "start"])).ok();
    let socket = scene.home.agentctl_home().join("agentctl.sock");
    let open = |target: &str, more: &str| {
        let mut stream = until(PATIENCE, "the daemon", || UnixStream::connect(&socket).ok());
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET {target} HTTP/1.1\r\nHost: agentctl\r\n{more}Connection: close\r\n\r\n").unwrap();
        BufReader::new(stream)
    };
    let whole = |target: &str| {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut open(target, ""), &mut text).unwrap();
        text
    };
    let metrics = whole("/metrics?host=all");
    assert!(metrics.contains("agentctl_host_up{host=\"box\",via=\"ssh\"} 1"), "{metrics}");
    let found = whole("/v1/search?q=needle&host=box");
    assert!(
        found.contains("event: hit") && found.contains("\"host\":\"box\"") && found.contains("event: end"),
        "{found}"
    );
    let said = whole("/v1/sessions/bbbb/messages/stream?host=box");
    assert!(said.contains("a needle there") && said.contains("event: end"), "{said}");

    // An event with its cursor, and the rest behind that cursor.
    let next = |stream: &mut BufReader<UnixStream>, kind: &str| -> (String, Value) {
        let (mut id, mut line, mut seen) = (String::new(), String::new(), String::new());
        let began = Instant::now();
        loop {
            line.clear();
            // A stream that has nothing to tell says so every 15 seconds.
            assert!(began.elapsed() < PATIENCE, "{kind} was not told: {seen}");
            assert!(stream.read_line(&mut line).unwrap() > 0, "the stream ended before {kind}: {seen}");
            seen.push_str(&line);
            if let Some(cursor) = line.strip_prefix("id: ") {
                cursor.trim_end().clone_into(&mut id);
            }
            if let Some(data) = line.strip_prefix("data: ") {
                let data: Value = serde_json::from_str(data).unwrap();
                if data["type"] == kind {
                    return (id, data);
                }
            }
        }
    };
    let folder = scene.far.work_dir("site").display().to_string();
    let mut events = open("/v1/events?host=box", "");
    let mut line = String::new();
    until(PATIENCE, "the stream to begin", || {
        events.read_line(&mut line).unwrap();
        line.contains("text/event-stream").then_some(())
    });
    let _ = scene.home.agentctl(&["lock", &folder, "--host", "box"]).ok();
    let (cursor, locked) = next(&mut events, "lock.acquired");
    assert_eq!(locked["host"], "box", "{locked:#}");
    let _ = scene.home.agentctl(&["unlock", &folder, "--host", "box"]).ok();
    let _ = next(&mut events, "lock.released");
    drop(events);
    let mut again = open("/v1/events?host=box", &format!("Last-Event-ID: {cursor}\r\n"));
    let _ = next(&mut again, "lock.released");
}
