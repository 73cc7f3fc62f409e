//! What every tool works with: the way to the sessions, the rights of the server, and what was shown on this connection.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use agentctl_fleet::Purpose;
use agentctl_model::{Error, Session};

use super::rights::Rights;
use crate::cli::host_args::HostArgs;
use crate::cli::target::{Machines, NarrowingArgs};
use crate::failure::Failure;
use crate::link::asked::Asked;
use crate::link::hosts::{Asked as AskedHosts, Located, Roster};
use crate::link::{Link, SessionFinder};
use crate::output::Output;
use crate::render::style::Colour;
use crate::surroundings::Surroundings;

/// How many surveys run at once. Each uses every core by itself.
const LOOKS: usize = 4;
/// How many requests are remembered as shown.
const MOST_SHOWN: usize = 10_000;

pub(crate) struct Desk {
    surroundings: Surroundings,
    pub(super) rights: Rights,
    /// The requests of sessions that were shown whole on this connection, by session and request.
    shown: Mutex<HashSet<(String, String)>>,
    looking: Mutex<usize>,
    looked: Condvar,
}

/// The session that a tool is about, as every tool names it.
pub(super) struct Target {
    pub(super) id: String,
    pub(super) adapter: Option<String>,
    pub(super) cwd: Option<PathBuf>,
}

/// A turn to look. Others wait for it.
pub(super) struct Look<'d>(&'d Desk);

impl Drop for Look<'_> {
    fn drop(&mut self) {
        *held(&self.0.looking) -= 1;
        self.0.looked.notify_one();
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Desk {
    pub(crate) fn new(surroundings: Surroundings, rights: Rights) -> Self {
        let (shown, looking, looked) = (Mutex::default(), Mutex::new(0), Condvar::new());
        Self { surroundings, rights, shown, looking, looked }
    }

    /// The surroundings for one answer: a daemon that was silent a while ago is asked again.
    pub(super) fn surroundings(&self) -> Surroundings {
        self.surroundings.anew()
    }

    pub(super) fn look(&self) -> Look<'_> {
        let mut looking = held(&self.looking);
        while *looking >= LOOKS {
            looking = self.looked.wait(looking).unwrap_or_else(PoisonError::into_inner);
        }
        *looking += 1;
        Look(self)
    }

    pub(super) fn link(&self) -> Result<Link, Error> {
        Link::open(&self.surroundings()).map_err(Failure::into_error)
    }

    /// The machines that are asked, if others than this one are.
    pub(super) fn machines(&self, host: Option<String>) -> Result<Option<(Roster, AskedHosts)>, Error> {
        let surroundings = self.surroundings();
        let hosts = HostArgs::named(host);
        let Some(roster) = hosts.roster(&surroundings).map_err(Failure::into_error)? else { return Ok(None) };
        let asked = hosts.asked(&roster, &agentctl_fleet::own_name()).map_err(Failure::into_error)?;
        Ok(Some((roster, asked)).filter(|(_, asked)| !asked.is_here()))
    }

    /// The one session that is meant.
    pub(super) fn find(
        &self,
        target: &Target,
        purpose: Purpose,
        finder: &impl SessionFinder,
    ) -> Result<Located, Error> {
        let surroundings = self.surroundings();
        let out = Output::new(&surroundings, Colour::Never);
        let narrowed = NarrowingArgs::by(target.adapter.clone(), None, target.cwd.clone());
        let machines = Machines::of(&HostArgs::default(), purpose, &surroundings);
        let located =
            machines.and_then(|all| narrowed.locate(&target.id, purpose, &all, finder, &surroundings, &out));
        located.map_err(Failure::into_error)
    }

    /// Who asks, by the client of this connection.
    pub(super) fn asked(&self, client: Option<&str>) -> Asked {
        Asked::by("mcp", client, &self.surroundings)
    }

    /// The requests of the session with this id are about to be shown whole.
    pub(super) fn show_requests(&self, id: &str, session: &Session) {
        let mut shown = held(&self.shown);
        if shown.len() >= MOST_SHOWN {
            shown.clear();
        }
        let requests = session.pending.iter().filter_map(|pending| pending.id.clone());
        shown.extend(requests.map(|request| (id.to_owned(), request)));
    }

    /// Refuses an answer to a request that was not shown on this connection.
    pub(super) fn require_shown(&self, id: &str, request: &str) -> Result<(), Error> {
        if held(&self.shown).contains(&(id.to_owned(), request.to_owned())) {
            return Ok(());
        }
        let request: String = agentctl_model::text::one_line(request).chars().take(200).collect();
        Err(Error::refused(format!("the request {request} was not shown on this connection")).hint(
            "`inbox` and `session_status` show requests whole; then answer by the id that stands there",
        ))
    }
}
