//! The first minutes with agentctl: an empty machine, settings, completions, schemas, the manual.
#![allow(clippy::disallowed_methods, reason = "tests run the binary")]

mod machine;

use machine::{Ended, Machine, SUBAGENT, TOOLS};
use serde_json::Value;

#[test]
fn an_empty_machine_gets_a_useful_screen() {
    let machine = Machine::empty();
    let ended = machine.run(&[]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for words in ["claude-code", "~/.claude", "`claude`", "config.toml", "agentctl doctor"] {
        assert!(ended.out.contains(words), "{words}: {}", ended.out);
    }
    assert!(ended.out.lines().all(|line| line.chars().count() <= 80), "{}", ended.out);
    assert!(ended.err.is_empty());
    assert_eq!(machine.run(&["list", "-q"]).out, "");
    let answer = machine.json(&["list", "--json", "--strict"]);
    assert_eq!(answer["sessions"], Value::Array(vec![]));
    assert_eq!(answer["sources"][0]["coverage"], "not-installed");
    assert_eq!(machine.run(&["status", "x"]).code, Some(3));
    assert_eq!(machine.run(&["doctor"]).code, Some(0));
    assert_eq!(std::fs::read_dir(machine.home()).unwrap().count(), 0, "reading writes nothing");
}

#[test]
fn a_machine_without_a_home_is_no_crash() {
    let machine = Machine::empty();
    let ended = Ended::of(&machine.command(&[]).env_remove("HOME").output().unwrap());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.contains("HOME is not set"), "{ended:?}");
}

#[test]
fn roots_come_from_settings_and_variables() {
    let machine = Machine::furnished();
    let other = Machine::furnished();
    let place = other.home().join(".claude");
    machine.write(
        ".agentctl/config.toml",
        &format!("[adapters.claude-code]\nroots = [\"{}\", \"~/.claude\"]\n", place.display()),
    );
    let answer = machine.json(&["list", "--json"]);
    assert_eq!(sources_of_claude(&answer), 2, "{answer:#}");
    // The same recorded session exists under both roots, so the id alone is ambiguous and a root decides.
    let ambiguous = machine.run(&["status", TOOLS]);
    assert_eq!(ambiguous.code, Some(4));
    assert!(ambiguous.err.contains("ROOT") && ambiguous.err.contains("~/.claude"), "{ambiguous:?}");
    let chosen = machine.json(&["status", TOOLS, "--root", place.to_str().unwrap(), "--json"]);
    assert_eq!(chosen["configRoot"], place.to_str().unwrap());

    let shown = Ended::of(
        &Machine::empty().command(&["config", "show"]).env("CLAUDE_CONFIG_DIR", &place).output().unwrap(),
    );
    assert!(shown.out.contains("$CLAUDE_CONFIG_DIR"), "{shown:?}");

    machine.write(".agentctl/config.toml", "[adapters.claude-code]\nenabled = false\n");
    assert_eq!(sources_of_claude(&machine.json(&["list", "-a", "--json"])), 0);
}

fn sources_of_claude(answer: &Value) -> usize {
    let sources = answer["sources"].as_array().into_iter().flatten();
    sources.filter(|source| source["adapter"] == "claude-code").count()
}

#[test]
fn every_documented_section_is_accepted_and_shown_but_for_the_secret() {
    let machine = Machine::furnished();
    machine.write(
        ".agentctl/config.toml",
        "adapter = \"codex\"\n[webhook]\nurl = \"https://example.org/hook\"\nsecret = \"do-not-show\"\n\
         [notify]\ncommand = \"notify-send agent\"\n[retention]\nlaunches = \"3d\"\n\
         [prices.\"claude-opus-5-5\"]\nin = 5\nout = 25\n",
    );
    assert_eq!(machine.run(&["list", "--strict"]).code, Some(0));
    let shown = machine.json(&["config", "show", "--json"]);
    let value = |key: &str| {
        let lines = shown["settings"].as_array().unwrap().iter();
        lines
            .clone()
            .find(|line| line["key"] == key)
            .map(|line| (line["value"].clone(), line["origin"].clone()))
    };
    let from_file = |value: Value| Some((value, Value::from("config.toml")));
    assert_eq!(value("adapter"), from_file("codex".into()));
    assert_eq!(value("webhook.secret"), from_file("(hidden)".into()));
    assert_eq!(value("webhook.events").unwrap().1, "default");
    assert_eq!(value("retention.launches"), from_file("3d".into()));
    assert_eq!(value("prices.\"claude-opus-5-5\".out"), from_file(25.0.into()));
    assert!(!machine.run(&["config", "show"]).out.contains("do-not-show"));
}

#[test]
fn a_price_gives_a_cost_where_the_agent_is_silent() {
    let machine = Machine::furnished();
    let cost = |id: &str| machine.json(&["status", id, "--json"])["cost"].clone();
    assert_eq!(cost(SUBAGENT), Value::Null);
    let said = cost(TOOLS);
    assert!(said.is_f64(), "{said}");
    let tokens = machine.json(&["status", SUBAGENT, "--json"])["tokens"].clone();
    let count = |part: &str| tokens[part].as_f64().unwrap();
    let expected =
        (2.0 * count("in") + 3.0 * count("out") + 5.0 * count("cacheRead") + 7.0 * count("cacheWrite")) / 1e6;

    let prices = "[prices.claude-opus-5-5]\nin = 2\nout = 3\ncacheRead = 5\ncacheWrite = 7\n";
    machine.write(".agentctl/config.toml", prices);
    let computed = cost(SUBAGENT).as_f64().unwrap();
    assert!(expected > 0.0 && (computed - expected).abs() < 1e-9, "{computed} {expected}");
    assert_eq!(cost(TOOLS), said, "the word of the agent stands");
    machine.write(".agentctl/config.toml", "[prices.claude-opus-5-5]\nin = 2\n");
    assert_eq!(cost(SUBAGENT), Value::Null, "output has no price");
}

#[test]
fn an_agent_that_is_turned_off_is_not_called_absent() {
    let machine = Machine::furnished();
    machine.write(".agentctl/config.toml", "[adapters.claude-code]\nenabled = false\n");
    let listed = machine.run(&["list", "-a", "--adapter", "claude-code"]);
    assert_eq!(listed.code, Some(0));
    assert!(listed.out.starts_with("no session fits"), "{listed:?}");
    assert!(listed.err.contains("claude-code is not read"), "{listed:?}");
    let asked = machine.run(&["status", TOOLS, "--adapter", "claude-code"]);
    assert_eq!(asked.code, Some(3));
    assert!(asked.err.contains("claude-code is not read"), "{asked:?}");
    assert!(asked.err.contains("without --adapter"), "{asked:?}");
    // On this machine another agent is merely absent, which says nothing about the machine.
    let other = Machine::furnished().run(&["list", "-a", "--adapter", "codex"]);
    assert!(other.out.starts_with("no session fits") && other.err.is_empty(), "{other:?}");
}

#[test]
fn a_mistake_in_the_settings_is_told_with_its_place_and_keeps_nobody_from_working() {
    let machine = Machine::furnished();
    machine.write(".agentctl/config.toml", "[adapters.claude-code]\nenabled = true\ntimeot = \"2s\"\n");
    for args in
        [&["list"][..], &["status", TOOLS], &["stop", TOOLS], &["config", "show"], &["inbox", "--strict"]]
    {
        let ended = machine.run(args);
        assert_eq!(ended.code, Some(0), "{args:?}: {ended:?}");
        let words = "line 3, column 1: unknown key `adapters.claude-code.timeot`, did you mean `timeout`?";
        assert!(ended.err.contains(words), "{args:?}: {ended:?}");
    }
    let checked = machine.run(&["config", "check"]);
    assert_eq!(checked.code, Some(1), "{checked:?}");
    assert!(checked.err.contains("timeot") && checked.out.is_empty(), "{checked:?}");
    let checked = machine.run(&["config", "check", "--json"]);
    let checked: Value = serde_json::from_str(&checked.out).unwrap();
    assert_eq!((&checked["valid"], &checked["error"]["line"]), (&Value::Bool(false), &Value::from(3)));
    assert_eq!(checked["errors"][0]["key"], "adapters.claude-code.timeot", "{checked}");
    let doctor = machine.run(&["doctor", "--json"]);
    assert_eq!(doctor.code, Some(1));
    let doctor: Value = serde_json::from_str(&doctor.out).unwrap();
    assert!(doctor["config"]["error"].as_str().unwrap().contains("timeot"));
    assert_eq!(doctor["adapters"][0]["sources"][0]["coverage"], "complete");
}

#[test]
fn a_value_of_the_wrong_kind_is_an_error_only_for_what_needs_it() {
    let machine = Machine::furnished();
    let launch = ["launch", "claude-code", "-p", "x", "--dry-run"];
    let usual = ["launch", "-p", "x", "--dry-run"];
    for (file, args, code) in [
        ("[webhook]\nurl = 5\n", &["list", "-a", "--strict"][..], 0),
        ("[webhook]\nurl = 5\n", &["stop", TOOLS], 0),
        ("[webhook]\nurl = 5\n", &launch, 0),
        ("[webhook]\nurl = 5\n", &["prune"], 0),
        ("[retention]\nlaunches = 7\n", &["prune"], 1),
        ("[retention]\nlaunches = 7\n", &["list"], 0),
        ("adapter = 7\n", &usual, 1),
        ("adapter = 7\n", &launch, 0),
        ("[adapters.claude-code]\nbinary = 7\n", &launch, 1),
        ("[adapters.codex]\nbinary = 7\n", &launch, 0),
        ("[adapters.codex]\nroots = 7\n", &["list", "-a"], 0),
        // The location of the sessions is not known: a missing answer is no verdict.
        ("[adapters.codex]\nroots = 7\n", &["list", "-a", "--strict"], 6),
        ("[adapters.codex]\nroots = 7\n", &["status", "nope"], 6),
        ("[adapters.codex]\nroots = 7\n", &["stop", TOOLS], 0),
        ("this is no toml\n", &["list", "-a"], 0),
        ("this is no toml\n", &["stop", TOOLS], 0),
        ("this is no toml\n", &launch, 1),
        ("this is no toml\n", &["prune"], 1),
        ("this is no toml\n", &["config", "check"], 1),
    ] {
        machine.write(".agentctl/config.toml", file);
        let ended = machine.run(args);
        assert_eq!(ended.code, Some(code), "{file:?} {args:?}: {ended:?}");
        assert!(ended.err.contains("config.toml: line "), "{file:?} {args:?}: {ended:?}");
    }
    machine.write(".agentctl/config.toml", "a = 1\nb = 1\nc = 1\nd = 1\ne = 1\n");
    let many = machine.run(&["list"]);
    assert!(many.err.lines().count() == 4 && many.err.contains("2 more in the same file"), "{many:?}");
}

#[test]
fn doctor_reads_the_version_beside_the_program() {
    use std::os::unix::fs::PermissionsExt;
    let machine = Machine::furnished();
    machine.write("lib/claude/cli.js", "#!/bin/false\n");
    machine.write("lib/claude/package.json", r#"{"version": "2.1.325"}"#);
    machine.write("bin/.keep", "");
    let program = machine.home().join("lib/claude/cli.js");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let bin = machine.home().join("bin");
    std::os::unix::fs::symlink(&program, bin.join("claude")).unwrap();
    let ended = Ended::of(&machine.command(&["doctor", "--json"]).env("PATH", &bin).output().unwrap());
    let report: Value = serde_json::from_str(&ended.out).unwrap();
    let claude = &report["adapters"][0];
    assert_eq!(claude["version"], "2.1.325");
    assert_eq!(claude["program"], bin.join("claude").to_str().unwrap());
    assert_eq!(claude["sources"][0]["sessions"], 4, "{report:#}");
    assert_eq!(report["healthy"], true);
}

#[test]
fn a_program_is_not_taken_for_another_agents_of_the_same_name() {
    use std::os::unix::fs::PermissionsExt;
    let machine = Machine::empty();
    let (bin, port) = (machine.home().join("bin"), machine.home().join("port"));
    machine.write("bin/pi", "#!/usr/bin/env node\n");
    machine.write("port/pi", "\u{7f}ELF, as a native program begins");
    let programs = |path: &std::path::Path| {
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(path.join("pi"), mode).unwrap();
        let ended = Ended::of(&machine.command(&["doctor", "--json"]).env("PATH", path).output().unwrap());
        let report: Value = serde_json::from_str(&ended.out).unwrap();
        let program = |name: &str| {
            let adapters = report["adapters"].as_array().unwrap();
            let found = adapters.iter().find(|adapter| adapter["name"] == name).unwrap();
            found["program"].is_string()
        };
        (program("pi"), program("pi-rust"))
    };
    assert_eq!(programs(&bin), (true, false));
    assert!(programs(&port).1);
}

#[test]
fn shells_complete_commands_agents_and_live_ids() {
    let machine = Machine::furnished();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ended = machine.run(&["completions", shell]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.out.contains("COMPLETE"), "{ended:?}");
    }
    let complete = |args: &[&str]| {
        let line = [&["--", "agentctl"], args].concat();
        Ended::of(&machine.command(&line).env("COMPLETE", "fish").output().unwrap()).out
    };
    assert!(complete(&["exp"]).contains("explain"));
    let ids = complete(&["status", "2222"]);
    assert!(ids.starts_with(TOOLS) && ids.contains("do [[bash:"), "{ids}");
    assert!(!ids.contains("a0000000"), "{ids}");
    assert!(complete(&["list", "--adapter", ""]).contains("claude-code\tClaude Code"));
    assert_eq!(complete(&["schema", "group-"]).split_whitespace().next(), Some("group-launch"));
}

#[test]
fn a_program_that_is_another_agents_is_not_said_to_be_absent() {
    use std::os::unix::fs::PermissionsExt as _;
    let machine = Machine::empty();
    machine.write("bin/pi", "#!/usr/bin/env node\n");
    let pi = machine.home().join("bin/pi");
    std::fs::set_permissions(&pi, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = machine.command(&[]);
    let welcome = Ended::of(&command.env("PATH", machine.home().join("bin")).output().unwrap()).out;
    assert!(welcome.contains("program ~/bin/pi\n"), "{welcome}");
    assert!(
        welcome.contains("no program `pi-rust` on the PATH; the `pi` there is another agent's"),
        "{welcome}"
    );
    assert!(welcome.contains("no program `claude` on the PATH\n"), "{welcome}");
}

#[test]
fn a_real_session_has_every_key_that_its_schema_requires() {
    let machine = Machine::furnished();
    let schema = machine.json(&["schema", "session"]);
    let session = machine.json(&["status", TOOLS, "--json"]);
    let required = schema["required"].as_array().unwrap();
    assert_eq!(required.len(), session.as_object().unwrap().len());
    assert!(required.iter().all(|key| session.get(key.as_str().unwrap()).is_some()));
    let all = machine.json(&["schema"]);
    for name in ["session", "list", "entry", "explain", "doctor", "adapters"] {
        assert!(all["$defs"][name].is_object(), "{name}");
    }
}

#[test]
fn what_is_printed_fits_eighty_columns() {
    let machine = Machine::furnished();
    let narrow = |arguments: &[&str]| {
        let ended = Ended::of(&machine.command(arguments).env("COLUMNS", "80").output().unwrap());
        let wide: Vec<&str> = ended.out.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{arguments:?}: {wide:#?}");
        ended.out
    };
    for command in ["list", "launch", "wait", "inbox", "fuse", "doctor", "worktree"] {
        narrow(&[command, "--help"]);
        narrow(&[command, "-h"]);
    }
    let adapters = narrow(&["adapters"]);
    assert!(adapters.contains("peek, stop, resume, send, approve, interrupt, fork"), "{adapters}");
    narrow(&["--help"]);
    narrow(&["inbox", "--since", "all"]);
    let list = narrow(&["list", "-a", "--since", "all"]);
    assert!(list.contains("AGENT") && list.contains("CWD"), "{list}");
}

#[test]
fn the_manual_the_version_and_the_adapters() {
    let machine = Machine::empty();
    assert!(machine.run(&["man"]).out.contains(".TH AGENTCTL 1 "));
    let pages = machine.home().join("man");
    assert_eq!(machine.run(&["man", "--dir", pages.to_str().unwrap()]).code, Some(0));
    assert!(pages.join("agentctl-list.1").is_file());
    let version = machine.run(&["--version"]).out;
    assert!(version.starts_with(concat!("agentctl ", env!("CARGO_PKG_VERSION"), " (")), "{version}");
    // The target is told, such as `x86_64-unknown-linux-gnu`.
    assert!(version.contains(&format!("{}-", std::env::consts::ARCH)), "{version}");
    let adapters = machine.json(&["adapters", "--json"]);
    for key in ["name", "title", "programs", "knownGood", "capabilities", "verified"] {
        assert!(adapters[0].get(key).is_some(), "{key}");
    }
    assert!(machine.run(&["adapters"]).out.contains("Claude Code"));
}
