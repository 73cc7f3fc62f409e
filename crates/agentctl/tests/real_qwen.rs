//! A real Qwen Code against the fake model, seen through the command line.

mod node_agent;

use agentctl_testkit::NodeAgent;

#[test]
fn a_finished_and_a_failed_run() {
    node_agent::finished_and_failed("qwen", NodeAgent::qwen);
}

#[test]
fn two_at_work_in_one_directory_killed_and_resumed() {
    node_agent::at_work_killed_and_resumed("qwen", NodeAgent::qwen);
}
