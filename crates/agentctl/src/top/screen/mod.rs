//! Draws the state. Pure: what is drawn depends on the state, the size and the theme alone.

mod conversation;
mod detail;
mod frame;
mod help;
mod list;
mod pages;
mod theme;

pub(crate) use theme::Theme;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use self::frame::Canvas;
use super::state::{Shown, State, View};

/// From this width on the conversation stands beside the list.
const WIDE: u16 = 140;
/// Below this nothing useful fits.
const LEAST: (u16, u16) = (40, 8);

/// Draws one frame, and says what of it matters for the keys.
pub(crate) fn draw(state: &State, theme: Theme, area: Rect, buffer: &mut Buffer) -> Shown {
    Shown { width: area.width.into(), ..frame(state, theme, area, buffer) }
}

fn frame(state: &State, theme: Theme, area: Rect, buffer: &mut Buffer) -> Shown {
    let mut canvas = Canvas { buffer, theme };
    if area.width < LEAST.0 || area.height < LEAST.1 {
        canvas.text(area, 0, &[(theme.plain(), "too small for agentctl top".to_owned())]);
        return Shown::default();
    }
    let mut body = frame::around(state, area, &mut canvas);
    for words in frame::banners(state) {
        canvas.banner(body, &words);
        body = frame::below(body, 1);
    }
    if let Some(form) = &state.form {
        pages::form(state, form, body, &mut canvas);
        return Shown::default();
    }
    match state.view {
        View::List => main(state, body, area.width >= WIDE, &mut canvas),
        View::Conversation => conversation::draw(state, body, &mut canvas),
        View::Request => detail::request(state, body, &mut canvas),
        View::Evidence => pages::evidence(state, body, &mut canvas),
        View::Groups => pages::groups(state, body, &mut canvas),
        View::Hosts => pages::hosts(state, body, &mut canvas),
        View::Usage => pages::usage(state, body, &mut canvas),
        View::Changes => pages::sheet(state, "changes", body, &mut canvas),
        View::Timeline => pages::sheet(state, "timeline", body, &mut canvas),
        View::Help => help::draw(state, body, &mut canvas),
    }
}

/// The list, and what is known of the row under the cursor below or beside it. The parts have fixed sizes, so that
/// nothing moves when rows come and go.
fn main(state: &State, body: Rect, wide: bool, canvas: &mut Canvas<'_>) -> Shown {
    let (list, rest) = if wide {
        let width = body.width * 11 / 20;
        let line = Rect { x: body.x + width, width: 1, ..body };
        canvas.vertical(line);
        (Rect { width: width - 1, ..body }, Rect { x: line.x + 1, width: body.width - width - 1, ..body })
    } else {
        let height = (body.height * 9 / 20).max(2);
        let line = Rect { y: body.y + height, height: 1, ..body };
        canvas.rule(line, &[]);
        (Rect { height, ..body }, frame::below(body, height + 1))
    };
    let shown = list::draw(state, list, canvas);
    let request = detail::draw(state, rest, canvas);
    Shown { request, list: shown, ..Shown::default() }
}

#[cfg(test)]
mod tests;
