//! One question to every host of the bus. Hosts are asked in groups, a few groups at a time, so that what comes back at
//! once has a bound. Each host has its own deadline, and the silent ones wait side by side.
//!
//! Who answered is known from the subject, on which the server lets that host alone publish. Of a host that is in the
//! roster and does not answer, the server is asked whether it is connected.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use agentctl_files::kernel;
use data_encoding::HEXLOWER;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::bus::{Bus, Line, Unanswered};
use super::direct::{garbage, rest, unheard};
use super::message::{self, AnswerHead, RequestHead, VERSION};
use super::subjects::{self, BUCKETS, Tree};
use crate::failure::{RoadFailure, Step};
use crate::name::HostName;
use crate::road::{Answer, Ask};

/// How many hosts that were asked a moment ago may still be about to answer.
const AT_ONCE: usize = 2_000;
/// A host that takes longer no longer keeps the next group waiting.
const PROMPT: Duration = Duration::from_millis(250);
/// How often deadlines are looked at.
const TICK: Duration = Duration::from_millis(10);
/// How long after everybody has answered a second machine of some name is listened for: half of the time that the others
/// took, within these bounds.
const LINGER: (Duration, Duration) = (Duration::from_millis(30), Duration::from_millis(250));
/// How many answers with further parts are completed at once.
const COMPLETED_AT_ONCE: usize = 32;
/// How many answers may wait to be understood, and how many threads understand them at most.
const UNREAD: usize = 256;
const MOST_READERS: usize = 8;

/// What one host said.
#[derive(Debug)]
pub struct Heard<T> {
    pub name: HostName,
    pub answer: Result<T, RoadFailure>,
    /// Of agentctl there, and which instance it is.
    pub version: Option<String>,
    pub instance: Option<String>,
    pub took: Duration,
    /// Whether it answered without being in the roster.
    pub is_stranger: bool,
}

/// What all hosts said.
#[derive(Debug)]
pub struct Gathered<T> {
    /// By name.
    pub hosts: Vec<Heard<T>>,
    /// Why the roster could not be read, so that hosts may be missing.
    pub roster: Option<RoadFailure>,
}

/// The first part of an answer.
struct First {
    name: HostName,
    head: AnswerHead,
    body: Vec<u8>,
    took: Duration,
}

impl Bus {
    /// Asks every host this question, and makes of each answer what `digest` does.
    pub fn gather<T>(
        &self,
        ask: Ask<'_>,
        digest: impl Fn(Answer) -> Result<T, RoadFailure> + Sync,
    ) -> Result<Gathered<T>, RoadFailure>
    where
        T: Send,
    {
        let (names, roster) = match self.roster() {
            Ok(names) => (names, None),
            Err(failure) => (Vec::new(), Some(failure)),
        };
        let is_unknown = roster.is_some();
        // Answers are understood beside the thread that hears them: of many machines that takes longer than hearing them.
        let (unread, answers) = sync_channel(UNREAD);
        let answers = Mutex::new(answers);
        let readers = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_READERS);
        let read = || {
            let mut all = Vec::new();
            let next = || answers.lock().unwrap_or_else(PoisonError::into_inner).recv();
            while let Ok(Unread { name, head, body, took }) = next() {
                let answer = digest(Answer { status: head.status, body });
                all.push(said(name, answer, Some(head), took));
            }
            all
        };
        let (asked, heard) = std::thread::scope(|scope| {
            let readers: Vec<_> = (0..readers).map(|_| scope.spawn(read)).collect();
            let asked = self.block_on(self.line.ask_all(ask, &names, is_unknown, unread));
            let heard: Vec<Heard<T>> =
                readers.into_iter().flat_map(|reader| reader.join().unwrap_or_default()).collect();
            (asked, heard)
        });
        let mut done: BTreeMap<HostName, Heard<T>> = BTreeMap::new();
        let failed = asked?
            .into_iter()
            .map(|(name, Unheard { failure, head, took })| said(name, Err(failure), head, took));
        failed.chain(heard).for_each(|heard| put(&mut done, heard));
        // Nobody is left out, not even one whose answer a reader could not bear.
        for name in &names {
            if !done.contains_key(name) {
                let failure = garbage("it could not be understood");
                put(&mut done, said(name.clone(), Err(failure), None, Duration::ZERO));
            }
        }
        let known: BTreeSet<&HostName> = names.iter().collect();
        let mut hosts: Vec<Heard<T>> = done.into_values().collect();
        for heard in &mut hosts {
            heard.is_stranger = !is_unknown && !known.contains(&heard.name);
        }
        Ok(Gathered { hosts, roster })
    }
}

/// A whole answer that nobody has understood yet.
struct Unread {
    name: HostName,
    head: AnswerHead,
    body: Vec<u8>,
    took: Duration,
}

/// Why there is no whole answer of a host; the head of the answer, if it began one.
struct Unheard {
    failure: RoadFailure,
    head: Option<AnswerHead>,
    took: Duration,
}

/// One question to all, while it is being answered.
struct Round<'n> {
    timeout: Duration,
    /// Whether the roster could not be read.
    is_unknown: bool,
    /// Those that are still to be asked.
    groups: VecDeque<(u8, Vec<&'n HostName>)>,
    /// Those that were asked and have not answered, and when they were asked.
    waiting: BTreeMap<&'n HostName, Instant>,
    /// Answers of which only the first part is here.
    begun: VecDeque<First>,
    /// Where whole answers go.
    unread: SyncSender<Unread>,
    failed: Vec<(HostName, Unheard)>,
    began: Instant,
    last_asked: Instant,
    last_heard: Instant,
}

impl<'n> Round<'n> {
    fn new(names: &'n [HostName], is_unknown: bool, timeout: Duration, unread: SyncSender<Unread>) -> Self {
        let now = Instant::now();
        Self {
            timeout,
            is_unknown,
            groups: groups(names),
            waiting: BTreeMap::new(),
            begun: VecDeque::new(),
            unread,
            failed: Vec::new(),
            began: now,
            last_asked: now,
            last_heard: now,
        }
    }

    /// The group to ask now, if not too many are about to answer. Those that take long are counted out at a look only.
    fn next_group(&mut self, now: Instant, is_look: bool) -> Option<u8> {
        let is_recent = |asked: &&Instant| now.duration_since(**asked) < PROMPT;
        let has_room = self.waiting.len() < AT_ONCE
            || (is_look && self.waiting.values().filter(is_recent).count() < AT_ONCE);
        if self.groups.is_empty() || !has_room {
            return None;
        }
        let (bucket, members) = self.groups.pop_front()?;
        self.last_asked = now;
        self.waiting.extend(members.into_iter().map(|name| (name, now)));
        Some(bucket)
    }

    /// Whether nothing more is waited for.
    fn is_over(&self, now: Instant) -> bool {
        // Without a roster nobody knows how many answers are still to come, so the deadline is waited for.
        let end = if self.is_unknown {
            self.last_asked + self.timeout
        } else {
            self.last_heard + (self.last_heard.duration_since(self.began) / 2).clamp(LINGER.0, LINGER.1)
        };
        self.groups.is_empty() && self.waiting.is_empty() && self.begun.is_empty() && now >= end
    }

    /// Those whose deadline has passed.
    fn late(&self, now: Instant) -> Vec<&'n HostName> {
        let is_late = |asked: &Instant| now >= *asked + self.timeout;
        self.waiting.iter().filter(|(_, asked)| is_late(asked)).map(|(name, _)| *name).collect()
    }

    fn give_up(&mut self, name: &HostName, why: &Unanswered) {
        if let Some(asked) = self.waiting.remove(name) {
            let failure = unheard(why, Step::Program, self.timeout);
            self.failed.push((name.clone(), Unheard { failure, head: None, took: asked.elapsed() }));
        }
    }

    /// Takes a message from where answers come.
    fn take(&mut self, subject: &str, payload: &[u8]) {
        let Some(name) = subjects::answerer(subject) else { return };
        self.last_heard = Instant::now();
        let took = self.waiting.remove(&name).unwrap_or(self.began).elapsed();
        match message::decode_answer(payload) {
            Err(why) => {
                self.failed.push((name, Unheard { failure: garbage(&why), head: None, took }));
            }
            Ok((head, body)) => {
                let first = First { name, body: body.to_vec(), took, head };
                if first.head.more.is_some() {
                    self.begun.push_back(first);
                } else {
                    self.complete(first, Ok(()));
                }
            }
        }
    }

    fn complete(&mut self, first: First, completed: Result<(), RoadFailure>) {
        let First { name, head, body, took } = first;
        match completed {
            // It is refused only when the readers are gone, and then nobody waits for it either.
            Ok(()) => drop(self.unread.send(Unread { name, head, body, took })),
            Err(failure) => self.failed.push((name, Unheard { failure, head: Some(head), took })),
        }
    }
}

impl Line {
    /// Sends every whole answer to where it is understood, and returns why the others have none.
    async fn ask_all(
        &self,
        ask: Ask<'_>,
        names: &[HostName],
        is_unknown: bool,
        unread: SyncSender<Unread>,
    ) -> Result<Vec<(HostName, Unheard)>, RoadFailure> {
        let lost = |error: &dyn std::fmt::Display| {
            RoadFailure::new(Step::Connect, format!("the bus was lost: {error}"))
        };
        let nonce = HEXLOWER.encode(&kernel::random::<16>().map_err(|error| lost(&error))?);
        let mine = subjects::answers(&self.settings.asker, &nonce);
        let mut answers = self.client.subscribe(mine.clone()).await.map_err(|error| lost(&error))?;
        let payload = message::encode(&self.question(ask, nonce), &[]);
        let mut round = Round::new(names, is_unknown, self.settings.timeout, unread);
        let mut completing = FuturesUnordered::new();
        let mut next_look = round.began;
        let mut is_probed = false;
        loop {
            let now = Instant::now();
            while let Some(bucket) = round.next_group(now, now >= next_look) {
                let asked = self.client.publish(subjects::fan_out(bucket), payload.clone().into()).await;
                asked.map_err(|error| lost(&error))?;
            }
            while completing.len() < COMPLETED_AT_ONCE
                && let Some(first) = round.begun.pop_front()
            {
                completing.push(self.complete(first));
            }
            if completing.is_empty() && round.is_over(now) {
                break;
            }
            if now >= next_look {
                next_look = now + TICK;
                // Those that the server knows to be away are not waited for.
                if !is_probed && round.groups.is_empty() && now >= round.last_asked + PROMPT {
                    is_probed = true;
                    for name in self.away(round.waiting.keys().copied()).await {
                        round.give_up(&name, &Unanswered::NobodyListens);
                    }
                }
                for name in round.late(now) {
                    let group = subjects::fan_out(subjects::bucket(name));
                    let why = self.forbidden(&group).or_else(|| self.forbidden(&mine));
                    round.give_up(name, &why.unwrap_or(Unanswered::Silent));
                }
            }
            tokio::select! {
                message = answers.next() => match message {
                    Some(message) => round.take(&message.subject, &message.payload),
                    None => return Err(lost(&"its connection was closed")),
                },
                Some((first, completed)) = completing.next(), if !completing.is_empty() => {
                    round.complete(first, completed);
                }
                () = tokio::time::sleep(TICK) => {}
            }
        }
        Ok(round.failed)
    }

    fn question(&self, ask: Ask<'_>, nonce: String) -> RequestHead {
        RequestHead {
            road: VERSION,
            method: "GET".to_owned(),
            target: ask.target.to_owned(),
            accept: ask.accept.to_owned(),
            cursor: None,
            instance: None,
            asker: Some(self.settings.asker.to_string()),
            nonce: Some(nonce),
        }
    }

    /// The further parts of an answer, asked for on the host's own subject.
    async fn complete(&self, mut first: First) -> (First, Result<(), RoadFailure>) {
        let until = Instant::now() + self.settings.timeout;
        let name = first.name.clone();
        let completed = rest(self, Tree::Read, &name, &first.head, &mut first.body, until).await;
        (first, completed)
    }

    /// Which of these hosts the server knows not to be connected. It says so at once; those that are connected are not
    /// waited for.
    async fn away<'n>(&self, names: impl Iterator<Item = &'n HostName>) -> Vec<HostName> {
        let inbox = self.client.new_inbox();
        let Ok(mut replies) = self.client.subscribe(format!("{inbox}.*")).await else { return Vec::new() };
        for name in names {
            let reply = format!("{inbox}.{name}");
            if self.client.publish_with_reply(subjects::hello(name), reply, Vec::new().into()).await.is_err()
            {
                return Vec::new();
            }
        }
        // The server has answered for everybody who is away once it has answered this flush, but its answers may still
        // be on their way through the client.
        let mut away = Vec::new();
        let until = tokio::time::Instant::now() + PROMPT;
        let _ = tokio::time::timeout_at(until, self.client.flush()).await;
        while let Ok(Some(message)) = tokio::time::timeout_at(until, replies.next()).await {
            let name = message.subject.rsplit('.').next().and_then(|name| HostName::parse(name).ok());
            if message.status == Some(async_nats::StatusCode::NO_RESPONDERS)
                && let Some(name) = name
            {
                away.push(name);
            }
        }
        away
    }
}

/// The groups to ask, with their members in the roster. Every group is asked: somebody may be there who is in no roster.
fn groups(names: &[HostName]) -> VecDeque<(u8, Vec<&HostName>)> {
    let mut groups: VecDeque<(u8, Vec<&HostName>)> =
        (0..BUCKETS).map(|bucket| (bucket, Vec::new())).collect();
    for name in names {
        groups[usize::from(subjects::bucket(name))].1.push(name);
    }
    groups
}

fn said<T>(
    name: HostName,
    answer: Result<T, RoadFailure>,
    head: Option<AnswerHead>,
    took: Duration,
) -> Heard<T> {
    let (version, instance) = head.map(|head| (head.version, head.instance)).unzip();
    Heard { name, answer, version, instance, took, is_stranger: false }
}

/// Keeps what a host said. Two machines that call themselves the same are none.
fn put<T>(done: &mut BTreeMap<HostName, Heard<T>>, heard: Heard<T>) {
    let Some(before) = done.get_mut(&heard.name) else {
        done.insert(heard.name.clone(), heard);
        return;
    };
    match (&before.instance, &heard.instance) {
        // It was late, and has answered after all.
        (None, Some(_)) => *before = heard,
        (Some(one), Some(other)) if one != other => {
            let failure = RoadFailure::new(Step::Authenticate, "two machines call themselves by this name")
                .hint("give each a `name` of its own in its `[nats]`");
            *before = Heard { answer: Err(failure), ..heard };
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> HostName {
        HostName::parse(text).unwrap()
    }

    fn head(instance: &str) -> AnswerHead {
        AnswerHead {
            road: VERSION,
            status: 200,
            version: "0".into(),
            instance: instance.into(),
            part: 0,
            bytes: 0,
            more: None,
        }
    }

    #[test]
    fn two_machines_with_one_name_are_one_failed_row() {
        let mut done = BTreeMap::new();
        let heard = |instance: &str| said(name("a"), Ok(()), Some(head(instance)), Duration::ZERO);
        put(&mut done, heard("1"));
        put(&mut done, heard("1"));
        assert!(done[&name("a")].answer.is_ok());
        put(&mut done, heard("2"));
        assert!(done[&name("a")].answer.as_ref().unwrap_err().message.contains("two machines"));
        put(&mut done, heard("2"));
        assert!(done[&name("a")].answer.is_err(), "it stays so");
    }

    #[test]
    fn every_name_is_asked_in_its_group_and_every_group_is() {
        let names: Vec<HostName> = (0..500).map(|number| name(&format!("h{number}"))).collect();
        let groups = groups(&names);
        assert_eq!((groups.len(), groups.iter().map(|(_, members)| members.len()).sum::<usize>()), (64, 500));
        assert!(groups.iter().all(|(bucket, all)| all.iter().all(|name| subjects::bucket(name) == *bucket)));
    }
}
