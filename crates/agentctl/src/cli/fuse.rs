//! `agentctl fuse`: timers on directories, limits on sessions.

use std::io::Write;
use std::path::PathBuf;

use agentctl_daemon::encode;
use agentctl_daemon::wire::Caller;
use serde_json::{Value, json};

use super::fuses::{self, Shown};
use crate::client::Ask;
use crate::daemon_process::DaemonProcess;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::render::json as writer;
use crate::surroundings::Surroundings;

/// Set, extend or cancel fuses: timers on directories, limits on sessions
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A fuse survives the daemon; what expired while it was down fires once when it is back.\n\n\
    Examples:\n  \
    agentctl fuse set ~/w/site --ttl 2h --on-expire-script 'rm -rf tmp'\n  \
    agentctl fuse extend ~/w/site --ttl 1h\n  \
    agentctl fuse set --session 5f0c --max-tokens 2000000 --max-time 3h"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Set a fuse; one on the same directory or session makes way
    Set(Box<Set>),
    /// Let a fuse burn longer, from now
    Extend {
        #[command(flatten)]
        on: On,
        /// How long: 10m, 2h
        #[arg(long, value_name = "TIME")]
        ttl: String,
        /// The fuse as JSON
        #[arg(long)]
        json: bool,
    },
    /// Take a fuse away; nothing fires
    Cancel {
        #[command(flatten)]
        on: On,
        /// The fuse as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct On {
    /// The directory
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    directory: Option<PathBuf>,
    /// A session: full id, unique beginning of one, or exact name
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

#[derive(Debug, clap::Args)]
struct Set {
    #[command(flatten)]
    on: On,
    /// How long until a directory's fuse expires: 10m, 2h
    #[arg(long, value_name = "TIME", conflicts_with = "session")]
    ttl: Option<String>,
    /// How long the session may go on from now
    #[arg(long, value_name = "TIME", conflicts_with = "directory")]
    max_time: Option<String>,
    /// How many tokens the session may have used
    #[arg(long, value_name = "N", conflicts_with = "directory")]
    max_tokens: Option<u64>,
    /// How many US dollars the session may have cost
    #[arg(long, value_name = "DOLLARS", conflicts_with = "directory")]
    max_cost: Option<f64>,
    /// Run this command line of the shell when it expires
    #[arg(long, value_name = "CMD")]
    on_expire_script: Option<String>,
    /// Tell this address when it expires
    #[arg(long, value_name = "URL")]
    on_expire_webhook: Option<String>,
    /// A name that the event `fuse.expired` carries
    #[arg(long, value_name = "NAME")]
    on_expire_event: Option<String>,
    /// Words for whoever sees it
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// The fuse as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let process = DaemonProcess::new(surroundings)?;
    let (done, fuse, as_json) = match &args.command {
        Command::Set(set) => ("set", set.put(&process, surroundings)?, set.json),
        Command::Extend { on, ttl, json } => {
            let target = format!("/v1/fuses/{}/extend", encode(&on.fuse(&process, surroundings)?));
            let body = json!({ "ttl": ttl }).to_string();
            let answer = process.needed()?.done(Ask::write("POST", &target, &body))?;
            ("extended", read(&answer)?, *json)
        }
        Command::Cancel { on, json } => {
            let target = format!("/v1/fuses/{}", encode(&on.fuse(&process, surroundings)?));
            let answer = process.needed()?.done(Ask::write("DELETE", &target, "{}"))?;
            ("cancelled", read(&answer)?, *json)
        }
    };
    if as_json {
        writer::answer(out, &fuse)?;
        return Ok(Exit::Done);
    }
    let shown: Shown = serde_json::from_value(fuse)?;
    writeln!(out, "{done}: {}", shown.words(surroundings))?;
    Ok(Exit::Done)
}

impl Set {
    fn put(&self, process: &DaemonProcess<'_>, surroundings: &Surroundings) -> Result<Value, Failure> {
        let body = json!({
            "directory": self.on.directory(surroundings),
            "ttl": self.ttl,
            "session": self.on.session,
            "maxTime": self.max_time,
            "maxTokens": self.max_tokens,
            "maxCost": self.max_cost,
            "label": self.label,
            "onExpire": {
                "script": self.on_expire_script,
                "webhook": self.on_expire_webhook,
                "event": self.on_expire_event,
            },
        });
        let client = process.needed()?.clone();
        let client = match Caller::of(&surroundings.fleet()?).and_then(|caller| caller.header()) {
            Some(caller) => client.speaking_for(caller),
            None => client,
        };
        read(&client.done(Ask::write("POST", "/v1/fuses", &body.to_string()))?)
    }
}

impl On {
    fn directory(&self, surroundings: &Surroundings) -> Option<String> {
        let directory = self.directory.as_ref()?;
        Some(surroundings.meant(directory).to_string_lossy().into_owned())
    }

    /// The id of the fuse that is set on this.
    fn fuse(&self, process: &DaemonProcess<'_>, surroundings: &Surroundings) -> Result<String, Failure> {
        let directory = self.directory(surroundings);
        let is_meant = |fuse: &Shown| match (&directory, &self.session) {
            (Some(directory), _) => fuse.directory.as_ref() == Some(directory),
            (None, Some(id)) => fuse.session_id.as_ref().is_some_and(|known| known.starts_with(id.as_str())),
            (None, None) => false,
        };
        let mut fitting: Vec<Shown> = fuses::ask(process.needed()?)?.into_iter().filter(is_meant).collect();
        let what = directory.as_deref().or(self.session.as_deref()).unwrap_or_default();
        match (fitting.pop(), fitting.is_empty()) {
            (Some(one), true) => Ok(one.id),
            (Some(_), false) => Err(Failure::new(Exit::Ambiguous, format!("`{what}` fits several fuses"))),
            (None, _) => Err(Failure::new(Exit::NotFound, format!("no fuse is set on {what}"))
                .hint("`agentctl fuses` shows those that are")),
        }
    }
}

fn read(answer: &[u8]) -> Result<Value, Failure> {
    serde_json::from_slice(answer).map_err(|error| {
        Failure::new(Exit::Failed, format!("the daemon's answer is not understood: {error}"))
    })
}
