//! Searches the conversations of all sessions, newest session first. Nothing is kept for the next search.
//!
//! Most conversations lie in files of their own. They are found without being read ([`conversations`]), and each is read once,
//! by all cores, the one that was written last first ([`queue`]). Only a session in which something was found is looked at
//! like the sessions of a list ([`sessions`]). Its hits are told once nothing newer can be found any more ([`order`]).

mod conversations;
mod order;
mod queue;
mod sessions;

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Scope;
use std::time::{Duration, Instant};

use agentctl_adapters::cancel::with_cancellation;
use agentctl_adapters::search::{self, Conversation, Pattern, Place, Search, Searched};
use agentctl_adapters::{Progress, ReadError};
use agentctl_model::search::Hit;
use agentctl_model::{CoverageKind, Entry, Role, SessionKey, SourceReport, Surveyed};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::conversations::{Found, Item, Listed, Plan};
use self::order::{Held, Order};
use self::queue::{Queue, Ticket};
use self::sessions::{Gap, Unknown};
use crate::Fleet;
use crate::read::list::now;
use crate::read::query::Since;

/// What is searched, and where.
#[derive(Debug, Clone)]
pub struct SearchQuery {
    pub pattern: Pattern,
    /// Only what these said or did; empty means everybody.
    pub roles: Vec<Role>,
    /// Only these adapters; empty means all.
    pub adapters: Vec<String>,
    /// Only sessions that work in one of these folders or below; empty means all.
    pub folders: Vec<PathBuf>,
    /// Only sessions that were launched as this group.
    pub group: Option<String>,
    /// Only messages since then.
    pub since: Since,
    /// At most this many hits.
    pub limit: usize,
    /// How many lines before and after the one that fits are told.
    pub around: usize,
    /// One hit for each session is enough.
    pub once: bool,
}

/// What a search tells.
#[derive(Debug)]
pub enum Told {
    Hit(Box<Hit>),
    /// So many of so many conversations were searched.
    Progress {
        done: usize,
        of: usize,
    },
}

/// How a search ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchEnd {
    pub hits: usize,
    /// How many conversations were searched.
    pub searched: usize,
    /// There may be more hits than were asked for.
    pub more: bool,
    pub sources: Vec<SourceReport>,
}

impl SearchEnd {
    /// Whether everything that was asked for was heard, so that what was not found is not there.
    pub fn heard_all(&self) -> bool {
        !self.sources.iter().any(SourceReport::is_incomplete)
    }
}

/// How often progress is told, and how soon a search ends that nobody waits for.
const TICK: Duration = Duration::from_millis(50);

/// What those who search tell the one who tells.
enum Message {
    /// One item was searched.
    Searched { ticket: Ticket, item: Item, found: Result<Found, ReadError> },
    /// Items were searched in which nothing was found. The queue knows which.
    Nothing,
    /// The sessions of files in which something was found; none if a file is not the place of a session.
    Known(Vec<(Unknown, Option<Surveyed>)>, Vec<SourceReport>),
}

/// Tells that one thread searched something in vain. This is told of many items together, because each message wakes somebody.
struct Nothing {
    is_news: bool,
    told_at: Instant,
    sender: Sender<Message>,
}

impl Nothing {
    /// How soon it is told while one file follows another. What is not told is seen in the queue after a [`TICK`].
    const LONGEST: Duration = Duration::from_millis(5);

    fn new(sender: Sender<Message>) -> Self {
        Self { is_news: false, told_at: Instant::now(), sender }
    }

    fn tell_if_due(&mut self) {
        if self.is_news && self.told_at.elapsed() >= Self::LONGEST {
            self.tell();
        }
    }

    fn tell(&mut self) {
        self.told_at = Instant::now();
        if std::mem::take(&mut self.is_news) {
            // Whoever does not listen any more wants to know nothing.
            let _ = self.sender.send(Message::Nothing);
        }
    }
}

impl Fleet {
    /// Tells every hit, newest session first, until `tell` breaks or the limit is reached.
    pub fn search(&self, asked: &SearchQuery, tell: &mut dyn FnMut(Told) -> ControlFlow<()>) -> SearchEnd {
        let since = asked.since.start(self.past().unwrap_or_else(now));
        let plan = Plan::new(self, asked);
        let (queue, progress) = (Queue::default(), Progress::default());
        let limit = if asked.once { 1 } else { asked.limit };
        let search =
            Search { pattern: &asked.pattern, roles: &asked.roles, since, limit, around: asked.around };
        let (sender, inbox) = channel();
        std::thread::scope(|scope| {
            let mut desk = Desk {
                fleet: self,
                asked,
                plan: &plan,
                queue: &queue,
                progress: &progress,
                since,
                sender,
                unknown: Vec::new(),
                gap: Gap::default(),
                order: Order::default(),
                hidden: HashSet::new(),
                end: SearchEnd { hits: 0, searched: 0, more: false, sources: Vec::new() },
            };
            desk.begin();
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            for _ in 0..cores {
                let (sender, queue, plan, progress, search) =
                    (desk.sender.clone(), &queue, &plan, &progress, &search);
                scope.spawn(move || {
                    let mut nothing = Nothing::new(sender.clone());
                    let mut in_vain = None;
                    while let Some((ticket, item)) = queue.take(in_vain.take(), || nothing.tell()) {
                        // Whatever takes long does not delay the hits of others.
                        if matches!(item, Item::File { .. }) {
                            nothing.tell_if_due();
                        } else {
                            nothing.tell();
                        }
                        let found = with_cancellation(Some(progress), || plan.search(&item, search));
                        if found.as_ref().is_ok_and(Found::is_nothing) {
                            nothing.is_news = true;
                            in_vain = Some((ticket, item.conversations()));
                        } else if sender.send(Message::Searched { ticket, item, found }).is_err() {
                            return;
                        }
                    }
                });
            }
            desk.run(scope, &inbox, tell);
            progress.give_up();
            queue.close();
            desk.end
        })
    }

    fn hit(&self, found: &Surveyed, place: Place) -> Hit {
        let session = &found.session;
        Hit {
            session_id: session.id.clone(),
            adapter: session.adapter.clone(),
            config_root: session.config_root.clone(),
            host: self.host().to_owned(),
            at: place.at,
            role: place.role,
            tool: place.tool,
            hit: place.position,
            line: place.shown.line,
            matches: place.shown.matches,
            before: place.shown.before,
            after: place.shown.after,
            status: session.status,
            name: session.name.clone().or_else(|| session.prompt.clone()),
            cwd: session.cwd.clone(),
        }
    }

    pub(crate) fn conversation<'f>(&'f self, session: &'f Surveyed) -> Option<Conversation<'f>> {
        let source = self.source_of(session)?;
        Some(match source.adapter.gateway() {
            Some(gateway) => gateway.conversation(&source.root, &session.key.id),
            None => source.adapter.conversation(&session.place, &session.key.id),
        })
    }

    /// The entries around a hit, oldest first, and which of them it is. `None` if nothing stands there any more.
    pub fn read_around(
        &self,
        session: &Surveyed,
        hit: &str,
        around: (usize, usize),
    ) -> Result<Option<(Vec<Entry>, usize)>, ReadError> {
        self.conversation(session)
            .map_or(Ok(None), |conversation| search::read_around(&conversation, hit, around))
    }
}

impl Plan<'_> {
    /// One conversation, or several in one place. A panic is the failure of this item alone.
    fn search(&self, item: &Item, asked: &Search<'_>) -> Result<Found, ReadError> {
        let place = item.place();
        let found = catch_unwind(AssertUnwindSafe(|| match item {
            Item::Session(session) => self
                .fleet
                .conversation(session)
                .map_or_else(|| Ok(Searched::default()), |conversation| search::search(&conversation, asked))
                .map(Found::Places),
            Item::File { source, file } => {
                let conversation = source.adapter.conversation(&file.path, &file.id);
                search::search(&conversation, asked).map(Found::Places)
            }
            Item::Rest(_) => Ok(Found::Rest(self.list(self.asked.since))),
            Item::Many(sessions) => {
                let source = sessions.first().and_then(|session| self.fleet.source_of(session));
                let may_fit = search::sieve(asked.pattern);
                let candidates = source.map(|source| source.adapter.candidates(place, &may_fit));
                // If this fails, each session says for itself why it cannot be read.
                Ok(Found::Among(candidates.and_then(Result::ok).flatten()))
            }
        }));
        found.unwrap_or_else(|_| Err(ReadError::new(place, std::io::Error::other("could not be searched"))))
    }
}

/// The one who knows what is still to be searched, and tells what was found.
struct Desk<'s> {
    fleet: &'s Fleet,
    asked: &'s SearchQuery,
    plan: &'s Plan<'s>,
    queue: &'s Queue,
    /// Who looks at something stops once it is given up.
    progress: &'s Progress,
    /// The first moment that is asked about.
    since: Option<Timestamp>,
    sender: Sender<Message>,
    /// Files in which something was found, whose sessions were not looked at so far.
    unknown: Vec<Unknown>,
    gap: Gap,
    order: Order,
    /// Sessions that are not shown beside their twins.
    hidden: HashSet<SessionKey>,
    end: SearchEnd,
}

impl<'s> Desk<'s> {
    /// Finds what is to be searched.
    fn begin(&mut self) {
        let plan = self.plan;
        let (stored, live, listed) = std::thread::scope(|scope| {
            let live = scope.spawn(|| plan.live());
            let listed = scope.spawn(|| plan.list(plan.first()));
            let stored = plan.stored();
            let live = live.join().unwrap_or_else(|panic| resume_unwind(panic));
            (stored, live, listed.join().unwrap_or_else(|panic| resume_unwind(panic)))
        });
        self.end.sources = stored.sources;
        self.hidden = plan.hidden(&listed.sessions, &live);
        self.queue.add(conversations::items(stored.files, live, self.since));
        let is_first = plan.is_first_lately();
        self.take_listed(listed, is_first);
        if is_first {
            let newest = plan.first().start(self.fleet.past().unwrap_or_else(now));
            self.queue.add([Item::Rest(newest).queued()]);
        }
    }

    fn take_listed(&mut self, listed: Listed, is_first: bool) {
        let known: HashSet<_> =
            self.end.sources.iter().map(|source| (source.adapter.clone(), source.root.clone())).collect();
        let is_new = |source: &SourceReport| !known.contains(&(source.adapter.clone(), source.root.clone()));
        // What is listed later says more.
        let (new, again): (Vec<_>, Vec<_>) = listed.sources.into_iter().partition(is_new);
        self.end.sources.extend(new);
        for source in again {
            let known = |one: &&mut SourceReport| one.adapter == source.adapter && one.root == source.root;
            if let Some(known) = self.end.sources.iter_mut().find(known) {
                heard_again(known, source);
            }
        }
        self.queue.add(conversations::of_sessions(listed.sessions, is_first));
    }

    fn run<'scope>(
        &mut self,
        scope: &'scope Scope<'scope, '_>,
        inbox: &Receiver<Message>,
        tell: &mut dyn FnMut(Told) -> ControlFlow<()>,
    ) where
        's: 'scope,
    {
        let mut told_at = Instant::now();
        loop {
            let (left, in_vain) = self.queue.newest_left();
            self.end.searched += in_vain;
            let batch = self.gap.batch(&mut self.unknown, left);
            if !batch.is_empty() {
                self.gap.begin(&batch);
                let (plan, progress, sender) = (self.plan, self.progress, self.sender.clone());
                scope.spawn(move || {
                    let (known, sources) = with_cancellation(Some(progress), || plan.look_at(batch));
                    let _ = sender.send(Message::Known(known, sources));
                });
            }
            self.queue.pause(self.unknown.len() >= sessions::MOST_UNKNOWN || self.gap.is_first_look());
            let left = left.max(self.gap.newest()).max(self.unknown.iter().map(Unknown::newest).max());
            while let Some(held) = self.order.next(left) {
                if self.tell_found(held, tell).is_break() {
                    return;
                }
            }
            if left.is_none() {
                return;
            }
            if told_at.elapsed() >= TICK {
                told_at = Instant::now();
                let done = self.end.searched;
                if tell(Told::Progress { done, of: done + self.queue.left() }).is_break() {
                    return;
                }
            }
            match inbox.recv_timeout(TICK) {
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            while let Ok(message) = inbox.try_recv() {
                self.take(message);
            }
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Searched { ticket, item, found } => {
                self.searched(&ticket, item, found);
                self.queue.done(&ticket);
            }
            Message::Nothing => {}
            Message::Known(known, sources) => {
                self.gap.end();
                for heard in sources.iter().filter(|source| source.is_incomplete()) {
                    let why = heard.error.iter().chain(&heard.warnings).cloned().collect();
                    self.not_heard(&heard.adapter, &heard.root, why);
                }
                for (unknown, session) in known {
                    if let Some(session) = session {
                        self.hold(session, unknown.places);
                    }
                }
            }
        }
    }

    fn searched(&mut self, ticket: &Ticket, item: Item, found: Result<Found, ReadError>) {
        self.end.searched += item.conversations();
        if let Ok(Found::Places(Searched { unread: Some(unread), .. })) = &found {
            for (adapter, root) in self.plan.sources_of(&item) {
                self.not_heard(&adapter, &root, vec![unread.clone()]);
            }
        }
        match (item, found) {
            (item, Err(error)) => {
                for (adapter, root) in self.plan.sources_of(&item) {
                    self.not_heard(&adapter, &root, vec![error.to_string()]);
                }
            }
            (_, Ok(Found::Places(Searched { places, .. }))) if places.is_empty() => {}
            (Item::Session(session), Ok(Found::Places(Searched { places, .. }))) => {
                self.hold(*session, places);
            }
            (Item::File { source, file }, Ok(Found::Places(Searched { places, .. }))) => {
                self.unknown.push(Unknown { source, file, newest: ticket.newest, places });
            }
            (Item::Many(sessions), Ok(Found::Among(candidates))) => {
                let may_fit = |session: &Surveyed| {
                    candidates.as_ref().is_none_or(|candidates| candidates.contains(&session.key.id))
                };
                let sessions: Vec<Surveyed> = sessions.into_iter().filter(may_fit).collect();
                self.end.searched -= sessions.len();
                self.queue.add(sessions.into_iter().map(|session| Item::Session(Box::new(session)).queued()));
            }
            (_, Ok(Found::Rest(listed))) => self.take_listed(listed, false),
            (Item::Many(_) | Item::Rest(_), Ok(Found::Places(_))) | (_, Ok(Found::Among(_))) => {}
        }
    }

    /// Keeps what was found in a session until it is its turn.
    fn hold(&mut self, session: Surveyed, places: Vec<Place>) {
        let is_old = !session.session.is_live()
            && session.session.updated_at.is_some_and(|at| self.since.is_some_and(|since| at < since));
        if !is_old && !self.hidden.contains(&session.key) {
            let wanted = self.asked.limit.saturating_sub(self.end.hits);
            self.end.more |= self.order.hold(Held { session, places }, wanted);
        }
    }

    fn not_heard(&mut self, adapter: &str, root: &str, why: Vec<String>) {
        let source = self.end.sources.iter_mut().find(|one| one.adapter == adapter && one.root == root);
        if let Some(source) = source {
            leave_out(source, why);
        }
    }

    fn tell_found(&mut self, held: Held, tell: &mut dyn FnMut(Told) -> ControlFlow<()>) -> ControlFlow<()> {
        for place in held.places {
            if self.end.hits < self.asked.limit {
                self.end.hits += 1;
                tell(Told::Hit(Box::new(self.fleet.hit(&held.session, place))))?;
            }
            if self.end.hits >= self.asked.limit {
                self.end.more = true;
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }
}

/// Something of the source was not read.
fn leave_out(source: &mut SourceReport, why: Vec<String>) {
    let new: Vec<String> = why.into_iter().filter(|one| !source.warnings.contains(one)).collect();
    source.warnings.extend(new);
    if source.coverage == CoverageKind::Complete {
        source.coverage = CoverageKind::Partial;
    }
}

/// A later list says more of the source. What could not be read before stays unread, however well it was heard this time.
fn heard_again(known: &mut SourceReport, later: SourceReport) {
    let before = std::mem::replace(known, later);
    if before.is_incomplete() {
        leave_out(known, before.error.into_iter().chain(before.warnings).collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(coverage: CoverageKind, warnings: &[&str]) -> SourceReport {
        SourceReport {
            adapter: "opencode".to_owned(),
            root: "/r".to_owned(),
            host: String::new(),
            coverage,
            error: None,
            warnings: warnings.iter().map(|&warning| warning.to_owned()).collect(),
            sessions: Some(1),
            took_ms: 1,
        }
    }

    #[test]
    fn what_was_not_read_before_a_later_list_stays_unread() {
        let mut known = report(CoverageKind::Complete, &[]);
        leave_out(&mut known, vec!["a conversation is busy".to_owned()]);
        heard_again(&mut known, report(CoverageKind::Complete, &["a new one"]));
        assert_eq!(known.coverage, CoverageKind::Partial);
        assert_eq!(known.warnings, ["a new one", "a conversation is busy"]);
        let mut known = report(CoverageKind::Complete, &["harmless"]);
        heard_again(&mut known, report(CoverageKind::Complete, &[]));
        assert_eq!(known.coverage, CoverageKind::Complete, "what was heard completely may be said anew");
    }
}
