//! `agentctl __serve-stdio`: the API on the standard streams, for a caller on another machine who has a shell here. It
//! goes through the daemon if one runs, and is served in this process otherwise. It ends with its input and leaves
//! nothing behind. Users do not call it.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use agentctl_daemon::wire::Caller;
use agentctl_daemon::{Home, InProcess, serve_in_process};
use agentctl_hosts::Greeting;
use agentctl_model::ErrorKind;

use crate::daemon_context::DaemonContext;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::client::{Answer, Ask, OWN_VERSION};
use crate::surroundings::Surroundings;

/// How much is passed on at once.
const PIECE: usize = 64 << 10;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Leave the daemon alone: what is asked is done in this environment
    #[arg(long)]
    in_process: bool,
}

pub(crate) fn run(args: &Args, surroundings: Surroundings) -> Result<Exit, Failure> {
    let failed = |error: io::Error| Failure::new(ErrorKind::Failed, format!("cannot serve: {error}"));
    let Some((folder, _)) = surroundings.own_folder() else {
        let failure = Failure::new(ErrorKind::Failed, "HOME is not set, so nothing can be found");
        return Err(failure.hint("set HOME or AGENTCTL_HOME"));
    };
    let home = Home::at(folder);
    let host = surroundings.host();
    let through_daemon = if args.in_process { None } else { daemon(&surroundings, &home) };
    let instance = surroundings.instance();
    let (stream, caller) = if let Some((stream, caller)) = through_daemon {
        (stream, Some(caller))
    } else {
        let context = Arc::new(DaemonContext::new(surroundings));
        let options = InProcess {
            home,
            version: OWN_VERSION.to_owned(),
            host: host.clone(),
            settings: context.clone(),
            stopper: context,
        };
        (serve_in_process(options).map_err(failed)?, None)
    };
    let greeting = Greeting { version: OWN_VERSION.to_owned(), host, instance, caller };
    pass_on(stream, &greeting.line()).map_err(failed)?;
    Ok(Exit::Done)
}

/// A connection to the daemon and the sources that it is to read, if one of this version answers and can read what
/// this environment names.
fn daemon(surroundings: &Surroundings, home: &Home) -> Option<(UnixStream, String)> {
    let client = surroundings.client()?;
    let caller = Caller::of(&surroundings.fleet().ok()?)?.header()?;
    client.ask(Ask::get("/healthz")).ok().filter(Answer::is_of_our_version)?;
    Some((agentctl_daemon::call(&home.socket()).ok()?, caller))
}

/// Passes bytes both ways until the input ends or nobody reads the output.
fn pass_on(stream: UnixStream, greeting: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(greeting.as_bytes())?;
    output.flush()?;
    let mut to_api = stream.try_clone()?;
    std::thread::Builder::new().name("input".into()).spawn(move || {
        let _ = copy(&mut io::stdin().lock(), &mut to_api);
        // The caller is gone, so a stream of events that is still open ends as well.
        let _ = to_api.shutdown(Shutdown::Both);
    })?;
    let mut from_api = stream;
    match copy(&mut from_api, &mut output) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        match from.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                to.write_all(&piece[..count])?;
                to.flush()?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
