//! The ends of launches: a runner writes down how its agent ended, and whoever listens is told. Also the moment to find what
//! a runner has put into the outbox.

use std::collections::BTreeSet;
use std::sync::Arc;

use agentctl_fleet::Query;
use agentctl_fleet::keep::launches::{LaunchFolder, Ledger, Record};
use agentctl_fleet::keep::outbox::body;
use agentctl_model::{Event, EventKind, Session, Status};

use crate::run::clock;
use crate::settings::WebhookSettings;
use crate::shared::Shared;

/// Which launches have ended. What had ended before this daemon began is no news.
#[derive(Default)]
pub(crate) struct Launches {
    over: Option<BTreeSet<String>>,
}

impl Launches {
    pub(crate) fn look(&mut self, shared: &Arc<Shared>) {
        let folder = shared.home.launches();
        let mut now = exited(&folder);
        if let Some(before) = &self.over {
            // One that is not settled may yet fail, and is then no launch.
            let is_told = |name: &String| {
                let folder = LaunchFolder::at(folder.join(name));
                let is_settled = before.contains(name) || folder.record().is_ok_and(|record| record.settled);
                if is_settled && !before.contains(name) {
                    tell(shared, &folder);
                    // How its session ended is known from now on, and was not told before.
                    shared.live.bell.ring();
                }
                is_settled
            };
            now.retain(is_told);
        }
        self.over = Some(now);
    }
}

/// Ends that nobody told of: the runner was killed, and no daemon ran. Before anything is delivered, so that what such a
/// runner did put is known by its id.
pub(crate) fn tell_abandoned(shared: &Arc<Shared>) {
    let wants = |webhook: WebhookSettings| webhook.events.contains(&EventKind::SessionStopped);
    if !shared.settings.webhook().is_some_and(wants) {
        return;
    }
    let ledger = Ledger::read(&shared.home.launches());
    for (folder, record) in ledger.entries() {
        // A runner that lives holds its folder, and tells of the end itself.
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
    // Expired and taken away meanwhile.
    let Ok(record) = folder.record() else { return };
    if folder.exit().is_none_or(|exit| exit.exited_at.is_none()) {
        // Nobody saw its end: it was found gone by somebody who cleaned up.
        return;
    }
    let posted = shared.hub.post(Event {
        adapter: Some(record.order.adapter.clone()),
        session_id: record.session_id.clone(),
        session: session_of(shared, &record),
        ..Event::new(EventKind::LaunchExited)
    });
    shared.told(&posted);
}

/// The session as it is now, if its source can be heard.
fn session_of(shared: &Shared, record: &Record) -> Option<Box<Session>> {
    let id = record.session_id.clone()?;
    let survey = shared.settings.fleet().ok()?.survey(&Query::of_launch(record)?);
    survey.sessions.into_iter().find(|surveyed| surveyed.key.id == id).map(|surveyed| surveyed.session)
}
