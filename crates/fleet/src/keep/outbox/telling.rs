//! What a webhook says. Pure.

use agentctl_model::{Outcome, Session, SourceReport, Status};
use jiff::Timestamp;
use serde_json::Value;

use super::payload::Payload;
use crate::keep::locks::DirectoryHolder;

/// Something that happened, to be told: the flat fields that receivers know, and the whole objects.
#[derive(Debug, Clone, Copy)]
pub struct Telling<'a> {
    /// The type of the event.
    pub kind: &'a str,
    pub at: Timestamp,
    pub session_id: Option<&'a str>,
    pub adapter: Option<&'a str>,
    pub session: Option<&'a Session>,
    pub source: Option<&'a SourceReport>,
    pub fuse: Option<&'a Value>,
    pub lock: Option<&'a DirectoryHolder>,
    /// Nobody saw it happen: it was found so later.
    pub found_later: bool,
}

impl<'a> Telling<'a> {
    /// What a session waits for is what the receiver is to decide about; otherwise what it said last.
    fn summary(&self) -> Option<&'a str> {
        let session = self.session?;
        let request = || session.pending.iter().find_map(|pending| pending.summary.as_deref());
        let waits = || request().or(session.status_detail.as_deref());
        let waiting = (session.status == Status::Waiting).then(waits).flatten();
        waiting.or(session.last_message.as_deref())
    }

    /// The body, as it is sent.
    pub fn body(&self) -> String {
        let session = self.session;
        let seen_at = (!self.found_later).then_some(self.at);
        let outcome = session.and_then(|session| session.outcome).map(Outcome::as_str);
        let label = self.fuse.and_then(|fuse| fuse.get("label")?.as_str());
        let value = Payload {
            hook_type: self.kind,
            session_id: self.session_id,
            adapter: self.adapter,
            duration_seconds: session.and_then(|session| duration(session, seen_at)),
            // The same word whoever tells it: an exit code is known of some ends only, and stands in the launch.
            exit_status: outcome,
            summary: self.summary().or(label),
            meta: session.map(|session| &session.meta),
            timestamp: self.at,
            session,
            source: self.source,
            fuse: self.fuse,
            lock: self.lock,
        };
        let mut bytes = Vec::new();
        // Plain data: it can always be written, and the writer makes text.
        let _ = agentctl_model::text::json::write(&mut bytes, &value);
        String::from_utf8(bytes).unwrap_or_default()
    }
}

/// How long a session lasted: to its end where that is known, else to the moment in which somebody saw it end.
pub fn duration(session: &Session, seen_at: Option<Timestamp>) -> Option<f64> {
    let end = session.stopped_at.or(seen_at)?;
    Some(end.duration_since(session.started_at?).as_secs_f64().max(0.0))
}

#[cfg(test)]
mod tests {
    use agentctl_model::{LaunchInfo, Pending, PendingKind};

    use super::*;
    use crate::read::list::made::session;

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
        let telling = Telling {
            kind: "session.stopped",
            at: at(160),
            session_id: Some("s-1"),
            adapter: Some("pi"),
            session: Some(&ended),
            source: None,
            fuse: None,
            lock: None,
            found_later: false,
        };
        let body: Value = serde_json::from_str(&telling.body()).unwrap();
        assert_eq!((&body["exit_status"], &body["duration_seconds"]), (&"interrupted".into(), &30.0.into()));
    }

    #[test]
    fn the_summary_of_one_that_waits_is_the_request() {
        let command = "bash: rm -rf build  &&  make | tee log";
        let mut waiting = session("s-1", Status::Waiting, None);
        waiting.last_message = Some("I will clean up".to_owned());
        let (kind, summary) = (PendingKind::Approval, Some(command.to_owned()));
        waiting.pending = vec![Pending { kind, summary, since: None, answerable: true }];
        let body = |session: &Session| {
            let telling = Telling {
                kind: "session.waiting",
                at: Timestamp::UNIX_EPOCH,
                session_id: Some("s-1"),
                adapter: Some("pi"),
                session: Some(session),
                source: None,
                fuse: None,
                lock: None,
                found_later: false,
            };
            serde_json::from_str::<Value>(&telling.body()).unwrap()
        };
        assert_eq!(body(&waiting)["summary"], command);
        let running = Session { status: Status::Running, pending: Vec::new(), ..waiting };
        assert_eq!(body(&running)["summary"], "I will clean up");
    }
}
