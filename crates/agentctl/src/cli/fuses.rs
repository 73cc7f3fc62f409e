//! `agentctl fuses`: those that are set, the next to expire first.

use std::io::Write;

use agentctl_daemon::{Fuse, FuseList, Stage};

use crate::daemon_process::{DaemonProcess, Presence};
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::render::{json, path, sessions, time};
use crate::surroundings::Surroundings;

/// Show the fuses that are set
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let list = FuseList::read(&surroundings.store()?)?;
    if args.json {
        json::answer(out, &list)?;
    } else if list.fuses.is_empty() {
        writeln!(out, "no fuse is set; `agentctl fuse set DIR --ttl 2h` sets one")?;
    }
    for fuse in list.fuses.iter().filter(|_| !args.json) {
        writeln!(out, "{}", words(fuse, surroundings))?;
    }
    if !list.fuses.is_empty() {
        match DaemonProcess::new(surroundings)?.presence() {
            Ok(Presence::Answers(_)) => {}
            Ok(Presence::Silent { pid }) => {
                let (words, next) = DaemonProcess::silent(pid);
                out.warn(&format!("{words}, so no fuse burns; {next}"));
            }
            // Where its lock cannot be looked at none can run either.
            Ok(Presence::Nobody) | Err(_) => {
                out.warn("no daemon runs, so no fuse burns; `agentctl daemon start` starts one");
            }
        }
    }
    Ok(Exit::Done)
}

/// One line: which, on what, how long still, and what for.
pub(crate) fn words(fuse: &Fuse, surroundings: &Surroundings) -> String {
    let mut words = vec![fuse.id.clone()];
    words.extend(fuse.directory.as_ref().map(|folder| path::shown(folder, surroundings.home.as_deref())));
    words.extend(fuse.session_id.as_ref().map(|id| format!("session {id}")));
    words.extend(fuse.expires_at.map(|at| {
        let now = surroundings.now();
        if at <= now { "expires now".to_owned() } else { format!("expires in {}", time::ahead(at, now)) }
    }));
    words.extend(fuse.max_tokens.map(|tokens| format!("at {tokens} tokens")));
    words.extend(fuse.max_cost.map(|cost| format!("at {}", sessions::cost(cost))));
    let stage = match fuse.stage {
        Stage::Set => None,
        Stage::Warned => Some("(warned)"),
        Stage::Reached => Some("(reached)"),
        Stage::Interrupted => Some("(interrupted)"),
        Stage::Firing => Some("(firing)"),
    };
    words.extend(stage.map(str::to_owned));
    words.extend(fuse.label.as_ref().map(|label| format!("- {label}")));
    agentctl_model::text::one_line(&words.join(" "))
}
