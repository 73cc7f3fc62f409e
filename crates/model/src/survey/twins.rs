//! One conversation, two sessions: that of a gateway, and that of another agent which the gateway runs behind it. Whoever
//! shows or counts many sessions shows one of the two: the one that is at work or waits, or else the one that can be spoken
//! to. By their ids both are found, and what a process holds or costs is asked of all. Pure.

use std::collections::{HashMap, HashSet};

use crate::session::{NativeSession, Session, SessionKey};
use crate::status::Status;
use crate::survey::Survey;

/// The adapter and the id of a session that a gateway runs.
type Named<'s> = (&'s str, &'s str);
type Seen<'s> = (&'s SessionKey, &'s Session);

/// The sessions that are not to be shown beside their twins.
pub(crate) fn hidden<'s>(sessions: impl Iterator<Item = Seen<'s>> + Clone) -> HashSet<SessionKey> {
    let fronts: Vec<(Seen<'s>, &'s NativeSession)> =
        sessions.clone().filter_map(|seen| Some((seen, seen.1.meta.native.as_deref()?))).collect();
    let mut behind: HashMap<Named<'s>, Vec<Seen<'s>>> =
        fronts.iter().map(|(_, native)| (named(native), Vec::new())).collect();
    if behind.is_empty() {
        return HashSet::new();
    }
    for seen in sessions {
        if let Some(known) = behind.get_mut(&(seen.0.adapter.as_str(), seen.0.id.as_str())) {
            known.push(seen);
        }
    }
    let pair = |(front, native): &(Seen<'s>, &'s NativeSession)| {
        // Two homes can have one id: where the gateway does not say which one it uses, the id alone must be enough.
        let root = native.root.as_deref();
        let mut fits =
            behind[&named(native)].iter().filter(|(key, _)| root.is_none_or(|root| key.root == root));
        match (fits.next(), fits.next()) {
            (Some(native), None) => Some((*front, *native)),
            _ => None,
        }
    };
    let pairs = fronts.iter().filter_map(pair);
    pairs
        .map(|(front, native)| if is_seen_behind(front.1, native.1) { front.0 } else { native.0 }.clone())
        .collect()
}

fn named(native: &NativeSession) -> Named<'_> {
    (&native.adapter, &native.id)
}

/// Somebody else works in it, outside of the gateway, or it waits for a person and the gateway does not know.
fn is_seen_behind(front: &Session, native: &Session) -> bool {
    let waits_unseen = native.status == Status::Waiting && front.status != Status::Waiting;
    let is_at_work = matches!(front.status, Status::Running | Status::Waiting);
    native.is_live() && (waits_unseen || !is_at_work)
}

impl Survey {
    /// Leaves one of each pair.
    pub fn fold_twins(&mut self) {
        let hidden = hidden(self.sessions.iter().map(|one| (&one.key, &*one.session)));
        if !hidden.is_empty() {
            self.sessions.retain(|one| !hidden.contains(&one.key));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::evidence::{Evidence, Witness};

    fn seen(adapter: &str, root: &str, id: &str, status: Status) -> (SessionKey, Session) {
        let session = json!({
            "id": id, "adapter": adapter, "configRoot": root, "status": status, "pending": [], "processes": [],
            "pid": (adapter != "openclaw" && status != Status::Stopped).then_some(7), "capabilities": [],
            "evidence": [Evidence::said(Witness::Kernel, "looked", None)], "meta": {}
        });
        let key = SessionKey { adapter: adapter.into(), root: root.into(), id: id.into(), variant: None };
        (key, serde_json::from_value(session).unwrap())
    }

    fn front(id: &str, status: Status, root: Option<&str>) -> (SessionKey, Session) {
        let (key, mut session) = seen("openclaw", "ws://here", id, status);
        let native = NativeSession { adapter: "codex".into(), id: "n".into(), root: root.map(str::to_owned) };
        session.meta.native = Some(Box::new(native));
        (key, session)
    }

    fn hides(sessions: &[(SessionKey, Session)]) -> Vec<String> {
        let hidden = hidden(sessions.iter().map(|(key, session)| (key, session)));
        let mut names: Vec<String> =
            hidden.into_iter().map(|key| format!("{} {}", key.root, key.id)).collect();
        names.sort();
        names
    }

    #[test]
    fn of_two_for_one_conversation_one_is_shown() {
        use Status::{Idle, Running, Stopped, Unknown, Waiting};
        let (front_goes, native_goes) = ("ws://here f", "/a n");
        for (of_front, of_native, goes, why) in [
            (Running, Running, native_goes, "the gateway runs it"),
            (Running, Idle, native_goes, "it has just begun, or is about to end"),
            (Running, Stopped, native_goes, "its process is not seen"),
            (Waiting, Waiting, native_goes, "it is answered in the gateway"),
            (Running, Waiting, front_goes, "a question that the gateway does not know"),
            (Idle, Stopped, native_goes, "the gateway can take the next message"),
            (Idle, Running, front_goes, "somebody runs it in a terminal"),
            (Idle, Idle, front_goes, "a live one never goes"),
            (Unknown, Running, front_goes, "a live one never goes"),
            (Stopped, Unknown, front_goes, "it may live"),
        ] {
            let pair = [
                front("f", of_front, Some("/a")),
                seen("codex", "/a", "n", of_native),
                seen("codex", "/a", "other", of_native),
                seen("claude-code", "/a", "n", of_native),
            ];
            assert_eq!(hides(&pair), [goes], "{of_front:?} {of_native:?}: {why}");
            assert!(hides(&pair[1..]).is_empty(), "a gateway that is not heard hides nothing");
            assert!(hides(&pair[..1]).is_empty(), "and nothing is hidden for one that is not there");
        }
    }

    #[test]
    fn a_twin_is_in_the_home_that_the_gateway_uses() {
        let both = |root: Option<&str>| {
            let native = |root| seen("codex", root, "n", Status::Running);
            hides(&[native("/a"), front("f", Status::Running, root), native("/b")])
        };
        assert_eq!(both(Some("/b")), ["/b n"]);
        assert!(both(Some("/c")).is_empty(), "in a home that is not ours");
        assert!(both(None).is_empty(), "it could be either");
        let one = [front("f", Status::Running, None), seen("codex", "/b", "n", Status::Running)];
        assert_eq!(hides(&one), ["/b n"], "the only one with this id");
    }

    #[test]
    fn of_two_fronts_one_is_left() {
        let native = seen("codex", "/a", "n", Status::Running);
        let fronts = [front("f", Status::Idle, Some("/a")), front("g", Status::Running, Some("/a"))];
        let [first, second] = fronts;
        assert_eq!(hides(&[first, native, second]), ["/a n", "ws://here f"]);
    }

    #[test]
    fn a_native_session_travels_among_the_extras() {
        let (_, mut front) = front("f", Status::Idle, Some("/a"));
        front.meta.insert("version".into(), "1".into());
        let written = serde_json::to_value(&front).unwrap();
        let native = json!({"adapter": "codex", "id": "n", "root": "/a"});
        assert_eq!(written["meta"], json!({"native": native, "version": "1"}));
        assert_eq!(serde_json::from_value::<Session>(written).unwrap(), front);
        let (_, plain) = seen("codex", "/a", "n", Status::Idle);
        assert_eq!(serde_json::to_value(&plain).unwrap()["meta"], json!({}));
    }
}
