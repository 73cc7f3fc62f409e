//! Writes the metrics of several machines. A machine that was not heard has no figures but that it was not heard: 0 would be
//! a claim about its sessions.

use std::collections::BTreeSet;

use agentctl_fleet::Listing;
use agentctl_model::{CoverageKind, HostReport, Session, SourceReport, Status, text};

use super::page::{LIVE, Page};

pub(crate) fn page_of_hosts(listing: &Listing<Box<Session>>) -> String {
    let mut page = Page::default();
    page.family("agentctl_host_up", "gauge", "Whether a machine was heard.");
    for host in &listing.hosts {
        let labels = format!("host=\"{}\",via=\"{}\"", label(&host.name), host.via.as_str());
        page.sample("agentctl_host_up", &labels, u8::from(is_heard(host)));
    }
    page.family("agentctl_host_answer_seconds", "gauge", "How long a machine took to answer.");
    for host in listing.hosts.iter().filter(|host| is_heard(host)) {
        let took = std::time::Duration::from_millis(host.took_ms).as_secs_f64();
        page.sample("agentctl_host_answer_seconds", &format!("host=\"{}\"", label(&host.name)), took);
    }
    page.family("agentctl_sessions_current", "gauge", "Live sessions by machine, agent and status.");
    for host in listing.hosts.iter().filter(|host| is_heard(host)) {
        let sessions: Vec<&Session> =
            listing.sessions.iter().map(|session| &**session).filter(|one| one.host == host.name).collect();
        for adapter in adapters(host, &sessions, &listing.sources) {
            for status in LIVE {
                let of = |session: &&&Session| session.adapter == adapter && session.status == status;
                let labels = format!(
                    "host=\"{}\",adapter=\"{}\",status=\"{}\"",
                    label(&host.name),
                    label(adapter),
                    status.as_str()
                );
                page.sample("agentctl_sessions_current", &labels, sessions.iter().filter(of).count());
            }
        }
    }
    page.family("agentctl_sessions_active", "gauge", "Sessions that are running or waiting, by machine.");
    for host in listing.hosts.iter().filter(|host| is_heard(host)) {
        let active = |session: &&Session| {
            session.host == host.name && matches!(session.status, Status::Running | Status::Waiting)
        };
        let count = listing.sessions.iter().map(|session| &**session).filter(active).count();
        page.sample("agentctl_sessions_active", &format!("host=\"{}\"", label(&host.name)), count);
    }
    page.0
}

fn is_heard(host: &HostReport) -> bool {
    host.coverage != CoverageKind::Failed
}

/// The agents that are on a machine.
fn adapters<'l>(
    host: &HostReport,
    sessions: &[&'l Session],
    sources: &'l [SourceReport],
) -> BTreeSet<&'l str> {
    let there = sources
        .iter()
        .filter(|source| source.host == host.name && source.coverage != CoverageKind::NotInstalled);
    let there = there.map(|source| source.adapter.as_str());
    there.chain(sessions.iter().map(|session| session.adapter.as_str())).collect()
}

/// The value of a label. Another machine may say anything.
fn label(value: &str) -> String {
    text::one_line(value).replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use agentctl_model::Road;

    use super::*;

    #[test]
    fn a_machine_that_was_not_heard_has_no_sessions_not_even_none() {
        let mut heard = HostReport::unheard("box".to_owned(), Road::Ssh);
        heard.coverage = CoverageKind::Complete;
        let session: Session = serde_json::from_value(serde_json::json!({
            "id": "1", "adapter": "a\"b", "host": "box", "configRoot": "/r", "status": "waiting", "pending": [],
            "processes": [], "capabilities": [], "evidence": [], "meta": {},
        }))
        .unwrap();
        let listing = Listing {
            as_of: jiff::Timestamp::UNIX_EPOCH,
            sessions: vec![Box::new(session)],
            left_out: 0,
            sources: Vec::new(),
            hosts: vec![heard, HostReport::unheard("gone".to_owned(), Road::Nats)],
            strays: 0,
        };
        let page = page_of_hosts(&listing);
        for line in [
            "agentctl_host_up{host=\"box\",via=\"ssh\"} 1",
            "agentctl_host_up{host=\"gone\",via=\"nats\"} 0",
            "agentctl_sessions_active{host=\"box\"} 1",
            "agentctl_sessions_current{host=\"box\",adapter=\"a\\\"b\",status=\"waiting\"} 1",
        ] {
            assert!(page.lines().any(|own| own == line), "{line}\n{page}");
        }
        assert_eq!(page.matches("gone").count(), 1, "{page}");
    }
}
