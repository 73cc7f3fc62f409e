//! `[notify] terminal`: a command that watches tells its own terminal when a session needs somebody. Nothing is told of what
//! was so when it began to watch, and each need is told once.

use std::collections::HashSet;

use agentctl_model::notice::Notice;
use agentctl_model::{Outcome, Session};

use crate::output::Output;
use crate::render::notice::Terminal;
use crate::settings::Notify;
use crate::surroundings::Surroundings;

/// More needs than anybody is told of while one command runs.
const REMEMBERED: usize = 10_000;

#[derive(Default)]
pub(crate) struct TerminalNotices {
    wanted: Option<Wanted>,
    /// The needs of the last look, and all that were told of before.
    known: HashSet<String>,
    begun: bool,
}

struct Wanted {
    notify: Notify,
    terminal: Terminal,
}

impl TerminalNotices {
    /// Silent unless the settings want them and there is a terminal.
    pub(crate) fn of(surroundings: &Surroundings, out: &Output) -> Self {
        let settings =
            surroundings.settings().ok().filter(|settings| settings.invalid(&["notify"]).is_none());
        let notify = settings.map(|settings| settings.notify).filter(|notify| notify.terminal.value);
        let wanted = notify
            .filter(|_| out.has_own_terminal())
            .map(|notify| Wanted { notify, terminal: Terminal::of(|name| surroundings.environ.text(name)) });
        Self { wanted, ..Self::default() }
    }

    /// All sessions as they are now, each with the id by which it is called here.
    pub(crate) fn see<'s>(
        &mut self,
        sessions: impl Iterator<Item = (&'s Session, String)>,
        surroundings: &Surroundings,
        out: &mut Output,
    ) {
        let is_first = !std::mem::replace(&mut self.begun, true);
        let mut now = HashSet::new();
        for (session, id) in sessions {
            for (name, notice) in self.needs(session, &id) {
                if !is_first && !self.known.contains(&name) {
                    self.tell(&notice, surroundings, out);
                }
                now.insert(name);
            }
        }
        // A need that its agent names is the same one when it is seen again; others begin anew.
        self.known.retain(|name| name.starts_with(NAMED));
        if self.known.len() > REMEMBERED {
            self.known.clear();
        }
        self.known.extend(now);
    }

    /// A change of one session.
    pub(crate) fn changed(
        &mut self,
        session: &Session,
        id: &str,
        surroundings: &Surroundings,
        out: &mut Output,
    ) {
        for (name, notice) in self.needs(session, id) {
            if self.known.insert(name.clone()) || !name.starts_with(NAMED) {
                self.tell(&notice, surroundings, out);
            }
        }
    }

    fn needs(&self, session: &Session, id: &str) -> Vec<(String, Notice)> {
        let Some(wanted) = &self.wanted else { return Vec::new() };
        let words = [Some(session.status.as_str()), session.outcome.map(Outcome::as_str)];
        let words =
            words.into_iter().flatten().filter(|word| wanted.notify.on.value.iter().any(|on| on == word));
        let who = format!("{} {} {} {}", session.host, session.adapter, session.config_root, session.id);
        let named = |(word, notice): (&str, Notice)| {
            let name = match &notice.identity {
                Some(identity) => format!("{NAMED}{who} {identity}"),
                None => format!("{who} {word}"),
            };
            (name, notice)
        };
        let needs = words
            .flat_map(|word| Notice::of(session, word, id).into_iter().map(move |notice| (word, notice)));
        needs.map(named).collect()
    }

    fn tell(&self, notice: &Notice, surroundings: &Surroundings, out: &mut Output) {
        let Some(Wanted { notify, terminal }) = &self.wanted else { return };
        let is_quiet =
            notify.quiet.value.is_some_and(|quiet| quiet.contain(surroundings.now(), &surroundings.zone));
        if !is_quiet {
            out.ring(&terminal.shows(notice));
        }
    }
}

/// The beginning of the name of a need that its agent names.
const NAMED: &str = "= ";
