//! A client that dies while an agent is being launched for it.

use std::fs;
use std::time::Duration;

use agentctl_testkit::agents::pi;
use agentctl_testkit::{FakeModel, Pi, TestHome, skip, until_seen};
use serde_json::json;

use crate::line::Client;

const PATIENCE: Duration = Duration::from_mins(2);

/// The launch is called off at different moments: whatever was begun by then is undone.
#[test]
fn a_client_that_dies_in_the_middle_of_a_launch_leaves_nothing() {
    let model = FakeModel::start();
    let mut home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
    if let Err(reason) = Pi::settle(&mut home, &model.url()) {
        return skip(reason);
    }
    let cwd = home.git_repo("project");
    let launches = home.agentctl_home().join("launches");
    let rounds = if std::env::var_os("AGENTCTL_LONG").is_some() { 30 } else { 3 };
    for round in 0..rounds {
        let mut client = Client::greeted(&home, "launch");
        let branch = format!("round-{round}");
        client.begin("launch_session", &json!({
            "adapter": "pi", "model": pi::MODEL, "cwd": cwd, "prompt": "[[hang]]", "worktree": cwd, "branch": branch,
        }));
        // The first time before anything was begun, then with the record, then with the agent.
        until_seen(PATIENCE, "the launch", || {
            let begun = match round % 3 {
                0 => true,
                1 => fs::read_dir(&launches).is_ok_and(|mut all| all.next().is_some()),
                _ => home.processes().iter().any(|(_, line)| line.contains("node")),
            };
            if begun { Ok(()) } else { Err(format!("{:#?}", home.processes())) }
        });
        let server = client.die();
        until_seen(PATIENCE, "the end of everything", || match home.processes() {
            left if left.is_empty() => Ok(()),
            left => Err(format!("{left:#?}")),
        });
        assert!(server.ended().success());
        let left = fs::read_dir(&launches).map_or(0, Iterator::count);
        assert_eq!(left, 0, "round {round}: a record was left");
        let trees = fs::read_dir(cwd.parent().unwrap()).unwrap().count();
        assert_eq!(trees, 1, "round {round}: a working tree was left");
    }
}
