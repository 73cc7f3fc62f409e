//! What users expect of any command line: flags without a command, pipes, colours, columns, templates,
//! several ids, shell completions, manual pages.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests run processes and wait for them")]

mod machine;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use machine::agent::Agent;
use machine::{DIED, Ended, INTERRUPTED, Machine, PARENT, TOOLS};
use serde_json::Value;

fn at_work(machine: &Machine, id: &str) -> Agent {
    Agent::start(machine, id, Path::new("/home/dev/w/plain"))
}

/// Whether this program is on the PATH of the test; without it there is nothing to try.
fn is_there(program: &str) -> bool {
    let found =
        Command::new("sh").args(["-c", &format!("command -v {program}")]).output().unwrap().status.success();
    if !found {
        agentctl_testkit::skip(format!("{program} is not installed"));
    }
    found
}

#[test]
fn of_several_ids_a_bad_one_does_not_keep_the_others() {
    let machine = Machine::furnished();
    let mut agent = at_work(&machine, TOOLS);
    let ended = machine.run(&["stop", "nope", TOOLS, "a000", DIED, "neither", "--grace", "10s"]);
    assert_eq!(ended.code, Some(4), "the worst of them: {ended:?}");
    for words in ["`nope`", "`neither`", "`a000` fits"] {
        assert!(ended.err.contains(words), "{words}: {ended:?}");
    }
    assert_eq!(ended.err.matches("hint:").count(), 2, "each hint once: {ended:?}");
    assert!(ended.out.contains(TOOLS) && ended.out.contains(DIED), "{ended:?}");
    assert!(agent.child.try_wait().unwrap().is_some(), "it was stopped all the same");
    let ended = machine.run(&["stop", "nope", DIED, "--json"]);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    let answer: Value = serde_json::from_str(&ended.out).unwrap();
    let told =
        |at: usize| (answer["sessions"][at]["id"].as_str(), answer["sessions"][at]["stopped"].as_bool());
    assert_eq!((told(0), told(1)), ((Some("nope"), Some(false)), (Some(DIED), Some(true))), "{answer:#}");
    assert!(answer["sessions"][0]["error"].as_str().unwrap().contains("nope"), "{answer:#}");
}

#[test]
fn flags_without_a_command_mean_list() {
    let machine = Machine::furnished();
    for flags in
        [&["-a", "--since", "all"][..], &["-q", "--since", "all"], &["--status", "failed"], &["--tree"]]
    {
        let plain = machine.run(flags);
        assert_eq!(plain.code, Some(0), "{plain:?}");
        assert_eq!(plain.out, machine.run(&[&["list"], flags].concat()).out);
    }
    let answer: Value = serde_json::from_str(&machine.run(&["--json", "--since", "all"]).out).unwrap();
    assert_eq!(answer["sessions"].as_array().unwrap().len(), 4);
    let refused = machine.run(&["--json", "status", TOOLS]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let help = machine.run(&["--help"]).out;
    assert!(!help.contains("--all-agents") && help.contains("the flags of `list`"), "{help}");
}

#[test]
fn into_a_pipe_nothing_is_cut() {
    let machine = Machine::furnished();
    let deep = "/srv/".to_owned() + &"deep/".repeat(40) + "root";
    machine.write(".agentctl/config.toml", &format!("[adapters.codex]\nroots = [\"{deep}\"]\n"));
    let out = |args: &[&str]| {
        let ended = machine.run(args);
        assert!(!ended.out.contains('…'), "{args:?}: {ended:?}");
        ended.out
    };
    let list = out(&["list", "--since", "all"]);
    assert!(list.contains(TOOLS) && list.contains("MODEL"), "{list}");
    assert!(out(&["config", "show"]).contains(&deep));
    assert!(out(&["adapters"]).contains("OBSERVED WITH"));
    out(&["inbox", "--since", "all"]);
    out(&["doctor"]);
    let narrow = machine.command(&["list", "--since", "all"]).env("COLUMNS", "80").output().unwrap();
    let narrow = Ended::of(&narrow).out;
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
}

#[test]
fn columns_are_chosen_by_name_and_in_order() {
    let machine = Machine::furnished();
    let list = machine.run(&["list", "--since", "all", "--columns", "status,id,pid,age,activity"]).out;
    let header: Vec<&str> = list.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(header, ["STATUS", "ID", "PID", "AGE", "ACTIVITY"], "{list}");
    assert_eq!(list.lines().count(), 5, "{list}");
    let refused = machine.run(&["list", "--columns", "id,colour"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    for known in ["colour", "activity", "branch", "started"] {
        assert!(refused.err.contains(known), "{known}: {refused:?}");
    }
    let help = machine.run(&["list", "--help"]).out;
    assert!(help.contains("activity") && help.contains("{{.tokens.in}}"), "{help}");
}

/// AGE is how old a session is, ACTIVITY how long ago something was written into it.
#[test]
fn age_is_age_and_activity_a_column_of_its_own() {
    let machine = Machine::furnished();
    let columns = "id,age,activity,started,updated";
    let list = machine.run(&["list", "--since", "all", "--columns", columns]).out;
    let row: Vec<&str> =
        list.lines().find(|line| line.starts_with(TOOLS)).unwrap().split_whitespace().collect();
    let session = machine.json(&["status", TOOLS, "--json"]);
    let whole = |key: &str| {
        session[key].as_str().unwrap().split('.').next().unwrap().trim_end_matches('Z').to_owned()
    };
    assert!(
        row[3].starts_with(&whole("startedAt")) && row[4].starts_with(&whole("updatedAt")),
        "{row:?} {session:#}"
    );
    let wide = machine.run(&["list", "--since", "all"]).out;
    assert!(wide.lines().next().unwrap().ends_with("AGE  ACTIVITY"), "{wide}");
}

#[test]
fn a_template_prints_what_is_asked_for() {
    let machine = Machine::furnished();
    let format = |template: &str| machine.run(&["list", "--since", "all", "--format", template]);
    let mut ids: Vec<String> = format("{{.ID}} {{.Status}}").out.lines().map(str::to_owned).collect();
    ids.sort();
    let mut wanted: Vec<String> =
        [TOOLS, DIED, INTERRUPTED, PARENT].iter().map(|id| format!("{id} stopped")).collect();
    wanted.sort();
    assert_eq!(ids, wanted);
    let listed = machine.json(&["list", "--since", "all", "--json"]);
    // The time at which the kernel was read differs.
    let known =
        |session: &Value| (session["id"].clone(), session["prompt"].clone(), session["startedAt"].clone());
    let lines = format("{{json .}}").out;
    let lines = lines.lines().map(|line| known(&serde_json::from_str(line).unwrap()));
    let listed = listed["sessions"].as_array().unwrap().iter().map(known);
    assert!(lines.eq(listed));
    let table = machine.run(&["--since", "all", "--template", "table {{.id}}\\t{{.configRoot}}"]).out;
    assert!(table.starts_with("ID ") && table.lines().next().unwrap().ends_with("CONFIG ROOT"), "{table}");
    let refused = format("{{.stauts}}");
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains(".stauts") && refused.err.contains(".status"), "{refused:?}");
    let empty = Machine::empty().run(&["list", "--format", "{{.id}}"]);
    assert_eq!((empty.code, empty.out.as_str()), (Some(0), ""), "{empty:?}");
}

#[test]
fn colours_come_and_go_as_the_flag_and_the_variables_say() {
    let machine = Machine::furnished();
    let is_coloured = |args: &[&str], variables: &[(&str, &str)]| {
        let mut command = machine.command(&[&["list", "--since", "all"], args].concat());
        let ended = Ended::of(&command.envs(variables.iter().copied()).output().unwrap());
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.out.contains('\u{1b}')
    };
    assert!(!is_coloured(&[], &[]));
    assert!(is_coloured(&[], &[("CLICOLOR_FORCE", "1")]));
    assert!(!is_coloured(&[], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
    assert!(is_coloured(&["--color", "always"], &[("NO_COLOR", "1")]));
    assert!(!is_coloured(&["--color=never"], &[("CLICOLOR_FORCE", "1")]));
    assert_eq!(machine.run(&["--color", "sometimes"]).code, Some(2));
    let help = |when: &str| machine.run(&["--color", when, "--help"]).out.contains('\u{1b}');
    assert!(help("always") && !help("never"));
}

#[test]
fn a_watch_into_a_pipe_says_how_a_session_left() {
    let machine = Machine::furnished();
    let agent = at_work(&machine, TOOLS);
    let mut watch = machine.command(&["-w"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.contains(TOOLS) && first.contains("running"), "{first}");
    drop(agent);
    let left = lines.map(Result::unwrap).find(|line| line.contains("left the list")).unwrap();
    watch.kill().unwrap();
    watch.wait().unwrap();
    assert!(left.contains(&format!("{TOOLS} left the list: ✓ done")), "{left}");
}

#[test]
fn every_page_of_the_manual_is_sound() {
    if !is_there("mandoc") {
        return;
    }
    let machine = Machine::empty();
    let pages = machine.home().join("man");
    let written = machine
        .command(&["man", "--dir", pages.to_str().unwrap()])
        .env("SOURCE_DATE_EPOCH", "86400")
        .output();
    assert_eq!(Ended::of(&written.unwrap()).code, Some(0));
    let title = std::fs::read_to_string(pages.join("agentctl-worktree-clean.1")).unwrap();
    let wanted = concat!(
        ".TH AGENTCTL-WORKTREE-CLEAN 1 1970-01-02 \"agentctl ",
        env!("CARGO_PKG_VERSION"),
        "\" \"agentctl manual\""
    );
    assert!(title.contains(wanted), "{title}");
    let linted = Command::new("mandoc")
        .args(["-Tlint", "-Wwarning"])
        .args(std::fs::read_dir(&pages).unwrap().map(|page| page.unwrap().path()))
        .output()
        .unwrap();
    let complaints = String::from_utf8_lossy(&linted.stdout);
    assert!(complaints.is_empty(), "{complaints}");
}

/// What a shell can offer for this line.
fn offered(machine: &Machine, line: &[&str]) -> String {
    let mut command = machine.command(&[&["--", "agentctl"], line].concat());
    Ended::of(&command.env("COMPLETE", "fish").output().unwrap()).out
}

#[test]
fn a_verb_offers_only_sessions_that_it_fits() {
    let machine = Machine::furnished();
    let agent = at_work(&machine, TOOLS);
    let offers = |verb: &str| {
        let out = offered(&machine, &[verb, ""]);
        (out.contains(TOOLS), out.contains(DIED))
    };
    assert!(offers("status").0);
    assert_eq!((offers("stop"), offers("approve")), ((true, false), (false, false)));
    agent.says(&machine, r#""status":"waiting","waitingFor":"permission prompt""#);
    assert_eq!((offers("approve"), offers("resume").0), ((true, false), false));
    assert!(!offered(&machine, &["resume", "a00"]).contains(DIED), "its folder is gone");
    machine.folder_of_died();
    assert!(offered(&machine, &["resume", "a00"]).contains(DIED));
    assert!(!offered(&machine, &["stop", "a00"]).contains(DIED));
    assert!(!offered(&machine, &["--color", "always", "stop", "a00"]).contains(DIED));
    assert!(offered(&machine, &["inbox", "--done", "a00"]).contains(DIED));
    assert!(!offered(&machine, &["inbox", "--done", "2222"]).contains(TOOLS), "it has not failed");
    let words = offered(&machine, &["list", "--status", ""]);
    for word in ["waiting", "interrupted", "completed", "done"] {
        assert!(words.contains(word), "{word}: {words}");
    }
}

/// The registration of each shell, sourced by that shell, offers what agentctl returns.
#[test]
fn real_shells_complete() {
    let machine = Machine::furnished();
    let binary = env!("CARGO_BIN_EXE_agentctl");
    let run = |shell: &str, script: &str| {
        let mut command = Command::new(shell);
        command.args(if shell == "zsh" { &["-f", "-c"][..] } else { &["-c"] }).arg(script);
        command.env("HOME", machine.home()).env("AGENTCTL_NO_DAEMON", "1").env("TERM", "dumb");
        Ended::of(&command.output().unwrap())
    };
    if is_there("bash") {
        let script = format!(
            "source <({binary} completions bash); COMP_WORDS=(agentctl status 2222); COMP_CWORD=2; COMP_TYPE=9; \
             $(complete -p agentctl | sed 's/.*-F \\([^ ]*\\).*/\\1/') agentctl 2222 status; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let ended = run("bash", &script);
        assert!(ended.out.contains(TOOLS) && ended.err.is_empty(), "{ended:?}");
    }
    if is_there("fish") {
        let ended =
            run("fish", &format!("{binary} completions fish | source; complete -C 'agentctl status 2222'"));
        assert!(ended.out.starts_with(TOOLS) && ended.err.is_empty(), "{ended:?}");
    }
    if is_there("zsh") {
        let bare = run("zsh", &format!("source <({binary} completions zsh); echo on"));
        assert!(bare.err.contains("compinit") && !bare.err.contains("not found"), "{bare:?}");
        assert_eq!(bare.out, "on\n");
        let script = format!(
            "autoload -Uz compinit; compinit -u -D; source <({binary} completions zsh); echo $_comps[agentctl]"
        );
        let ready = run("zsh", &script);
        assert!(ready.out.contains("agentctl") && ready.err.is_empty(), "{ready:?}");
    }
}

#[test]
fn doctor_fits_the_screen_and_calls_nothing_absent_that_it_found() {
    use std::os::unix::fs::PermissionsExt;
    let machine = Machine::empty();
    machine.write("bin/codex", "#!/bin/sh\n");
    let bin = machine.home().join("bin");
    std::fs::set_permissions(bin.join("codex"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let report = machine.command(&["doctor"]).env("PATH", &bin).env("COLUMNS", "80").output().unwrap();
    let report = Ended::of(&report).out;
    let codex = report.split("\n\n").find(|part| part.starts_with("Codex ")).unwrap();
    assert!(codex.contains("✓ program  ~/bin/codex") && codex.contains("nothing stored here yet"), "{codex}");
    assert!(!codex.contains("not-installed"), "{codex}");
    // Only a word longer than the screen would be broken.
    let whole = Ended::of(&machine.command(&["doctor"]).env("PATH", &bin).output().unwrap()).out;
    let words = |text: &str| {
        text.split_whitespace()
            .filter(|word| word.parse::<u32>().is_err())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(words(&report), words(&whole), "no word is broken");
    assert!(report.lines().all(|line| line.chars().count() <= 80), "{report}");
}
