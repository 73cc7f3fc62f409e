//! `--host`: which machines a command asks, and what it says of those that it could not hear.

use agentctl_hosts::LOCAL;
use agentctl_model::{CoverageKind, ErrorKind, HostReport, Road, Session, text};
use clap_complete::engine::ArgValueCompleter;

use super::complete;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::hosts::{Asked, Roster, RosterHost};
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
    /// The machines that are known, if others than this one may be asked.
    pub(crate) fn roster(&self, surroundings: &Surroundings) -> Result<Option<Roster>, Failure> {
        if self.hosts.is_empty() && surroundings.settings()?.host.value.is_none() {
            return Ok(None);
        }
        Roster::of(surroundings).map(Some)
    }

    /// The machines that are meant: those of the command line, or else that of the settings.
    pub(crate) fn asked<'r>(&self, roster: &'r Roster, own_name: &str) -> Result<Asked<'r>, Failure> {
        let mut asked = Asked { local: false, others: Vec::new() };
        let default = [roster.default.clone().unwrap_or_else(|| LOCAL.to_owned())];
        for name in if self.hosts.is_empty() { &default[..] } else { &self.hosts } {
            if name == ALL {
                asked.local = true;
                asked.others = roster.hosts.iter().collect();
            } else if let Some(host) = roster.get(name) {
                if !asked.others.iter().any(|known| known.name.as_str() == name) {
                    asked.others.push(host);
                }
            } else if name == LOCAL || name == own_name {
                asked.local = true;
            } else {
                return Err(unknown(name, &roster.hosts));
            }
        }
        Ok(asked)
    }
}

pub(crate) fn unknown(name: &str, hosts: &[RosterHost]) -> Failure {
    let known: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
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
