//! What waits on several machines. How long something waits is told by the clock of its own machine, and clocks of two
//! machines are never compared.

use std::cmp::Reverse;

use agentctl_daemon::joined;
use agentctl_fleet::read::inbox::{Inbox, InboxItem, InboxKind};
use agentctl_model::text::period::Since;
use agentctl_model::{HostReport, Road};
use jiff::Timestamp;

use super::{Asked, Roster};
use crate::surroundings::Surroundings;

impl Roster {
    /// What waits on these machines, as one inbox.
    pub(crate) fn inbox(
        &self,
        asked: &Asked,
        here: impl FnOnce() -> Inbox,
        (since, adapters): (Since, &[String]),
        surroundings: &Surroundings,
    ) -> Inbox {
        let empty = || Inbox {
            as_of: surroundings.now(),
            items: Vec::new(),
            sources: Vec::new(),
            warnings: Vec::new(),
            hosts: Vec::new(),
        };
        let mut all = if asked.local { here() } else { empty() };
        let mut pairs = vec![("since", since.to_string())];
        pairs.extend(adapters.iter().map(|name| ("adapter", name.clone())));
        let target = format!("/v1/inbox?{}", joined(&pairs));
        let told = |row: &mut HostReport, there: &Inbox| {
            row.told(there.as_of, &there.sources, there.hosts.first());
        };
        let (rows, answers) = self.ask_all(asked, std::mem::take(&mut all.hosts), &target, told);
        all.hosts = rows;
        for (name, mut there) in answers {
            for item in &mut there.items {
                item.session.host.clone_from(&name);
                let (id, full) = (item.session.id.clone(), format!("{name}/{}", item.session.id));
                item.next.iter_mut().for_each(|next| *next = next.replacen(&id, &full, 1));
            }
            there.sources.iter_mut().for_each(|source| source.host.clone_from(&name));
            all.items.extend(there.items);
            all.sources.extend(there.sources);
            all.warnings.extend(there.warnings.into_iter().map(|warning| format!("{name}: {warning}")));
        }
        let mut items = std::mem::take(&mut all.items);
        items.sort_by_key(|item| {
            let waited = item.since.map(|since| as_of(item, &all).duration_since(since));
            (item.kind == InboxKind::Failure, Reverse(waited))
        });
        all.items = items;
        all
    }
}

/// The other machine on which this waits.
pub(crate) fn elsewhere<'i>(item: &InboxItem, inbox: &'i Inbox) -> Option<&'i HostReport> {
    inbox.hosts.iter().find(|host| host.via != Road::Local && host.name == item.session.host)
}

/// The clock by which the times of an item are told.
pub(crate) fn as_of(item: &InboxItem, inbox: &Inbox) -> Timestamp {
    elsewhere(item, inbox).and_then(|host| host.as_of).unwrap_or(inbox.as_of)
}
