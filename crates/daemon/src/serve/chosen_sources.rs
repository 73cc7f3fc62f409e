//! Chooses the sources of a request: the caller's, if the request names them, or else the daemon's own.

use agentctl_fleet::Fleet;
use axum::http::HeaderMap;

use crate::serve::problem::Problem;
use crate::serve::server::Peer;
use crate::settings::Settings;
use crate::wire::{CALLER, Caller};

/// The fleet for this request. A caller over TCP cannot point the daemon at other folders.
pub(crate) fn fleet(settings: &dyn Settings, headers: &HeaderMap, peer: &Peer) -> Result<Fleet, Problem> {
    let own = settings.fleet().map_err(|why| {
        Problem::failed(why).hint("`agentctl config check` tries the file again once it is corrected")
    })?;
    match headers.get(CALLER) {
        Some(value) if matches!(peer, Peer::Unix { .. }) => {
            let wrong = |why: String| Problem::usage(format!("{CALLER}: {why}"));
            let caller: Caller =
                serde_json::from_slice(value.as_bytes()).map_err(|error| wrong(error.to_string()))?;
            Ok(own.reading(caller.sources(&own).map_err(wrong)?))
        }
        _ => Ok(own),
    }
}
