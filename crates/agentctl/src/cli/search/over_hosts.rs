//! The same search on other machines, each for itself. Their hits come as they are found; which of two machines has the
//! newer one is not asked, because their clocks may differ.

use std::collections::HashSet;
use std::io;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentctl_daemon::joined;
use agentctl_fleet::{SearchEnd, SearchQuery, Told};
use agentctl_hosts::{RoadFailure, Step};
use agentctl_model::search::Hit;

use super::{Args, Message};
use crate::link::hosts::{Asked, RosterHost, SILENCE, side_by_side};

/// How long an event is waited for before it is asked whether the machine is still there.
const TICK: Duration = Duration::from_secs(1);

/// Searches on each of these machines, and tells what each says. `own` is the instance of this machine, if it searches
/// too: a name that leads here has nothing new to say.
pub(super) fn search(
    asked: &Asked,
    own: Option<String>,
    target: &str,
    tell: &(dyn Fn(Message) -> ControlFlow<()> + Sync),
) {
    let instances: Mutex<HashSet<String>> = Mutex::new(own.into_iter().collect());
    let others = asked.each();
    let _ = side_by_side(&others, |host| {
        let ended = match on_one(host, &instances, target, tell) {
            Ok(Some(end)) => Message::End { end, here: false },
            Ok(None) => return,
            Err(failure) => Message::Unheard { host: host.name.to_string(), via: host.road.via(), failure },
        };
        let _ = tell(ended);
    });
}

/// `None` if the machine was searched by another name, or nobody listens any more.
fn on_one(
    host: &Arc<RosterHost>,
    instances: &Mutex<HashSet<String>>,
    target: &str,
    tell: &(dyn Fn(Message) -> ControlFlow<()> + Sync),
) -> Result<Option<SearchEnd>, RoadFailure> {
    let instance = host.greeting()?.instance;
    if !instances.lock().unwrap_or_else(PoisonError::into_inner).insert(instance) {
        return Ok(None);
    }
    let name = host.name.to_string();
    let mut events = host.listen(target, None)?;
    let cut = |words: String| RoadFailure::new(Step::Answer, words).hint("ask again");
    loop {
        match events.next(Some(TICK)) {
            Ok(Some(event)) if event.kind == "hit" => {
                let hit: Result<Hit, _> = serde_json::from_str(&event.data);
                let mut hit = hit.map_err(|error| cut(format!("a hit cannot be read: {error}")))?;
                hit.host.clone_from(&name);
                let hit = Message::Told { told: Told::Hit(Box::new(hit)), far: Some(name.clone()) };
                if tell(hit).is_break() {
                    return Ok(None);
                }
            }
            Ok(Some(event)) if event.kind == "end" => {
                let end: Result<SearchEnd, _> = serde_json::from_str(&event.data);
                let mut end = end.map_err(|error| cut(format!("its end cannot be read: {error}")))?;
                host.name_sources(&mut end.sources);
                return Ok(Some(end));
            }
            Ok(Some(_)) => {}
            Ok(None) => return Err(cut("the connection was cut in the middle of the search".to_owned())),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                if events.last_heard().elapsed() > SILENCE {
                    return Err(cut(format!("nothing came for {} s", SILENCE.as_secs())));
                }
            }
            Err(error) => return Err(cut(error.to_string())),
        }
    }
}

impl Args {
    /// The request that asks another machine for the same; `None` when a query string cannot express it.
    pub(super) fn target(&self, asked: &SearchQuery) -> Option<String> {
        let mut pairs: Vec<(&str, String)> = self.words.iter().map(|word| ("q", word.clone())).collect();
        let flags =
            [("regex", self.regex), ("ignore-case", self.ignore_case), ("files-with", self.files_with)];
        pairs.extend(flags.into_iter().filter(|(_, set)| *set).map(|(name, _)| (name, "true".to_owned())));
        pairs.extend(self.role.iter().map(|role| ("role", role.as_str().to_owned())));
        pairs.extend(self.adapter.iter().map(|name| ("adapter", name.clone())));
        for folder in &asked.folders {
            pairs.push(("cwd", folder.to_str()?.to_owned()));
        }
        pairs.extend(self.group.iter().map(|group| ("group", group.clone())));
        pairs.push(("since", asked.since.to_string()));
        pairs.push(("limit", self.limit.to_string()));
        pairs.push(("context", self.context.to_string()));
        Some(format!("/v1/search?{}", joined(&pairs)))
    }
}
