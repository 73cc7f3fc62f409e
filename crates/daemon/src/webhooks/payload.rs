//! What a webhook says. Pure.

use serde_json::{Value, json};

use crate::events::Event;
use crate::metrics::duration;

/// The body for an event: the flat fields that receivers know, and the whole objects.
pub(crate) fn of_event(event: &Event) -> Value {
    let session = event.session.as_deref();
    let exit = session.and_then(|session| session.launch.as_ref()?.exit_code);
    let outcome = session.and_then(|session| session.outcome).map(agentctl_model::Outcome::word);
    json!({
        "hook_type": event.kind,
        "session_id": event.session_id,
        "adapter": event.adapter,
        "duration_seconds": session.and_then(duration),
        "exit_status": exit.map_or_else(|| json!(outcome), |code| json!(code)),
        "summary": session.and_then(|session| session.last_message.as_ref()),
        "meta": session.map(|session| &session.meta),
        "timestamp": event.at,
        "session": session,
        "source": event.source,
        "fuse": event.fuse,
    })
}

/// The body for a fuse that names its own address.
pub(crate) fn of_fuse(fuse: &Value, at: jiff::Timestamp) -> Value {
    json!({
        "hook_type": "fuse.expired", "session_id": fuse["sessionId"], "adapter": fuse["adapter"],
        "duration_seconds": null, "exit_status": null, "summary": fuse["label"], "meta": null, "timestamp": at,
        "session": null, "source": null, "fuse": fuse,
    })
}
