//! `session/new`: an agent is started with the first words that are said to it, so until then a session is a draft of this
//! connection. Its id is the one that the agent is then given, where it takes one; elsewhere the launch keeps it, and the
//! session can be opened by it later.

use std::path::{Path, PathBuf};

use agentctl_fleet::act::launch::{LaunchOptions, LaunchRequest, Stay, check_folder, check_words};
use agentctl_fleet::keep::launches::LaunchOrder;
use agentctl_fleet::{AdapterEntry, known_agents};
use agentctl_model::event::ActionVerb;
use agentctl_model::{Error, Surveyed};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{LABEL, Office};
use crate::failure::Failure;
use crate::link::daemon_process::DaemonProcess;
use crate::output::Output;
use crate::render::style::Colour;
use crate::surroundings::Surroundings;

/// A session that has not begun.
pub(super) struct Draft {
    order: LaunchOrder,
}

#[derive(Debug, Deserialize)]
pub(super) struct NewRequest {
    cwd: PathBuf,
}

impl Draft {
    /// Checks that the agent could be started there. Starts nothing.
    pub(super) fn make(office: &Office, request: &NewRequest) -> Result<(String, Self, Value), Error> {
        let surroundings = office.surroundings();
        if !request.cwd.is_absolute() {
            return Err(Error::usage(format!("`cwd` is not an absolute path: {}", request.cwd.display())));
        }
        check_folder(&request.cwd).map_err(Error::usage)?;
        let agents = holdable(&surroundings)?;
        let usual = surroundings.settings().map_err(|error| Failure::from(error).into_error())?.adapter.value;
        let adapter =
            office.adapter.clone().or(usual).or_else(|| agents.first().map(|agent| agent.name.clone()));
        let adapter = adapter.ok_or_else(|| {
            Error::refused("no agent that can be held is installed")
                .hint("`agentctl adapters` shows which agents can be")
        })?;
        let order = planned(&surroundings, &adapter, &request.cwd)?;
        let id = order.fresh_id.clone();
        let modes = agents.iter().map(|agent| json!({"id": agent.name, "name": agent.title}));
        let modes: Vec<Value> = modes.collect();
        let answer = json!({
            "sessionId": id,
            "modes": {"currentModeId": adapter, "availableModes": modes},
        });
        Ok((id, Self { order }, answer))
    }

    /// Another agent is to carry the session.
    pub(super) fn choose(&mut self, office: &Office, adapter: &str) -> Result<(), Error> {
        let surroundings = office.surroundings();
        if !holdable(&surroundings)?.iter().any(|agent| agent.name == adapter) {
            let adapter: String = agentctl_model::text::one_line(adapter).chars().take(100).collect();
            return Err(Error::usage(format!("no agent called {adapter} can be held here")));
        }
        let order = planned(&surroundings, adapter, &self.order.cwd)?;
        // The editor knows the session by the id that it was given.
        self.order = LaunchOrder { fresh_id: self.order.fresh_id.clone(), ..order };
        Ok(())
    }

    /// Starts the agent with the first words, and returns once a survey shows the turn.
    pub(super) fn launch(
        &self,
        office: &Office,
        words: &str,
        is_over: impl Fn() -> bool,
    ) -> Result<Surveyed, Error> {
        check_words(words).map_err(Error::usage)?;
        let surroundings = office.surroundings();
        let settings = surroundings.settings().map_err(|error| Failure::from(error).into_error())?;
        let launcher = surroundings.launcher(&settings).map_err(Failure::into_error)?;
        let asked = office.asked();
        let mut order = self.order.clone();
        order.labels.extend(asked.labels());
        order.labels.insert(LABEL.to_owned(), order.fresh_id.clone());
        launcher.make_ready(surroundings.now())?;
        start_daemon(&surroundings);
        let session = launcher.carry_out(order, words, surroundings.now(), is_over);
        let key = session.as_ref().ok().map(|session| (&*session.key.adapter, &*session.key.id));
        asked.tell(ActionVerb::Launch, key, &session, &surroundings);
        session
    }
}

fn planned(surroundings: &Surroundings, adapter: &str, cwd: &Path) -> Result<LaunchOrder, Error> {
    let settings = surroundings.settings().map_err(|error| Failure::from(error).into_error())?;
    let launcher = surroundings.launcher(&settings).map_err(Failure::into_error)?;
    if let Some(mistake) = &launcher.mistake {
        return Err(Error::failed(mistake.clone()).hint("`agentctl config check` tries it again"));
    }
    let choice = launcher.defaults.choice(Some(adapter.to_owned()), None);
    let request = LaunchRequest {
        choices: choice.into_iter().collect(),
        cwd: cwd.to_owned(),
        cwd_is_chosen: true,
        options: LaunchOptions { stay: Stay { hold: true, ..Stay::default() }, ..LaunchOptions::default() },
        ..LaunchRequest::default()
    };
    let plan = launcher.plan(&request, String::new()).map_err(|error| Error::failed(error.to_string()))?;
    let slot = plan.slots.into_iter().next().ok_or_else(|| Error::usage("there is nothing to launch"))?;
    slot.order
}

/// The agents that can be held and whose program is there.
fn holdable(surroundings: &Surroundings) -> Result<Vec<AdapterEntry>, Error> {
    let settings = surroundings.settings().map_err(|error| Failure::from(error).into_error())?;
    let known = known_agents(&settings.acp_agents(), |name| settings.adapter(name).enabled.value);
    let programs = settings.programs();
    let is_here = |agent: &AdapterEntry| {
        let is_found = |program: &String| surroundings.on_path(Path::new(program)).is_some();
        programs.contains_key(&agent.name) || agent.programs.iter().any(is_found)
    };
    let is_held = |agent: &AdapterEntry| agent.ways.iter().any(|way| way.place.is_held());
    Ok(known.into_iter().filter(|agent| agent.enabled && is_held(agent) && is_here(agent)).collect())
}

/// What acts wants the daemon, as on the command line: it makes the event.
pub(super) fn start_daemon(surroundings: &Surroundings) {
    DaemonProcess::wanted(surroundings, &mut Output::new(surroundings, Colour::Never));
}
