//! A session that the editor has open: its conversation as it grows, and the requests that it waits with.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use agentctl_adapters::{Answer, Follow};
use agentctl_fleet::act::asker::Asker;
use agentctl_fleet::act::steer::SteerOptions;
use agentctl_fleet::{Fleet, Query};
use agentctl_model::event::ActionVerb;
use agentctl_model::{Error, Pending, Role, Status, Surveyed};
use serde_json::{Value, json};

use super::conversation::{Teller, chunk};
use super::{Office, held, permissions};
use crate::rpc::Wire;

/// How often new entries are read, and how often the session itself is looked at while it lives and while it does not.
const POLL_INTERVAL: Duration = Duration::from_millis(150);
const LOOK_INTERVAL: Duration = Duration::from_millis(400);
const REST_INTERVAL: Duration = Duration::from_secs(2);
/// The longest history that is told.
const MOST: usize = 10_000;

pub(super) struct Opened {
    /// The id by which the editor knows it.
    pub(super) id: String,
    pub(super) latest: Mutex<Surveyed>,
    conversation: Mutex<Conversation>,
    /// The requests that the editor was asked, and whether each has become needless.
    asked: Mutex<HashMap<String, Arc<AtomicBool>>>,
    cancelled: AtomicBool,
    closed: AtomicBool,
    /// One turn of the editor at a time.
    pub(super) turn: Mutex<()>,
}

struct Conversation {
    news: Option<Box<dyn Follow>>,
    place: PathBuf,
    teller: Teller,
    /// How many entries of the agent were told.
    told: u64,
}

impl Opened {
    /// Opens a session and tells its history, if that is wanted.
    pub(super) fn open(
        office: &Office,
        wire: &Wire,
        id: String,
        found: Surveyed,
        with_history: bool,
    ) -> Result<Arc<Self>, Error> {
        let opened = Self::at(office, id, found, if with_history { MOST } else { 0 })?;
        opened.tell_news(wire)?;
        Ok(Arc::new(opened))
    }

    /// A session that the editor itself began with these words.
    pub(super) fn begun(
        office: &Office,
        id: String,
        found: Surveyed,
        words: &str,
    ) -> Result<Arc<Self>, Error> {
        let opened = Self::at(office, id, found, MOST)?;
        opened.said_here(words);
        Ok(Arc::new(opened))
    }

    fn at(office: &Office, id: String, found: Surveyed, backlog: usize) -> Result<Self, Error> {
        let news = follow(&office.fleet()?, &found, backlog)?;
        let place = found.place.clone();
        let conversation = Conversation { news, place, teller: Teller::default(), told: 0 };
        Ok(Self {
            id,
            latest: Mutex::new(found),
            conversation: Mutex::new(conversation),
            asked: Mutex::default(),
            cancelled: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            turn: Mutex::new(()),
        })
    }

    pub(super) fn said_here(&self, words: &str) {
        held(&self.conversation).teller.said_here(words);
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    pub(super) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// A new turn was not cancelled yet.
    pub(super) fn begin_turn(&self) {
        self.cancelled.store(false, Ordering::Relaxed);
    }

    /// Words of agentctl itself in the conversation.
    pub(super) fn note(&self, wire: &Wire, words: &str) {
        self.update(wire, &chunk("agent_message_chunk", &format!("agentctl: {words}")));
    }

    fn update(&self, wire: &Wire, update: &Value) {
        wire.notify("session/update", &json!({"sessionId": self.id, "update": update}));
    }

    /// Tells what was added to the conversation; returns how many entries of the agent were told in all.
    pub(super) fn tell_news(&self, wire: &Wire) -> Result<u64, Error> {
        let mut conversation = held(&self.conversation);
        let Conversation { news, teller, told, .. } = &mut *conversation;
        let Some(news) = news else { return Ok(*told) };
        for entry in news.next().map_err(|error| Error::failed(error.to_string()))? {
            if entry.role == Role::Agent {
                *told += 1;
            }
            if let Some(update) = teller.update(&entry) {
                self.update(wire, &update);
            }
        }
        Ok(*told)
    }

    /// Looks at the session anew. A survey that does not show it changes nothing.
    pub(super) fn look(&self, fleet: &Fleet) -> Surveyed {
        let known = held(&self.latest).clone();
        let survey = fleet.survey(&Query { whole_texts: true, ..Query::one(&known.key) });
        let Some(now) = survey.sessions.into_iter().find(|seen| seen.key == known.key) else { return known };
        held(&self.latest).clone_from(&now);
        let mut conversation = held(&self.conversation);
        // A session gets a conversation to follow with its first message.
        if (conversation.place != now.place || conversation.news.is_none())
            && let Ok(news) = follow(fleet, &now, MOST)
        {
            conversation.news = news;
            conversation.place.clone_from(&now.place);
        }
        now
    }

    /// Tells what happens in the session for as long as it is open here.
    pub(super) fn follow(self: &Arc<Self>, office: &Arc<Office>, wire: &Wire) {
        let (opened, office, wire) = (self.clone(), office.clone(), wire.clone());
        let watch = move || {
            let Ok(fleet) = office.fleet() else { return };
            let mut looked: Option<Instant> = None;
            while !opened.closed.load(Ordering::Relaxed) && !wire.is_closed() {
                // What cannot be read now may be readable later.
                let _ = opened.tell_news(&wire);
                let rests = held(&opened.latest).session.status == Status::Stopped;
                let interval = if rests { REST_INTERVAL } else { LOOK_INTERVAL };
                if looked.is_none_or(|looked| looked.elapsed() >= interval) {
                    let now = opened.look(&fleet);
                    looked = Some(Instant::now());
                    opened.ask(&now, &office, &wire);
                }
                std::thread::sleep(POLL_INTERVAL);
            }
        };
        // Without a thread the history was told, and a prompt still tells its own turn.
        let _ = std::thread::Builder::new().name("follow".into()).spawn(watch);
    }

    /// Asks the editor what the session waits for, each request once; and takes back what is no longer waited for.
    pub(super) fn ask(self: &Arc<Self>, now: &Surveyed, office: &Arc<Office>, wire: &Wire) {
        let waits: HashSet<&String> = now.session.pending.iter().filter_map(|one| one.id.as_ref()).collect();
        let mut asked = held(&self.asked);
        asked.retain(|request, needless| {
            let stays = waits.contains(request);
            needless.store(!stays, Ordering::Relaxed);
            stays
        });
        for pending in now.session.pending.iter().filter(|pending| permissions::can_be_asked(pending)) {
            let Some(request) = pending.id.clone().filter(|request| !asked.contains_key(request)) else {
                continue;
            };
            let needless = Arc::new(AtomicBool::new(false));
            asked.insert(request, needless.clone());
            let (opened, office, wire) = (self.clone(), office.clone(), wire.clone());
            let (target, pending) = (now.clone(), pending.clone());
            let work = move || opened.ask_one(&target, &pending, &needless, &office, &wire);
            let _ = std::thread::Builder::new().name("permission".into()).spawn(work);
        }
    }

    fn ask_one(
        &self,
        target: &Surveyed,
        pending: &Pending,
        needless: &AtomicBool,
        office: &Office,
        wire: &Wire,
    ) {
        let is_needless = || needless.load(Ordering::Relaxed) || self.closed.load(Ordering::Relaxed);
        let question = permissions::question(&self.id, pending);
        let Ok(answer) = wire.ask("session/request_permission", &question, is_needless) else { return };
        // Who chose nothing has answered nothing: the request stays, and the next look does not ask again.
        let Some(decision) = permissions::decision(pending, &answer) else { return };
        let answer = Answer { request: pending.id.clone(), decision };
        let options = SteerOptions { asker: Asker::this_process(false), ..SteerOptions::default() };
        let given = office.fleet().and_then(|fleet| fleet.answer(target, answer, options));
        office.asked().tell(ActionVerb::Answer, Some(&target.key), &given, &office.surroundings());
        if let Err(error) = given {
            self.note(wire, &super::in_words(&error));
        }
    }
}

/// An agent at its empty prompt has not written a file yet.
fn follow(fleet: &Fleet, found: &Surveyed, backlog: usize) -> Result<Option<Box<dyn Follow>>, Error> {
    match fleet.follow(found, backlog) {
        Ok(news) => Ok(news),
        Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::failed(error.to_string())),
    }
}
