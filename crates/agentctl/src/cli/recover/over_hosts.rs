//! What went down on several machines. Each machine knows its own boot; a session of another one is resumed by name.

use agentctl_daemon::joined;
use agentctl_fleet::read::recover::{MESSAGE, RecoverQuery, Recovery};
use agentctl_hosts::Ask;
use agentctl_model::{Error, HostReport, text};

use crate::link::hosts::{Asked, Roster};
use crate::surroundings::Surroundings;

pub(super) fn recovery(
    roster: &Roster,
    asked: &Asked,
    here: impl FnOnce() -> Result<Recovery, Error>,
    query: &RecoverQuery,
    surroundings: &Surroundings,
) -> Result<Recovery, Error> {
    let empty = || Recovery {
        as_of: surroundings.now(),
        booted_at: None,
        message: MESSAGE.to_owned(),
        sessions: Vec::new(),
        sources: Vec::new(),
        warnings: Vec::new(),
        hosts: Vec::new(),
    };
    let mut all = if asked.local { here()? } else { empty() };
    let mut pairs = vec![("since", query.since.to_string())];
    pairs.extend(query.adapters.iter().map(|name| ("adapter", name.clone())));
    let target = format!("/v1/recover?{}", joined(&pairs));
    let told = |row: &mut HostReport, there: &Recovery| {
        row.told(there.as_of, &there.sources, there.hosts.first());
    };
    let (rows, answers) = roster.ask_all(asked, std::mem::take(&mut all.hosts), Ask::get(&target), told);
    all.hosts = rows;
    for (name, mut there) in answers {
        for one in &mut there.sessions {
            one.session.host.clone_from(&name);
            let id = text::shell_word(&format!("{name}/{}", one.session.id));
            one.command = format!("agentctl resume {id} MESSAGE");
        }
        there.sources.iter_mut().for_each(|source| source.host.clone_from(&name));
        all.sessions.extend(there.sessions);
        all.sources.extend(there.sources);
        all.warnings.extend(there.warnings.into_iter().map(|warning| format!("{name}: {warning}")));
    }
    Ok(all)
}
