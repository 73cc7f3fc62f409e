//! The road to this machine itself, where it stands among others: its own program, without ssh.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use agentctl_model::Road;

use crate::connection::PipeConnection;
use crate::failure::{RoadFailure, Step};
use crate::road::{Connection, Host};

/// How long this machine may take.
const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct LocalRoad {
    /// agentctl itself.
    pub program: PathBuf,
}

impl Host for LocalRoad {
    fn via(&self) -> Road {
        Road::Local
    }

    fn timeout(&self) -> Duration {
        TIMEOUT
    }

    #[expect(clippy::disallowed_methods, reason = "this very program is the other end of the road")]
    fn connect(&self) -> Result<Box<dyn Connection>, RoadFailure> {
        let deadline = Instant::now() + TIMEOUT;
        let mut command = Command::new(&self.program);
        // What is done here is done in the environment of whoever asks, not in that of the daemon.
        command.args(["__serve-stdio", "--in-process"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let unstarted =
            |error| RoadFailure::new(Step::Program, format!("agentctl cannot be started: {error}"));
        let child = command.spawn().map_err(unstarted)?;
        let connection = PipeConnection::open(child, deadline, |_, error| {
            let why = error.map_or_else(|| "it ended without a word".to_owned(), ToString::to_string);
            RoadFailure::new(Step::Program, format!("agentctl of this machine does not answer: {why}"))
        })?;
        Ok(Box::new(connection))
    }
}
