//! One wait over several machines: each has its own sessions, and two machines may have sessions with the same key.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use agentctl_fleet::read::wait::{Until, Wait};
use agentctl_model::{Session, SessionKey, Surveyed};

use super::hosts::{Located, Look, RosterHost, watch};

pub(crate) struct Waits {
    pub(crate) here: Wait,
    there: Vec<(Arc<RosterHost>, Wait)>,
    any: bool,
    /// Machines that fell silent or are heard again, in words, until they are told.
    news: Vec<String>,
}

/// A session, and the other machine that it is on.
#[derive(Clone, Copy)]
pub(crate) struct Told<'w> {
    pub(crate) session: &'w Session,
    pub(crate) far: Option<&'w RosterHost>,
}

impl Waits {
    pub(crate) fn new(sessions: Vec<Located>, until: &[Until], any: bool) -> Self {
        let mut here = Vec::new();
        let mut there: Vec<(Arc<RosterHost>, Vec<Surveyed>)> = Vec::new();
        for Located { found, far, .. } in sessions {
            match far {
                None => here.push(found),
                Some(far) => match there.iter_mut().find(|(known, _)| known.name == far.name) {
                    Some((_, sessions)) => sessions.push(found),
                    None => there.push((far, vec![found])),
                },
            }
        }
        let wait = |sessions| Wait::new(sessions, until.to_vec(), any);
        let there = there.into_iter().map(|(far, sessions)| (far, wait(sessions))).collect();
        Self { here: wait(here), there, any, news: Vec::new() }
    }

    /// Begins to look at the sessions of other machines, each for itself, so that none delays another.
    pub(crate) fn watch_others(&self) -> Vec<Receiver<Look>> {
        let begin = |(far, wait): &(Arc<RosterHost>, Wait)| {
            let (sender, receiver) = channel();
            let (far, sessions) = (far.clone(), wait.open().to_vec());
            if !sessions.is_empty() {
                std::thread::spawn(move || watch(&far, &sessions, &sender));
            }
            receiver
        };
        self.there.iter().map(begin).collect()
    }

    /// Takes what was seen on one machine; whether something was.
    pub(crate) fn hear(&mut self, place: usize, looks: &Receiver<Look>) -> bool {
        let Some((far, wait)) = self.there.get_mut(place) else { return false };
        let mut heard = false;
        for look in looks.try_iter() {
            match look {
                Look::Seen(survey) => {
                    wait.update(&survey);
                    heard = true;
                }
                Look::Lost(why) => {
                    let why = agentctl_model::text::one_line(&why);
                    self.news.push(format!("{} is not heard any more: {why}; it is asked again", far.name));
                }
                Look::Back => self.news.push(format!("{} is heard again", far.name)),
            }
        }
        heard
    }

    /// What is to be told of the machines themselves, once.
    pub(crate) fn take_news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.news)
    }

    fn all(&self) -> impl Iterator<Item = (Option<&RosterHost>, &Wait)> {
        let there = self.there.iter().map(|(far, wait)| (Some(&**far), wait));
        std::iter::once((None, &self.here)).chain(there)
    }

    pub(crate) fn is_over(&self) -> bool {
        let one = self.all().any(|(_, wait)| !wait.reached().is_empty() || !wait.gone().is_empty());
        self.all().all(|(_, wait)| wait.open().is_empty()) || (self.any && one)
    }

    pub(crate) fn went_well(&self) -> bool {
        self.all().all(|(_, wait)| wait.went_well())
    }

    pub(crate) fn open(&self) -> Vec<Told<'_>> {
        self.told(Wait::open)
    }

    pub(crate) fn reached(&self) -> Vec<Told<'_>> {
        self.told(Wait::reached)
    }

    pub(crate) fn gone(&self) -> Vec<(Option<&RosterHost>, &SessionKey)> {
        self.all().flat_map(|(far, wait)| wait.gone().iter().map(move |key| (far, key))).collect()
    }

    fn told(&self, which: impl Fn(&Wait) -> &[Surveyed]) -> Vec<Told<'_>> {
        let each = self.all().map(|(far, wait)| (far, which(wait)));
        each.flat_map(|(far, sessions)| {
            sessions.iter().map(move |surveyed| Told { session: &surveyed.session, far })
        })
        .collect()
    }
}
