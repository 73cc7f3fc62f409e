//! Which process owns which session: pairs, launches, tools, strangers.

use std::fs;
use std::time::Duration;

use agentctl_fleet::{KernelLock, Query, Since, Wanted};
use agentctl_model::{Outcome, Rule, Status};
use agentctl_process::Kernel;
use agentctl_process::fake::{Scripted, ScriptedProcess};

use crate::home::{A, B, Home, Tree, minute, name, session, verdict};

#[test]
fn one_process_and_one_session_with_newer_records_are_a_pair() {
    for (tree, expected) in [
        (Tree::new(A, "/w", 1).user(2), (Status::Running, None)),
        (Tree::new(A, "/w", 1).user(2).reply(3, "toolUse"), (Status::Running, None)),
        (Tree::new(A, "/w", 1).user(2).reply(3, "stop"), (Status::Idle, Some(Outcome::Completed))),
        (Tree::new(A, "/w", 1).user(2).reply(3, "error"), (Status::Idle, Some(Outcome::Failed))),
        (Tree::new(A, "/w", 1).user(2).reply(3, "aborted"), (Status::Idle, Some(Outcome::Interrupted))),
        (
            Tree::new(A, "/w", 1).user(2).reply(3, "error").record("context_edit", 4, r#""targetId":"r2""#),
            (Status::Running, None),
        ),
        (Tree::new(A, "/w", 1).record("model_change", 1, r#""modelId":"m""#), (Status::Idle, None)),
    ] {
        let home = Home::new();
        home.put(&name(A), &tree);
        let survey = home.all(Scripted::new().process(home.pi(42, 0)));
        assert_eq!(verdict(&survey, A), expected, "{}", tree.text());
        assert_eq!((session(&survey, A).pid, survey.strays.len()), (Some(42), 0));
    }
}

#[test]
fn a_wrapper_that_was_killed_takes_nobody_with_it() {
    let home = Home::new();
    home.put(&name(A), &Tree::new(A, "/w", 1).user(2));
    let wrapper = || ScriptedProcess::new(41, &["/bin/sh", "/w/bin/pi"]).comm("pi").exe("/usr/bin/dash");
    let wrapper =
        || wrapper().cwd("/w").variable("HOME", home.path().to_str().unwrap()).started_at(minute(0));
    let both = home.all(Scripted::new().process(wrapper()).process(home.pi(42, 0).parent(41)));
    assert_eq!(verdict(&both, A), (Status::Running, None));
    assert_eq!(
        (session(&both, A).processes.len(), both.strays.len()),
        (1, 0),
        "a wrapper is no owner and no stray"
    );
    let orphan = home.all(Scripted::new().process(home.pi(42, 0)));
    assert_eq!(verdict(&orphan, A), (Status::Running, None));
}

#[test]
fn a_process_that_started_after_every_record_is_somebody_else() {
    let home = Home::new();
    home.put(&name(A), &Tree::new(A, "/w", 1).user(2).reply(3, "toolUse"));
    let survey = home.all(Scripted::new().process(home.pi(42, 10)));
    assert_eq!(
        verdict(&survey, A),
        (Status::Stopped, Some(Outcome::Died)),
        "the pid was reused, or Pi is new here"
    );
    assert_eq!(survey.strays.len(), 1);
    let survey = home.all(Scripted::new());
    assert_eq!(verdict(&survey, A), (Status::Stopped, Some(Outcome::Died)));
}

#[test]
fn killed_in_the_middle_and_merely_reopened_is_idle() {
    let home = Home::new();
    let file = home.put(&name(A), &Tree::new(A, "/w", 1).user(2).reply(3, "toolUse"));
    // All that the new process did was a `!` command of the user, whose variables name the session.
    let kernel = Scripted::new().process(home.pi(42, 10)).process(home.tool(43, 42, A, &file));
    let survey = home.all(kernel);
    assert_eq!(verdict(&survey, A), (Status::Idle, Some(Outcome::Died)));
    assert_eq!(session(&survey, A).pid, Some(42));
}

#[test]
fn two_in_one_directory_are_not_told_apart_by_guessing() {
    let home = Home::new();
    let file = home.put(&name(A), &Tree::new(A, "/w", 1).user(2));
    home.put(&name(B), &Tree::new(B, "/w", 1).user(2).reply(3, "stop"));
    home.put(&name("old"), &Tree::new("old", "/w", -9).user(-8).reply(-7, "stop"));
    let two = || Scripted::new().process(home.pi(42, 0)).process(home.pi(43, 0));
    let survey = home.all(two());
    assert_eq!(verdict(&survey, A), (Status::Unknown, None));
    assert_eq!(verdict(&survey, B), (Status::Unknown, None));
    assert_eq!(
        verdict(&survey, "old"),
        (Status::Stopped, Some(Outcome::Completed)),
        "older sessions stay stopped"
    );

    let survey = home.all(two().process(home.tool(44, 42, A, &file)));
    assert_eq!((verdict(&survey, A), session(&survey, A).pid), ((Status::Running, None), Some(42)));
    let idle = (Status::Idle, Some(Outcome::Completed));
    assert_eq!((verdict(&survey, B), session(&survey, B).pid), (idle, Some(43)), "one is left for the other");
}

#[test]
fn a_launch_record_tells_apart_what_nothing_else_does() {
    let home = Home::new();
    home.put(&name(A), &Tree::new(A, "/w", 1).user(2));
    home.put(&name(B), &Tree::new(B, "/w", 1).user(2));
    home.launch("launch-a", A);
    home.launch("launch-b", B);
    let marked = |pid, launch| home.pi(pid, 0).variable("AGENTCTL_LAUNCH_ID", launch);
    // A tool of the first one started a Pi without a session of its own, which inherits the mark.
    let kernel = || {
        let tool =
            ScriptedProcess::new(50, &["/bin/sh"]).parent(41).variable("AGENTCTL_LAUNCH_ID", "launch-a");
        let nested = marked(51, "launch-a").parent(50);
        Scripted::new().process(tool).process(nested).process(marked(42, "launch-b"))
    };
    let survey = home.all(kernel().process(marked(41, "launch-a")));
    for (id, pid) in [(A, 41), (B, 42)] {
        assert_eq!(verdict(&survey, id), (Status::Running, None));
        let session = session(&survey, id);
        assert_eq!((session.pid, session.processes.len()), (Some(pid), 1), "{session:#?}");
        let told = serde_json::to_string(&session.evidence).unwrap();
        assert!(told.contains("our launch record names this session"), "{told}");
    }
}

/// Contract row N2: what a launched process left open gets no new owner because an unrelated process works in the same
/// directory.
#[test]
fn a_killed_launch_is_not_given_to_a_bystander() {
    let home = Home::new();
    home.left_open("launch-a", A, 3);
    home.exited("launch-a", 4, 9);
    let bystander = || Scripted::new().process(home.pi(42, 0));
    let died = (Status::Stopped, Some(Outcome::Died));
    let survey = home.all(bystander());
    assert_eq!((verdict(&survey, A), session(&survey, A).pid), (died, None));
    assert_eq!(session(&survey, A).stopped_at, Some(minute(4)), "the runner saw it");
    assert_eq!(survey.strays.len(), 1, "the bystander belongs to no stored session");
    let told = serde_json::to_string(&session(&survey, A).evidence).unwrap();
    assert!(told.contains("ended with signal 9"), "{told}");

    // A second launched session does not make both uncertain; a third session that was not launched is the only
    // candidate.
    home.left_open("launch-b", B, 3);
    home.exited("launch-b", 4, 15);
    let both = home.all(bystander());
    let interrupted = (Status::Stopped, Some(Outcome::Interrupted));
    assert_eq!((verdict(&both, A), verdict(&both, B)), (died, interrupted));
    let third = "cccccccc-0000-4000-8000-00000000000c";
    home.put(&name(third), &Tree::new(third, "/w", 1).user(2));
    let all = home.all(bystander());
    assert_eq!((verdict(&all, third), session(&all, third).pid), ((Status::Running, None), Some(42)));
    assert_eq!((verdict(&all, A), verdict(&all, B)), (died, interrupted));
}

/// A Pi that a tool of the killed one had started lives on, with the launch's mark and without a parent that would show
/// this.
#[test]
fn what_a_tool_of_a_killed_launch_started_does_not_carry_its_session() {
    let home = Home::new();
    home.left_open("launch-a", A, 3);
    home.exited("launch-a", 4, 9);
    let nested = home.pi(51, 2).variable("AGENTCTL_LAUNCH_ID", "launch-a").variable("PI_SESSION_ID", A);
    let survey = home.all(Scripted::new().process(nested));
    assert_eq!(verdict(&survey, A), (Status::Stopped, Some(Outcome::Died)));
    assert_eq!(session(&survey, A).pid, None);
}

/// Contract row N1: a process that a person starts to continue a launched conversation writes into it, and is a
/// candidate from then on.
#[test]
fn a_launched_session_that_a_stranger_took_up_is_the_strangers() {
    let home = Home::new();
    home.left_open("launch-a", A, 6);
    home.exited("launch-a", 4, 9);
    let survey = home.all(Scripted::new().process(home.pi(42, 5)));
    assert_eq!((verdict(&survey, A), session(&survey, A).pid), ((Status::Running, None), Some(42)));
    // Whatever was seen, a process with the launch's own mark is no stranger: its wrapper may have been killed alone.
    home.exited("launch-a", 8, 9);
    let worker = home.pi(43, 0).variable("AGENTCTL_LAUNCH_ID", "launch-a");
    let survey = home.all(Scripted::new().process(worker));
    assert_eq!((verdict(&survey, A), session(&survey, A).pid), ((Status::Running, None), Some(43)));
}

/// The exit was not seen: it is not known who wrote the newest records, so there is no verdict.
#[test]
fn a_launch_that_was_killed_with_its_runner_is_in_doubt() {
    let home = Home::new();
    home.left_open("launch-a", A, 3);
    let path = home.launches().join("launch-a/launch.json");
    let mut record: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    record["process"] = serde_json::json!({"pid": 41, "start": 1, "boot": format!("{:032x}", 1)});
    fs::write(&path, record.to_string()).unwrap();
    let survey = home.all(Scripted::new().process(home.pi(42, 0)));
    assert_eq!((verdict(&survey, A), session(&survey, A).pid), ((Status::Unknown, None), None));
    let alone = home.all(Scripted::new());
    assert_eq!(verdict(&alone, A), (Status::Stopped, Some(Outcome::Died)));
    // A process that started after the last record has nothing to do with it.
    let later = home.all(Scripted::new().process(home.pi(42, 5)));
    assert_eq!(verdict(&later, A), (Status::Stopped, Some(Outcome::Died)));
}

/// A live runner will write the exit. A process that is just ending owns nothing any more, though the kernel still
/// lists it: either way, what it left open has no outcome yet.
#[test]
fn a_launch_whose_runner_lives_has_no_outcome_before_its_exit() {
    let home = Home::new();
    home.left_open("launch-a", A, 3);
    let path = home.launches().join("launch-a/launch.json");
    let mut record: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let ending = ScriptedProcess::new(41, &["ending"]);
    let gone = Scripted::new();
    let still_named = Scripted::new().process(ending);
    let named = still_named.heads().seen().unwrap()[0].process;
    record["process"] = serde_json::json!(
        {"pid": named.pid, "start": named.start, "boot": format!("{:032x}", named.boot)}
    );
    fs::write(&path, record.to_string()).unwrap();
    let runner = KernelLock::on_folder(&home.launches().join("launch-a"), Duration::ZERO).unwrap();
    for kernel in [gone, still_named] {
        let survey = home.all(kernel);
        assert_eq!(verdict(&survey, A), (Status::Stopped, None));
        let detail = session(&survey, A).status_detail.as_deref();
        assert!(detail.is_some_and(|words| words.contains("its runner has yet to write")), "{detail:?}");
        assert_eq!(survey.sessions[0].rule, Rule::ExitNotWrittenYet);
    }
    drop(runner);
    assert_eq!(verdict(&home.all(Scripted::new()), A), (Status::Stopped, Some(Outcome::Died)));
}

#[test]
fn a_launch_takes_up_a_session_that_was_last_written_before_it() {
    let home = Home::new();
    // What is on disk is older than the process, as the file's own time shows.
    let file = home.put(&name(A), &Tree::new(A, "/w", 1).user(2).reply(3, "stop"));
    let written = fs::File::open(&file).unwrap();
    written.set_modified(minute(3).into()).unwrap();
    home.launch("launch-a", A);
    let late = || home.pi(42, 10).variable("AGENTCTL_LAUNCH_ID", "launch-a");
    let survey = home.all(Scripted::new().process(late()));
    assert_eq!((session(&survey, A).pid, survey.strays.len()), (Some(42), 0));
}

#[test]
fn a_tool_below_a_shell_names_the_session_wherever_the_process_stands() {
    let home = Home::new();
    let file =
        home.put_in("--elsewhere--", &name(A), &Tree::new(A, "/elsewhere", 1).user(2).reply(3, "toolUse"));
    let shell = ScriptedProcess::new(43, &["/bin/bash", "-c", "make; ls"]).parent(42);
    let kernel = Scripted::new().process(home.pi(42, 0)).process(shell).process(home.tool(44, 43, A, &file));
    let survey = home.all(kernel);
    assert_eq!(verdict(&survey, A), (Status::Running, None));
    assert_eq!(session(&survey, A).status_detail.as_deref(), Some("bash: make"));
}

#[test]
fn an_agent_started_by_a_tool_carries_its_own_session_and_not_its_parents() {
    let home = Home::new();
    let outer = home.put(&name(A), &Tree::new(A, "/w", 1).user(2).reply(3, "toolUse"));
    home.put(&name(B), &Tree::new(B, "/w", 4).user(5));
    let nested = home.pi(43, 4).parent(42).variable("PI_SESSION_ID", A);
    let nested = nested.variable("PI_SESSION_FILE", outer.to_str().unwrap());
    // What an extension of the nested agent started inherits the mark of the outer one.
    let inherited = home.tool(44, 43, A, &outer);
    let survey = home.all(Scripted::new().process(home.pi(42, 0)).process(nested).process(inherited));
    assert_eq!((verdict(&survey, A), session(&survey, A).pid), ((Status::Running, None), Some(42)));
    assert_eq!((verdict(&survey, B), session(&survey, B).pid), ((Status::Running, None), Some(43)));
    assert_eq!(session(&survey, A).processes.len(), 1);
}

#[test]
fn sub_agents_without_a_session_are_neither_rows_nor_strays() {
    let home = Home::new();
    home.put(&name(A), &Tree::new(A, "/w", 1).user(2).reply(3, "toolUse"));
    let child = |pid| home.pi(pid, 4).parent(42);
    let survey = home.all(Scripted::new().process(home.pi(42, 0)).process(child(43)).process(child(44)));
    assert_eq!((verdict(&survey, A), session(&survey, A).pid), ((Status::Running, None), Some(42)));
    assert_eq!((survey.sessions.len(), survey.strays.len()), (1, 0));
}

#[test]
fn a_run_without_a_session_is_a_stray_and_takes_no_ones_session() {
    let home = Home::new();
    home.put(&name(A), &Tree::new(A, "/w", 1).user(2).reply(3, "stop"));
    let tool = ScriptedProcess::new(43, &["sleep"]).parent(42).variable("PI_SESSION_ID", B);
    let survey = home.all(Scripted::new().process(home.pi(42, 0)).process(tool));
    assert_eq!(
        verdict(&survey, A),
        (Status::Stopped, Some(Outcome::Completed)),
        "its tool names another one"
    );
    assert_eq!(survey.strays.len(), 1);
    let starting =
        ScriptedProcess::new(42, &["node", "/n/bin/pi", "-p", "--no-session", "x"]).exe("/usr/bin/node");
    let starting = starting.cwd("/w").variable("HOME", home.path().to_str().unwrap()).started_at(minute(0));
    let survey = home.all(Scripted::new().process(starting));
    assert_eq!((verdict(&survey, A).0, survey.strays.len()), (Status::Stopped, 1));
}

#[test]
fn other_homes_other_stores_and_other_programs_are_not_ours() {
    let home = Home::new();
    home.put(&name(A), &Tree::new(A, "/w", 1).user(2));
    let died = (Status::Stopped, Some(Outcome::Died));
    for stranger in [
        home.pi(42, 0).variable("HOME", "/home/other"),
        home.pi(42, 0).variable("PI_CODING_AGENT_DIR", "/other"),
        home.pi(42, 0).variable("PI_CODING_AGENT_SESSION_DIR", "/other"),
        home.pi(42, 0).exe("/usr/bin/python3"),
        home.pi(42, 0).closed("another user's"),
    ] {
        let survey = home.all(Scripted::new().process(stranger.clone()));
        assert_eq!(verdict(&survey, A), died, "{stranger:?}");
        let pi: Vec<_> = survey.strays.iter().filter(|(adapter, _)| adapter == "pi").collect();
        assert_eq!(pi.len(), 0, "{stranger:?}");
    }
}

#[test]
fn a_process_that_names_a_file_of_ours_carries_it_whatever_its_variables_say() {
    let home = Home::new();
    let file = home.put(&name(A), &Tree::new(A, "/w", 1).user(2).reply(3, "toolUse"));
    let moved = home.pi(42, 0).variable("PI_CODING_AGENT_SESSION_DIR", "/other");
    let survey = home.all(Scripted::new().process(moved).process(home.tool(43, 42, A, &file)));
    assert_eq!((verdict(&survey, A), session(&survey, A).pid), ((Status::Running, None), Some(42)));
    // The variable may also name the directory that is the default anyway.
    let same = home.pi(42, 0).variable("PI_CODING_AGENT_SESSION_DIR", home.store().to_str().unwrap());
    let survey = home.all(Scripted::new().process(same));
    assert_eq!(verdict(&survey, A), (Status::Running, None));
}

#[test]
fn variables_that_cannot_be_seen_make_unknown_and_never_stopped() {
    let home = Home::new();
    home.put(&name(A), &Tree::new(A, "/w", 1).user(2));
    let mut hidden = home.pi(42, 0);
    hidden.process.environ = agentctl_model::Observed::Unobservable("this platform shows none".into());
    let survey =
        home.fleet(Scripted::new().process(hidden)).survey(&Query::new(Wanted::All { since: Since::Ever }));
    assert_eq!(verdict(&survey, A), (Status::Unknown, None));
}
