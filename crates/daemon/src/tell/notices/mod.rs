//! `[notify]`: tells a person when a session begins to wait, fails, or reaches another configured state, by each configured
//! way. A need is told once, also over restarts of the daemon. What comes in quiet hours is not told, also not later.

mod announced;
pub mod presets;

use std::sync::atomic::{AtomicU64, Ordering};

use agentctl_fleet::Store;
use agentctl_fleet::keep::told::{ToldNeeds, need_name};
use agentctl_model::notice::Notice;
use agentctl_model::{Event, EventKind, Session, Status};

use self::announced::States;
use self::presets::{Kept, Preset};
use crate::run::clock;
use crate::run::log::Log;
use crate::settings::NotifySettings;
use crate::tell::commands::{Commands, about};
use crate::tell::webhooks::Outbox;

pub(crate) struct Notices {
    states: States,
    told: ToldNeeds,
    /// How many notices went into the outbox.
    count: AtomicU64,
    log: Log,
}

/// The ways by which the daemon tells.
#[derive(Clone, Copy)]
pub(crate) struct Ways<'w> {
    pub(crate) settings: &'w NotifySettings,
    pub(crate) commands: &'w Commands,
    pub(crate) outbox: &'w Outbox,
}

impl Notices {
    pub(crate) fn new(store: Store, log: Log) -> Self {
        Self { states: States::default(), told: ToldNeeds::of(store), count: AtomicU64::new(0), log }
    }

    pub(crate) fn on_event(&self, event: &Event, ways: Option<Ways<'_>>) {
        // A start is followed by a status, and the exit of a launch by the end of its session.
        let is_change = event.kind.is_of_session() && event.kind != EventKind::SessionStarted;
        let Some(session) = event.session.as_deref().filter(|_| is_change) else { return };
        let mut words = self.states.new_states(session, event.kind);
        let waiting = Status::Waiting.as_str();
        let is_anew = words.iter().any(|word| word == waiting);
        // A further request of one that waits already is a need of its own, where requests can be told apart.
        if session.status == Status::Waiting && !is_anew {
            words.push(waiting.to_owned());
        }
        let Some(ways) = ways else { return };
        for word in words.iter().filter(|word| ways.settings.on.contains(word)) {
            for notice in Notice::of(session, word, &session.id) {
                if notice.identity.is_some() || word != waiting || is_anew {
                    self.tell(session, &notice, event.kind, ways);
                }
            }
        }
    }

    /// A session that waited already when this daemon first saw it: its need is told if nobody was told of it.
    pub(crate) fn on_found(&self, session: &Session, ways: Option<Ways<'_>>) {
        let waiting = Status::Waiting;
        let Some(ways) = ways.filter(|ways| ways.settings.on.iter().any(|word| word == waiting.as_str()))
        else {
            return;
        };
        if session.status == waiting {
            let needs = Notice::of(session, waiting.as_str(), &session.id).into_iter();
            for notice in needs.filter(|notice| notice.identity.is_some()) {
                self.tell(session, &notice, EventKind::SessionWaiting, ways);
            }
        }
    }

    fn tell(&self, session: &Session, notice: &Notice, event: EventKind, ways: Ways<'_>) {
        let now = clock::now();
        let name = need_name(session, notice);
        // Recorded first: of a daemon that is killed in between, a need is rather not told than told twice.
        match name.as_ref().map(|name| self.told.tell(name, now)) {
            Some(Ok(false)) => return,
            Some(Err(error)) => self.log.say(&format!("notices cannot be remembered: {error}")),
            Some(Ok(true)) | None => {}
        }
        let settings = ways.settings;
        if settings.quiet.is_some_and(|quiet| quiet.contain(now, &settings.zone)) {
            return;
        }
        let what = format!("notify {} of {}", event.as_str(), session.id);
        if let Some(command) = &settings.command {
            let mut variables = about(Some(session));
            variables.push(("AGENTCTL_EVENT", event.to_string()));
            variables.push(("AGENTCTL_NOTICE", notice.title().replace('\0', "")));
            variables.push(("AGENTCTL_ANSWER", notice.command.replace('\0', "")));
            ways.commands.run(&what, command, session.cwd.as_deref().map(AsRef::as_ref), variables);
        }
        if settings.desktop {
            ways.commands.show(&what, notice);
        }
        for preset in Preset::ALL.into_iter().filter(|preset| settings.has(*preset)) {
            let kept = Kept {
                at: now,
                title: notice.title(),
                body: settings.tells_text(preset).then(|| notice.body()),
                urgent: notice.is_urgent(),
            };
            let count = self.count.fetch_add(1, Ordering::Relaxed);
            let id = format!("notice-{}-{:x}-{count}", preset.as_str(), now.as_microsecond());
            if let Err(error) = ways.outbox.put_notice(&id, preset, &kept) {
                self.log.say(&format!(
                    "{what}: {} was not told, the outbox cannot be written: {error}",
                    preset.as_str()
                ));
            }
        }
    }
}
