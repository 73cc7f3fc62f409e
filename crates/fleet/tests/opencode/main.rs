//! OpenCode sessions and their processes: which process owns what, and what is reported when that cannot be known.
#![allow(clippy::disallowed_methods, reason = "tests write what is read")]
#![allow(clippy::unwrap_used, reason = "a test that cannot set its scene must fail right there")]

mod home;
mod server;

use agentctl_fleet::{Query, Since, Wanted};
use agentctl_model::{NamespaceView, Outcome, PendingKind, Relation, Status};
use agentctl_process::fake::{Scripted, ScriptedProcess};
use jiff::Timestamp;
use serde_json::json;

use home::{Home, at, stop, table};
use server::serve;

#[test]
fn a_run_with_its_session_in_the_argv_is_running_and_dies_with_its_process() {
    let home = Home::new();
    home.session("ses_1", "/w", 100, 100);
    home.step("ses_1", 101, None, "");
    let run = home.process(7, &["opencode", "run", "--session", "ses_1"], "/elsewhere", 90);
    let alive = home.seen(&[run], "ses_1");
    assert_eq!((alive.status, alive.outcome, alive.pid), (Status::Running, None, Some(7)));
    let dead = home.seen(&[], "ses_1");
    assert_eq!((dead.status, dead.outcome, dead.pid), (Status::Stopped, Some(Outcome::Died), None));
    let reused = ScriptedProcess::new(7, &["vim", "opencode"]).cwd("/w");
    assert_eq!(home.seen(&[reused], "ses_1").status, Status::Stopped, "the pid has another owner");
}

#[test]
fn the_native_program_is_the_session_with_and_without_its_wrapper() {
    let home = Home::new();
    home.session("ses_1", "/w", 100, 100);
    home.step("ses_1", 101, None, "");
    let wrapper = || home.process(7, &["node", "/x/bin/opencode", "run", "hi"], "/w", 90);
    let native = home.process(8, &["/x/opencode-linux-x64/bin/opencode", "run", "hi"], "/w", 91);
    let both = home.seen(&[wrapper(), native.clone().parent(7)], "ses_1");
    assert_eq!((both.status, both.pid), (Status::Running, Some(8)));
    let roles: Vec<(u32, &str)> =
        both.processes.iter().map(|entry| (entry.pid, entry.role.as_str())).collect();
    assert_eq!(roles, [(8, "agent"), (7, "wrapper")]);
    let orphan = home.seen(&[native], "ses_1");
    assert_eq!((orphan.status, orphan.pid, orphan.processes.len()), (Status::Running, Some(8), 1));
    assert_eq!(home.seen(&[wrapper()], "ses_1").status, Status::Stopped, "a wrapper alone carries nothing");
}

#[test]
fn a_run_runs_until_its_process_ends_unless_it_stays_for_more() {
    let home = Home::new();
    home.session("ses_1", "/w", 100, 100);
    home.step("ses_1", 101, stop(), "done");
    let run = |more: &[&str]| {
        let argv = [&["opencode", "run", "-s", "ses_1"], more].concat();
        home.seen(&[home.process(7, &argv, "/w", 90)], "ses_1")
    };
    assert_eq!((run(&[]).status, run(&[]).outcome), (Status::Running, None));
    assert_eq!(run(&["-i"]).status, Status::Idle);
}

#[test]
fn killed_mid_turn_and_merely_opened_again_is_idle_and_died() {
    let home = Home::new();
    home.session("ses_1", "/w", 100, 100);
    home.step("ses_1", 101, None, "");
    let terminal = home.process(9, &["opencode", "-s", "ses_1"], "/w", 500);
    let seen = home.seen(&[terminal], "ses_1");
    assert_eq!((seen.status, seen.outcome), (Status::Idle, Some(Outcome::Died)));
}

#[test]
fn a_finished_turn_is_idle_while_the_process_lives() {
    let home = Home::new();
    home.session("ses_1", "/w", 100, 100);
    home.step("ses_1", 101, stop(), "all done");
    let seen = home.seen(&[home.process(9, &["opencode"], "/w", 50)], "ses_1");
    assert_eq!((seen.status, seen.outcome), (Status::Idle, Some(Outcome::Completed)));
    assert_eq!(seen.last_message.as_deref(), Some("all done"));
    assert_eq!(seen.prompt.as_deref(), Some("the prompt"));
    assert_eq!(seen.model.as_deref(), Some("fake/model"));
}

#[test]
fn two_in_one_directory_are_told_apart_by_argv_or_not_at_all() {
    let home = Home::new();
    for id in ["ses_1", "ses_2"] {
        home.session(id, "/w", 100, 100);
        home.step(id, 101, None, "");
    }
    let run = |pid, argv: &[&str]| home.process(pid, argv, "/w", 90);
    let named = [run(7, &["opencode", "run", "-s", "ses_1"]), run(8, &["opencode", "run", "-s", "ses_2"])];
    assert_eq!(home.seen(&named, "ses_1").pid, Some(7));
    assert_eq!(home.seen(&named, "ses_2").pid, Some(8));
    let nameless = [run(7, &["opencode", "run", "a"]), run(8, &["opencode", "run", "b"])];
    for id in ["ses_1", "ses_2"] {
        let seen = home.seen(&nameless, id);
        assert_eq!((seen.status, seen.pid), (Status::Unknown, None), "{id}");
    }
    let mixed = [run(7, &["opencode", "run", "-s", "ses_1"]), run(8, &["opencode", "run", "b"])];
    assert_eq!(home.seen(&mixed, "ses_2").pid, Some(8), "what is left for one is its own");
}

#[test]
fn one_terminal_and_two_sessions_that_fit_are_unknown_whoever_is_asked_for() {
    let home = Home::new();
    home.session("ses_1", "/w", 100, 100);
    home.step("ses_1", 101, stop(), "done");
    home.session("ses_2", "/w", 110, 110);
    home.step("ses_2", 111, None, "");
    home.session("ses_old", "/w", 10, 20);
    home.step("ses_old", 21, stop(), "done");
    let terminal = [home.process(7, &["opencode"], "/w", 90)];
    for id in ["ses_1", "ses_2"] {
        assert_eq!(home.seen(&terminal, id).status, Status::Unknown, "{id}");
    }
    assert_eq!(home.seen(&terminal, "ses_old").status, Status::Stopped);
}

#[test]
fn a_fresh_run_carries_only_what_is_younger_than_itself() {
    let home = Home::new();
    // It was created before the run, and another process prompted it while the run was alive.
    home.session("ses_old", "/w", 10, 120);
    home.step("ses_old", 121, None, "");
    home.session("ses_new", "/w", 110, 110);
    home.step("ses_new", 111, None, "");
    let run = [home.process(7, &["opencode", "run", "hi"], "/w", 100)];
    assert_eq!(home.seen(&run, "ses_new").pid, Some(7));
    assert_eq!(home.seen(&run, "ses_old").outcome, Some(Outcome::Died));
}

#[test]
fn a_run_is_where_its_pwd_says() {
    let home = Home::new();
    home.session("ses_1", "/stale", 110, 110);
    home.step("ses_1", 111, None, "");
    let run = home.process(7, &["opencode", "run", "hi"], "/real", 100).variable("PWD", "/stale");
    assert_eq!(home.seen(&[run], "ses_1").pid, Some(7));
    let elsewhere = home.process(7, &["opencode", "run", "hi"], "/real", 100).variable("PWD", "/real");
    assert_eq!(home.seen(&[elsewhere], "ses_1").status, Status::Stopped);
}

#[test]
fn an_idle_terminal_is_a_stray_and_older_sessions_stay_stopped() {
    let home = Home::new();
    home.session("ses_1", "/w", 100, 100);
    home.step("ses_1", 101, stop(), "done");
    let processes = [
        home.process(9, &["opencode"], "/w", 500),
        home.process(10, &["opencode", "serve"], "/w", 500),
        home.process(11, &["opencode", "session", "list"], "/w", 500),
        home.process(12, &["opencode", "run", "--attach", "http://127.0.0.1:1", "x"], "/w", 500),
    ];
    assert_eq!(home.seen(&processes, "ses_1").status, Status::Stopped);
    let strays: Vec<u32> =
        home.survey(&processes).strays.iter().map(|(_, stray)| stray.process.pid).collect();
    assert_eq!(strays, [9], "servers, clients and commands that manage are no sessions");
}

#[test]
fn processes_of_another_home_are_not_ours() {
    let home = Home::new();
    home.session("ses_1", "/w", 100, 100);
    home.step("ses_1", 101, None, "");
    let argv = ["opencode", "run", "-s", "ses_1"];
    let foreign = home.process(7, &argv, "/w", 90).variable("XDG_DATA_HOME", "/other");
    assert_eq!(home.seen(&[foreign], "ses_1").status, Status::Stopped);
    let memory = home.process(7, &argv, "/w", 90).variable("OPENCODE_DB", ":memory:");
    assert_eq!(home.seen(&[memory], "ses_1").status, Status::Stopped);
    let closed = home.process(7, &argv, "/w", 90).closed("somebody else's");
    assert_eq!(home.seen(&[closed], "ses_1").status, Status::Stopped);
}

#[test]
fn our_own_launch_is_found_by_its_record() {
    let home = Home::new();
    for id in ["ses_1", "ses_2"] {
        home.session(id, "/w", 100, 100);
        home.step(id, 101, None, "");
    }
    home.launch_record("launch-2", "ses_2");
    let run = |pid| home.process(pid, &["opencode", "run"], "/w", 90);
    let ours = run(7).variable("AGENTCTL_LAUNCH_ID", "launch-2");
    let seen = home.seen(std::slice::from_ref(&ours), "ses_2");
    assert_eq!((seen.status, seen.pid), (Status::Running, Some(7)));
    let why = serde_json::to_string(&seen.evidence).unwrap();
    assert!(why.contains("our launch record names this session"), "{why}");
    // Without the mark, nothing would tell apart the two runs in one directory.
    assert_eq!(home.seen(&[ours.clone(), run(8)], "ses_1").pid, Some(8));
    assert_eq!(home.seen(&[ours, run(8)], "ses_2").pid, Some(7));
    assert_eq!(home.seen(&[run(7), run(8)], "ses_2").status, Status::Unknown);

    // The row does not exist yet: no other session is taken for it.
    home.launch_record("launch-3", "ses_3");
    let early = run(9).variable("AGENTCTL_LAUNCH_ID", "launch-3");
    assert_eq!(home.seen(&[early], "ses_1").pid, None);
}

#[test]
fn a_turn_that_a_server_may_run_is_unknown_until_the_server_is_asked() {
    let home = Home::new();
    home.session("ses_1", "/w", 100, 100);
    home.step("ses_1", 101, None, "");
    let server = |started| home.process(9, &["opencode", "serve"], "/", started);
    assert_eq!(home.seen(&[server(50)], "ses_1").status, Status::Unknown);
    assert_eq!(home.seen(&[server(500)], "ses_1").outcome, Some(Outcome::Died), "older than the server");

    let busy = serve(&[("/session/status", r#"{"ses_1":{"type":"busy"}}"#), ("/permission", "[]")]);
    let seen = home.seen(&[server(50).listens(busy.address)], "ses_1");
    assert_eq!((seen.status, seen.pid), (Status::Running, Some(9)));
    assert_eq!(seen.processes[0].role.as_str(), "server");
    assert!(busy.asked.lock().unwrap().iter().any(|asked| asked == "/session/status?directory=%2Fw"));

    let free = serve(&[("/session/status", "{}")]);
    let seen = home.seen(&[server(50).listens(free.address)], "ses_1");
    assert_eq!((seen.status, seen.outcome), (Status::Stopped, Some(Outcome::Died)));

    let odd = serve(&[("/session/status", "<html>")]);
    assert_eq!(home.seen(&[server(50).listens(odd.address)], "ses_1").status, Status::Unknown);
}

#[test]
fn a_server_says_what_waits_for_a_person() {
    let home = Home::new();
    home.session("ses_1", "/w", 100, 100);
    home.step("ses_1", 101, None, "");
    // The request belongs to a sub-agent; people see its parent.
    let server = serve(&[
        ("/session/status", r#"{"ses_1":{"type":"busy"},"ses_child":{"type":"busy"}}"#),
        (
            "/permission",
            r#"[{"id":"per_1","sessionID":"ses_child","permission":"bash","patterns":["rm -rf build"],"always":[]}]"#,
        ),
        ("/session/ses_child", r#"{"id":"ses_child","parentID":"ses_1"}"#),
        ("/question", "[]"),
    ]);
    let terminal = home.process(9, &["opencode", "-s", "ses_1"], "/w", 50).listens(server.address);
    let seen = home.seen(&[terminal], "ses_1");
    assert_eq!((seen.status, seen.status_detail.as_deref()), (Status::Waiting, Some("bash: rm -rf build")));
    assert_eq!(seen.pending.len(), 1);
    assert_eq!(seen.pending[0].kind, PendingKind::Approval);
}

#[test]
fn an_interface_that_may_have_moved_on_leaves_open_turns_in_doubt() {
    let home = Home::new();
    home.session("ses_1", "/w", 100, 100);
    home.step("ses_1", 101, stop(), "done");
    home.session("ses_2", "/w", 110, 110);
    home.step("ses_2", 111, None, "");
    let terminal = [home.process(9, &["opencode", "-s", "ses_1"], "/w", 50)];
    assert_eq!(home.seen(&terminal, "ses_1").status, Status::Idle);
    assert_eq!(
        home.seen(&terminal, "ses_2").status,
        Status::Unknown,
        "never stopped while it may be at work"
    );
}

#[test]
fn two_processes_on_one_session_are_both_heard() {
    let home = Home::new();
    home.session("ses_1", "/w", 100, 100);
    home.step("ses_1", 101, None, "");
    home.step("ses_1", 105, stop(), "the other one is done");
    let first = home.process(7, &["opencode", "run", "-s", "ses_1"], "/w", 95);
    assert_eq!(home.seen(&[first], "ses_1").status, Status::Running, "its own step is still open");
    let second = home.process(8, &["opencode", "-s", "ses_1"], "/w", 103);
    assert_eq!(home.seen(&[second], "ses_1").status, Status::Idle, "that step is not its own");
}

#[test]
fn subagents_are_carried_by_their_parents_process_while_they_work() {
    let home = Home::new();
    home.session("ses_1", "/w", 100, 100);
    home.step("ses_1", 101, None, "");
    home.session("ses_child", "/w", 102, 102);
    home.child_of("ses_child", "ses_1");
    home.step("ses_child", 103, None, "");
    home.session("ses_done", "/w", 102, 102);
    home.child_of("ses_done", "ses_1");
    home.step("ses_done", 103, stop(), "found it");
    let run = [home.process(7, &["opencode", "run", "-s", "ses_1"], "/w", 90)];
    let child = home.seen(&run, "ses_child");
    assert_eq!((child.status, child.pid), (Status::Running, Some(7)));
    assert_eq!((child.parent_id.as_deref(), child.relation), (Some("ses_1"), Some(Relation::Subagent)));
    assert_eq!(home.seen(&run, "ses_done").status, Status::Stopped);
    let plain = home.fleet(table(&run)).survey(&Query::new(Wanted::All { since: Since::Ever }));
    assert_eq!(plain.sessions.len(), 1, "in a plain list there are no sub-agents");
}

#[test]
fn a_long_turn_is_recent_though_its_row_was_not_touched() {
    let home = Home::new();
    home.session("ses_long", "/w", 100, 100);
    home.step("ses_long", 9000, stop(), "at last");
    home.session("ses_old", "/w", 50, 60);
    let since = Timestamp::from_millisecond(at(5000)).unwrap();
    let survey = home.fleet(table(&[])).survey(&Query::new(Wanted::All { since: Since::Moment(since) }));
    let ids: Vec<&str> = survey.sessions.iter().map(|one| one.key.id.as_str()).collect();
    assert_eq!(ids, ["ses_long"]);
}

#[test]
fn a_fork_counts_only_what_it_spent_itself() {
    let home = Home::new();
    home.session("ses_fork", "/w", 200, 200);
    let spent = json!({"finish": "stop", "cost": 0.5, "tokens": {"input": 10, "output": 2, "cache": {"read": 1, "write": 0}}});
    home.step("ses_fork", 100, Some(spent.clone()), "copied");
    home.step("ses_fork", 201, Some(spent), "its own");
    home.writer
        .execute(
            "UPDATE session SET tokens_input = 20, tokens_output = 4, tokens_cache_read = 2, cost = 1.0",
            [],
        )
        .unwrap();
    let ask = |usage| {
        let question = Query { usage, ..Query::new(Wanted::All { since: Since::Ever }) };
        home.fleet(table(&[])).survey(&question).sessions.pop().unwrap().session
    };
    let tokens = ask(true).tokens.unwrap();
    assert_eq!((tokens.input, tokens.output, tokens.cache_read), (Some(10), Some(2), Some(1)));
    assert_eq!(ask(true).cost, Some(0.5));
    assert_eq!(ask(false).tokens, None, "the running total is not its own");
    home.writer.execute("DELETE FROM message WHERE time_created < ?", [at(200)]).unwrap();
    assert_eq!(ask(false).tokens.unwrap().input, Some(20), "without copies the running total is the answer");
}

#[test]
fn damage_costs_what_is_damaged_and_no_more() {
    let home = Home::new();
    home.session("ses_good", "/w", 100, 100);
    home.step("ses_good", 101, stop(), "fine");
    home.session("ses_half", "/w", 100, 100);
    home.step("ses_half", 101, stop(), "still here");
    let broken = "UPDATE message SET data = '{\"role\":' WHERE session_id = 'ses_half' AND time_created = ?";
    home.writer.execute(broken, [at(101)]).unwrap();
    let survey = home.survey(&[]);
    assert_eq!((survey.sessions.len(), survey.sources[0].coverage.as_str()), (2, "complete"));
    assert!(survey.sources[0].warnings[0].contains("ses_half"), "{:?}", survey.sources[0].warnings);

    let row = "INSERT INTO session(id, directory, title, version, time_created, time_updated) VALUES(x'00ff', '/w', 't', 'v', 1, 1)";
    home.writer.execute(row, []).unwrap();
    let survey = home.survey(&[]);
    assert_eq!((survey.sessions.len(), survey.sources[0].coverage.as_str()), (2, "partial"));
}

#[test]
fn a_database_that_is_busy_or_broken_has_failed_and_nobody_is_called_stopped() {
    let home = Home::new();
    home.session("ses_1", "/w", 100, 100);
    home.writer.execute_batch("PRAGMA journal_mode=DELETE; BEGIN EXCLUSIVE").unwrap();
    let busy = home.survey(&[]);
    assert_eq!((busy.sessions.len(), busy.sources[0].coverage.as_str()), (0, "failed"));
    assert!(busy.sources[0].error.as_deref().unwrap().contains("busy"));
    home.writer.execute_batch("COMMIT").unwrap();
    assert_eq!(home.survey(&[]).sessions.len(), 1);

    home.writer.execute_batch("ALTER TABLE session RENAME TO sessions").unwrap();
    let foreign = home.survey(&[]);
    assert_eq!((foreign.sources[0].coverage.as_str(), foreign.sources[0].sessions), ("failed", None));

    std::fs::write(home.data().join("opencode.db"), vec![7; 20_000]).unwrap();
    assert_eq!(home.survey(&[]).sources[0].coverage.as_str(), "failed");
}

#[test]
fn the_old_tree_is_read_beside_the_database_and_each_session_once() {
    let home = Home::new();
    home.session("ses_both", "/w", 100, 100);
    home.step("ses_both", 101, stop(), "from the database");
    for id in ["ses_both", "ses_old"] {
        old_session(&home, id);
    }
    let survey = home.survey(&[]);
    let mut ids: Vec<&str> = survey.sessions.iter().map(|one| one.key.id.as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["ses_both", "ses_old"]);
    let both = home.seen(&[], "ses_both");
    assert_eq!(both.last_message.as_deref(), Some("from the database"));
    let old = home.seen(&[], "ses_old");
    assert_eq!((old.outcome, old.last_message.as_deref()), (Some(Outcome::Died), Some("half a thou")));

    let run = home.process(8, &["/x/opencode-linux-x64/bin/opencode", "run", "-s", "ses_old"], "/w", 90);
    assert_eq!(home.seen(&[run], "ses_old").status, Status::Running);

    std::fs::write(home.data().join("storage/session/p/ses_torn.json"), "{\"id\":\"ses_to").unwrap();
    let survey = home.survey(&[]);
    assert_eq!((survey.sessions.len(), survey.sources[0].coverage.as_str()), (2, "partial"));
}

fn old_session(home: &Home, id: &str) {
    let storage = home.data().join("storage");
    let put = |path: String, value: serde_json::Value| {
        let path = storage.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, serde_json::to_vec_pretty(&value).unwrap()).unwrap();
    };
    put(
        format!("session/p/{id}.json"),
        json!({"id": id, "version": "1.1.65", "projectID": "p", "directory": "/w", "title": "old one",
               "time": {"created": at(100), "updated": at(100)}}),
    );
    put(
        format!("message/{id}/msg_1.json"),
        json!({"id": "msg_1", "sessionID": id, "role": "user", "time": {"created": at(100)}}),
    );
    put(
        format!("message/{id}/msg_2.json"),
        json!({"id": "msg_2", "sessionID": id, "role": "assistant", "time": {"created": at(101)}}),
    );
    put("part/msg_1/prt_1.json".into(), json!({"id": "prt_1", "type": "text", "text": "the prompt"}));
    put("part/msg_2/prt_2.json".into(), json!({"id": "prt_2", "type": "text", "text": "half a thou"}));
}

#[test]
fn a_home_without_opencode_is_not_installed_and_an_empty_database_has_no_sessions() {
    let home = Home::new();
    home.writer.execute_batch("DROP TABLE part; DROP TABLE message; DROP TABLE session").unwrap();
    assert_eq!(home.survey(&[]).sources[0].coverage.as_str(), "complete");
    std::fs::remove_dir_all(home.data()).unwrap();
    assert_eq!(home.survey(&[]).sources[0].coverage.as_str(), "not-installed");
}

#[test]
fn a_conversation_is_followed_as_its_records_grow() {
    let home = Home::new();
    home.session("ses_1", "/w", 100, 100);
    home.step("ses_1", 101, stop(), "first answer");
    let fleet = home.fleet(table(&[]));
    let session = fleet.survey(&Query::new(Wanted::All { since: Since::Ever })).sessions.pop().unwrap();
    let texts = |entries: Vec<agentctl_model::Entry>| -> Vec<String> {
        entries.into_iter().map(|entry| entry.text).collect()
    };
    assert_eq!(texts(fleet.read(&session, 5).unwrap()), ["the prompt", "first answer"]);
    assert_eq!(texts(fleet.read(&session, 1).unwrap()), ["first answer"]);
    let mut follow = fleet.follow(&session, 1).unwrap().unwrap();
    assert_eq!(texts(follow.next().unwrap()), ["first answer"]);
    home.step("ses_1", 110, None, "half a sen");
    assert!(follow.next().unwrap().is_empty(), "text that still grows is not said yet");
    let data = json!({"type": "text", "text": "half a sentence", "time": {"start": at(110), "end": at(111)}});
    home.writer.execute("UPDATE part SET data = ? WHERE id = 'prt_000002'", [data.to_string()]).unwrap();
    assert_eq!(texts(follow.next().unwrap()), ["half a sentence"]);
    assert!(follow.next().unwrap().is_empty());
}

/// The database contains everybody's sessions: if a process here has it open, that hides whether one elsewhere has.
#[test]
fn a_database_that_is_open_here_says_nothing_of_those_in_another_pid_namespace() {
    let home = Home::new();
    for (id, made) in [("ses_1", 100), ("ses_2", 200)] {
        home.session(id, "/w", made, made);
        home.step(id, made + 1, None, "");
    }
    let moment = |second| Some(Timestamp::from_millisecond(at(second)).unwrap());
    let inside =
        NamespaceView { sees_all: false, namespace: None, born_at: moment(50), booted_at: moment(0) };
    let database = std::fs::canonicalize(home.data().join("opencode.db")).unwrap();
    let neighbour = home.process(7, &["opencode", "run", "-s", "ses_2"], "/w", 190).open(database, true);
    let asked = |kernel: Scripted| {
        let survey = home.fleet(kernel).survey(&Query::new(Wanted::All { since: Since::Ever }));
        let found = survey.sessions.into_iter().find(|found| found.key.id == "ses_1").unwrap();
        (found.session.status, found.session.outcome)
    };
    let died = (Status::Stopped, Some(Outcome::Died));
    assert_eq!(asked(table(std::slice::from_ref(&neighbour))), died);
    assert_eq!(asked(Scripted::new().namespace_view(inside).open_elsewhere(&[])), died, "nobody has it open");
    assert_eq!(
        asked(table(&[neighbour]).namespace_view(inside).open_elsewhere(&[])),
        (Status::Unknown, None)
    );
}
