//! `agentctl acp`: an ACP agent on the standard streams that has every session of this machine, and of others where they
//! are named. An editor lists them, opens them with their history, prompts and approves; whoever started them.
//!
//! Nothing is kept here but the connection: what a session is and does is asked of the fleet each time.

mod conversation;
mod drafts;
mod listing;
mod opened;
mod permissions;
mod preferences;
mod turn;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use agentctl_fleet::{FindError, Fleet, Purpose, Query, Selector, Since, Wanted};
use agentctl_model::{Error, ErrorKind, Surveyed, text};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use self::drafts::Draft;
use self::opened::Opened;
use self::preferences::{SetMode, SetOption};
use crate::cli::host_args::HostArgs;
use crate::cli::target::{Machines, NarrowingArgs};
use crate::failure::Failure;
use crate::link::asked::Asked;
use crate::link::hosts::Located;
use crate::output::Output;
use crate::render::style::Colour;
use crate::rpc::{Call, Fault, Service, Wire};
use crate::surroundings::Surroundings;

/// The version of the protocol that is spoken.
const VERSION: u64 = 1;
/// More sessions than this are not open at once.
const MOST_OPEN: usize = 100;
/// The label under which a launch keeps the id that the editor knows its session by.
const LABEL: &str = "acp";

/// One connection.
pub(crate) struct Server {
    office: Arc<Office>,
    sessions: Mutex<HashMap<String, Place>>,
}

/// What every part of the connection works with.
struct Office {
    surroundings: Surroundings,
    /// The agent of new sessions, if the command line names one.
    adapter: Option<String>,
    /// The machines whose sessions are listed.
    hosts: HostArgs,
    /// The name and version of the editor.
    client: OnceLock<String>,
}

/// What stands behind the id of a session.
#[derive(Clone)]
enum Place {
    /// It was made here and nothing was said in it yet.
    Draft(Arc<Mutex<Draft>>),
    Opened(Arc<Opened>),
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Office {
    fn surroundings(&self) -> Surroundings {
        self.surroundings.anew()
    }

    fn fleet(&self) -> Result<Fleet, Error> {
        self.surroundings().fleet().map_err(Failure::into_error)
    }

    fn asked(&self) -> Asked {
        Asked::by("acp", self.client.get().map(String::as_str), &self.surroundings)
    }
}

/// The part of most requests that names the session.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    session_id: String,
    cwd: Option<String>,
}

fn taken<T: DeserializeOwned>(params: Value) -> Result<T, Fault> {
    serde_json::from_value(params).map_err(|error| Fault::invalid_params(error.to_string()))
}

/// An error as the protocol tells it: the words with what to do next, and the kind for programs.
fn fault(error: &Error) -> Fault {
    let code = match error.kind {
        ErrorKind::NotFound => -32002,
        ErrorKind::Usage | ErrorKind::Ambiguous => -32602,
        _ => -32603,
    };
    let kind = agentctl_daemon::Problem::from(error.clone()).code.clone();
    let data = json!({"code": kind, "hint": error.hint, "details": in_words(error)});
    Fault::new(code, text::clean(&error.message)).with(data)
}

fn in_words(error: &Error) -> String {
    let hint = error.hint.as_deref().map(|hint| format!("\n{hint}")).unwrap_or_default();
    text::clean(&format!("{}{hint}", error.message))
}

impl Server {
    pub(crate) fn new(surroundings: Surroundings, adapter: Option<String>, hosts: HostArgs) -> Self {
        let office = Arc::new(Office { surroundings, adapter, hosts, client: OnceLock::new() });
        Self { office, sessions: Mutex::default() }
    }

    pub(crate) fn serve(self) -> std::io::Result<()> {
        crate::rpc::serve_standard_streams(&Arc::new(self))
    }

    fn greet(&self, params: &Value) -> Value {
        let info =
            |key: &str| params.get("clientInfo").and_then(|info| info.get(key)).and_then(Value::as_str);
        if let Some(name) = info("name") {
            let whole = format!("{name} {}", info("version").unwrap_or_default());
            let _ = self.office.client.set(text::one_line(&whole).chars().take(100).collect());
        }
        json!({
            "protocolVersion": VERSION,
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": {"image": false, "audio": false, "embeddedContext": true},
                "sessionCapabilities": {"list": {}, "resume": {}, "close": {}},
            },
            "agentInfo": {"name": "agentctl", "title": "agentctl", "version": env!("CARGO_PKG_VERSION")},
            "authMethods": [],
        })
    }

    /// Opens a session: with its history, or from now on.
    fn open(&self, call: &Call, params: Value, with_history: bool) -> Result<Value, Fault> {
        let Named { session_id, cwd } = taken(params)?;
        let fleet = self.office.fleet().map_err(|error| fault(&error))?;
        let found = find(&self.office, &fleet, &session_id, cwd).map_err(|error| fault(&error))?;
        // Whether a session on another machine takes words is known there, and said when they are given.
        let is_here = found.far.is_none();
        let read_only = turn::read_only(&fleet, &found.found).filter(|_| is_here);
        let (modes, options) =
            preferences::of(&self.office, &found).map(|about| preferences::shown(&about)).unwrap_or_default();
        let opened = Opened::open(&self.office, call.wire(), session_id.clone(), found, with_history)
            .map_err(|error| fault(&error))?;
        self.put(session_id, Place::Opened(opened.clone()))?;
        if let Some(why) = &read_only {
            opened.note(call.wire(), why);
        }
        opened.follow(&self.office, call.wire());
        let read_only = is_here.then_some(read_only.is_some());
        Ok(json!({"modes": modes, "configOptions": options, "_meta": {"agentctl": {"readOnly": read_only}}}))
    }

    fn put(&self, id: String, place: Place) -> Result<(), Fault> {
        let mut sessions = held(&self.sessions);
        if sessions.len() >= MOST_OPEN && !sessions.contains_key(&id) {
            return Err(Fault::busy(format!("{MOST_OPEN} sessions are open; close one of them first")));
        }
        if let Some(Place::Opened(before)) = sessions.insert(id, place) {
            before.close();
        }
        Ok(())
    }

    fn place(&self, id: &str) -> Result<Place, Fault> {
        let place = held(&self.sessions).get(id).cloned();
        place.ok_or_else(|| {
            let id: String = text::one_line(id).chars().take(100).collect();
            Fault::new(-32002, format!("the session {id} is not open on this connection"))
                .with(json!({"hint": "open it with session/load or session/resume"}))
        })
    }

    fn prompt(&self, call: &Call, params: Value) -> Result<Value, Fault> {
        let prompt: turn::Prompt = taken(params)?;
        let opened = match self.place(&prompt.session_id)? {
            Place::Opened(opened) => opened,
            Place::Draft(draft) => {
                // A second prompt waits here until the first has made a session of the draft.
                let draft = held(&draft);
                match self.place(&prompt.session_id)? {
                    Place::Opened(opened) => opened,
                    Place::Draft(_) => {
                        let words = prompt.words()?;
                        let launched = draft.launch(&self.office, &words, || call.is_over());
                        let found = launched.map_err(|error| fault(&error))?;
                        let found = Located { found, sources: Vec::new(), far: None, as_of: None };
                        let opened = Opened::begun(&self.office, prompt.session_id.clone(), found, &words)
                            .map_err(|error| fault(&error))?;
                        self.put(prompt.session_id.clone(), Place::Opened(opened.clone()))?;
                        opened.follow(&self.office, call.wire());
                        drop(draft);
                        return opened.await_turn(&self.office, call);
                    }
                }
            }
        };
        opened.prompt(&self.office, call, &prompt.words()?)
    }

    fn set_mode(&self, params: Value) -> Result<Value, Fault> {
        let SetMode { session_id, mode_id } = taken(params)?;
        match self.place(&session_id)? {
            Place::Draft(draft) => {
                held(&draft).choose(&self.office, &mode_id).map_err(|error| fault(&error))?;
                Ok(json!({}))
            }
            Place::Opened(opened) => {
                let chosen = preferences::choose_mode(&self.office, &opened.now(), &mode_id);
                chosen.map(|()| json!({})).map_err(|error| fault(&error))
            }
        }
    }

    fn set_option(&self, params: Value) -> Result<Value, Fault> {
        let SetOption { session_id, config_id, value } = taken(params)?;
        let Place::Opened(opened) = self.place(&session_id)? else {
            return Err(Fault::invalid_params("a session that has not begun has no options"));
        };
        let chosen = preferences::choose_option(&self.office, &opened.now(), &config_id, &value);
        chosen.map(|options| json!({"configOptions": options})).map_err(|error| fault(&error))
    }
}

impl Service for Server {
    fn is_quick(&self, method: &str) -> bool {
        matches!(method, "initialize" | "authenticate" | "session/close")
    }

    fn answer(&self, call: &Call, method: &str, params: Value) -> Result<Value, Fault> {
        match method {
            "initialize" => Ok(self.greet(&params)),
            "authenticate" => Ok(json!({})),
            "session/list" => listing::list(&self.office, taken(params)?).map_err(|error| fault(&error)),
            "session/load" => self.open(call, params, true),
            "session/resume" => self.open(call, params, false),
            "session/new" => {
                let (id, draft, answer) =
                    Draft::make(&self.office, &taken(params)?).map_err(|error| fault(&error))?;
                self.put(id, Place::Draft(Arc::new(Mutex::new(draft))))?;
                Ok(answer)
            }
            "session/prompt" => self.prompt(call, params),
            "session/set_mode" => self.set_mode(params),
            "session/set_config_option" => self.set_option(params),
            "session/close" => {
                let Named { session_id, .. } = taken(params)?;
                if let Some(Place::Opened(opened)) = held(&self.sessions).remove(&session_id) {
                    opened.close();
                }
                Ok(json!({}))
            }
            _ => Err(Fault::no_such_method(method)),
        }
    }

    fn hear(&self, wire: &Wire, method: &str, params: &Value) {
        match method {
            "session/cancel" => {
                let id = params.get("sessionId").and_then(Value::as_str).unwrap_or_default();
                if let Ok(Place::Opened(opened)) = self.place(id) {
                    opened.cancel();
                }
            }
            "$/cancel_request" => wire.call_off(&params["requestId"]),
            _ => {}
        }
    }

    fn called_off(&self) -> Option<Fault> {
        Some(Fault::new(-32800, "the request was cancelled"))
    }
}

/// The session that the editor means: by its id, of several by their folder, and one that this editor made by the id that
/// it was given then.
fn find(office: &Office, fleet: &Fleet, id: &str, cwd: Option<String>) -> Result<Located, Error> {
    match find_here(fleet, id, cwd) {
        Ok(found) => Ok(Located { found, sources: Vec::new(), far: None, as_of: None }),
        Err(error) if error.kind == ErrorKind::NotFound && id.contains('/') => {
            let surroundings = office.surroundings();
            let out = Output::new(&surroundings, Colour::Never);
            let located = Machines::of(&HostArgs::default(), Purpose::Read, &surroundings).and_then(|all| {
                NarrowingArgs::by(None, None, None).locate(
                    id,
                    Purpose::Read,
                    &all,
                    fleet,
                    &surroundings,
                    &out,
                )
            });
            located.map_err(Failure::into_error).and_then(|located| {
                if located.far.is_some() && located.id() == id { Ok(located) } else { Err(error) }
            })
        }
        Err(error) => Err(error),
    }
}

fn find_here(fleet: &Fleet, id: &str, cwd: Option<String>) -> Result<Surveyed, Error> {
    let selector = Selector { text: id.to_owned(), ..Selector::default() };
    let found = match fleet.find(&selector, Purpose::Read) {
        Err(FindError::Ambiguous { .. }) if cwd.is_some() => {
            fleet.find(&Selector { cwd, ..selector }, Purpose::Read)
        }
        other => other,
    };
    match found {
        // A name or a shortened id would be another session tomorrow.
        Ok((found, _)) if found.key.id == id => Ok(found),
        Ok(_) | Err(FindError::NotFound { .. }) => made_here(fleet, id).ok_or_else(|| {
            let id: String = text::one_line(id).chars().take(100).collect();
            Error::new(ErrorKind::NotFound, format!("no session has the id `{id}`"))
        }),
        Err(FindError::NotHeard { .. } | FindError::NotProven { .. }) => {
            let words = "the session was not found, but not everything could be heard";
            Err(Error::new(ErrorKind::Incomplete, words)
                .hint("`agentctl doctor` says more about each source"))
        }
        Err(FindError::Ambiguous { candidates, .. }) => {
            let words = format!("{} sessions have this id", candidates.len());
            Err(Error::new(ErrorKind::Ambiguous, words).hint("their folders tell them apart"))
        }
    }
}

fn made_here(fleet: &Fleet, id: &str) -> Option<Surveyed> {
    let all = fleet.survey(&Query::new(Wanted::All { since: Since::DEFAULT }));
    let is_it = |surveyed: &Surveyed| {
        let label = surveyed.session.launch.as_ref().and_then(|launch| launch.labels.get(LABEL));
        label.and_then(Value::as_str) == Some(id)
    };
    all.sessions.into_iter().find(is_it)
}
