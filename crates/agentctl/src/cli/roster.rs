//! `agentctl hosts init | forget | key`: what an operator of the bus does.

use std::io::Write;
use std::path::PathBuf;

use agentctl_hosts::nats::{BusDoor, key, subjects};
use agentctl_hosts::{HostName, RoadFailure, Step};
use agentctl_model::ErrorKind;

use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::render::{path, time};
use crate::surroundings::Surroundings;

/// Makes the roster on the server.
pub(super) fn init(surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let door = door(surroundings)?;
    let made = door.open().and_then(|bus| bus.make_roster()).map_err(|failure| unheard(&failure))?;
    let url = &door.settings.url;
    if made {
        writeln!(out, "the roster is made at {url}; hosts that serve enter it by themselves")?;
    } else {
        writeln!(out, "the roster was there already at {url}")?;
    }
    if let Some(kept) = door.settings.history {
        let begun =
            door.open().and_then(|bus| bus.make_history(kept)).map_err(|failure| unheard(&failure))?;
        let words = if begun {
            "events are kept there from now on for"
        } else {
            "events were kept there already; asked was"
        };
        writeln!(out, "{words} {}", time::exact(kept))?;
    }
    Ok(Exit::Done)
}

/// Takes a host out of the roster.
pub(super) fn forget(name: &str, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let name = HostName::parse(name).map_err(|why| Failure::new(ErrorKind::Usage, why))?;
    let door = door(surroundings)?;
    let was_there = door.open().and_then(|bus| bus.forget(&name)).map_err(|failure| unheard(&failure))?;
    if !was_there {
        return Err(Failure::new(ErrorKind::NotFound, format!("`{name}` is not in the roster"))
            .hint("`agentctl hosts` lists who is"));
    }
    writeln!(out, "{name} is out of the roster")?;
    out.hint("a daemon that still serves under this name enters it again when it connects anew");
    Ok(Exit::Done)
}

/// Makes the key of a new user of the bus.
pub(super) fn new_key(
    file: &std::path::Path,
    name: Option<&str>,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let name = name.map(HostName::parse).transpose().map_err(|why| Failure::new(ErrorKind::Usage, why))?;
    let home = surroundings.environ.path("HOME");
    let file: PathBuf = path::expand(file, home.as_deref());
    // The first thing that many do here: our own folder is made, any other must be there.
    if let Some((own, _)) = surroundings.own_folder().filter(|(own, _)| file.parent() == Some(own)) {
        let _ = agentctl_files::own::make_folder(&own);
    }
    let public = key::write_new(&file).map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::AlreadyExists => "a key is never overwritten; choose another file",
            _ => "the folder must be there and belong to you alone",
        };
        Failure::new(ErrorKind::Failed, format!("{} cannot be written: {error}", file.display())).hint(hint)
    })?;
    writeln!(out, "{public}")?;
    out.hint(&format!("give this to the server; the secret half stays in {}", file.display()));
    if let Some(name) = name {
        let group = subjects::fan_out(subjects::bucket(&name));
        out.hint(&format!(
            "{name} may subscribe to agentctl.read.{name}.>, agentctl.act.{name}.> and {group}"
        ));
    }
    Ok(Exit::Done)
}

fn door(surroundings: &Surroundings) -> Result<std::sync::Arc<BusDoor>, Failure> {
    let settings = surroundings.bus(&surroundings.settings()?)?;
    settings.map(BusDoor::new).ok_or_else(|| {
        Failure::new(ErrorKind::Usage, "config.toml names no bus")
            .hint("`[nats]` with `url = \"tls://nats.example:4222\"` does")
    })
}

fn unheard(failure: &RoadFailure) -> Failure {
    let kind = if failure.step == Step::Answer { ErrorKind::Refused } else { ErrorKind::Failed };
    let said = Failure::new(kind, failure.message.clone());
    match &failure.hint {
        Some(hint) => said.hint(hint.clone()),
        None => said,
    }
}
