//! Every event of this machine on its own subject, with its cursor. Whoever reads them sees a gap by the numbers, and asks
//! this machine for the rest; nothing is kept here for him.

use agentctl_hosts::nats::message::LARGEST_MESSAGE;
use agentctl_hosts::nats::subjects;
use agentctl_model::{Event, EventKind};

use super::Room;
use crate::run::clock;
use crate::tell::events::{EventMessage, Read, written};

/// How many events are read from the ring at once.
const PORTION: usize = 64;

/// Publishes events until the daemon ends. While the server is away this waits, and says `reset` once if it waited for
/// longer than events are kept.
pub(super) async fn publish(room: &Room) {
    room.shared.first_survey().await;
    let hub = &room.shared.hub;
    let mut newest = hub.listen();
    let mut read = hub.newest();
    loop {
        newest.borrow_and_update();
        match hub.after(read, PORTION) {
            Read::Missed => {
                read = hub.newest();
                tell(room, EventKind::Reset, reset(hub.cursor(read))).await;
            }
            Read::Events(events) if events.is_empty() => {
                if newest.changed().await.is_err() {
                    return;
                }
            }
            Read::Events(events) => {
                for posted in events {
                    read = posted.number;
                    if posted.json.len() < LARGEST_MESSAGE {
                        tell(room, posted.message.event.kind, posted.json.clone()).await;
                    } else {
                        // Who wants it whole asks for it.
                        tell(room, EventKind::Reset, reset(posted.message.cursor.clone())).await;
                    }
                }
            }
        }
    }
}

fn reset(cursor: String) -> String {
    written(&EventMessage::new(Event::new(EventKind::Reset), cursor, clock::now()))
}

async fn tell(room: &Room, kind: EventKind, json: String) {
    // It fails only when the connection has been given up for good, at the end of the daemon.
    let _ = room.client.publish(subjects::event(&room.name, kind.as_str()), json.into()).await;
}
