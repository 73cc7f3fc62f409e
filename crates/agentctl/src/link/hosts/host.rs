//! One other machine, for the length of a command: one connection, kept between its requests.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use agentctl_daemon::Problem;
use agentctl_hosts::{
    Answer, Ask, Connection, Events, Greeting, Host, HostName, LocalRoad, RoadFailure, Step,
};
use agentctl_model::{ErrorKind, Road};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::failure::Failure;
use crate::link::client::OWN_VERSION;

/// How long a machine may take beyond its timeout until a stream begins.
const FIRST_LOOK: Duration = Duration::from_secs(10);

/// A machine that can be asked, whatever road leads there.
pub(crate) struct RosterHost {
    pub(crate) name: HostName,
    pub(crate) road: Box<dyn Host>,
    kept: Mutex<Option<Box<dyn Connection>>>,
}

/// Why a machine did not do what it was asked.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// It was not heard.
    Road(RoadFailure),
    /// It refused, in its own words.
    Problem(Problem),
}

impl RosterHost {
    pub(crate) fn new(name: HostName, road: Box<dyn Host>) -> Self {
        Self { name, road, kept: Mutex::default() }
    }

    /// This machine, where it stands among others.
    pub(crate) fn here(program: PathBuf) -> Self {
        Self::new(HostName::here(), Box::new(LocalRoad { program }))
    }

    pub(crate) fn is_here(&self) -> bool {
        self.road.via() == Road::Local
    }

    /// The name of the machine in sessions.
    pub(crate) fn known_as(&self) -> String {
        if self.is_here() { agentctl_fleet::own_name() } else { self.name.to_string() }
    }

    /// What the machine says of itself, from the connection of this command.
    pub(crate) fn greeting(&self) -> Result<Greeting, RoadFailure> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_none() {
            *kept = Some(self.road.connect()?);
        }
        let greeting = kept.as_ref().map(|connection| connection.greeting().clone());
        greeting.ok_or_else(|| RoadFailure::new(Step::Connect, "there is no connection"))
    }

    /// Sends a request over the connection of this command. `longer` is what the machine may take beyond its timeout
    /// because it is asked for something that takes its time.
    pub(crate) fn ask(&self, ask: Ask<'_>, longer: Duration) -> Result<Answer, RoadFailure> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let timeout = self.road.timeout().saturating_add(longer);
        let was_kept = kept.is_some();
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => self.road.connect()?,
        };
        let mut answer = connection.ask(ask, timeout);
        // A connection that rested may have been cut meanwhile. Only a question can be asked again.
        if answer.is_err() && was_kept && ask.only_reads() {
            connection = self.road.connect()?;
            answer = connection.ask(ask, timeout);
        }
        if answer.is_ok() {
            *kept = Some(connection);
        }
        answer
    }

    /// The answer to a question.
    pub(crate) fn read<T: DeserializeOwned>(&self, ask: Ask<'_>) -> Result<T, Unanswered> {
        self.ask(ask, Duration::ZERO).map_err(Unanswered::Road).and_then(|answer| understood(&answer))
    }

    /// Asks for something to be done, which may take this long. Whether it was done is not known if no answer comes.
    pub(crate) fn done<T: DeserializeOwned>(
        &self,
        (method, target): (&str, &str),
        body: &Value,
        longer: Duration,
    ) -> Result<T, Failure> {
        let answer = self.deed(Ask::write(method, target, &body.to_string()), longer)?;
        understood(&answer).map_err(|why| self.refused(why))
    }

    /// The answer to a request that changes something.
    pub(crate) fn deed(&self, ask: Ask<'_>, longer: Duration) -> Result<Answer, Failure> {
        // A machine that has stopped would do it when it goes on, long after we have said that it failed.
        self.ask(Ask::get("/healthz"), Duration::ZERO).map_err(|failure| self.unheard(&failure))?;
        self.ask(ask, longer).map_err(|failure| self.undone(&failure))
    }

    /// Listens to a stream, which takes the connection of this command if there is one.
    pub(crate) fn listen(&self, target: &str, cursor: Option<&str>) -> Result<Box<dyn Events>, RoadFailure> {
        // A stream may begin with a first look at everything.
        let timeout = self.road.timeout() + FIRST_LOOK;
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A connection that rested may have been cut meanwhile.
        if let Some(Ok(events)) = kept.map(|connection| connection.listen(target, cursor, timeout)) {
            return Ok(events);
        }
        self.road.connect()?.listen(target, cursor, timeout)
    }

    /// Why a machine that was just heard did not do what it was asked for.
    fn undone(&self, failure: &RoadFailure) -> Failure {
        match failure.step {
            Step::Answer => Failure::new(
                ErrorKind::NoAnswer,
                format!("{} was asked for it and gave no answer: {}", self.name, failure.message),
            )
            .hint("whether it was done is not known; look before you ask again"),
            // It lets us look and not act, or somebody on the way does: that is an answer.
            Step::Authenticate => {
                let words = format!("nothing was done on {}: {}", self.name, failure.message);
                let said = Failure::new(ErrorKind::Refused, words);
                failure.hint.iter().fold(said, Failure::hint)
            }
            _ => self.unheard(failure),
        }
    }

    pub(crate) fn unheard(&self, failure: &RoadFailure) -> Failure {
        let message = format!("{} was not heard: {}", self.name, failure.message);
        let said = Failure::new(ErrorKind::Incomplete, message);
        match &failure.hint {
            Some(hint) => said.hint(hint),
            None => said.hint(format!("`agentctl hosts check {}` says more", self.name)),
        }
    }

    /// Its refusal as if this machine had refused: kind, words and hint stay.
    pub(crate) fn refused(&self, why: Unanswered) -> Failure {
        let problem = match why {
            Unanswered::Road(failure) => return self.unheard(&failure),
            Unanswered::Problem(problem) => problem,
        };
        let version = self.greeting().map(|greeting| greeting.version).unwrap_or_default();
        if is_not_known_there(&problem) && version != OWN_VERSION {
            let version = agentctl_model::text::one_line(&version);
            let words = format!("agentctl {version} on {} does not know this: {}", self.name, problem.detail);
            return Failure::from(agentctl_model::Error::new(ErrorKind::Unsupported, words))
                .hint(format!("install agentctl {OWN_VERSION} there"));
        }
        Failure::from(&problem)
    }
}

/// Whether the machine has no such route, parameter or key.
pub(super) fn is_not_known_there(problem: &Problem) -> bool {
    let route = problem.code == "not-found" && problem.detail.starts_with("there is no ");
    let name =
        problem.detail.contains("unknown field") || problem.detail.starts_with("no parameter is called");
    route || (problem.code == "usage" && name)
}

pub(crate) fn understood<T: DeserializeOwned>(answer: &Answer) -> Result<T, Unanswered> {
    let unreadable = |words: String| {
        Unanswered::Road(
            RoadFailure::new(Step::Answer, words).hint("the versions there and here may be too far apart"),
        )
    };
    if !answer.is_done() {
        return Err(serde_json::from_slice(&answer.body)
            .map_or_else(|_| unreadable(format!("it answered {}", answer.status)), Unanswered::Problem));
    }
    serde_json::from_slice(&answer.body)
        .map_err(|error| unreadable(format!("its answer cannot be read: {error}")))
}
