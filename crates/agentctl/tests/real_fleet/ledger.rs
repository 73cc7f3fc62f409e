//! What was done on each machine, and what the stream of events told of it.

use std::collections::BTreeMap;
use std::time::Duration;

use agentctl_testkit::{Background, until_seen};
use serde_json::Value;

use crate::host::Host;

/// A machine that was lost is asked again after up to half a minute, and noticed as lost after 45 s of silence.
const AGAIN: Duration = Duration::from_mins(3);

/// What the stream said of one machine, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// The deed of this number.
    Deed(usize),
    /// Something was missed.
    Reset,
}

/// The stream of events of all machines.
pub(crate) struct Ledger {
    events: Background,
}

impl Ledger {
    pub(crate) fn new(events: Background) -> Self {
        Self { events }
    }

    fn of(&self, host: &Host) -> Vec<Told> {
        let text = self.events.stdout();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let numbers: BTreeMap<&str, usize> =
            host.deeds.iter().enumerate().map(|(number, folder)| (folder.as_str(), number)).collect();
        let mut told = Vec::new();
        for line in whole.lines() {
            let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            if event["host"] != host.name.as_str() {
                continue;
            }
            match event["type"].as_str().unwrap() {
                "reset" => told.push(Told::Reset),
                "lock.acquired" => {
                    let folder = event["lock"]["directory"].as_str();
                    let number = folder.and_then(|folder| numbers.get(folder));
                    told.push(Told::Deed(*number.unwrap_or_else(|| panic!("nobody did this: {event:#}"))));
                }
                _ => {}
            }
        }
        told
    }

    /// Does things on each machine until one of them is told. Those before it are not counted.
    pub(crate) fn begin(&self, hosts: &mut [Host]) {
        for host in hosts {
            until_seen(AGAIN, "a machine to be listened to", || {
                assert!(host.deed());
                std::thread::sleep(Duration::from_millis(300));
                let told = self.of(host);
                if told.is_empty() {
                    Err(format!("{} {}", self.events.stdout(), self.events.stderr()))
                } else {
                    Ok(())
                }
            });
        }
    }

    /// Waits until the last deed of every machine was told, or that something was missed since the one before it that was.
    pub(crate) fn catch_up(&self, hosts: &[Host]) {
        for host in hosts {
            let Some(last) = host.deeds.len().checked_sub(1) else { continue };
            until_seen(AGAIN, "the last deed of a machine to be told", || {
                let told = self.of(host);
                let is_told = told.contains(&Told::Deed(last)) || told.last() == Some(&Told::Reset);
                // What its agent does now is told as well.
                let last = self.last_word(host);
                if is_told && last.as_deref() == Some(host.agent.status()) {
                    Ok(())
                } else {
                    Err(format!("{}: {told:?}, {last:?}\n{}", host.name, self.events.stderr()))
                }
            });
        }
        self.check_all(hosts);
    }

    /// What the stream said last of the live agent of a machine. It never said that it had stopped.
    fn last_word(&self, host: &Host) -> Option<String> {
        let text = self.events.stdout();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let mut last = None;
        for line in whole.lines() {
            let event: Value = serde_json::from_str(line).unwrap();
            let kind = event["type"].as_str().unwrap();
            if event["host"] != host.name.as_str() {
                continue;
            }
            let is_of_it = event["sessionId"] == host.agent.id();
            assert!(
                !is_of_it || !matches!(kind, "session.stopped" | "session.gone"),
                "{} lives: {event:#}",
                host.agent.id()
            );
            let session = if kind == "snapshot" {
                let all = event["sessions"].as_array().unwrap();
                let live = all.iter().find(|one| one["id"] == host.agent.id());
                Some(live.unwrap_or_else(|| panic!("{} lives: {event:#}", host.agent.id())))
            } else {
                Some(&event["session"]).filter(|_| is_of_it)
            };
            last = session.and_then(|session| Some(session["status"].as_str()?.to_owned())).or(last);
        }
        last
    }

    /// Every deed was told once and in order, but for those that a `reset` says were missed.
    pub(crate) fn check_all(&self, hosts: &[Host]) {
        for host in hosts {
            let told = self.of(host);
            // What was done before the stream began is not told.
            let first =
                told.iter().find_map(|one| if let Told::Deed(number) = one { Some(*number) } else { None });
            let mut next = first.unwrap_or(0);
            let mut was_reset = false;
            for one in &told {
                match one {
                    Told::Reset => was_reset = true,
                    Told::Deed(number) => {
                        assert!(*number >= next, "{} told twice or late: {told:?}", host.name);
                        assert!(
                            *number == next || was_reset,
                            "{}: lost {next}..{number} without a reset: {told:?}\n{}",
                            host.name,
                            self.events.stderr()
                        );
                        (next, was_reset) = (number + 1, false);
                    }
                }
            }
            assert!(next == host.deeds.len() || was_reset, "{}: lost from {next} on: {told:?}", host.name);
        }
    }

    pub(crate) fn summary(&self, hosts: &[Host]) -> String {
        let words = hosts.iter().map(|host| {
            let told = self.of(host);
            let resets = told.iter().filter(|one| **one == Told::Reset).count();
            format!(
                "{}: {} of {} deeds told, {resets} resets",
                host.name,
                told.len() - resets,
                host.deeds.len()
            )
        });
        words.collect::<Vec<_>>().join("; ")
    }
}
