//! What was spent on several machines. Each tells its sessions with their calls, and all of them are counted together, so
//! that a session which was copied to a second machine counts once.

use agentctl_daemon::usage_pairs;
use agentctl_daemon::wire::WHOLE;
use agentctl_fleet::{Fleet, Since, Spent, UsageAnswer, UsageQuery};
use agentctl_hosts::Ask;
use agentctl_model::HostReport;

use crate::link::hosts::{Asked, Roster};
use crate::surroundings::Surroundings;

pub(crate) fn usage(
    roster: &Roster,
    asked: &Asked,
    query: &UsageQuery,
    fleet: &Fleet,
    surroundings: &Surroundings,
) -> UsageAnswer {
    let empty =
        || Spent { as_of: surroundings.now(), spenders: Vec::new(), sources: Vec::new(), hosts: Vec::new() };
    let mut all = if asked.local { fleet.spent(query) } else { empty() };
    // A folder that is not text cannot be asked for elsewhere, and nothing there can fit it.
    if let Some(pairs) = usage_pairs(query) {
        let target = format!("/v1/usage?{pairs}");
        let ask = Ask { accept: WHOLE, ..Ask::get(&target) };
        let told = |row: &mut HostReport, there: &Spent| {
            row.told(there.as_of, &there.sources, there.hosts.first());
        };
        let (rows, answers) = roster.ask_all(asked, std::mem::take(&mut all.hosts), ask, told);
        all.hosts = rows;
        for (name, mut there) in answers {
            // A length of time back from now is one by the clock of the machine whose calls it is about.
            let since = match query.since {
                Since::Back(_) => query.since.start(there.as_of),
                Since::Moment(_) | Since::Ever => None,
            };
            for spender in &mut there.spenders {
                spender.host.clone_from(&name);
                spender.since = since;
            }
            there.sources.iter_mut().for_each(|source| source.host.clone_from(&name));
            all.spenders.append(&mut there.spenders);
            all.sources.append(&mut there.sources);
        }
    }
    fleet.counted(all, query)
}
