//! A session that the editor has open: its conversation as it grows, and the requests that it waits with.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use agentctl_adapters::{Answer, Follow};
use agentctl_fleet::act::asker::Asker;
use agentctl_fleet::act::steer::SteerOptions;
use agentctl_fleet::{Fleet, Purpose, Query};
use agentctl_model::event::ActionVerb;
use agentctl_model::{Entry, EntryKind, Error, Pending, Role, Status};
use serde_json::{Value, json};

use super::conversation::{Teller, chunk};
use super::{Office, held, permissions};
use crate::failure::Failure;
use crate::link::hosts::{FarEntries, FarNews, Located};
use crate::rpc::Wire;

/// How often new entries are read, and how often the session itself is looked at while it lives and while it does not.
const POLL_INTERVAL: Duration = Duration::from_millis(150);
const LOOK_INTERVAL: Duration = Duration::from_millis(400);
const REST_INTERVAL: Duration = Duration::from_secs(2);
/// How long entries of another machine are waited for each time.
const FAR_INTERVAL: Duration = Duration::from_millis(20);
/// The longest history that is told.
const MOST: usize = 10_000;

pub(super) struct Opened {
    /// The id by which the editor knows it.
    pub(super) id: String,
    pub(super) latest: Mutex<Located>,
    conversation: Mutex<Conversation>,
    /// The requests that the editor was asked, and whether each has become needless.
    asked: Mutex<HashMap<String, Arc<AtomicBool>>>,
    cancelled: AtomicBool,
    closed: AtomicBool,
    /// One turn of the editor at a time.
    pub(super) turn: Mutex<()>,
}

struct Conversation {
    news: News,
    place: PathBuf,
    teller: Teller,
    /// How many entries of the agent were told.
    told: u64,
    /// The last words of the agent that were told.
    last_words: String,
}

/// Where new entries come from.
enum News {
    /// An agent at its empty prompt has not written a file yet.
    Nowhere,
    Here(Box<dyn Follow>),
    There(Box<FarEntries>),
}

impl News {
    fn of(fleet: &Fleet, found: &Located, backlog: usize) -> Result<Self, Error> {
        if let Some(far) = &found.far {
            let entries = FarEntries::open(far, &found.found, backlog).map_err(Failure::into_error)?;
            return Ok(Self::There(Box::new(entries)));
        }
        match fleet.follow(&found.found, backlog) {
            Ok(Some(news)) => Ok(Self::Here(news)),
            Ok(None) => Ok(Self::Nowhere),
            Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => Ok(Self::Nowhere),
            Err(error) => Err(Error::failed(error.to_string())),
        }
    }

    /// What was added since the last time. A machine that is not heard is asked again, and says then what it has to say.
    fn next(&mut self) -> Result<Vec<Entry>, Error> {
        match self {
            Self::Nowhere => Ok(Vec::new()),
            Self::Here(news) => news.next().map_err(|error| Error::failed(error.to_string())),
            Self::There(news) => {
                let mut all = Vec::new();
                loop {
                    match news.next(FAR_INTERVAL).map_err(Failure::into_error)? {
                        Some(FarNews::Entries { entries, .. }) => all.extend(entries),
                        Some(FarNews::Back) => {}
                        Some(FarNews::Lost(_) | FarNews::End) | None => return Ok(all),
                    }
                }
            }
        }
    }
}

impl Opened {
    /// Opens a session and tells its history, if that is wanted.
    pub(super) fn open(
        office: &Office,
        wire: &Wire,
        id: String,
        found: Located,
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
        found: Located,
        words: &str,
    ) -> Result<Arc<Self>, Error> {
        let opened = Self::at(office, id, found, MOST)?;
        opened.said_here(words);
        Ok(Arc::new(opened))
    }

    fn at(office: &Office, id: String, found: Located, backlog: usize) -> Result<Self, Error> {
        let news = News::of(&office.fleet()?, &found, backlog)?;
        let place = found.found.place.clone();
        let conversation =
            Conversation { news, place, teller: Teller::default(), told: 0, last_words: String::new() };
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

    /// The session as it was last seen.
    pub(super) fn now(&self) -> Located {
        held(&self.latest).clone()
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
        let Conversation { news, teller, told, last_words, .. } = &mut *conversation;
        for entry in news.next()? {
            if entry.role == Role::Agent {
                *told += 1;
                if entry.kind == EntryKind::Message {
                    last_words.clone_from(&entry.text);
                }
            }
            if let Some(update) = teller.update(&entry) {
                self.update(wire, &update);
            }
        }
        Ok(*told)
    }

    /// Whether the agent's last words, as the session has them, were told.
    pub(super) fn has_told_the_last_words(&self) -> bool {
        let last = held(&self.latest).found.session.last_message.clone().unwrap_or_default();
        let told = held(&self.conversation).last_words.trim().to_owned();
        !told.is_empty() && told.starts_with(last.trim().trim_end_matches('…'))
    }

    /// Looks at the session anew. A survey that does not show it changes nothing.
    pub(super) fn look(&self, fleet: &Fleet) -> Located {
        let known = held(&self.latest).clone();
        if let Some(far) = &known.far {
            let Ok(now) = far.again(&known.found, Purpose::Read) else { return known };
            held(&self.latest).clone_from(&now);
            if now.found.session.status != Status::Stopped
                && let News::There(news) = &mut held(&self.conversation).news
            {
                news.go_on();
            }
            return now;
        }
        let key = &known.found.key;
        let survey = fleet.survey(&Query { whole_texts: true, ..Query::one(key) });
        let Some(found) = survey.sessions.into_iter().find(|seen| seen.key == *key) else { return known };
        let now = Located { found, ..known };
        held(&self.latest).clone_from(&now);
        let mut conversation = held(&self.conversation);
        // A session gets a conversation to follow with its first message.
        let is_new = conversation.place != now.found.place || matches!(conversation.news, News::Nowhere);
        if is_new && let Ok(news) = News::of(fleet, &now, MOST) {
            conversation.news = news;
            conversation.place.clone_from(&now.found.place);
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
                let rests = held(&opened.latest).found.session.status == Status::Stopped;
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
    pub(super) fn ask(self: &Arc<Self>, now: &Located, office: &Arc<Office>, wire: &Wire) {
        let session = &now.found.session;
        let waits: HashSet<&String> = session.pending.iter().filter_map(|one| one.id.as_ref()).collect();
        let mut asked = held(&self.asked);
        asked.retain(|request, needless| {
            let stays = waits.contains(request);
            needless.store(!stays, Ordering::Relaxed);
            stays
        });
        for pending in session.pending.iter().filter(|pending| permissions::can_be_asked(pending)) {
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
        target: &Located,
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
        let given = office
            .fleet()
            .and_then(|fleet| target.answer(&fleet, answer, options).map_err(Failure::into_error));
        let named = (&*target.found.key.adapter, &*target.id());
        office.asked().tell(ActionVerb::Answer, Some(named), &given, &office.surroundings());
        if let Err(error) = given {
            self.note(wire, &super::in_words(&error));
        }
    }
}
