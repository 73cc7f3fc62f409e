//! A client that dies while an agent is being launched for it.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Duration;

use agentctl_testkit::agents::pi;
use agentctl_testkit::{FakeModel, Pi, TestHome, skip, until_seen};
use serde_json::json;

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
    let rounds = if std::env::var_os("AGENTCTL_LONG").is_some() { 30 } else { 3 };
    for round in 0..rounds {
        let mut command = home.agentctl_command(&["mcp", "--allow", "launch"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = command.spawn().unwrap();
        let mut input = server.stdin.take().unwrap();
        let mut output = BufReader::new(server.stdout.take().unwrap());
        let greeting = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}});
        writeln!(input, "{greeting}").unwrap();
        output.read_line(&mut String::new()).unwrap();
        let arguments = json!({
            "adapter": "pi", "model": pi::MODEL, "cwd": cwd, "prompt": "[[hang]]", "worktree": cwd,
            "branch": format!("round-{round}"),
        });
        let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "launch_session", "arguments": arguments}});
        writeln!(input, "{call}").unwrap();
        // The first time before anything was begun, then with the record, then with the agent.
        until_seen(PATIENCE, "the launch", || {
            let begun = match round % 3 {
                0 => true,
                1 => std::fs::read_dir(home.agentctl_home().join("launches"))
                    .is_ok_and(|mut all| all.next().is_some()),
                _ => home.processes().iter().any(|(_, line)| line.contains("node")),
            };
            if begun { Ok(()) } else { Err(format!("{:#?}", home.processes())) }
        });
        drop(input);
        drop(output);
        until_seen(PATIENCE, "the end of everything", || match home.processes() {
            left if left.is_empty() => Ok(()),
            left => Err(format!("{left:#?}")),
        });
        assert!(server.wait().unwrap().success());
        let left = std::fs::read_dir(home.agentctl_home().join("launches")).map_or(0, Iterator::count);
        assert_eq!(left, 0, "round {round}: a record was left");
        let trees = home.agentctl(&["worktree", "list", cwd.to_str().unwrap(), "--json"]).ok().json();
        assert_eq!(
            trees["trees"].as_array().or(trees["worktrees"].as_array()).unwrap().len(),
            1,
            "round {round}: {trees:#}"
        );
    }
}
