//! The runner: the small process that starts one agent, keeps its output, and writes down how it ended.
//!
//! It owns a launch from its first moment, the undo included. It decides nothing about the session: killing it changes
//! nothing of what is said of the session, since the agent is found by looking.

mod callback;
mod hooks;
pub(crate) mod ready;
mod seen;
mod tells;
mod watch;

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use agentctl_adapters::{Control, WatchTarget};
use agentctl_model::{
    Conversation, EndedBy, FirstWords, IdSource, Outcome, Rule, SpawnPlan, Status, Stdin, Surveyed, text,
};
use agentctl_process::{Ending, Order, Started, spawn};
use jiff::{SignedDuration, Timestamp};

use crate::act::caller::Caller;
use crate::act::launch::complaint::{WORDS, complaint};
use crate::act::launch::{LaunchError, end_family, glance, undo};
use crate::act::stop::Patience;
use crate::keep::kernel_lock::KernelLock;
use crate::keep::launches::{Exit, Failed, LaunchFolder, LaunchOrder, MARK, ProcessMark, Record};
use crate::{Fleet, Source};
use hooks::Hooks;
use tells::After;
pub use tells::{OwnAddress, Tells};
use watch::LaunchWatch;

/// The shortest time between two looks at a starting agent, and how many times the length of the last one it is at least:
/// an agent that writes all the time must not be paid for with its own processor.
const REST: Duration = Duration::from_millis(15);
const REST_FACTOR: u32 = 2;

/// A run whose turn was cut short either ends now, and is no launch, or tries again. That long is waited for one of the two;
/// nothing is concluded from the time, but the caller is not kept any longer.
const MAY_TRY_AGAIN: Duration = Duration::from_secs(30);

/// How often the size of the output is looked at.
const WATCH: Duration = Duration::from_secs(5);

/// One launch being carried out.
pub struct Runner<'a> {
    fleet: &'a Fleet,
    caller: &'a Caller,
    folder: LaunchFolder,
    record: Record,
    /// Where the end is told, if anybody wants to hear of it.
    tells: Option<Tells>,
    /// Held for life.
    _held: KernelLock,
}

impl<'a> Runner<'a> {
    pub fn new(
        fleet: &'a Fleet,
        caller: &'a Caller,
        folder: LaunchFolder,
        held: KernelLock,
    ) -> io::Result<Self> {
        let record = folder.record()?;
        Ok(Self { fleet, caller, folder, record, tells: None, _held: held })
    }

    /// The same; it puts a webhook into the outbox when its session ends, unless the daemon was faster.
    #[must_use]
    pub fn telling(self, tells: Option<Tells>) -> Self {
        Self { tells, ..self }
    }

    /// Carries the launch out and stays until the agent has ended.
    pub fn run(mut self) -> io::Result<()> {
        let begun = self.begin();
        match begun {
            Ok(running) => self.stay(running),
            Err(error) => {
                let failed = Failed { refused: error.refused, message: error.message, hint: error.hint };
                self.undo();
                self.folder.write_failed(&failed)
            }
        }
    }

    /// Everything up to the moment when a survey shows the turn.
    fn begin(&mut self) -> Result<Running, LaunchError> {
        let cwd = self.make_place()?;
        // Held until the session itself is seen: from then on the session is the lock.
        let _directory = self.take_directory(&cwd)?;
        let (control, plan) = self.plan(cwd)?;
        let before = self.before();
        let watch = Some(LaunchWatch::of(self.targets()));
        let started = self.start(&plan)?;
        let mut running = Running {
            started,
            control,
            hooks: Hooks::new(&self.record, plan.cwd.clone()),
            deadline: self.record.order.timeout_ms.map(|ms| Instant::now() + Duration::from_millis(ms)),
            before,
            watch,
        };
        let began = self.await_turn(&mut running, &plan);
        if began.is_err() {
            // Gone or not, it must not be a child that nobody waits for.
            let _ = running.started.ended();
        }
        running.watch = None;
        began.map(|()| running)
    }

    fn plan(&self, cwd: PathBuf) -> Result<(&'static dyn Control, SpawnPlan), LaunchError> {
        let words = self.folder.words().map_err(|error| failed("read the prompt", &error))?;
        let order = &self.record.order;
        let plan = self.fleet.plan(order, &order.intent(words, cwd))?;
        let control = self.source().and_then(|source| source.adapter.control());
        control
            .map(|control| (control, plan))
            .ok_or_else(|| LaunchError::refused("this agent can only be read"))
    }

    fn source(&self) -> Option<&Source> {
        let order = &self.record.order;
        self.fleet.source(&order.adapter, &order.root)
    }

    /// Where the agent shows its turn, and where its words and the wish to take it back are written.
    fn targets(&self) -> Vec<WatchTarget> {
        let own = WatchTarget::new(self.folder.path(), 0);
        let of_agent = self.source().map(|source| source.adapter.watch(&source.root));
        std::iter::once(own).chain(of_agent.into_iter().flatten()).collect()
    }

    fn start(&mut self, plan: &SpawnPlan) -> Result<Started, LaunchError> {
        let program = self.caller.find_program(plan.program.as_ref()).ok_or_else(|| {
            LaunchError::failed(format!(
                "{} is not installed: no program `{}` on the PATH",
                self.record.order.adapter, plan.program
            ))
            .hint("install it, or name it in config.toml as `binary` of this adapter")
        })?;
        let mut environ = self.caller.clean_environ();
        plan.env.iter().for_each(|(name, value)| environ.set(name, value));
        environ.set(MARK, &self.record.id);
        let files = || {
            let stdin = match plan.stdin {
                Stdin::Words => Some(self.folder.open_words()?),
                Stdin::Nothing => None,
            };
            io::Result::Ok((stdin, self.folder.open_output("stdout")?, self.folder.open_output("stderr")?))
        };
        let (stdin, stdout, stderr) = files().map_err(|error| failed("open the output files", &error))?;
        let args = plan.args.iter().map(Into::into).collect();
        let order = Order { program, args, environ, cwd: plan.cwd.clone(), stdin, stdout, stderr };
        let started = spawn(order).map_err(|error| failed(&format!("start `{}`", plan.program), &error))?;
        self.record.process = started.process.map(ProcessMark::of);
        self.record.order.forget_values();
        if let IdSource::Known(id) = &plan.id {
            self.record.session_id = Some(id.clone());
        }
        self.write_record()?;
        Ok(started)
    }

    /// Waits for the id, and then until a survey shows the turn; the agent's end comes before both or after.
    fn await_turn(&mut self, running: &mut Running, plan: &SpawnPlan) -> Result<(), LaunchError> {
        let mut cut_short: Option<Instant> = None;
        let mut rest = Duration::ZERO;
        loop {
            let ended = running.wait(rest).map_err(|error| failed("wait for the agent", &error))?;
            let began = Instant::now();
            if self.record.session_id.is_none()
                && let Some(id) = self.learn_id(running, plan)
            {
                self.record.session_id = Some(id);
                self.write_record()?;
            }
            if let Some(ending) = ended {
                return self.ended_early(ending, running, plan);
            }
            if self.folder.is_cancelled() {
                return Err(LaunchError::failed("the launch was cancelled"));
            }
            if running.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(LaunchError::failed("its time was up before there was a session"));
            }
            let session = glance(self.fleet, &self.record);
            rest = (began.elapsed() * REST_FACTOR).max(REST);
            let Some(session) = session.filter(|session| running.shows_turn(&self.record.order, session))
            else {
                continue;
            };
            let since = cut_short.get_or_insert(began);
            if running.was_cut_short(&session) && since.elapsed() < MAY_TRY_AGAIN {
                continue;
            }
            running.hooks.created(self.caller, &session);
            return self.settle();
        }
    }

    /// What the agent says of its session, or what it is seen to do where it says nothing until it is done.
    fn learn_id(&self, running: &Running, plan: &SpawnPlan) -> Option<String> {
        let said = running.control.learn_id(self.said().as_words());
        said.or_else(|| match plan.id {
            IdSource::Seen => seen::begun_session(self.fleet, &self.record, &self.folder.words().ok()?),
            IdSource::Known(_) | IdSource::FirstWords => None,
        })
    }

    /// The session whose conversation goes on here, as it was before.
    fn before(&self) -> Option<Surveyed> {
        let (Conversation::Stored { id, .. } | Conversation::ForkOf { id, .. }) =
            &self.record.order.conversation
        else {
            return None;
        };
        let mut probe = self.record.clone();
        probe.session_id = Some(id.clone());
        glance(self.fleet, &probe)
    }

    /// The agent ended before its turn was seen: that is a launch if the turn went well. One that failed at once is none and
    /// leaves nothing of ours behind; what the agent wrote down stays its own, and is named.
    fn ended_early(
        &mut self,
        ending: Ending,
        running: &mut Running,
        plan: &SpawnPlan,
    ) -> Result<(), LaunchError> {
        // Whoever else is in that folder has not taken the session up: its process ended, and that is known here first.
        self.note_exit(ending, false).map_err(|error| failed("write down how the agent ended", &error))?;
        let session = glance(self.fleet, &self.record);
        // A turn of an earlier run may have ended well: it must be this one's, and so must the exit.
        let is_new = !matches!(self.record.order.conversation, Conversation::Stored { .. });
        let did_its_turn = |session: &&Surveyed| {
            session.session.outcome == Some(Outcome::Completed)
                && (is_new || running.is_told(&self.record.order, session))
        };
        if let Some(session) = session.as_ref().filter(did_its_turn).filter(|_| ending.is_success()) {
            running.hooks.created(self.caller, session);
            return self.settle();
        }
        // That this very runner has not written the exit is no complaint of the agent.
        let detail = session
            .as_ref()
            .filter(|session| session.session.outcome.is_some())
            .and_then(|session| session.session.status_detail.clone());
        let words = complaint(&self.folder, running.control, detail);
        let exit = match (ending.code, ending.signal) {
            (Some(code), _) => format!("exit code {code}"),
            (_, Some(signal)) => format!("signal {signal}"),
            _ => "no exit code".to_owned(),
        };
        let words = words.unwrap_or_else(|| "it said nothing".to_owned());
        let program = &plan.program;
        Err(match session.filter(|session| running.is_told(&self.record.order, session)) {
            None => {
                LaunchError::failed(format!("`{program}` ended before its turn was seen ({exit}): {words}"))
            }
            Some(session) => LaunchError::failed(format!(
                "the turn of `{program}` failed at once ({exit}): {words}"
            ))
            .hint(format!("`{program}` keeps it: `agentctl peek {}`", text::shell_word(&session.key.id))),
        })
    }

    fn settle(&mut self) -> Result<(), LaunchError> {
        self.record.settled = true;
        self.write_record()
    }

    /// The life of the session, until its process ends.
    fn stay(mut self, mut running: Running) -> io::Result<()> {
        let (ending, timed_out) = self.wait_for_the_end(&mut running)?;
        let exit = self.note_exit(ending, timed_out)?;
        let after = After::look(self.fleet, &self.record);
        let told = match &self.tells {
            Some(tells) => tells.end(&self.folder, &self.record, &after, &exit),
            None => self.folder.nobody_to_tell(),
        };
        let session = after.session;
        if let Err(error) = told {
            // The hooks run all the same; the words go to the runner's log.
            let _ = writeln!(io::stderr(), "webhook {}: {error}", self.record.id);
        }
        running.hooks.completed(self.caller, session.as_ref(), ending);
        self.tell_callback(session.as_ref(), &exit)
    }

    /// Writes down how the agent ended. The first time that was written stays.
    fn note_exit(&self, ending: Ending, timed_out: bool) -> io::Result<Exit> {
        if let Some(noted) = self.folder.exit().filter(|noted| noted.exited_at.is_some()) {
            return Ok(noted);
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "when it ended is what the runner is there to write down"
        )]
        let exited_at = Some(Timestamp::now());
        let asked = self.folder.asked_to_end();
        let exit = Exit {
            exit_code: ending.code,
            exit_signal: ending.signal,
            exited_at,
            timed_out,
            asked: asked.is_some(),
            ended_by: if timed_out { Some(self.time_was_up()) } else { asked },
            found_gone_at: None,
        };
        self.folder.write_exit(&exit)?;
        Ok(exit)
    }

    fn wait_for_the_end(&mut self, running: &mut Running) -> io::Result<(Ending, bool)> {
        let mut timed_out = false;
        loop {
            let left = running
                .deadline
                .filter(|_| !timed_out)
                .map(|at| at.saturating_duration_since(Instant::now()));
            if let Some(ending) = running.started.ends_within(left.unwrap_or(WATCH).min(WATCH))? {
                return Ok((ending, timed_out));
            }
            // The last one also has what hooks say.
            for output in ["stdout", "stderr", "runner.log"] {
                let _ = self.folder.cap_output(output);
            }
            if left.is_some_and(|left| left.is_zero()) {
                timed_out = true;
                self.end_for_time();
            }
        }
    }

    /// The clean way of the agent, if a survey shows the session; otherwise it ends all the same.
    fn end_for_time(&self) {
        let patience = Patience { grace: Duration::from_secs(10), force: false };
        if let Some(session) = glance(self.fleet, &self.record) {
            let _ = self.fleet.stop_for(&self.time_was_up(), &session, self.caller, patience);
        }
        end_family(self.fleet, &self.record);
    }

    fn time_was_up(&self) -> EndedBy {
        let length = self.record.order.timeout_ms.and_then(|ms| i64::try_from(ms).ok());
        let length = length.map(SignedDuration::from_millis);
        EndedBy::timeout(length.map(|length| format!("--timeout {length:#}")))
    }

    fn undo(&mut self) {
        undo(self.fleet, &self.record);
    }

    fn write_record(&self) -> Result<(), LaunchError> {
        self.folder.write_record(&self.record).map_err(|error| failed("write the launch record", &error))
    }

    fn said(&self) -> Said {
        Said { stdout: self.folder.output("stdout", WORDS), stderr: self.folder.output("stderr", WORDS) }
    }
}

/// An agent that was started.
struct Running {
    started: Started,
    control: &'static dyn Control,
    hooks: Hooks,
    deadline: Option<Instant>,
    /// The session whose conversation goes on, as it was before.
    before: Option<Surveyed>,
    /// Until the turn was seen. It must not be there when the runner dies: a dead process holds its locks until its watches
    /// have ended, which takes a while.
    watch: Option<LaunchWatch>,
}

impl Running {
    /// Rests, and then waits until there is something to look at. Gives the agent's end, once it has ended.
    fn wait(&mut self, rest: Duration) -> io::Result<Option<Ending>> {
        if let Some(ending) = self.started.ends_within(rest)? {
            return Ok(Some(ending));
        }
        let left = self.deadline.map(|at| at.saturating_duration_since(Instant::now()));
        if let Some(watch) = &mut self.watch {
            watch.wait(self.started.process, left.unwrap_or(Duration::MAX));
        }
        self.started.ended()
    }

    /// The turn of this launch is in the agent's records, and the agent is at work on it.
    fn shows_turn(&self, order: &LaunchOrder, session: &Surveyed) -> bool {
        let is_at_work = matches!(session.session.status, Status::Running | Status::Waiting);
        // What an earlier run left is not this turn, though a live run with a prompt of its own is always at work.
        let is_this = order.is_new() || session.rule != Rule::HeadlessRunNotEnded;
        is_at_work && is_this && self.is_told(order, session)
    }

    /// The agent has taken the words: they are in its records. A process that only has the id of its session may still end
    /// without a turn.
    fn is_told(&self, order: &LaunchOrder, session: &Surveyed) -> bool {
        match order.conversation {
            Conversation::Stored { .. } => {
                session.session.updated_at != self.before.as_ref().and_then(|old| old.session.updated_at)
            }
            Conversation::New | Conversation::ForkOf { .. } => session.session.prompt.is_some(),
        }
    }

    /// An end without an answer is recorded, and the process lives: it exits now, or it tries again.
    fn was_cut_short(&self, session: &Surveyed) -> bool {
        match session.rule {
            Rule::HeadlessRunAfterError => true,
            Rule::HeadlessRunNotOver => !self.has_reply(session),
            _ => false,
        }
    }

    /// The model has answered in this turn.
    fn has_reply(&self, session: &Surveyed) -> bool {
        let before = self.before.as_ref().and_then(|old| old.session.last_message.as_ref());
        session.session.last_message.is_some() && session.session.last_message.as_ref() != before
    }
}

/// What the agent printed so far.
struct Said {
    stdout: String,
    stderr: String,
}

impl Said {
    fn as_words(&self) -> FirstWords<'_> {
        FirstWords { stdout: &self.stdout, stderr: &self.stderr }
    }
}

fn failed(what: &str, error: &io::Error) -> LaunchError {
    LaunchError::failed(format!("cannot {what}: {error}"))
}
