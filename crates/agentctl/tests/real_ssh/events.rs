//! Events of a machine where no daemon runs: each connection begins anew, and tells what happens from then on.

use agentctl_testkit::{Background, Signal, until_seen};
use serde_json::Value;

use crate::stand_in::StandIn;
use crate::{PATIENCE, Scene};

/// How often a connection begins.
const TIMES: usize = 4;

/// The folder that a session held before is no news. What is locked after the snapshot is.
#[test]
fn a_stream_begins_with_how_things_stand_and_tells_what_is_new() {
    let Some(scene) = Scene::with_box() else { return };
    let live = StandIn::start(&scene.far);
    for time in 0..TIMES {
        let command = scene.home.agentctl_command(&["events", "--host", "box", "--snapshot"]);
        let mut events = Background::spawn(&scene.home, command);
        let told = |events: &Background| -> Vec<Value> {
            let text = events.stdout();
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        let snapshot = until_seen(PATIENCE, "the snapshot", || {
            told(&events).into_iter().next().ok_or_else(|| events.stderr())
        });
        assert_eq!(snapshot["type"], "snapshot", "{snapshot:#}");
        assert_eq!(snapshot["sessions"][0]["id"], live.id.as_str(), "{snapshot:#}");
        let folder = scene.far.work_dir(&format!("locked-{time}")).display().to_string();
        let _ = scene.far.agentctl(&["lock", &folder]).ok();
        let locks = || -> Vec<Value> {
            let of_locks = |event: &Value| event["type"].as_str().unwrap().starts_with("lock.");
            told(&events)
                .into_iter()
                .filter(of_locks)
                .map(|event| event["lock"]["directory"].clone())
                .collect()
        };
        until_seen(PATIENCE, "the lock", || {
            if locks().contains(&folder.as_str().into()) { Ok(()) } else { Err(events.stdout()) }
        });
        assert_eq!(locks(), [folder.as_str()], "{}", events.stdout());
        events.signal(Signal::INT);
        events.wait(PATIENCE);
    }
}
