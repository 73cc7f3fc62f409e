//! Runs the user's own commands around a session: once its id is known, and once its process has ended.

use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Duration;

use agentctl_model::{Environ, Surveyed};
use agentctl_process::{Ending, Order, spawn};

use crate::act::caller::Caller;
use crate::act::hook_variables::{Known, hook_variables};
use crate::act::stop::termination::Termination;
use crate::keep::launches::Record;
use crate::worktree::head::branch_of;

const TIMEOUT: Duration = Duration::from_mins(5);

pub(super) struct Hooks {
    on_create: Option<String>,
    on_complete: Option<String>,
    group: Option<String>,
    adapter: String,
    model: Option<String>,
    cwd: PathBuf,
    creating: Option<JoinHandle<()>>,
}

impl Hooks {
    pub(super) fn new(record: &Record, cwd: PathBuf) -> Self {
        let order = &record.order;
        Self {
            on_create: order.on_create.clone(),
            on_complete: order.on_complete.clone(),
            group: order.group.clone(),
            adapter: order.adapter.clone(),
            model: order.model.clone(),
            cwd,
            creating: None,
        }
    }

    /// Runs once, beside the agent.
    pub(super) fn created(&mut self, caller: &Caller, session: &Surveyed) {
        if let Some(command) = self.on_create.take() {
            let environ = self.environ(caller, Some(session), None);
            let cwd = self.cwd.clone();
            self.creating = Some(std::thread::spawn(move || run(&command, environ, cwd)));
        }
    }

    /// Runs to its end, after the other hook.
    pub(super) fn completed(&mut self, caller: &Caller, session: Option<&Surveyed>, ending: Ending) {
        if let Some(creating) = self.creating.take() {
            let _ = creating.join();
        }
        if let Some(command) = self.on_complete.take() {
            run(&command, self.environ(caller, session, Some(ending)), self.cwd.clone());
        }
    }

    /// The caller's variables and those of every hook.
    fn environ(&self, caller: &Caller, session: Option<&Surveyed>, ending: Option<Ending>) -> Environ {
        let mut environ = caller.clean_environ();
        let known = Known {
            cwd: Some(self.cwd.to_string_lossy().into_owned()),
            adapter: Some(self.adapter.clone()),
            // The session no longer reports its branch, because its process has ended.
            branch: branch_of(&self.cwd),
            exit_code: ending.and_then(|ending| ending.code),
            group: self.group.clone(),
            model: self.model.clone(),
        };
        for (name, value) in hook_variables(session.map(|surveyed| &*surveyed.session), &known) {
            environ.set(name, value);
        }
        environ
    }
}

/// Runs a hook. Its output goes to the runner's log; a hook that does not end is ended.
fn run(command: &str, environ: Environ, cwd: PathBuf) {
    let log = || agentctl_files::kernel::own_errors().or_else(|_| agentctl_files::kernel::dev_null());
    let (Ok(stdout), Ok(stderr)) = (log(), log()) else { return };
    let args = vec!["-c".into(), command.into()];
    let order = Order { program: "/bin/sh".into(), args, environ, cwd, stdin: None, stdout, stderr };
    let Ok(mut started) = spawn(order) else { return };
    if started.ends_within(TIMEOUT).ok().flatten().is_none() {
        let kernel = agentctl_process::system();
        let termination = Termination {
            kernel: kernel.as_ref(),
            carriers: started.process.into_iter().collect(),
            launch: None,
            marks: Vec::new(),
            source: None,
            known: Vec::new(),
        };
        termination.finish();
        let _ = started.ended();
    }
}
