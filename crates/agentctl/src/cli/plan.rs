//! `agentctl resume ID MESSAGE --at TIME`: the daemon keeps the plan and carries it out.

use std::io::Write;

use agentctl_daemon::Planned;
use agentctl_fleet::act::launch::ResumeRequest;
use agentctl_model::{ErrorKind, text};
use serde_json::json;

use super::fuses;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::client::Ask;
use crate::link::daemon_process::DaemonProcess;
use crate::link::hosts::Located;
use crate::link::hosts::steer::{length, plan_path};
use crate::output::Output;
use crate::render::{json, time};
use crate::surroundings::Surroundings;

/// The ends of the names of variables that agents get keys and addresses from.
const NEEDED: [&str; 5] = ["_API_KEY", "_AUTH_TOKEN", "_BASE_URL", "_OAUTH_TOKEN", "_PROXY"];

pub(super) fn run(
    at: &str,
    words: &str,
    request: &ResumeRequest,
    target: &Located,
    (adapter, as_json): (Option<&str>, bool),
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let mut body = json!({
        "at": at, "message": words,
        "options": {
            "model": request.model, "permissionMode": request.permission, "onComplete": request.on_complete,
            "timeout": request.stay.timeout.map(length), "hold": request.stay.hold,
            "idleTimeout": request.stay.idle_timeout.map(length), "terminal": request.stay.terminal,
        },
    });
    let path = plan_path(&target.found, adapter);
    let planned: Planned = if let Some(far) = &target.far {
        far.plan(&path, &body)?
    } else {
        body["variables"] = json!(surroundings.root_variables());
        body["needs"] = json!(needed(surroundings));
        let process = DaemonProcess::new(surroundings)?;
        let answer = process.needed()?.done(Ask::write("POST", &path, &body.to_string()))?;
        serde_json::from_slice(&answer)
            .map_err(|error| Failure::new(ErrorKind::Failed, format!("the daemon's answer: {error}")))?
    };
    if !planned.lacks.is_empty() {
        let names = planned.lacks.join(", ");
        out.warn(&format!("the daemon, which will resume it, does not have {names}"));
        out.hint("start the daemon where they are set (`agentctl daemon restart`), or write them into the agent's own settings");
    }
    if as_json {
        json::answer(out, &planned.fuse)?;
        return Ok(Exit::Done);
    }
    let far = target.far.as_ref().map(|far| far.known_as());
    writeln!(out, "planned: {}", fuses::words(&planned.fuse, far.as_deref(), surroundings))?;
    if let (None, Some(at)) = (&far, planned.fuse.expires_at) {
        let moment = time::moment(surroundings.now(), at, &surroundings.zone);
        writeln!(out, "  at {moment}, if nobody takes it up before")?;
    }
    out.hint(&format!("`agentctl fuse cancel {}` takes it back", text::one_line(&planned.fuse.id)));
    Ok(Exit::Done)
}

/// Variables of this environment that the agent may need. Only their names are told.
fn needed(surroundings: &Surroundings) -> Vec<String> {
    let names = surroundings.variables_with(&std::collections::BTreeMap::new()).into_keys();
    names.filter(|name| NEEDED.iter().any(|end| name.to_uppercase().ends_with(end))).collect()
}
