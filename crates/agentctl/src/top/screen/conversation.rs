//! The whole conversation, as it grows. It is scrolled from its end.

use agentctl_model::{Role, text};
use ratatui::layout::Rect;

use super::frame::{Canvas, Pieces, below};
use super::list::title_of;
use crate::render::entries::Page;
use crate::render::style::{self, Paint, Tone};
use crate::top::state::{Shown, State};

pub(super) fn draw(state: &State, area: Rect, canvas: &mut Canvas<'_>) -> Shown {
    let theme = canvas.theme;
    let Some(row) = state.selected() else {
        canvas.text(
            area,
            0,
            &[(theme.plain(), " the session is not in the list any more; Esc leads back".to_owned())],
        );
        return Shown::default();
    };
    let look = style::look(row.session.status, row.session.outcome);
    let end = if state.scroll == 0 { "" } else { "   (End: the newest)" };
    let head = [
        (theme.plain(), " ".to_owned()),
        (theme.of(look.tone), format!("{} {}", look.glyph, look.word)),
        (theme.of(Tone::Strong), format!("  {}", title_of(row).0)),
        (theme.of(Tone::Dim), format!("   {}{end}", text::one_line(&row.session.adapter))),
    ];
    canvas.text(area, 0, &head);
    let body = below(area, 1);
    let lines = lines(state, usize::from(area.width), canvas);
    let room = usize::from(body.height);
    let most = lines.len().saturating_sub(room);
    let scroll = state.scroll.min(most);
    let first = most - scroll;
    for (index, pieces) in lines.iter().skip(first).take(room).enumerate() {
        canvas.text(body, u16::try_from(index).unwrap_or(0), pieces);
    }
    Shown { most, page: room, ..Shown::default() }
}

fn lines(state: &State, width: usize, canvas: &Canvas<'_>) -> Vec<Pieces> {
    let theme = canvas.theme;
    let said = |words: &str| vec![vec![(theme.of(Tone::Dim), format!(" {words}"))]];
    if state.words.of != state.cursor || !state.words.is_told {
        return said("…");
    }
    if let Some(error) = &state.words.error {
        return said(&format!("it cannot be read: {}", text::one_line(error)));
    }
    if state.words.entries.is_empty() {
        return said("nothing was said yet");
    }
    let mut page =
        Page { zone: &state.zone, paint: Paint::new(false), width: Some(width.saturating_sub(1)), day: None };
    let mut lines = Vec::new();
    for entry in &state.words.entries {
        let tone = match entry.role {
            Role::User => Tone::Strong,
            Role::Agent => Tone::Plain,
            Role::Tool | Role::System => Tone::Dim,
        };
        lines.extend(page.lines(entry).into_iter().map(|line| vec![(theme.of(tone), format!(" {line}"))]));
    }
    lines
}
