//! `cargo xtask bench-gateway`: the cost of a list when the sessions are in a gateway.
//!
//! The gateway is a stand-in on loopback. The limit is a plain client that requests the same answers and does not parse
//! them. The program and its limit take turns.

use std::path::PathBuf;
use std::time::Instant;

use agentctl_testkit::agents::openclaw::{Ledger, Rpc, ScriptedGateway};
use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use super::measure::{self, Cost, Place};
use super::report::{self, Measured, Timing};

const TOKEN: &str = "token-of-the-benchmark";
const AT_WORK: usize = 5;
const PAGE: usize = 1000;

pub(crate) struct Options {
    pub(crate) sessions: Vec<usize>,
    pub(crate) repeats: usize,
    pub(crate) agentctl: PathBuf,
    pub(crate) json: bool,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let mut all = Vec::new();
    for &sessions in &options.sessions {
        all.push(measured(options, sessions, &["list", "--all", "--since", "all", "--json"], sessions)?);
        all.push(measured(options, sessions, &["list", "--json"], AT_WORK.min(sessions))?);
    }
    if options.json {
        println!("{:#}", report::json(&all));
    } else {
        print!("{}", report::table(&all));
    }
    Ok(())
}

fn measured(options: &Options, sessions: usize, args: &[&str], shown: usize) -> anyhow::Result<Measured> {
    let ledger = Ledger { rows: (0..sessions).map(row).collect(), ..Ledger::default() };
    let gateway = ScriptedGateway::start(move |step| ledger.answer(step));
    let scratch = tempfile::tempdir()?;
    let home = scratch.path().join("home");
    std::fs::create_dir_all(home.join(".openclaw"))?;
    let config = json!({"gateway": {"port": gateway.port(), "auth": {"token": TOKEN}}});
    std::fs::write(home.join(".openclaw/openclaw.json"), config.to_string())?;
    let place = Place { home: &home, agentctl_home: &scratch.path().join("own"), daemon: false };
    let output = scratch.path().join("answer");
    let args = [args, &["--adapter", "openclaw"]].concat();
    let live = shown < sessions;
    let (mut program, mut limit) = (Vec::new(), Vec::new());
    let mut bytes = 0;
    for turn in 0..=options.repeats {
        let cost = measure::run(&place, &output, &options.agentctl, &args)?;
        let began = Instant::now();
        bytes = plain_read(gateway.port(), live)?;
        // The first turn warms up both, and its answer is checked.
        if turn == 0 {
            check(&std::fs::read_to_string(&output)?, shown)?;
        } else {
            program.push(cost);
            limit.push(Cost::of_wall(began.elapsed()));
        }
    }
    Ok(Measured {
        command: format!("{} (gateway)", args[..args.len() - 2].join(" ")),
        sessions,
        bytes,
        agentctl: Timing::of(&program).context("no runs")?,
        limit: Some((Timing::of(&limit).context("no runs")?, 1)),
    })
}

/// Requests the same answers and returns their size in bytes.
fn plain_read(port: u16, live: bool) -> anyhow::Result<u64> {
    let mut rpc = Rpc::connect(port, TOKEN, &[])?;
    let (mut bytes, mut offset) = (0, 0);
    loop {
        let mut params = json!({"limit": PAGE, "offset": offset});
        if live {
            params["activeOnly"] = json!(true);
        }
        let answer = rpc.call_unread("sessions.list", &params)?;
        bytes += answer.len() as u64;
        offset += PAGE;
        if !answer.contains(r#""hasMore":true"#) {
            return Ok(bytes);
        }
    }
}

fn check(answer: &str, shown: usize) -> anyhow::Result<()> {
    let answer: Value = serde_json::from_str(answer)?;
    let Some(sessions) = answer["sessions"].as_array() else { bail!("no list: {answer}") };
    ensure!(sessions.len() == shown, "{} of {shown} sessions: {:#}", sessions.len(), answer["sources"]);
    let busy = sessions.iter().filter(|session| session["status"] == "running").count();
    ensure!(busy == AT_WORK.min(shown), "{busy} of {AT_WORK} at work");
    Ok(())
}

/// A row about as large as a real one.
fn row(number: usize) -> Value {
    let at_work = number < AT_WORK;
    json!({
        "key": format!("agent:main:dashboard:{number:08x}-0000-4000-8000-000000000000"), "kind": "direct",
        "sessionId": format!("{number:08x}-1111-4111-8111-111111111111"), "agentId": "main",
        "displayName": format!("a session about the thing number {number}"), "classification": "direct",
        "createdVia": "operator", "hasActiveRun": at_work, "status": if at_work { "running" } else { "done" },
        "createdAt": 1_794_700_000_000_u64, "startedAt": 1_794_700_001_000_u64, "updatedAt": 1_794_700_009_000_u64,
        "lastInteractionAt": 1_794_700_009_000_u64, "lastRunId": format!("run-{number}"), "runtimeMs": 8000,
        "modelProvider": "fake", "model": "fake-1", "contextTokens": 128_000, "inputTokens": 468,
        "outputTokens": 112, "totalTokens": 580, "totalTokensFresh": true, "estimatedCostUsd": 0.000_446,
        "workspaceDir": "/home/dev/projects/the-thing", "spawnedCwd": "/home/dev/projects/the-thing",
        "agentRuntime": {"id": "openclaw", "source": "default"}, "placement": {"state": "local"},
        "parentSessionKey": "agent:main:main", "elevatedLevel": "off", "thinkingLevel": "off",
        "deliveryContext": {"channel": "webchat", "to": "nobody", "accountId": "default"},
        "filler": "x".repeat(240),
    })
}
