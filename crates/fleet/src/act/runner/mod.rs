//! The runner: the small process that starts one agent, keeps its output, and records how it ended.
//!
//! It owns a launch from its first moment, including the undo. It decides nothing about the session: killing the runner
//! changes no verdict, since surveys find the agent by themselves.

mod acp;
mod callback;
mod end_notifier;
mod hooks;
pub(crate) mod ready;
mod seen;
pub mod terminal;
mod watch;

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use agentctl_adapters::hold::HoldWay;
use agentctl_adapters::{Control, WatchTarget};
use agentctl_model::{
    Conversation, EndedBy, Error, FirstWords, IdSource, Outcome, ProcessRef, Rule, SpawnPlan, Status, Stdin,
    Surveyed, text,
};
use agentctl_process::{Ending, Order, Started, spawn};
use jiff::{SignedDuration, Timestamp};

use crate::act::asker::Asker;
use crate::act::caller::Caller;
use crate::act::launch::complaint::{WORDS, complaint};
use crate::act::launch::{end_family, glance, undo};
use crate::act::stop::StopOptions;
use crate::hold::{self, Holder, Limits, Pipes};
use crate::keep::kernel_lock::KernelLock;
use crate::keep::launches::{Exit, LaunchFolder, LaunchOrder, MARK, ProcessMark, Record};
use crate::{Fleet, Source};
use end_notifier::After;
pub use end_notifier::{EndNotifier, OwnAddress};
use hooks::Hooks;
use watch::LaunchWatch;

/// The shortest pause between two surveys of a starting agent. The pause is also at least `PAUSE_FACTOR` times as long
/// as the last survey took, so that an agent that writes all the time does not lose its own processor time to us.
const PAUSE: Duration = Duration::from_millis(15);
const PAUSE_FACTOR: u32 = 2;

/// A run whose turn was cut short either exits now, which is a failed launch, or tries again. This is how long to wait
/// for one of the two. Nothing is concluded from the time, but the caller waits no longer.
const MAY_TRY_AGAIN: Duration = Duration::from_secs(30);

/// How often the holder of a starting session is asked what it has heard.
const HOLDER_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// How often a session whose turn its holder has not heard of is looked up all the same: the records may know of it.
const UNHEARD_SURVEY_INTERVAL: Duration = Duration::from_millis(500);

/// How often a runner that waits for its moment looks whether the launch was cancelled.
const MOMENT_CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// How often the size of the output is checked.
const OUTPUT_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// One launch that is being carried out.
pub struct Runner<'a> {
    fleet: &'a Fleet,
    caller: &'a Caller,
    folder: LaunchFolder,
    record: Record,
    /// Announces the end, if a receiver is configured.
    notifier: Option<EndNotifier>,
    /// The runner holds this lock for its whole life.
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
        Ok(Self { fleet, caller, folder, record, notifier: None, _held: held })
    }

    /// Returns the same runner, which also puts a webhook into the outbox when its session ends, unless the daemon was
    /// faster.
    #[must_use]
    pub fn with_end_notifier(self, notifier: Option<EndNotifier>) -> Self {
        Self { notifier, ..self }
    }

    /// Carries out the launch and stays until the agent has ended.
    pub fn run(mut self) -> io::Result<()> {
        let begun = self.begin();
        match begun {
            Ok(running) => self.watch_to_end(running),
            Err(error) => {
                self.undo();
                self.folder.write_failed(&error.into())
            }
        }
    }

    /// Does everything up to the moment at which a survey shows the turn.
    fn begin(&mut self) -> Result<Running, Error> {
        let cwd = self.make_place()?;
        // The directory stays locked until the session itself is seen; from then on the session is the lock.
        let _directory = self.take_directory(&cwd)?;
        let (control, plan, way) = self.plan(cwd)?;
        if way.is_some() {
            self.await_moment(control)?;
        }
        let before = self.before();
        let watch = Some(LaunchWatch::of(self.targets()));
        let (started, holder) = self.start(&plan, way)?;
        let is_held = holder.is_some();
        let mut running = Running {
            started,
            holder,
            opening: self.opening_deadline(),
            absent_since: None,
            control,
            hooks: Hooks::new(&self.record, plan.cwd.clone()),
            deadline: self.record.order.timeout_ms.map(|ms| Instant::now() + Duration::from_millis(ms)),
            before,
            watch,
        };
        let began = self.await_turn(&mut running, &plan);
        if began.is_err() {
            // Whether it has exited or not, it must not remain a zombie.
            let _ = running.started.ended();
        }
        running.watch = None;
        // From here on the holder interrupts each turn whose time is up.
        running.deadline = running.deadline.filter(|_| !is_held);
        began.map(|()| running)
    }

    fn plan(&self, cwd: PathBuf) -> Result<(&'static dyn Control, SpawnPlan, Option<HoldWay>), Error> {
        let words = self.folder.words().map_err(|error| failed("read the prompt", &error))?;
        let order = &self.record.order;
        let (mut plan, mut way) = self.fleet.plan_with_way(order, &order.intent(words, cwd))?;
        if let Some(HoldWay::Server(server)) = &mut way {
            server.equip(&mut plan, self.folder.path())?;
        }
        let control = self.source().and_then(|source| source.adapter.control());
        control
            .map(|control| (control, plan, way))
            .ok_or_else(|| Error::refused("this agent can only be read"))
    }

    /// Waits until the agent may take up the conversation.
    fn await_moment(&self, control: &'static dyn Control) -> Result<(), Error> {
        // Its own records name a minute at most; a clock that was set back must not make anybody wait for longer.
        let longest = SignedDuration::from_mins(1);
        let Some(moment) = control.hold_not_before(&self.record.order.conversation) else { return Ok(()) };
        loop {
            #[expect(clippy::disallowed_methods, reason = "the agent will look at the same clock")]
            let left = moment.duration_since(Timestamp::now());
            if !left.is_positive() || left > longest {
                return Ok(());
            }
            if self.folder.is_cancelled() {
                return Err(Error::agent_failed("the launch was cancelled"));
            }
            std::thread::sleep(left.unsigned_abs().min(MOMENT_CHECK_INTERVAL));
        }
    }

    fn source(&self) -> Option<&Source> {
        let order = &self.record.order;
        self.fleet.source(&order.adapter, &order.root)
    }

    /// Returns what to watch: where the agent records its turn, and our own directory, which receives its output and a
    /// cancellation.
    fn targets(&self) -> Vec<WatchTarget> {
        let own = WatchTarget::new(self.folder.path(), 0);
        let of_agent = self.source().map(|source| source.adapter.watch(&source.root));
        std::iter::once(own).chain(of_agent.into_iter().flatten()).collect()
    }

    /// Starts the agent; a session that is held over a line gets it as standard input and output.
    fn start(&mut self, plan: &SpawnPlan, way: Option<HoldWay>) -> Result<(Started, Option<Holder>), Error> {
        let program = self.caller.find_program(plan.program.as_ref()).ok_or_else(|| {
            Error::agent_failed(format!(
                "{} is not installed: no program `{}` on the PATH",
                self.record.order.adapter, plan.program
            ))
            .hint("install it, or name it in config.toml as `binary` of this adapter")
        })?;
        if self.record.order.terminal {
            let started = self.start_on_screen(&program, plan)?;
            self.note_start(&started, plan)?;
            return Ok((started, None));
        }
        let mut environ = self.caller.clean_environ();
        plan.env.iter().for_each(|(name, value)| environ.set(name, value));
        environ.set(MARK, &self.record.id);
        let files = || {
            let stdin = match plan.stdin {
                Stdin::Words => Some(self.folder.open_words()?),
                Stdin::Nothing | Stdin::Terminal => None,
            };
            io::Result::Ok((stdin, self.folder.open_output("stdout")?, self.folder.open_output("stderr")?))
        };
        let (mut stdin, mut stdout, stderr) =
            files().map_err(|error| failed("open the output files", &error))?;
        let pipes = match way {
            Some(HoldWay::Line(_)) => Some(Pipes::for_child(&mut stdin, &mut stdout)),
            Some(HoldWay::Server(_)) | None => None,
        };
        let pipes = pipes.transpose().map_err(|error| failed("make the pipes", &error))?;
        let args = plan.args.iter().map(Into::into).collect();
        let order = Order { program, args, environ, cwd: plan.cwd.clone(), stdin, stdout, stderr };
        let started = spawn(order).map_err(|error| failed(&format!("start `{}`", plan.program), &error))?;
        self.note_start(&started, plan)?;
        let holder = way.map(|way| self.hold(way, pipes, started.process));
        let holder = holder.transpose().map_err(|error| failed("hold the session", &error))?;
        Ok((started, holder))
    }

    fn note_start(&mut self, started: &Started, plan: &SpawnPlan) -> Result<(), Error> {
        self.record.process = started.process.map(ProcessMark::of);
        self.record.order.forget_values();
        if let IdSource::Known(id) = &plan.id {
            self.record.session_id = Some(id.clone());
        }
        self.write_record()
    }

    fn hold(&self, way: HoldWay, pipes: Option<Pipes>, agent: Option<ProcessRef>) -> io::Result<Holder> {
        let (limits, first) = (Limits::of(&self.record.order), self.folder.words()?);
        match (way, pipes, agent) {
            (HoldWay::Line(protocol), Some(pipes), agent) => {
                Holder::start((protocol, first), pipes, &self.folder, agent, limits)
            }
            (HoldWay::Server(server), _, Some(agent)) => {
                hold::keep((server, first), &self.folder, agent, limits)
            }
            (HoldWay::Line(_) | HoldWay::Server(_), ..) => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Waits for the id, and then until a survey shows the turn. The agent may exit before or after either.
    fn await_turn(&mut self, running: &mut Running, plan: &SpawnPlan) -> Result<(), Error> {
        let mut cut_short: Option<Instant> = None;
        let mut surveyed: Option<Instant> = None;
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
            if let Some(reason) = running.holder.as_ref().and_then(|holder| holder.report().first_refused) {
                return Err(Error::refused(format!("the prompt was not taken: {}", text::clean(&reason))));
            }
            if self.folder.is_cancelled() {
                return Err(self.with_screen(Error::agent_failed("the launch was cancelled")));
            }
            if running.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                let error = Error::agent_failed("its time was up before there was a session");
                return Err(self.with_screen(error));
            }
            self.check_opening(running)?;
            // Before the turn is heard of, a survey would only take processor time from the agent, and delay the one that
            // shows it.
            if running.holder.as_ref().is_some_and(|holder| !holder.has_heard_turn())
                && surveyed.is_some_and(|at| began.duration_since(at) < UNHEARD_SURVEY_INTERVAL)
            {
                rest = PAUSE;
                continue;
            }
            surveyed = Some(began);
            let session = self.turn_seen(running)?;
            rest = (began.elapsed() * PAUSE_FACTOR).max(PAUSE);
            let Some(session) = session else { continue };
            let since = cut_short.get_or_insert(began);
            if running.was_cut_short(&session) && since.elapsed() < MAY_TRY_AGAIN {
                continue;
            }
            running.hooks.created(self.caller, &session);
            return self.settle();
        }
    }

    /// Returns the session id that the agent printed, or for an agent that prints it only at the end, the id that a
    /// survey shows.
    fn learn_id(&self, running: &Running, plan: &SpawnPlan) -> Option<String> {
        if let Some(holder) = &running.holder {
            return holder.report().state.session;
        }
        let said = running.control.learn_id(self.printed().as_words());
        said.or_else(|| match plan.id {
            IdSource::Seen => seen::begun_session(self.fleet, &self.record, &self.folder.words().ok()?),
            IdSource::Known(_) | IdSource::FirstWords => None,
        })
    }

    /// Returns the session that is being continued, as it was before.
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

    /// Handles an agent that exited before its turn was seen. This is a successful launch if the turn completed. One
    /// that failed at once is no launch and leaves nothing of ours behind; what the agent recorded stays, and the error
    /// names it.
    fn ended_early(&mut self, ending: Ending, running: &mut Running, plan: &SpawnPlan) -> Result<(), Error> {
        // This runner is the first to know that the process has exited, so it writes that before the survey. Otherwise
        // another process in that directory could be taken for the owner of the session.
        self.note_exit(ending, false).map_err(|error| failed("write down how the agent ended", &error))?;
        let session = glance(self.fleet, &self.record);
        // A turn of an earlier run may have completed; the completed turn and the exit must both belong to this run.
        let is_new = !matches!(self.record.order.conversation, Conversation::Stored { .. });
        let did_its_turn = |session: &&Surveyed| {
            session.session.outcome == Some(Outcome::Completed)
                && (is_new || running.has_accepted_prompt(&self.record.order, session))
        };
        if let Some(session) = session.as_ref().filter(did_its_turn).filter(|_| ending.is_success()) {
            running.hooks.created(self.caller, session);
            return self.settle();
        }
        // That this runner has not written the exit yet is no error of the agent.
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
        let silent =
            if self.record.order.terminal { "its screen is gone with it" } else { "it said nothing" };
        let words = words.unwrap_or_else(|| silent.to_owned());
        let program = &plan.program;
        Err(match session.filter(|session| running.has_accepted_prompt(&self.record.order, session)) {
            None => {
                Error::agent_failed(format!("`{program}` ended before its turn was seen ({exit}): {words}"))
            }
            Some(session) => Error::agent_failed(format!(
                "the turn of `{program}` failed at once ({exit}): {words}"
            ))
            .hint(format!("`{program}` keeps it: `agentctl peek {}`", text::shell_word(&session.key.id))),
        })
    }

    fn settle(&mut self) -> Result<(), Error> {
        self.record.settled = true;
        self.write_record()
    }

    /// Stays with the session until its process ends.
    fn watch_to_end(mut self, mut running: Running) -> io::Result<()> {
        let (ending, timed_out) = self.wait_for_the_end(&mut running)?;
        let exit = self.note_exit(ending, timed_out)?;
        let after = After::survey(self.fleet, &self.record);
        let announced = match &self.notifier {
            Some(notifier) => notifier.end(&self.folder, &self.record, &after, &exit),
            None => self.folder.nobody_to_tell(),
        };
        let session = after.session;
        if let Err(error) = announced {
            // The hooks run all the same; the error goes to the runner's log.
            let _ = writeln!(io::stderr(), "webhook {}: {error}", self.record.id);
        }
        running.hooks.completed(self.caller, session.as_ref(), ending);
        self.deliver_callback(session.as_ref(), &exit)
    }

    /// Records how the agent ended. If a time was already recorded, it stays.
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
            ended_by: if timed_out { Some(self.timeout_reason()) } else { asked },
            found_gone_at: None,
        };
        self.folder.write_exit(&exit)?;
        Ok(exit)
    }

    fn wait_for_the_end(&mut self, running: &mut Running) -> io::Result<(Ending, bool)> {
        let mut timed_out = false;
        loop {
            self.follow_session(running);
            let left = running
                .deadline
                .filter(|_| !timed_out)
                .map(|at| at.saturating_duration_since(Instant::now()));
            if let Some(ending) = running
                .started
                .ends_within(left.unwrap_or(OUTPUT_CHECK_INTERVAL).min(OUTPUT_CHECK_INTERVAL))?
            {
                self.follow_session(running);
                return Ok((ending, timed_out));
            }
            // The last one also contains the output of the hooks.
            for output in ["stdout", "stderr", "runner.log"] {
                let _ = self.folder.cap_output(output);
            }
            if left.is_some_and(|left| left.is_zero()) {
                timed_out = true;
                self.end_session(&self.timeout_reason());
            }
            if running.holder.as_ref().is_some_and(Holder::is_over) {
                self.end_session(&Limits::of(&self.record.order).idle_end());
            }
        }
    }

    /// The agent may have gone on in another session. What is said at the end is said of the one that it had last.
    fn follow_session(&mut self, running: &Running) {
        let now = running.holder.as_ref().and_then(|holder| holder.report().state.session);
        if now.is_some() && now != self.record.session_id {
            self.record.session_id = now;
            let _ = self.write_record();
        }
    }

    /// Ends the agent cleanly if a survey shows the session, and then ends its processes in any case.
    fn end_session(&self, by: &EndedBy) {
        let options = StopOptions { grace: Duration::from_secs(10), force: false, asker: Asker::default() };
        if let Some(session) = glance(self.fleet, &self.record) {
            let _ = self.fleet.terminate(by, &session, self.caller, options);
        }
        end_family(self.fleet, &self.record);
    }

    fn timeout_reason(&self) -> EndedBy {
        let length = self.record.order.timeout_ms.and_then(|ms| i64::try_from(ms).ok());
        let length = length.map(SignedDuration::from_millis);
        EndedBy::timeout(length.map(|length| format!("--timeout {length:#}")))
    }

    fn undo(&mut self) {
        undo(self.fleet, &self.record);
    }

    fn write_record(&self) -> Result<(), Error> {
        self.folder.write_record(&self.record).map_err(|error| failed("write the launch record", &error))
    }

    fn printed(&self) -> Printed {
        Printed { stdout: self.folder.output("stdout", WORDS), stderr: self.folder.output("stderr", WORDS) }
    }
}

/// An agent that was started.
struct Running {
    started: Started,
    /// Only a held session has one.
    holder: Option<Holder>,
    /// Until when an agent over ACP must have opened a session.
    opening: Option<Instant>,
    /// Since when the turn is over by the agent's word while its records do not know the session.
    absent_since: Option<Instant>,
    control: &'static dyn Control,
    hooks: Hooks,
    deadline: Option<Instant>,
    /// The session that is being continued, as it was before.
    before: Option<Surveyed>,
    /// Exists until the turn was seen. It must be gone when the runner dies: a dead process keeps its locks until its
    /// watches are removed, which takes a while.
    watch: Option<LaunchWatch>,
}

impl Running {
    /// Pauses, and then waits until there is something to read. Returns how the agent ended, once it has.
    fn wait(&mut self, rest: Duration) -> io::Result<Option<Ending>> {
        if let Some(ending) = self.started.ends_within(rest)? {
            return Ok(Some(ending));
        }
        let left = self.deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let left = left.unwrap_or(Duration::MAX);
        if let Some(watch) = &mut self.watch {
            // What a holder hears is in no file.
            let left = if self.holder.is_some() { left.min(HOLDER_CHECK_INTERVAL) } else { left };
            watch.wait(self.started.process, left);
        }
        self.started.ended()
    }

    /// The turn of this launch is in the agent's records, and the agent is working on it.
    fn shows_turn(&self, order: &LaunchOrder, session: &Surveyed) -> bool {
        let is_at_work = matches!(session.session.status, Status::Running | Status::Waiting);
        // What an earlier run left is not this turn; a live run with its own prompt always counts as working.
        let is_this = order.is_new() || session.rule != Rule::HeadlessRunNotEnded;
        // A session that stays may be over with its first turn before it was looked at.
        let is_idle_again = || {
            let ended = |holder: &Holder| holder.report().state.last_end.is_some();
            let may_be = order.terminal || self.holder.as_ref().is_some_and(ended);
            session.session.status == Status::Idle && may_be
        };
        (is_at_work || is_idle_again()) && is_this && self.has_accepted_prompt(order, session)
    }

    /// The agent has accepted the prompt: it is in its records. A process that only has the id of its session may still
    /// exit without a turn.
    fn has_accepted_prompt(&self, order: &LaunchOrder, session: &Surveyed) -> bool {
        match order.conversation {
            Conversation::Stored { .. } => {
                session.session.updated_at != self.before.as_ref().and_then(|old| old.session.updated_at)
            }
            Conversation::New | Conversation::ForkOf { .. } => session.session.prompt.is_some(),
        }
    }

    /// The records show an end without a reply, and the process is alive: it is about to exit, or it tries again.
    fn was_cut_short(&self, session: &Surveyed) -> bool {
        match session.rule {
            Rule::HeadlessRunAfterError => true,
            Rule::HeadlessRunNotOver => !self.has_reply(session),
            _ => false,
        }
    }

    /// The model has replied in this turn.
    fn has_reply(&self, session: &Surveyed) -> bool {
        let before = self.before.as_ref().and_then(|old| old.session.last_message.as_ref());
        session.session.last_message.is_some() && session.session.last_message.as_ref() != before
    }
}

/// What the agent has printed so far.
struct Printed {
    stdout: String,
    stderr: String,
}

impl Printed {
    fn as_words(&self) -> FirstWords<'_> {
        FirstWords { stdout: &self.stdout, stderr: &self.stderr }
    }
}

fn failed(what: &str, error: &io::Error) -> Error {
    Error::agent_failed(format!("cannot {what}: {error}"))
}
