//! Starts an agent to ask it what it is and which sessions it has, and ends it again. This happens only when somebody names
//! the agent and wants to know.

use std::fs::File;
use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use agentctl_adapters::agents::acp::AcpAgent;
use agentctl_adapters::hold::acp::inventory::{Inquiry, Progress};
use agentctl_files::kernel::dev_null;
use agentctl_model::Environ;
use agentctl_process::{Kernel, Order, Started, spawn};
use jiff::SignedDuration;

use super::Pipes;
use crate::act::caller::{all_marks, find_program};
use crate::act::stop::termination::Termination;
use crate::keep::launches::MARK;
use crate::keep::new_names;

/// What the reader of the agent's output takes at once.
const CHUNK: usize = 64 << 10;

/// An agent that says more than this in answer to two questions is given up.
const MOST_OUTPUT: usize = 256 << 20;

/// How long an agent may take to end after its line was closed.
const GRACE: Duration = Duration::from_secs(3);

/// Asks the agent, within the time that it has to open a session. The error says why it could not be asked.
pub(crate) fn inquire(
    agent: &AcpAgent,
    environ: &Environ,
    wants_sessions: bool,
    kernel: &dyn Kernel,
) -> Result<Inquiry, String> {
    let program = find_program(agent.program().as_ref(), environ)
        .ok_or_else(|| format!("no program `{}` is on the PATH", agent.program()))?;
    let launch = new_names::launch_id().map_err(|error| error.to_string())?;
    let mut variables = environ.clone();
    all_marks().for_each(|mark| variables.remove(mark));
    agent.env.iter().for_each(|(name, value)| variables.set(name, value));
    variables.set(MARK, &launch);
    let failed = |error: std::io::Error| format!("cannot start `{}`: {error}", agent.program());
    let (mut stdin, mut stdout) = (None, dev_null().map_err(failed)?);
    let pipes = Pipes::for_child(&mut stdin, &mut stdout).map_err(failed)?;
    let started = spawn(Order {
        program,
        args: agent.command.iter().skip(1).map(Into::into).collect(),
        environ: variables,
        // It works on nothing, so it is nowhere in particular.
        cwd: environ.path("HOME").filter(|home| home.is_dir()).unwrap_or_else(|| "/".into()),
        stdin,
        stdout,
        stderr: dev_null().map_err(failed)?,
    })
    .map_err(failed)?;
    let asked = converse(pipes, wants_sessions, agent.opening_timeout);
    end(started, launch, kernel);
    asked
}

fn converse(pipes: Pipes, wants_sessions: bool, timeout: Duration) -> Result<Inquiry, String> {
    let deadline = Instant::now() + timeout;
    let (mut inquiry, first) = Inquiry::open(wants_sessions);
    let (bytes, heard) = channel();
    let (from_agent, mut to_agent) = (pipes.from_agent, pipes.to_agent);
    let reader = Builder::new().name("inquiry".into()).spawn(move || read(from_agent, &bytes));
    reader.map_err(|error| error.to_string())?;
    // The questions are short, so the pipe takes them at once.
    let mut tell =
        |bytes: &[u8]| to_agent.write_all(bytes).map_err(|_| "the agent closed its line".to_owned());
    tell(&first)?;
    let mut length = 0;
    loop {
        let chunk = next(&heard, deadline).map_err(|silent| match silent {
            Silent::Late => {
                let limit = SignedDuration::try_from(timeout).unwrap_or_default();
                format!("the agent did not answer within {limit:#}")
            }
            Silent::Gone => "the agent ended before it answered".to_owned(),
        })?;
        length += chunk.len();
        if length > MOST_OUTPUT {
            return Err("the agent says far more than it was asked".to_owned());
        }
        match inquiry.hear(&chunk) {
            Progress::More(bytes) => tell(&bytes)?,
            Progress::Done => return Ok(inquiry),
            Progress::Failed(why) => return Err(why),
        }
    }
}

enum Silent {
    Late,
    Gone,
}

fn next(heard: &Receiver<Vec<u8>>, deadline: Instant) -> Result<Vec<u8>, Silent> {
    heard.recv_timeout(deadline.saturating_duration_since(Instant::now())).map_err(|error| match error {
        RecvTimeoutError::Timeout => Silent::Late,
        RecvTimeoutError::Disconnected => Silent::Gone,
    })
}

/// Passes on what the agent writes, until nobody listens.
fn read(mut from_agent: File, heard: &std::sync::mpsc::Sender<Vec<u8>>) {
    let mut chunk = vec![0; CHUNK];
    while let Ok(count @ 1..) = from_agent.read(&mut chunk) {
        if heard.send(chunk[..count].to_vec()).is_err() {
            break;
        }
    }
}

/// Its line is closed, so it ends; whatever of it does not is ended.
fn end(mut started: Started, launch: String, kernel: &dyn Kernel) {
    let _ = started.ends_within(GRACE);
    let termination = Termination {
        kernel,
        owners: started.process.into_iter().collect(),
        launch: Some(launch),
        marks: Vec::new(),
        source: None,
        known: Vec::new(),
    };
    termination.finish();
    let _ = started.ends_within(GRACE);
}
