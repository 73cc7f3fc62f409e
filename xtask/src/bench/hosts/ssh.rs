//! A list of machines over ssh. They all are this machine, behind one sshd on loopback, each with a home of its own; so they
//! share its cores, and what the list may cost is measured under the same load: the same question asked of all of them at
//! once by ssh itself, over the same kept connections, and the slowest of these.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use agentctl_testkit::{Near, TestHome, new_uuid};
use anyhow::{bail, ensure};
use serde_json::{Value, json};

use super::SESSIONS;

/// What is asked of every machine.
const QUESTION: [&str; 4] = ["list", "--since", "all", "--json"];

pub(super) struct Measured {
    pub(super) hosts: usize,
    /// The list that makes the connections.
    pub(super) cold: Duration,
    /// The list over connections that are kept.
    pub(super) warm: Duration,
    /// The slowest machine when ssh itself asks all of them.
    pub(super) slowest: Duration,
}

/// The medians of several runs.
pub(super) fn measure(agentctl: &Path, hosts: usize, repeats: usize) -> anyhow::Result<Measured> {
    let Some(near) = Near::set(agentctl) else { bail!("no sshd, so nothing is asked over ssh") };
    let homes: Vec<TestHome> = (0..hosts).map(|_| TestHome::with_agentctl(agentctl)).collect();
    let mut programs = Vec::new();
    let mut config = Vec::new();
    for (number, home) in homes.iter().enumerate() {
        furnish(home)?;
        let name = format!("m{number:02}");
        let program = near.program_of(home, &name).display().to_string();
        config
            .push(format!("[hosts.{name}]\nssh = \"{name}\"\nprogram = \"{program}\"\ntimeout = \"60s\"\n"));
        programs.push((name, program));
    }
    near.configure(&config.concat());
    let all: Vec<&str> = programs.iter().flat_map(|(name, _)| ["--host", name]).collect();
    let list = || -> anyhow::Result<Duration> {
        let began = Instant::now();
        let list = near.home.agentctl(&[&QUESTION[..], &all].concat());
        let took = began.elapsed();
        let list: Value = serde_json::from_str(&list.ok().stdout)?;
        let count = list["sessions"].as_array().map_or(0, Vec::len);
        ensure!(count == hosts * SESSIONS, "{count} sessions: {:#}", list["hosts"]);
        Ok(took)
    };
    let cold = list()?;
    let (mut warm, mut slowest) = (Vec::new(), Vec::new());
    for _ in 0..repeats.max(1) {
        warm.push(list()?);
        slowest.push(by_ssh_itself(&near, &programs)?);
    }
    warm.sort();
    slowest.sort();
    let middle = warm.len() / 2;
    Ok(Measured { hosts, cold, warm: warm[middle], slowest: slowest[middle] })
}

/// Asks every machine at once, without agentctl on this side; how long the slowest took.
fn by_ssh_itself(near: &Near, programs: &[(String, String)]) -> anyhow::Result<Duration> {
    let sockets = near.home.agentctl_home().join("ssh/%C").display().to_string();
    let ask = |(name, program): &(String, String)| {
        let mut ssh = near.home.command("ssh");
        ssh.args(["-T", "-o", &format!("ControlPath={sockets}"), name, program]).args(QUESTION);
        let began = Instant::now();
        let answer = near.home.run(ssh);
        (answer.code, began.elapsed())
    };
    let asked: Vec<(Option<i32>, Duration)> = std::thread::scope(|scope| {
        let threads: Vec<_> = programs.iter().map(|one| scope.spawn(move || ask(one))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    ensure!(asked.iter().all(|(code, _)| *code == Some(0)), "ssh itself failed: {asked:?}");
    Ok(asked.into_iter().map(|(_, took)| took).max().unwrap_or_default())
}

/// A few stopped sessions of Claude Code.
fn furnish(home: &TestHome) -> anyhow::Result<()> {
    let folder = home.path().join(".claude/projects/-w");
    fs::create_dir_all(&folder)?;
    for _ in 0..SESSIONS {
        let id = new_uuid();
        let line = json!({
            "type": "user", "uuid": new_uuid(), "parentUuid": null, "sessionId": id, "cwd": "/w", "version": "2.0.0",
            "timestamp": "2026-11-15T10:00:00.000Z", "message": {"role": "user", "content": "hello"},
        });
        fs::write(folder.join(format!("{id}.jsonl")), format!("{line}\n"))?;
    }
    Ok(())
}
