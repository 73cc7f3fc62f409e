//! How an agent is started to be held over ACP. Pure.

use std::collections::BTreeMap;

use agentctl_model::{Conversation, Error, IdSource, Intent, SpawnPlan, Stdin};

use super::agent::{Agent, choices};
use super::{Acp, Opening, Start};
use crate::control::refusal::{no_fork, no_system_prompt};
use crate::hold::HoldPlan;

/// An agent as ACP finds it.
pub(crate) struct AcpCommand<'a> {
    /// Its name, for people.
    pub(crate) title: &'a str,
    pub(crate) program: &'a str,
    pub(crate) args: &'a [&'a str],
    pub(crate) env: &'a [(&'a str, &'a str)],
    pub(crate) agent: Agent,
    /// Where it takes further instructions instead.
    pub(crate) instructions: &'a str,
}

impl AcpCommand<'_> {
    /// The id of a new session is the agent's to choose, and it says it on the line.
    pub(crate) fn hold(&self, intent: &Intent) -> Result<HoldPlan, Error> {
        if intent.system_prompt.is_some() {
            return Err(no_system_prompt(self.title, self.instructions));
        }
        let (id, start) = match &intent.conversation {
            Conversation::New => (IdSource::FirstWords, Start::New),
            // A session that another process runs is refused before this: two would corrupt its records.
            Conversation::Stored { id, .. } => {
                (IdSource::Known(id.clone()), Start::Continue { session: id.clone(), may_load: true })
            }
            Conversation::ForkOf { .. } => return Err(no_fork(self.title)),
        };
        let opening = Opening {
            cwd: intent.cwd.to_string_lossy().into_owned(),
            start,
            modes: intent.permission.map(choices).unwrap_or_default(),
            model: intent.model.clone(),
            launch: intent.fresh_id.clone(),
        };
        let args = self.args.iter().map(|&arg| arg.to_owned()).chain(intent.more.iter().cloned());
        let own = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        let spawn = SpawnPlan {
            program: self.program.to_owned(),
            args: args.collect(),
            env: self.env.iter().map(own).collect::<BTreeMap<_, _>>(),
            cwd: intent.cwd.clone(),
            stdin: Stdin::Nothing,
            id,
        };
        Ok(HoldPlan::line(spawn, Acp::new(self.agent, opening)))
    }
}
