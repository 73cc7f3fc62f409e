//! The faults: what is done to the fleet, what the list then says of it, and how it ends.

use agentctl_hosts::HostName;
use agentctl_hosts::nats::subjects;
use agentctl_testkit::nats::{Liar, RawNats, Responder, Script};
use agentctl_testkit::{Signal, tools, until_seen};
use serde_json::Value;

use crate::dice::Dice;
use crate::host::{PATIENCE, Road};
use crate::world::World;

/// How a machine answers that does not answer as it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lie {
    Garbage,
    Half,
    Huge,
    Never,
}

/// Machines and servers are told by their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The link of a machine is down.
    Cut(usize),
    /// Everything on a machine stands still.
    Still(usize),
    DaemonKilled(usize),
    /// What serves a machine over ssh is killed, so that the next one finds its daemon again, if it has one.
    StreamKilled(usize),
    BusKilled,
    ServerKilled(usize),
    DiskFull(usize),
    /// The clock of a machine is three hours off.
    Clock(usize),
    Lies(usize, Lie),
}

/// What the list says of the machine that is hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Row {
    Complete,
    Failed,
    /// The bus says nothing of its machines.
    NoBus,
}

/// What goes on until a fault ends.
#[derive(Default)]
pub(crate) struct Under {
    liar: Option<Liar>,
}

const LIAR: &str = "liar";
const LIES: [Lie; 4] = [Lie::Garbage, Lie::Half, Lie::Huge, Lie::Never];

impl Lie {
    fn word(self) -> &'static str {
        match self {
            Self::Garbage => "garbage",
            Self::Half => "half",
            Self::Huge => "huge",
            Self::Never => "never",
        }
    }

    fn script(self) -> Script {
        let body =
            br#"{"asOf": "2026-01-01T00:00:00Z", "sessions": [], "sources": [], "hosts": []}"#.to_vec();
        match self {
            Self::Garbage => Script::Garbage,
            Self::Half => Script::Half(body),
            Self::Huge => Script::Huge(50 << 20),
            Self::Never => Script::Never,
        }
    }
}

impl World {
    /// A short run has these kinds one after the other, each on machines by the dice; a long one has anything.
    pub(crate) fn choose(&self, round: usize, is_long: bool, dice: &mut Dice) -> Fault {
        let host = dice.below(self.hosts.len());
        let kind = dice.below(9);
        match if is_long { kind } else { round % 9 } {
            0 => Fault::Cut(host),
            2 => Fault::DaemonKilled(host),
            3 => Fault::Lies(host, dice.pick(&LIES)),
            4 => Fault::ServerKilled(dice.below(self.servers.len())),
            5 => Fault::DiskFull(host),
            6 if tools::faketime().is_ok() => Fault::Clock(host),
            7 => Fault::BusKilled,
            8 => {
                let over_ssh = |host: &usize| self.hosts[*host].road == Road::Ssh;
                Fault::StreamKilled(dice.pick(&(0..self.hosts.len()).filter(over_ssh).collect::<Vec<_>>()))
            }
            _ => Fault::Still(host),
        }
    }

    pub(crate) fn begin(&mut self, fault: Fault) -> Under {
        let mut under = Under::default();
        match fault {
            Fault::Cut(host) => self.hosts[host].network.cut(),
            Fault::Still(host) => self.hosts[host].network.signal(Signal::STOP),
            Fault::DaemonKilled(host) => self.hosts[host].kill(),
            Fault::StreamKilled(host) => self.hosts[host].kill_streams(),
            Fault::BusKilled => self.servers.iter_mut().for_each(agentctl_testkit::NatsServer::kill),
            Fault::ServerKilled(server) => self.servers[server].kill(),
            Fault::DiskFull(host) => self.hosts[host].fill(),
            Fault::Clock(host) => {
                self.hosts[host].kill();
                self.hosts[host].start(Some("+3h"));
            }
            Fault::Lies(host, lie) if self.hosts[host].road == Road::Ssh => {
                self.hosts[host].answers(Some(lie.word()));
            }
            Fault::Lies(_, lie) => {
                let name = HostName::parse(LIAR).unwrap();
                let mut raw = RawNats::connect(self.servers[0].port).unwrap();
                raw.publish(&format!("$KV.agentctl_hosts.{LIAR}"), b"{}").unwrap();
                raw.settle().unwrap();
                let host = Responder {
                    name: LIAR.to_owned(),
                    bucket: subjects::bucket(&name),
                    script: lie.script(),
                };
                under.liar = Some(Liar::begin(self.servers[0].port, host).unwrap());
                self.until_listed(&[LIAR]);
            }
        }
        under
    }

    /// The machine that is hit, and what is said of it. All others are heard completely.
    pub(crate) fn expected(&self, fault: Fault) -> (Option<String>, Row) {
        let name = |host: usize| Some(self.hosts[host].name.clone());
        match fault {
            // Over ssh a machine needs no daemon.
            Fault::DaemonKilled(host) if self.hosts[host].road == Road::Ssh => (None, Row::Complete),
            Fault::Cut(host) | Fault::Still(host) | Fault::DaemonKilled(host) => (name(host), Row::Failed),
            Fault::BusKilled => (None, Row::NoBus),
            Fault::ServerKilled(_) | Fault::StreamKilled(_) => (None, Row::Complete),
            Fault::DiskFull(host) | Fault::Clock(host) => (name(host), Row::Complete),
            Fault::Lies(host, _) if self.hosts[host].road == Road::Ssh => (name(host), Row::Failed),
            Fault::Lies(..) => (Some(LIAR.to_owned()), Row::Failed),
        }
    }

    /// What happens on machines while the fault lasts: agents go on everywhere, and what can be done is done.
    pub(crate) fn deeds_under(&mut self, fault: Fault) {
        for number in 0..self.hosts.len() {
            let host = &mut self.hosts[number];
            host.agent.turns();
            match fault {
                Fault::Still(hit) | Fault::DaemonKilled(hit) if hit == number => {}
                // It is refused, and answered.
                Fault::DiskFull(hit) if hit == number => {
                    assert!(!host.deed(), "{} has a full disk", host.name);
                }
                _ => assert!(host.deed(), "{} under {fault:?}", host.name),
            }
        }
    }

    pub(crate) fn end(&mut self, fault: Fault, under: Under) {
        drop(under);
        match fault {
            Fault::Cut(host) => self.hosts[host].network.mend(),
            Fault::Still(host) => self.hosts[host].network.signal(Signal::CONT),
            Fault::DaemonKilled(host) => self.hosts[host].start(None),
            Fault::StreamKilled(_) => {}
            Fault::BusKilled => self.servers.iter_mut().for_each(agentctl_testkit::NatsServer::resume),
            Fault::ServerKilled(server) => self.servers[server].resume(),
            Fault::DiskFull(host) => self.hosts[host].empty(),
            Fault::Clock(host) => {
                self.hosts[host].kill();
                self.hosts[host].start(None);
            }
            Fault::Lies(host, _) if self.hosts[host].road == Road::Ssh => self.hosts[host].answers(None),
            Fault::Lies(..) => {
                until_seen(PATIENCE, "the liar to be forgotten", || {
                    let forgotten = self.near.home.agentctl(&["hosts", "forget", LIAR]);
                    if forgotten.code == Some(0) { Ok(()) } else { Err(format!("{forgotten:?}")) }
                });
            }
        }
    }

    /// What else has to be true while the fault lasts.
    pub(crate) fn check_row(fault: Fault, row: &Value) {
        if matches!(fault, Fault::Clock(_)) {
            let told: jiff::Timestamp = row["asOf"].as_str().unwrap().parse().unwrap();
            let ahead = told.duration_since(jiff::Timestamp::now()).as_secs();
            assert!((10_000..=10_900).contains(&ahead), "its clock is {ahead} s ahead: {row:#}");
        }
    }
}
