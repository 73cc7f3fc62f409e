//! A budget of a folder with the real agent: it stops the session of its folder and no other, refuses to start more, also
//! after the daemon was killed, and lets everything go on once it is raised.

use agentctl_testkit::{Background, Output, Signal, until_seen};

use crate::scene;
use crate::steer::TIMEOUT;

#[test]
fn a_spent_budget_stops_its_folder_until_it_is_raised() {
    let Some(scene) = scene() else { return };
    let agentctl = |arguments: &[&str]| {
        let mut command = scene.home.agentctl_command(arguments);
        command.current_dir(&scene.cwd).env_remove("AGENTCTL_NO_DAEMON");
        command
    };
    let run = |arguments: &[&str]| -> Output { scene.home.run(agentctl(arguments)) };
    let start_daemon = || {
        let daemon = Background::spawn(&scene.home, agentctl(&["daemon", "run"]));
        until_seen(TIMEOUT, "the daemon", || match run(&["daemon", "status"]) {
            status if status.code == Some(0) => Ok(()),
            status => Err(format!("{status:#?}")),
        });
        daemon
    };
    let mut daemon = start_daemon();
    let other = scene.home.git_repo("other");
    let other = other.to_str().unwrap();
    let stays = scene.launch("[[hang]] for ever", &["--cwd", other]).ok().json();
    let stays = stays["id"].as_str().unwrap().to_owned();
    let budget = |most: &str| run(&["fuse", "set", ".", "--max-tokens", most, "--per", "day", "--json"]).ok();
    let set = budget("50000").json();
    let spends = "[[usage:100000,10,20,5]] [[bash:echo hi]] [[hang]] at work";
    let id = scene.launch(spends, &[]).ok().json()["id"].as_str().unwrap().to_owned();
    let over = until_seen(TIMEOUT, "the end of the session", || {
        let now = scene.status(&id);
        if now["status"] == "stopped" { Ok(now) } else { Err(format!("{now:#}")) }
    });
    assert_eq!(over["outcome"], "interrupted", "the clean way: {over:#}");
    assert_eq!(scene.status(&stays)["status"], "running", "it is none of this budget");
    // The worktree that is to be made belongs to the repository, wherever the command is typed.
    let from_elsewhere = |arguments: &[&str]| {
        let mut command = scene.home.agentctl_command(&[&["launch", "claude-code"], arguments].concat());
        command.current_dir(other);
        scene.home.run(command)
    };
    let refused = |why: &str| {
        let tree = scene.cwd.to_str().unwrap();
        for output in [
            scene.launch("[[text:no]] second", &[]),
            from_elsewhere(&["-p", "[[text:no]] third", "--worktree", tree, "--branch", "beside"]),
            scene.agentctl(&["resume", &id, "[[text:no]] go on"]),
        ] {
            assert_eq!(output.code, Some(7), "{why}: {output:#?}");
            assert!(output.stderr.contains("100035 of 50000 tokens this day"), "{why}: {output:#?}");
        }
    };
    refused("spent");
    daemon.signal(Signal::KILL);
    daemon.wait(TIMEOUT);
    refused("without a daemon");
    let _daemon = start_daemon();
    refused("after kill -9");
    assert_eq!(scene.status(&stays)["status"], "running");
    let raised = budget("9000000").json();
    assert_ne!(raised["id"], set["id"]);
    let goes_on = scene.agentctl(&["resume", &id, "[[text:done]] go on", "--wait", "--json"]).ok().json();
    assert_eq!(goes_on["outcome"], "completed", "{goes_on:#}");
    let new = scene.launch("[[text:done]] a new one", &["--wait"]).ok().json();
    assert_eq!(new["outcome"], "completed", "{new:#}");
    assert_eq!(scene.status(&stays)["status"], "running");
    let _ = scene.agentctl(&["stop", &stays]).ok();
}
