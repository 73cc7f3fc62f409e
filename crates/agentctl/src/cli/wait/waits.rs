//! One wait over several machines: each has its own sessions, and two machines may have sessions with the same key.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use agentctl_fleet::read::wait::{Until, Wait};
use agentctl_model::{Session, SessionKey, Surveyed};

use crate::link::hosts::{Located, Look, RosterHost, watch};
use crate::output::Output;

pub(super) struct Waits {
    pub(super) here: Wait,
    there: Vec<(Arc<RosterHost>, Wait)>,
    any: bool,
}

/// A session, and the other machine that it is on.
pub(super) struct Told<'w> {
    pub(super) session: &'w Session,
    pub(super) far: Option<&'w RosterHost>,
}

impl Waits {
    pub(super) fn new(sessions: Vec<Located>, until: &[Until], any: bool) -> Self {
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
        Self { here: wait(here), there, any }
    }

    /// Begins to look at the sessions of other machines, each for itself, so that none delays another.
    pub(super) fn watch_others(&self) -> Vec<Receiver<Look>> {
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
    pub(super) fn hear(&mut self, place: usize, looks: &Receiver<Look>, out: &mut Output) -> bool {
        let Some((far, wait)) = self.there.get_mut(place) else { return false };
        let mut heard = false;
        for look in looks.try_iter() {
            match look {
                Look::Seen(survey) => {
                    wait.update(&survey);
                    heard = true;
                }
                Look::Lost(why) => {
                    out.progress(None);
                    let why = agentctl_model::text::one_line(&why);
                    out.warn(&format!("{} is not heard any more: {why}; it is asked again", far.name));
                }
                Look::Back => out.warn(&format!("{} is heard again", far.name)),
            }
        }
        heard
    }

    fn all(&self) -> impl Iterator<Item = (Option<&RosterHost>, &Wait)> {
        let there = self.there.iter().map(|(far, wait)| (Some(&**far), wait));
        std::iter::once((None, &self.here)).chain(there)
    }

    pub(super) fn is_over(&self) -> bool {
        let one = self.all().any(|(_, wait)| !wait.reached().is_empty() || !wait.gone().is_empty());
        self.all().all(|(_, wait)| wait.open().is_empty()) || (self.any && one)
    }

    pub(super) fn went_well(&self) -> bool {
        self.all().all(|(_, wait)| wait.went_well())
    }

    pub(super) fn open(&self) -> Vec<Told<'_>> {
        self.told(Wait::open)
    }

    pub(super) fn reached(&self) -> Vec<Told<'_>> {
        self.told(Wait::reached)
    }

    pub(super) fn gone(&self) -> Vec<(Option<&RosterHost>, &SessionKey)> {
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
