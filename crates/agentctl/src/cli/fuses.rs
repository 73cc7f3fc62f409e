//! `agentctl fuses`: those that are set, the next to expire first.

use std::io::Write;

use jiff::Timestamp;
use serde::Deserialize;

use crate::client::{Ask, Client};
use crate::daemon_process::DaemonProcess;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::render::{path, sessions, time};
use crate::surroundings::Surroundings;

/// Show the fuses that are set
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// What is shown of a fuse.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Shown {
    pub(crate) id: String,
    pub(crate) directory: Option<String>,
    pub(crate) session_id: Option<String>,
    label: Option<String>,
    expires_at: Option<Timestamp>,
    max_tokens: Option<u64>,
    max_cost: Option<f64>,
    stage: String,
}

#[derive(Deserialize)]
struct Answer {
    fuses: Vec<Shown>,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let process = DaemonProcess::new(surroundings)?;
    let client = process.needed()?;
    if args.json {
        out.write_all(&client.done(Ask::get("/v1/fuses"))?)?;
        writeln!(out)?;
        return Ok(Exit::Done);
    }
    let fuses = ask(client)?;
    if fuses.is_empty() {
        writeln!(out, "no fuse is set; `agentctl fuse set DIR --ttl 2h` sets one")?;
    }
    for fuse in fuses {
        writeln!(out, "{}", fuse.words(surroundings))?;
    }
    Ok(Exit::Done)
}

pub(crate) fn ask(client: &Client) -> Result<Vec<Shown>, Failure> {
    let answer: Answer = serde_json::from_slice(&client.done(Ask::get("/v1/fuses"))?)?;
    Ok(answer.fuses)
}

impl Shown {
    /// One line: which, on what, how long still, and what for.
    pub(crate) fn words(&self, surroundings: &Surroundings) -> String {
        let mut words = vec![self.id.clone()];
        words.extend(self.directory.as_ref().map(|folder| path::shown(folder, surroundings.home.as_deref())));
        words.extend(self.session_id.as_ref().map(|id| format!("session {id}")));
        words.extend(self.expires_at.map(|at| {
            let left = time::elapsed(at, surroundings.now());
            if left.is_zero() {
                "expires now".to_owned()
            } else {
                format!("expires in {}", time::short(left))
            }
        }));
        words.extend(self.max_tokens.map(|tokens| format!("at {tokens} tokens")));
        words.extend(self.max_cost.map(|cost| format!("at {}", sessions::cost(cost))));
        words.extend((self.stage != "set").then(|| format!("({})", self.stage)));
        words.extend(self.label.as_ref().map(|label| format!("- {label}")));
        agentctl_model::text::one_line(&words.join(" "))
    }
}
