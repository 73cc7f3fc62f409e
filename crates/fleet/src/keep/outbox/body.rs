//! Makes the body of a webhook from an event. Pure.

use agentctl_model::{Event, Outcome, Session, Status};
use jiff::Timestamp;

use super::payload::Payload;

/// Returns the body of the webhook for an event. `found_later` means that the end was not observed; then `at` is not
/// the time of the end.
pub fn body(event: &Event, at: Timestamp, found_later: bool) -> String {
    let session = event.session.as_deref();
    let seen_at = (!found_later).then_some(at);
    let value = Payload {
        hook_type: event.kind.as_str(),
        session_id: event.session_id.as_deref(),
        adapter: event.adapter.as_deref(),
        duration_seconds: session.and_then(|session| duration(session, seen_at)),
        // This is the same text whether the runner or the daemon writes it. An exit code is known of some ends only,
        // and is part of the launch.
        exit_status: session.and_then(|session| session.outcome).map(Outcome::as_str),
        summary: session.and_then(summary).or_else(|| event.fuse.as_ref()?.label.as_deref()),
        meta: session.map(|session| &session.meta),
        timestamp: at,
        session,
        source: event.source.as_ref(),
        fuse: event.fuse.as_deref(),
        lock: event.lock.as_deref(),
    };
    let mut bytes = Vec::new();
    // Plain data can always be serialised, and the output is UTF-8.
    let _ = agentctl_model::text::json::write(&mut bytes, &value);
    String::from_utf8(bytes).unwrap_or_default()
}

/// The pending request of a waiting session; otherwise the session's last message.
fn summary(session: &Session) -> Option<&str> {
    let request = || session.pending.iter().find_map(|pending| pending.summary.as_deref());
    let waits = || request().or(session.status_detail.as_deref());
    let waiting = (session.status == Status::Waiting).then(waits).flatten();
    waiting.or(session.last_message.as_deref())
}

/// How long a session lasted: to its end if that is known, else to the moment at which its end was seen.
pub fn duration(session: &Session, seen_at: Option<Timestamp>) -> Option<f64> {
    let end = session.stopped_at.or(seen_at)?;
    Some(end.duration_since(session.started_at?).as_secs_f64().max(0.0))
}

#[cfg(test)]
mod tests {
    use agentctl_model::{EventKind, LaunchInfo, Pending, PendingKind};
    use serde_json::Value;

    use super::*;
    use agentctl_testkit::sessions::session;

    #[test]
    fn the_end_is_the_known_one_and_the_exit_status_one_kind_of_word() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut ended = session("s-1", Status::Stopped, Some(Outcome::Interrupted));
        (ended.started_at, ended.updated_at) = (Some(at(100)), Some(at(110)));
        assert_eq!(duration(&ended, Some(at(160))), Some(60.0), "not to its last record");
        assert_eq!(duration(&ended, None), None, "nobody knows");
        ended.stopped_at = Some(at(130));
        assert_eq!(duration(&ended, Some(at(160))), Some(30.0));
        ended.launch = Some(LaunchInfo { exit_code: Some(143), ..LaunchInfo::default() });
        let event = Event::stopped("pi", "s-1", Some(&ended));
        let body: Value = serde_json::from_str(&body(&event, at(160), false)).unwrap();
        assert_eq!((&body["exit_status"], &body["duration_seconds"]), (&"interrupted".into(), &30.0.into()));
    }

    #[test]
    fn the_summary_of_one_that_waits_is_the_request() {
        let command = "bash: rm -rf build  &&  make | tee log";
        let mut waiting = session("s-1", Status::Waiting, None);
        waiting.last_message = Some("I will clean up".to_owned());
        let (kind, summary) = (PendingKind::Approval, Some(command.to_owned()));
        waiting.pending = vec![Pending::new(kind, summary, None).answerable(true)];
        let body = |session: &Session| {
            let event =
                Event { kind: EventKind::SessionWaiting, ..Event::stopped("pi", "s-1", Some(session)) };
            serde_json::from_str::<Value>(&body(&event, Timestamp::UNIX_EPOCH, false)).unwrap()
        };
        assert_eq!(body(&waiting)["summary"], command);
        let running = Session { status: Status::Running, pending: Vec::new(), ..waiting };
        assert_eq!(body(&running)["summary"], "I will clean up");
    }
}
