//! `--host`: which machines a command asks, and what it says of those that it could not hear.

use std::sync::Arc;

use agentctl_hosts::HostName;
use agentctl_model::{CoverageKind, ErrorKind, HostReport, Road, Session, text};
use clap_complete::engine::ArgValueCompleter;

use super::complete;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::hosts::{Asked, Roster, RosterHost, is_here};
use crate::output::Output;
use crate::surroundings::Surroundings;

/// This machine and every other one that is known.
const ALL: &str = "all";

#[derive(Debug, Default, clap::Args)]
pub(crate) struct HostArgs {
    /// Ask this machine of the config, `local`, or `all` (repeatable)
    #[arg(long = "host", value_name = "NAME", add = ArgValueCompleter::new(complete::hosts))]
    hosts: Vec<String>,
}

impl HostArgs {
    /// As if these had been named on the command line.
    pub(crate) fn named(hosts: impl IntoIterator<Item = String>) -> Self {
        Self { hosts: hosts.into_iter().collect() }
    }

    /// Whether machines were named.
    pub(crate) fn are_given(&self) -> bool {
        !self.hosts.is_empty()
    }

    /// The machines that are known, if others than this one may be asked.
    pub(crate) fn roster(&self, surroundings: &Surroundings) -> Result<Option<Roster>, Failure> {
        if self.hosts.is_empty() && surroundings.settings()?.host.value.is_none() {
            return Ok(None);
        }
        Roster::of(surroundings).map(Some)
    }

    /// The machines that a command which reads asks: those of the command line, or else that of the settings.
    pub(crate) fn asked(&self, roster: &Roster, own_name: &str) -> Result<Asked, Failure> {
        let default: Vec<String> = roster.default.iter().cloned().collect();
        named(if self.hosts.is_empty() { &default } else { &self.hosts }, roster, own_name)
    }

    /// The machines that a command which acts means: this one, unless others are named.
    pub(crate) fn meant(&self, roster: &Roster, own_name: &str) -> Result<Asked, Failure> {
        named(&self.hosts, roster, own_name)
    }

    /// The one machine on which something is to be done; `None` for this one.
    pub(crate) fn one(&self, surroundings: &Surroundings) -> Result<Option<Arc<RosterHost>>, Failure> {
        if self.hosts.is_empty() {
            return Ok(None);
        }
        let asked = self.meant(&Roster::of(surroundings)?, &agentctl_fleet::own_name())?;
        match (asked.local, asked.each().as_slice()) {
            (true, []) => Ok(None),
            (false, [one]) => Ok(Some(one.clone())),
            _ => Err(Failure::new(ErrorKind::Usage, "this is done on one machine at a time")
                .hint("name one with --host")),
        }
    }

    /// Refuses other machines for a command that has no way to them.
    pub(crate) fn only_here(&self, surroundings: &Surroundings, what: &str) -> Result<(), Failure> {
        let Some(far) = self.one(surroundings)? else { return Ok(()) };
        Err(only_there(&far.name, what))
    }
}

/// Refuses what has no way to another machine.
pub(crate) fn only_there(host: &HostName, what: &str) -> Failure {
    let message = format!("{what} is done on that machine itself");
    let hint = format!("there, `agentctl {what}` does it: `ssh {host} agentctl {what}`");
    Failure::new(ErrorKind::Unsupported, message).hint(hint)
}

/// The machines of these names; without any it is this one.
pub(crate) fn named(names: &[String], roster: &Roster, own_name: &str) -> Result<Asked, Failure> {
    let mut asked = Asked { local: names.is_empty(), ..Asked::default() };
    for name in names {
        if name == ALL {
            asked = roster.everybody();
        } else if let Some(host) = roster.get(name) {
            if !asked.others.iter().any(|known| known.name == host.name) {
                asked.others.push(host);
            }
        } else if is_here(name, own_name) {
            asked.local = true;
        } else {
            return Err(unknown(name, roster));
        }
    }
    Ok(asked)
}

pub(crate) fn unknown(name: &str, roster: &Roster) -> Failure {
    let known: Vec<&str> = roster.hosts.iter().map(|host| host.name.as_str()).collect();
    let known =
        if known.is_empty() { "none; see `agentctl hosts --help`".to_owned() } else { known.join(", ") };
    let message = format!("no host is called `{}`", text::one_line(name));
    Failure::new(ErrorKind::Usage, message).hint(format!("known hosts: {known}"))
}

/// The id of a session, with its machine in front of it if it is on another one.
pub(crate) fn full_id(session: &Session, hosts: &[HostReport]) -> String {
    let elsewhere = |host: &&HostReport| host.via != Road::Local && host.name == session.host;
    match hosts.iter().find(elsewhere) {
        Some(host) => format!("{}/{}", host.name, session.id),
        None => session.id.clone(),
    }
}

/// Prints a line for each machine that was not heard, and what to do about it.
pub(crate) fn warn(hosts: &[HostReport], out: &mut Output) {
    for host in hosts.iter().filter(|host| host.via != Road::Local) {
        let Some(error) = &host.error else { continue };
        let error = text::one_line(error);
        let words = match host.coverage {
            CoverageKind::Failed => {
                format!("{} was not heard: {error}; nothing is known of its sessions", host.name)
            }
            _ => format!("{} was heard in part: {error}; some of its sessions may be missing", host.name),
        };
        out.warn(&words);
        if let Some(hint) = &host.hint {
            out.hint(hint);
        }
    }
}

pub(crate) fn exit(hosts: &[HostReport], strict: bool) -> Exit {
    let unheard = hosts.iter().any(|host| host.coverage != CoverageKind::Complete);
    if strict && unheard { Exit::Incomplete } else { Exit::Done }
}
