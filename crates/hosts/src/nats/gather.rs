//! One question to every host of the bus. Hosts are asked in groups, a few groups at a time, so that what comes back at
//! once has a bound. Each host has its own deadline, and the silent ones wait side by side.
//!
//! Who answered is known from the subject, on which the server lets that host alone publish. Of a host that is in the
//! roster and does not answer, the server is asked whether it is connected.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
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
use crate::road::Answer;

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

/// A host that was asked and has not answered.
struct Waiting {
    asked: Instant,
}

/// The first part of an answer.
struct First {
    name: HostName,
    head: AnswerHead,
    body: Vec<u8>,
    took: Duration,
}

impl Bus {
    /// Asks every host for this, and makes of each answer what `digest` does.
    pub fn gather<T>(
        &self,
        target: &str,
        digest: impl Fn(Answer) -> Result<T, RoadFailure>,
    ) -> Result<Gathered<T>, RoadFailure> {
        let (names, roster) = match self.roster() {
            Ok(names) => (names, None),
            Err(failure) => (Vec::new(), Some(failure)),
        };
        let hosts = self.block_on(self.line.ask_all(target, &names, roster.is_some(), digest))?;
        Ok(Gathered { hosts, roster })
    }
}

impl Line {
    async fn ask_all<T>(
        &self,
        target: &str,
        names: &[HostName],
        is_unknown: bool,
        digest: impl Fn(Answer) -> Result<T, RoadFailure>,
    ) -> Result<Vec<Heard<T>>, RoadFailure> {
        let lost = |error: &dyn std::fmt::Display| {
            RoadFailure::new(Step::Connect, format!("the bus was lost: {error}"))
        };
        let timeout = self.settings.timeout;
        let nonce = HEXLOWER.encode(&kernel::random::<16>().map_err(|error| lost(&error))?);
        let mine = subjects::answers(&self.settings.asker, &nonce);
        let mut answers = self.client.subscribe(mine.clone()).await.map_err(|error| lost(&error))?;
        let head = RequestHead {
            road: VERSION,
            method: "GET".to_owned(),
            target: target.to_owned(),
            accept: "application/json".to_owned(),
            cursor: None,
            instance: None,
            asker: Some(self.settings.asker.to_string()),
            nonce: Some(nonce),
        };
        let payload = message::encode(&head, &[]);
        let mut groups = groups(names);
        let mut waiting: BTreeMap<&HostName, Waiting> = BTreeMap::new();
        let mut done: BTreeMap<HostName, Heard<T>> = BTreeMap::new();
        let mut completing = FuturesUnordered::new();
        let mut to_complete: VecDeque<First> = VecDeque::new();
        let known: BTreeSet<&HostName> = names.iter().collect();
        let began = Instant::now();
        let (mut last_asked, mut last_heard) = (began, began);
        let mut probed = false;
        let mut next_look = began;
        loop {
            let now = Instant::now();
            while !groups.is_empty() && recent(&waiting, now) < AT_ONCE {
                let Some((bucket, members)) = groups.pop_front() else { break };
                let asked = self.client.publish(subjects::fan_out(bucket), payload.clone().into()).await;
                asked.map_err(|error| lost(&error))?;
                last_asked = Instant::now();
                waiting.extend(members.into_iter().map(|name| (name, Waiting { asked: last_asked })));
            }
            while completing.len() < COMPLETED_AT_ONCE
                && let Some(first) = to_complete.pop_front()
            {
                completing.push(self.complete(first));
            }
            let idle =
                completing.is_empty() && to_complete.is_empty() && groups.is_empty() && waiting.is_empty();
            // Without a roster nobody knows how many answers are still to come, so the deadline is waited for.
            let end = if is_unknown {
                last_asked + timeout
            } else {
                last_heard + (last_heard.duration_since(began) / 2).clamp(LINGER.0, LINGER.1)
            };
            if idle && now >= end {
                break;
            }
            if now >= next_look {
                next_look = now + TICK;
                // Those that the server knows to be away are not waited for.
                if groups.is_empty() && !waiting.is_empty() && !probed && now >= last_asked + PROMPT {
                    probed = true;
                    for (name, why) in self.away(waiting.keys().copied()).await {
                        if let Some(asked) = waiting.remove(&name) {
                            done.insert(name.clone(), silent(name, &why, timeout, asked.asked.elapsed()));
                        }
                    }
                }
                let is_late = |each: &Waiting| now >= each.asked + timeout;
                let late: Vec<&HostName> =
                    waiting.iter().filter(|(_, each)| is_late(each)).map(|(name, _)| *name).collect();
                for name in late {
                    let took = waiting.remove(name).map_or(timeout, |each| each.asked.elapsed());
                    let why = self.forbidden(&subjects::fan_out(subjects::bucket(name)));
                    let why = why.or_else(|| self.forbidden(&mine)).unwrap_or(Unanswered::Silent);
                    done.insert(name.clone(), silent(name.clone(), &why, timeout, took));
                }
            }
            tokio::select! {
                message = answers.next() => {
                    let Some(message) = message else { return Err(lost(&"its connection was closed")) };
                    let Some(name) = subjects::answerer(&message.subject) else { continue };
                    last_heard = Instant::now();
                    let asked = waiting.remove(&name).map_or(began, |waiting| waiting.asked);
                    match message::decode_answer(&message.payload) {
                        Err(why) => {
                            let heard = said(name, Err(garbage(&why)), None, asked.elapsed());
                            put(&mut done, heard);
                        }
                        Ok((head, body)) => {
                            let first = First { name, body: body.to_vec(), took: asked.elapsed(), head };
                            if first.head.more.is_some() {
                                to_complete.push_back(first);
                            } else {
                                let First { name, head, body, took } = first;
                                let answer = digest(Answer { status: head.status, body });
                                put(&mut done, said(name, answer, Some(head), took));
                            }
                        }
                    }
                }
                Some((first, completed)) = completing.next(), if !completing.is_empty() => {
                    let First { name, head, body, took } = first;
                    let answer = completed.and_then(|()| digest(Answer { status: head.status, body }));
                    put(&mut done, said(name, answer, Some(head), took));
                }
                () = tokio::time::sleep(TICK) => {}
            }
        }
        let mut hosts: Vec<Heard<T>> = done.into_values().collect();
        for heard in &mut hosts {
            heard.is_stranger = !is_unknown && !known.contains(&heard.name);
        }
        Ok(hosts)
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
    async fn away<'n>(&self, names: impl Iterator<Item = &'n HostName>) -> Vec<(HostName, Unanswered)> {
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
                away.push((name, Unanswered::NobodyListens));
            }
        }
        away
    }
}

/// How many were asked a moment ago.
fn recent(waiting: &BTreeMap<&HostName, Waiting>, now: Instant) -> usize {
    waiting.values().filter(|each| now.duration_since(each.asked) < PROMPT).count()
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

fn silent<T>(name: HostName, why: &Unanswered, timeout: Duration, took: Duration) -> Heard<T> {
    said(name, Err(unheard(why, Step::Program, timeout)), None, took)
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
