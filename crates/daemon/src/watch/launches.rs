//! The ends of launches: a runner records how its agent ended, and an event announces it. This is also the
//! moment to pick up what a runner has put into the outbox.

use std::collections::BTreeSet;
use std::sync::Arc;

use agentctl_fleet::Query;
use agentctl_fleet::keep::launches::{LaunchFolder, Ledger, Record};
use agentctl_fleet::keep::outbox::body;
use agentctl_model::{Event, EventKind, Session, Status};

use crate::run::clock;
use crate::settings::WebhookSettings;
use crate::shared::Shared;

/// The launches that have ended. Those that ended before this daemon began are not announced.
#[derive(Default)]
pub(crate) struct Launches {
    over: Option<BTreeSet<String>>,
}

impl Launches {
    pub(crate) fn update(&mut self, shared: &Arc<Shared>) {
        let folder = shared.home.launches();
        let mut now = exited(&folder);
        if let Some(before) = &self.over {
            // A launch that is not settled may still fail, and then it does not count as one.
            let is_told = |name: &String| {
                let folder = LaunchFolder::at(folder.join(name));
                let is_settled = before.contains(name) || folder.record().is_ok_and(|record| record.settled);
                if is_settled && !before.contains(name) {
                    tell(shared, &folder);
                    // The outcome of its session is known from now on, and was not announced before.
                    shared.live.waker.wake();
                }
                is_settled
            };
            now.retain(is_told);
        }
        self.over = Some(now);
    }
}

/// Announces ends that no process announced, because the runner was killed while no daemon ran. This happens
/// before anything is delivered, so that a webhook that such a runner did put is recognized by its id.
pub(crate) fn announce_abandoned(shared: &Arc<Shared>) {
    let wants = |webhook: WebhookSettings| webhook.events.contains(&EventKind::SessionStopped);
    if !shared.settings.webhook().is_some_and(wants) {
        return;
    }
    let ledger = Ledger::read(&shared.home.launches());
    for (folder, record) in ledger.entries() {
        // A live runner holds its folder and announces the end itself.
        let is_settled =
            folder.told_at().is_some() || folder.had_nobody_to_tell() || folder.failed().is_some();
        if is_settled || record.lives_in_a_server() || !matches!(folder.hold(), Ok(Some(_))) {
            continue;
        }
        let session = session_of(shared, record).filter(|session| session.status == Status::Stopped);
        let (Some(session), Some(id)) = (session, record.session_id.as_deref()) else { continue };
        let event = Event::stopped(&record.order.adapter, id, Some(&session));
        let told = body(&event, clock::now(), true);
        let told = folder.tell_end(|| shared.outbox.put(&record.id, id, None, told));
        if let Err(error) = told {
            shared.log.say(&format!("webhook {}: the outbox cannot be written: {error}", record.id));
        }
    }
}

/// The names of the launches that have ended.
fn exited(folder: &std::path::Path) -> BTreeSet<String> {
    let entries = agentctl_files::own::entries(folder).into_iter().flatten().flatten();
    let exited = entries.filter(|entry| entry.path().join("exit.json").exists());
    exited.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn tell(shared: &Arc<Shared>, folder: &LaunchFolder) {
    // The launch has expired and been removed in the meantime.
    let Ok(record) = folder.record() else { return };
    if folder.exit().is_none_or(|exit| exit.exited_at.is_none()) {
        // No process saw its end; a cleanup found it gone.
        return;
    }
    let posted = shared.hub.post(Event {
        adapter: Some(record.order.adapter.clone()),
        session_id: record.session_id.clone(),
        session: session_of(shared, &record),
        ..Event::new(EventKind::LaunchExited)
    });
    shared.on_event(&posted);
}

/// The current state of the session, if its source can be read.
fn session_of(shared: &Shared, record: &Record) -> Option<Box<Session>> {
    let id = record.session_id.clone()?;
    let survey = shared.settings.fleet().ok()?.survey(&Query::of_launch(record)?);
    survey.sessions.into_iter().find(|surveyed| surveyed.key.id == id).map(|surveyed| surveyed.session)
}
