//! One conversation, two rows: a session of a gateway, and the session of another agent that it runs behind it. A list
//! shows the one that is at work, or else the one that can be spoken to; by their ids both are found. Pure.

use std::collections::HashSet;

use agentctl_model::{SessionKey, Status, Surveyed};

/// Leaves one of each pair. A gateway says in `meta.native` what it runs.
pub(super) fn fold(sessions: &mut Vec<Surveyed>) {
    let mut hidden: HashSet<SessionKey> = HashSet::new();
    for front in sessions.iter() {
        let Some(native) = front.session.meta.get("native") else { continue };
        let (adapter, id) = (native["adapter"].as_str(), native["id"].as_str());
        let behind = sessions
            .iter()
            .find(|one| Some(one.key.adapter.as_str()) == adapter && Some(one.key.id.as_str()) == id);
        let Some(behind) = behind else { continue };
        // Somebody else works in it, outside of the gateway: that is what there is to see.
        let elsewhere = behind.session.is_live() && !is_at_work(front);
        hidden.insert(if elsewhere { front.key.clone() } else { behind.key.clone() });
    }
    if !hidden.is_empty() {
        sessions.retain(|one| !hidden.contains(&one.key));
    }
}

fn is_at_work(one: &Surveyed) -> bool {
    matches!(one.session.status, Status::Running | Status::Waiting)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::list::made::{session, surveyed};

    fn shown(front: Status, behind: Status) -> Vec<String> {
        let mut gateway = session("agent:main:x", front, None);
        gateway.meta.insert("native".into(), json!({"adapter": "claude-code", "id": "n-1"}));
        let mut native = session("n-1", behind, None);
        native.pid = Some(7).filter(|_| behind != Status::Stopped);
        let mut sessions = vec![surveyed(gateway), surveyed(native), surveyed(session("other", front, None))];
        for one in &mut sessions {
            one.key.adapter = "claude-code".into();
        }
        fold(&mut sessions);
        sessions.into_iter().map(|one| one.key.id).collect()
    }

    #[test]
    fn of_two_rows_for_one_conversation_one_is_shown() {
        use Status::{Idle, Running, Stopped};
        assert_eq!(shown(Running, Running), ["agent:main:x", "other"], "the gateway runs it");
        assert_eq!(shown(Idle, Stopped), ["agent:main:x", "other"], "the gateway can take the next message");
        assert_eq!(shown(Idle, Running), ["n-1", "other"], "somebody runs it in a terminal");
    }
}
