//! Who asks: an agent's own processes must not answer, interrupt or stop the session that they belong to.
//!
//! This stops accidents and injected commands. It does not stop a hostile program of the same user, which can do
//! everything that the user can.

use agentctl_model::{Error, Observed, ProcessHead, ProcessRef, Surveyed, text};
use agentctl_process::InspectRequest;

use crate::Fleet;
use crate::keep::launches::MARK;
use crate::read::query::{Query, Wanted};

/// Who asks for something to be done to a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Asker {
    /// The process that asks; `None` if it is no process of this machine that can be named, or agentctl itself.
    pid: Option<u32>,
    allow_self: bool,
}

impl Asker {
    /// This process asks for itself.
    pub fn this_process(allow_self: bool) -> Self {
        Self { pid: Some(std::process::id()), allow_self }
    }

    /// The process at the other end of a socket asks.
    pub fn peer(pid: Option<u32>) -> Self {
        Self { pid, allow_self: false }
    }

    pub(crate) fn allows_self(self) -> bool {
        self.allow_self
    }
}

impl Fleet {
    /// Refuses a caller that belongs to the session itself, or to its parent.
    pub(crate) fn refuse_self(&self, target: &Surveyed, asker: Asker) -> Result<(), Error> {
        let Some(pid) = asker.pid.filter(|_| !asker.allow_self) else { return Ok(()) };
        let Observed::Seen(heads) = self.kernel.heads() else {
            return Err(Error::refused("it cannot be seen whether the session itself asks for this")
                .hint("--allow-self does it all the same"));
        };
        let line = lineage(&heads, pid);
        let own = |surveyed: &Surveyed| {
            surveyed.owners.iter().any(|owner| line.iter().any(|head| head.process == owner.process))
        };
        let launch = target.session.launch.as_ref().map(|launch| launch.id.as_str());
        let is_marked = launch.is_some_and(|launch| self.launch_mark(&line).as_deref() == Some(launch));
        if is_marked || own(target) || self.parent_of(target).is_some_and(|parent| own(&parent)) {
            let id = text::one_line(&target.key.id);
            let reason = format!("a process of session {id} may not steer the session itself");
            return Err(Error::refused(reason).hint("--allow-self does it all the same"));
        }
        Ok(())
    }

    /// The launch that the asking process belongs to, by its own environment.
    fn launch_mark(&self, line: &[&ProcessHead]) -> Option<String> {
        let process = self.kernel.inspect(line.first()?, InspectRequest::default())?;
        process.variable(MARK).map(str::to_owned)
    }

    /// The session that started this one as its sub-agent.
    fn parent_of(&self, target: &Surveyed) -> Option<Surveyed> {
        let parent = target.session.parent_id.clone().filter(|_| target.session.is_subagent())?;
        let query = Query {
            adapters: vec![target.key.adapter.clone()],
            root: Some(target.key.root.clone()),
            ..Query::new(Wanted::Ids(vec![parent.clone()]))
        };
        self.survey(&query).sessions.into_iter().find(|surveyed| surveyed.key.id == parent)
    }
}

/// The process and its ancestors, as far as they are listed.
fn lineage(heads: &[ProcessHead], pid: u32) -> Vec<&ProcessHead> {
    let mut line: Vec<&ProcessHead> = Vec::new();
    let mut at = pid;
    while let Some(head) = heads.iter().find(|head| head.process.pid == at) {
        // A table that is read while pids are reused could lead in a circle.
        if line.iter().any(|known| known.process == head.process) {
            break;
        }
        line.push(head);
        at = head.parent;
    }
    line
}

/// Whether one process is another or descends from it.
pub(crate) fn descends(heads: &[ProcessHead], pid: u32, from: ProcessRef) -> bool {
    lineage(heads, pid).iter().any(|head| head.process == from)
}
