//! The fleet, and what is asked of it in every round.

use std::time::{Duration, Instant};

use agentctl_testkit::{Background, NatsServer, Near, nats, skip, until_seen};
use serde_json::Value;

use crate::faults::{Fault, Row};
use crate::host::{Host, PATIENCE, Road, SESSIONS};
use crate::ledger::Ledger;
use crate::network;

/// How long each machine may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long the whole list may take: two deadlines one after the other, and what a busy machine needs.
const ALL: Duration = Duration::from_secs(25);
const SERVERS: usize = 3;

/// Whether the only thing wrong is that a machine took its time.
fn is_late(why: &str) -> bool {
    ["came late", "no answer within", "did not answer within"].iter().any(|words| why.contains(words))
}

pub(crate) struct World {
    // The stream ends before the machines do.
    pub(crate) told: Ledger,
    pub(crate) hosts: Vec<Host>,
    pub(crate) servers: Vec<NatsServer>,
    pub(crate) near: Near,
}

impl World {
    pub(crate) fn set() -> Option<Self> {
        network::begin();
        let near = Near::set(env!("CARGO_BIN_EXE_agentctl"))?;
        let ports: Vec<u16> = (0..SERVERS).map(|_| nats::free_port()).collect();
        let routes: Vec<String> = ports.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect();
        let mut servers = Vec::new();
        for (number, port) in ports.iter().enumerate() {
            let config = format!(
                "server_name: n{number}\n\
                 cluster {{ name: fleet, listen: \"127.0.0.1:{port}\", routes: {routes:?}, no_advertise: true }}\n"
            );
            match NatsServer::start_at(&near.home, &format!("nats-{number}"), "0.0.0.0", &config) {
                Ok(server) => servers.push(server),
                Err(reason) => {
                    skip(reason);
                    return None;
                }
            }
        }
        let urls = |address: &str| {
            let all = servers.iter().map(|server| format!("nats://{address}:{}", server.port));
            all.collect::<Vec<_>>().join(",")
        };
        let mut hosts: Vec<Host> =
            [("s1", Road::Ssh), ("n1", Road::Nats), ("s2", Road::Ssh), ("n2", Road::Nats)]
                .into_iter()
                .enumerate()
                .map(|(number, (name, road))| Host::make(number + 1, name, road, &near))
                .collect();
        let seconds = TIMEOUT.as_secs();
        let bus = urls("127.0.0.1");
        let mut sections =
            vec![format!("[nats]\nurl = \"{bus}\"\nasker = \"ann\"\ntimeout = \"{seconds}s\"\n")];
        for host in &hosts {
            match host.road {
                Road::Ssh => {
                    let program = host.program(&near);
                    sections.push(format!(
                        "[hosts.{name}]\nssh = \"{name}\"\nprogram = \"{}\"\ntimeout = \"{seconds}s\"\n",
                        program.display(),
                        name = host.name
                    ));
                }
                Road::Nats => host.configure(&format!(
                    "[nats]\nurl = \"{}\"\nname = \"{}\"\nserve = \"read\"\ntimeout = \"{seconds}s\"\n",
                    urls(&host.network.gate()),
                    host.name
                )),
            }
        }
        near.configure(&sections.concat());
        until_seen(PATIENCE, "the cluster to keep a roster", || {
            let made = near.home.agentctl(&["hosts", "init"]);
            if made.code == Some(0) { Ok(()) } else { Err(format!("{made:?}")) }
        });
        for host in &mut hosts {
            host.start(None);
        }
        // A machine can be named once the roster has it.
        until_seen(PATIENCE, "every machine in the roster", || {
            let known = near.home.agentctl(&["hosts", "--json"]).ok().json();
            let rows = known["hosts"].as_array().unwrap();
            let has = |host: &Host| rows.iter().any(|row| row["name"] == host.name.as_str());
            if hosts.iter().all(has) { Ok(()) } else { Err(format!("{known:#}")) }
        });
        let all: Vec<&str> = hosts.iter().flat_map(|host| ["--host", host.name.as_str()]).collect();
        let events = || {
            let command = near.home.agentctl_command(&[&["events"][..], &all].concat());
            Background::spawn(&near.home, command)
        };
        let told = Ledger::new(events());
        let mut world = Self { told, hosts, servers, near };
        world.until_all_are_heard();
        // A stream that does not run yet tells nothing of what is done; the first deed that is told shows that it does.
        world.told.begin(&mut world.hosts);
        Some(world)
    }

    pub(crate) fn list(&self) -> (Value, Duration) {
        let began = Instant::now();
        let list =
            self.near.home.agentctl(&["list", "--since", "all", "--host", "all", "--json"]).ok().json();
        (list, began.elapsed())
    }

    /// Why the fleet is not heard as it should be: every machine completely but the one that was hit.
    fn unexpected(&self, list: &Value, hit: Option<&str>, row: Row) -> Option<String> {
        let rows = list["hosts"].as_array().unwrap();
        let sessions = list["sessions"].as_array().unwrap();
        let of = |name: &str| sessions.iter().filter(|one| one["host"] == name).count();
        let find = |name: &str| rows.iter().find(|row| row["name"] == name);
        for Host { name, road, agent, .. } in &self.hosts {
            let (name, road) = (name.as_str(), *road);
            if row == Row::NoBus && road == Road::Nats {
                if find(name).is_some() || of(name) > 0 {
                    return Some(format!("{name} is told of without a bus"));
                }
                continue;
            }
            let Some(told) = find(name) else { return Some(format!("there is no row of {name}")) };
            let is_hit = hit == Some(name);
            if is_hit && row == Row::Failed {
                continue;
            }
            if told["coverage"] != "complete" || of(name) != SESSIONS + 1 {
                return Some(format!("{name} has {} sessions: {told:#}", of(name)));
            }
            let live = sessions.iter().find(|one| one["host"] == name && one["id"] == agent.id());
            if live.is_none_or(|live| live["status"] != agent.status()) {
                return Some(format!("the agent of {name} is {}: {live:#?}", agent.status()));
            }
            if told["tookMs"].as_u64().unwrap() >= u64::try_from(TIMEOUT.as_millis()).unwrap() {
                return Some(format!("{name} came late: {told:#}"));
            }
        }
        let failed = match row {
            Row::Complete => None,
            Row::Failed => hit,
            Row::NoBus => Some("nats"),
        };
        if let Some(name) = failed {
            let Some(told) = find(name) else { return Some(format!("there is no row of {name}")) };
            let says_why = told["error"].as_str().is_some_and(|error| !error.is_empty());
            if told["coverage"] != "failed" || !told["sessions"].is_null() || !says_why || of(name) > 0 {
                return Some(format!("{name} should have failed with a reason: {told:#}"));
            }
        }
        let count = self.hosts.len() + 1;
        let nats = self.hosts.iter().filter(|host| host.road == Road::Nats).count();
        let expected = match (row, hit.is_some_and(|hit| self.hosts.iter().all(|host| host.name != hit))) {
            (Row::NoBus, _) => count - nats + 1,
            (_, true) => count + 1,
            (_, false) => count,
        };
        (rows.len() != expected).then(|| format!("{} rows: {rows:#?}", rows.len()))
    }

    pub(crate) fn until_all_are_heard(&self) {
        until_seen(PATIENCE, "the whole fleet to be heard", || {
            let (list, _) = self.list();
            self.unexpected(&list, None, Row::Complete).map_or(Ok(()), Err)
        });
    }

    /// Waits until these machines have a row.
    pub(crate) fn until_listed(&self, names: &[&str]) {
        until_seen(PATIENCE, "a row of a machine", || {
            let (list, _) = self.list();
            let rows = list["hosts"].as_array().unwrap();
            let is_there = |name: &&str| rows.iter().any(|row| row["name"] == *name);
            if names.iter().all(is_there) { Ok(()) } else { Err(format!("{rows:#?}")) }
        });
    }

    pub(crate) fn round(&mut self, round: usize, fault: &Fault) {
        let fault = *fault;
        let under = self.begin(fault);
        let (hit, row) = self.expected(fault);
        if matches!(fault, Fault::ServerKilled(_)) {
            // Who was connected to it comes back by another one, while it stays dead.
            self.until_all_are_heard();
        } else {
            let mut list = self.list();
            // A machine that comes to the bus with another clock, or anew, needs a moment to be there.
            if matches!(fault, Fault::Clock(_)) {
                self.until_all_are_heard();
                list = self.list();
            }
            // Who is late because the whole computer is, is on time when it is asked again: the fault lasts.
            let began = Instant::now();
            while let Some(why) = self.unexpected(&list.0, hit.as_deref(), row).filter(|why| is_late(why)) {
                if began.elapsed() > PATIENCE {
                    break;
                }
                eprintln!("round {round}: asked again: {why}");
                list = self.list();
            }
            let (list, took) = list;
            assert!(took < ALL, "round {round}, {fault:?}: the list took {took:?}");
            if let Some(why) = self.unexpected(&list, hit.as_deref(), row) {
                panic!("round {round}, {fault:?}: {why}\n{list:#}");
            }
            let told = list["hosts"]
                .as_array()
                .unwrap()
                .iter()
                .find(|row| Some(row["name"].as_str().unwrap()) == hit.as_deref());
            if let Some(told) = told {
                Self::check_row(fault, told);
            }
        }
        self.deeds_under(fault);
        self.end(fault, under);
        self.until_all_are_heard();
        for host in &mut self.hosts {
            assert!(host.deed(), "{} after {fault:?}", host.name);
        }
        self.told.catch_up(&self.hosts);
    }
}
