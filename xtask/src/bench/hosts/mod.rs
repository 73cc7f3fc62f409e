//! `cargo xtask bench-hosts`: a live list of many machines over one real nats-server. The machines are scripted, and live in
//! this process: what is measured is the command that asks them. Then a list of some machines over a real sshd.

mod ssh;

use std::path::{Path, PathBuf};
use std::time::Duration;

use agentctl_hosts::HostName;
use agentctl_hosts::nats::subjects;
use agentctl_model::Status;
use agentctl_testkit::nats::{RawNats, Responder, Script, respond};
use agentctl_testkit::{NatsServer, TestHome, sessions};
use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::measure::{self, Cost, Place};

/// Sessions of each machine.
const SESSIONS: usize = 5;
/// Over how many connections the machines answer.
const CONNECTIONS: usize = 8;
/// How long the command waits for a machine that says nothing.
const TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct Options {
    pub(crate) hosts: Vec<usize>,
    /// How many of 1,000 say nothing, beside the counts above.
    pub(crate) silent: usize,
    /// How many are asked over ssh.
    pub(crate) ssh: usize,
    pub(crate) repeats: usize,
    pub(crate) agentctl: PathBuf,
    pub(crate) json: bool,
}

/// One scene and its cost.
struct Measured {
    hosts: usize,
    silent: usize,
    cost: Cost,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let mut all = Vec::new();
    for hosts in &options.hosts {
        all.push(measure(options, *hosts, 0)?);
    }
    if options.silent > 0 {
        all.push(measure(options, 1_000, options.silent)?);
    }
    let over_ssh = match options.ssh {
        0 => None,
        hosts => Some(ssh::measure(&options.agentctl, hosts, options.repeats)?),
    };
    if options.json {
        let scene = |one: &Measured| {
            json!({"hosts": one.hosts, "silent": one.silent, "wallMs": one.cost.wall.as_millis(),
                "peakKib": one.cost.peak_kib})
        };
        let over_ssh = over_ssh.map(|one| {
            json!({"hosts": one.hosts, "coldMs": one.cold.as_millis(), "warmMs": one.warm.as_millis(),
                "slowestHostMs": one.slowest.as_millis()})
        });
        println!("{:#}", json!({"nats": all.iter().map(scene).collect::<Vec<_>>(), "ssh": over_ssh}));
        return Ok(());
    }
    for Measured { hosts, silent, cost } in &all {
        let silent = if *silent > 0 { format!(", {silent} of them silent") } else { String::new() };
        println!(
            "{hosts} hosts with {SESSIONS} sessions each{silent}: {:.2} s, {} MB",
            cost.wall.as_secs_f64(),
            cost.peak_kib / 1024
        );
    }
    if let Some(ssh::Measured { hosts, cold, warm, slowest }) = over_ssh {
        let [cold, warm, slowest] = [cold, warm, slowest].map(|one| one.as_secs_f64());
        println!(
            "{hosts} hosts over ssh: {cold:.2} s, and {warm:.2} s over kept connections; asked by ssh itself the slowest \
             took {slowest:.2} s ({:.2} times)",
            warm / slowest
        );
    }
    Ok(())
}

/// The median of several runs with this many machines.
fn measure(options: &Options, hosts: usize, silent: usize) -> anyhow::Result<Measured> {
    let home = TestHome::new();
    let server = NatsServer::start(&home, "").map_err(|skip| anyhow::anyhow!("{}", skip.0))?;
    let own = home.agentctl_home();
    std::fs::create_dir_all(&own)?;
    let config = format!(
        "[nats]\nurl = \"{}\"\nasker = \"ann\"\ntimeout = \"{}s\"\n",
        server.url(),
        TIMEOUT.as_secs()
    );
    std::fs::write(own.join("config.toml"), config)?;
    let place = Place { home: &home.path(), agentctl_home: &own, daemon: false };
    let output = home.path().join("output");
    let run = |args: &[&str]| measure::run(&place, &output, &options.agentctl, args);
    run(&["hosts", "init"])?;
    let names: Vec<HostName> = (0..hosts)
        .map(|number| HostName::parse(&format!("host-{number:05}")).map_err(anyhow::Error::msg))
        .collect::<Result<_, _>>()?;
    enter(&server, &names)?;
    let responders: Vec<Responder> = names
        .iter()
        .enumerate()
        .map(|(number, name)| Responder {
            name: name.to_string(),
            bucket: subjects::bucket(name),
            script: if number < silent { Script::Never } else { Script::Body(list(number)) },
        })
        .collect();
    // They end with the server.
    let _threads = respond(server.port, &responders, CONNECTIONS)?;
    let mut costs = Vec::new();
    for _ in 0..options.repeats.max(1) {
        costs.push(run(&["list", "--host", "all", "--json"])?);
        check(&output, hosts, silent)?;
    }
    costs.sort_by_key(|cost| cost.wall);
    let cost = costs[costs.len() / 2];
    Ok(Measured { hosts, silent, cost })
}

/// Writes the machines into the roster.
fn enter(server: &NatsServer, names: &[HostName]) -> anyhow::Result<()> {
    let mut raw = RawNats::connect(server.port)?;
    for name in names {
        raw.publish(&subjects::roster_entry(name), b"{}")?;
    }
    raw.settle()?;
    Ok(())
}

/// What a machine answers: its sessions at work.
fn list(number: usize) -> Vec<u8> {
    let session = |index: usize| {
        let mut session = sessions::session(&format!("{number:05}-{index}"), Status::Running, None);
        session.cwd = Some(format!("/home/dev/projects/service-{index}"));
        session
    };
    let sessions: Vec<_> = (0..SESSIONS).map(session).collect();
    json!({"asOf": "2026-01-01T00:00:00Z", "sessions": sessions, "sources": [], "hosts": []})
        .to_string()
        .into_bytes()
}

/// The list is whole.
fn check(output: &Path, hosts: usize, silent: usize) -> anyhow::Result<()> {
    let text = std::fs::read(output).context("cannot read the list")?;
    let list: Value = serde_json::from_slice(&text)?;
    let count = |key: &str| list[key].as_array().map_or(0, Vec::len);
    let unheard =
        list["hosts"].as_array().into_iter().flatten().filter(|row| row["coverage"] == "failed").count();
    // This machine is a row as well.
    if (count("sessions"), count("hosts"), unheard) != ((hosts - silent) * SESSIONS, hosts + 1, silent) {
        bail!("{} sessions, {} rows, {unheard} not heard", count("sessions"), count("hosts"));
    }
    Ok(())
}
