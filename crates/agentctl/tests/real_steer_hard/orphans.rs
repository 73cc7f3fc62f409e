//! A tool that survives its agent: doctor names it, and ends exactly it.

use agentctl_testkit::{Background, Signal, until_seen};
use serde_json::Value;

use crate::scene;
use crate::steer::{ENDLESS, TIMEOUT};

#[test]
fn what_a_killed_agent_left_is_named_and_reaped() {
    let Some(scene) = scene() else { return };
    // This one looks the same and belongs to no session.
    let mut bystander = scene.home.command("tail");
    bystander.args(["-f", "/dev/null"]);
    let mut bystander = Background::spawn(&scene.home, bystander);
    let prompt = format!("[[bash:{ENDLESS}]] [[hang]] at work");
    let launched = scene.launch(&prompt, &[]).ok().json();
    let (id, pid) = (launched["id"].as_str().unwrap(), launched["pid"].as_u64().unwrap());
    let tool = until_seen(TIMEOUT, "the tool at work", || {
        let processes = scene.processes();
        let tool = processes.iter().find(|(pid, line)| line.trim_end() == ENDLESS && *pid != bystander.pid());
        tool.map(|(pid, _)| *pid).ok_or_else(|| format!("{processes:#?}"))
    });
    let healthy = scene.agentctl(&["doctor", "--json"]).json();
    assert_eq!(healthy["orphans"], Value::Array(Vec::new()), "a tool of a live session is none: {healthy:#}");

    scene.home.signal(u32::try_from(pid).unwrap(), Signal::KILL);
    until_seen(TIMEOUT, "the end of the agent and its runner", || {
        let left = scene.processes();
        let minded = left.iter().any(|(pid, line)| {
            line.contains("__run") || u64::from(*pid) == launched["pid"].as_u64().unwrap()
        });
        if minded { Err(format!("{left:#?}")) } else { Ok(()) }
    });
    assert_eq!(scene.status(id)["outcome"], "died");
    let report = scene.agentctl(&["doctor", "--json"]).json();
    let orphans = report["orphans"].as_array().unwrap();
    // The agent's shell may stand between.
    assert_eq!(orphans.len(), 1, "{report:#}");
    assert_eq!(
        (&orphans[0]["sessionId"], &orphans[0]["adapter"]),
        (&id.into(), &"claude-code".into()),
        "{report:#}"
    );
    assert!(orphans[0]["memory"].as_u64().unwrap() > 0 && orphans[0]["startedAt"].is_string(), "{report:#}");

    let nobody = scene.agentctl(&["doctor", "--reap"]);
    assert_eq!(nobody.code, Some(2), "nobody to ask: {nobody:#?}");
    let reaped = scene.agentctl(&["doctor", "--reap", "--yes", "--json"]).ok().json();
    let ended: Vec<u64> =
        reaped["reaped"].as_array().unwrap().iter().map(|entry| entry["pid"].as_u64().unwrap()).collect();
    assert!(ended.contains(&u64::from(tool)), "{reaped:#}");
    assert_eq!(reaped["orphans"], Value::Array(Vec::new()), "{reaped:#}");
    let left = scene.processes();
    assert_eq!(left.len(), 1, "{left:#?}");
    assert_eq!(left[0].0, bystander.pid(), "nobody else was touched: {left:#?}");
    assert!(bystander.try_wait().is_none());
}
