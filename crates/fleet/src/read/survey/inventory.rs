//! The sessions that an agent lists itself, where only ACP knows the agent. It must be started for that, so it is asked only
//! when it is named.

use std::path::PathBuf;
use std::time::Instant;

use agentctl_adapters::agents::acp::{self, AcpAgent};
use agentctl_adapters::hold::About;
use agentctl_adapters::hold::acp::inventory::{Inquiry, Row};
use agentctl_model::{Evidence, Facts, Found, Surveyed, Witness};

use super::held;
use super::sources::SourceReading;
use crate::keep::launches::Ledger;
use crate::read::query::{Query, Wanted};
use crate::{Fleet, Source, hold};

impl Fleet {
    /// Adds what the agents list that were named. What a runner holds is known better from it.
    pub(super) fn ask_agents(
        &self,
        sources: &[Source],
        readings: &mut [SourceReading],
        query: &Query,
        ledger: &Ledger,
    ) {
        if !query.asks_agents || matches!(query.wanted, Wanted::Live) {
            return;
        }
        for (source, reading) in sources.iter().zip(readings) {
            let name = source.name();
            let is_named = query.adapters.iter().any(|adapter| adapter == name);
            let agent = self.acp_agent(name).filter(|_| is_named && acp::is_name(name));
            let (Some(agent), Some(environ)) = (agent, &self.environ) else { continue };
            let root = source.root.path.to_string_lossy();
            // A whole id that a runner holds needs nobody else's word.
            let is_held = |id: &String| ledger.held_launches(name, &root, id).is_some();
            if matches!(&query.wanted, Wanted::Ids(ids) if ids.iter().all(is_held)) {
                continue;
            }
            let began = Instant::now();
            match hold::inquire(agent, environ, true, self.kernel.as_ref()) {
                Ok(inquiry) => {
                    let rows = inquiry.inventory.rows.iter();
                    let others = rows.filter(|row| !is_held(&row.id) && query.wanted.names(&row.id));
                    reading.harvest.found.extend(others.map(|row| found(row, agent, &inquiry)));
                    for warning in &inquiry.inventory.warnings {
                        reading.harvest.left_out(warning.clone());
                    }
                }
                Err(why) => reading.harvest.left_out(format!("{name} was not asked for its sessions: {why}")),
            }
            reading.took += began.elapsed();
        }
    }
}

fn found(row: &Row, agent: &AcpAgent, inquiry: &Inquiry) -> Found {
    let mut facts = Facts { cwd: row.cwd.clone(), updated_at: row.updated_at, ..Facts::default() };
    let about = About { agent: inquiry.greeting.clone(), title: row.title.clone(), ..About::default() };
    held::tell(&mut facts, &about);
    let words = format!("{} lists it and says nothing of its turn", agent.name);
    Found {
        id: row.id.clone(),
        variant: None,
        place: PathBuf::from(&agent.name),
        stamp: None,
        facts,
        evidence: vec![Evidence::said(Witness::Gateway, words, row.updated_at)],
    }
}

/// Adds what the agent said that it offers.
pub(super) fn add_offered(surveyed: &mut Surveyed) {
    if acp::is_name(&surveyed.key.adapter)
        && let Some(offered) = held::offered(&surveyed.session)
        && !surveyed.session.capabilities.contains(&offered)
    {
        surveyed.session.capabilities.push(offered);
    }
}
