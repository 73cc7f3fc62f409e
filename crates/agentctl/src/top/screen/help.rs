//! `?`: every key.

use ratatui::layout::Rect;

use super::frame::Canvas;
use crate::render::style::Tone;
use crate::top::state::{Shown, State};

/// Every key with what it does.
pub(crate) const KEYS: [(&str, &str); 27] = [
    ("status", "● running  ◐ waiting  ○ idle  ✓ done  ✕ failed  · stopped  ? unknown"),
    ("y", "approve what it waits for; the whole request is shown first"),
    ("n", "deny it"),
    ("a", "answer a question, or deny with a reason"),
    ("s", "send a message to a live session"),
    ("i", "interrupt its turn and keep the session"),
    ("x", "stop it with all its processes; press again within 2 s"),
    ("r", "resume a session that has ended, with a message"),
    ("l", "launch an agent"),
    ("o", "open the terminal where it runs (leaves top)"),
    ("w", "open the page at it, in your browser"),
    ("Enter", "open: the whole conversation, live"),
    ("Esc", "back; in the list: end the search"),
    ("/", "find: letters in any row, fuzzily, or a part by its name:"),
    ("", "  agent:codex   folder:site   host:box   group:g-1a2b3c"),
    ("", "  status:waiting; several words must all fit"),
    ("e", "evidence: why it has this status"),
    ("d", "changes: what differs in its working tree"),
    ("g", "groups: sessions that were launched together"),
    ("h", "hosts: machines and sources, and who is not heard"),
    ("t", "timeline: who worked, waited and rested when"),
    ("u", "usage by day; again: by model, by folder"),
    ("j k ↑ ↓", "move, or scroll; also PgUp PgDn Home End Space"),
    ("^L", "draw the screen anew"),
    ("^Z", "suspend; fg comes back"),
    ("?", "this help"),
    ("q", "quit"),
];

pub(super) fn draw(state: &State, area: Rect, canvas: &mut Canvas<'_>) -> Shown {
    let room = usize::from(area.height);
    let most = KEYS.len().saturating_sub(room);
    for (index, (key, what)) in KEYS.iter().skip(state.scroll.min(most)).take(room).enumerate() {
        let pieces = [
            (canvas.theme.of(Tone::Strong), format!(" {key:<8}  ")),
            (canvas.theme.plain(), (*what).to_owned()),
        ];
        canvas.text(area, u16::try_from(index).unwrap_or(0), &pieces);
    }
    Shown { most, page: room, ..Shown::default() }
}
