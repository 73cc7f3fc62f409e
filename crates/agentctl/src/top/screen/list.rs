//! The list: one row for each session, and for each machine or source that is not heard.

use agentctl_model::{Status, text};
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::frame::{Canvas, Pieces};
use crate::render::style::{self, Tone};
use crate::render::width::{cut_end, measure};
use crate::render::{path, sessions, time};
use crate::top::rows::Row;
use crate::top::state::State;

/// The columns of the status, the time, the agent and the folder.
const TIME: usize = 4;
const AGENT: usize = 11;
const FOLDER: usize = 10;

/// Draws the list and returns how many rows it has room for.
pub(super) fn draw(state: &State, area: Rect, canvas: &mut Canvas<'_>) -> usize {
    let unheard = state.unheard();
    let most = usize::from(area.height);
    // What is not heard keeps its place, however many sessions there are.
    let kept = unheard.len().min((most / 3).max(1));
    let room = most - kept;
    if state.order.is_empty() {
        empty(state, area, canvas);
    }
    let first = state.first.min(state.order.len().saturating_sub(room));
    let shown = state.order.iter().skip(first).take(room);
    let mut line = 0;
    for key in shown {
        let Some(row) = state.row(key) else { continue };
        let is_chosen = state.cursor.as_ref() == Some(key);
        let pieces = pieces(state, row, is_chosen, usize::from(area.width), canvas);
        canvas.text(area, line, &pieces);
        if is_chosen {
            canvas.invert(area, line);
        }
        line += 1;
    }
    let above = first;
    let below = state.order.len().saturating_sub(first + room);
    if (above > 0 || below > 0) && room > 0 {
        let words = match (above, below) {
            (0, below) => format!(" ↓ {below} more "),
            (above, 0) => format!(" ↑ {above} more "),
            (above, below) => format!(" ↑ {above}  ↓ {below} more "),
        };
        let width = u16::try_from(measure(&words)).unwrap_or(area.width).min(area.width);
        let corner = Rect { x: area.x + area.width - width, width, ..area };
        canvas.text(corner, line.saturating_sub(1), &[(canvas.theme.of(Tone::Dim), words)]);
    }
    let places = area.height - u16::try_from(kept).unwrap_or(0);
    for (index, (name, reason, heard)) in unheard.iter().take(kept).enumerate() {
        let more = unheard.len() - kept;
        let is_last = index + 1 == kept && more > 0;
        let age = heard.map(|at| format!("{} ago", time::ago(state.now, at))).unwrap_or_default();
        let age = if is_last { format!("and {more} more") } else { age };
        let room = usize::from(area.width).saturating_sub(measure(&age) + 2);
        let name = format!(" ? {}", text::one_line(name));
        let words = format!("{name:<26} not heard: {}", text::one_line(reason));
        let words = cut_end(&words, room);
        let gap = room.saturating_sub(measure(&words)) + 1;
        let pieces = [
            (canvas.theme.of(Tone::Plain), words),
            (canvas.theme.of(Tone::Dim), format!("{}{age}", " ".repeat(gap))),
        ];
        canvas.text(area, places + u16::try_from(index).unwrap_or(0), &pieces);
    }
    room
}

fn empty(state: &State, area: Rect, canvas: &mut Canvas<'_>) {
    let dim = canvas.theme.of(Tone::Dim);
    let lines: Vec<String> = if state.parts.is_empty() {
        vec!["looking …".to_owned()]
    } else if !state.find.is_empty() {
        vec!["nothing fits; Esc shows all".to_owned()]
    } else if state.unheard().is_empty() {
        vec![
            "no session runs, and none ended in the last day".to_owned(),
            "l launches an agent here; one that you start in any terminal appears by itself".to_owned(),
        ]
    } else {
        vec!["no session was heard of, and not everything was heard".to_owned()]
    };
    for (index, words) in lines.into_iter().enumerate() {
        canvas.text(area, u16::try_from(index).unwrap_or(0), &[(dim, format!("   {words}"))]);
    }
}

fn pieces(state: &State, row: &Row, is_chosen: bool, width: usize, canvas: &Canvas<'_>) -> Pieces {
    let theme = canvas.theme;
    let session = &row.session;
    let now = row.now(state.now);
    let look = style::look(session.status, session.outcome);
    let duration = style::time_in_status(session, now);
    let age = match duration {
        Some(duration) => time::short(duration),
        None if session.status == Status::Stopped => {
            session.updated_at.map(|at| time::ago(now, at)).unwrap_or_default()
        }
        None => String::new(),
    };
    let tone = duration.map_or(Tone::Dim, |duration| style::wait_tone(session.status, duration));
    let dim_if_old = |style: Style| if row.old.is_some() { theme.of(Tone::Dim) } else { style };
    let folder =
        session.cwd.as_deref().map(|cwd| path::shown(cwd, state.home.as_deref())).unwrap_or_default();
    let folder = folder.rsplit('/').next().unwrap_or_default().to_owned();
    let folder =
        if state.has_hosts() { format!("{}:{folder}", text::one_line(&row.key.host)) } else { folder };
    // Wide lists give agents and folders more room.
    let (agent, place) = if width >= 100 { (AGENT + 4, FOLDER + 8) } else { (AGENT, FOLDER) };
    let rest = width.saturating_sub(1 + 1 + 1 + TIME + 2 + agent + 1 + place + 1);
    let title = rest * 11 / 20;
    let (name, name_tone) = title_of(row);
    let mark = if is_chosen { ">" } else { " " };
    // The badge of one that waits is the glyph and its time: it is seen from far away.
    let badge = if session.status == Status::Waiting { look.tone } else { tone };
    vec![
        (theme.plain(), mark.to_owned()),
        (dim_if_old(theme.of(look.tone)), look.glyph.to_string()),
        (dim_if_old(theme.of(badge)), format!(" {age:>TIME$}")),
        (theme.plain(), "  ".to_owned()),
        (dim_if_old(theme.plain()), fixed(&text::one_line(&session.adapter), agent)),
        (theme.plain(), " ".to_owned()),
        (dim_if_old(theme.plain()), fixed(&folder, place)),
        (theme.plain(), " ".to_owned()),
        (dim_if_old(theme.of(name_tone)), fixed(&name, title)),
        (theme.plain(), " ".to_owned()),
        (theme.of(Tone::Dim), detail(state, row)),
    ]
}

pub(super) fn title_of(row: &Row) -> (String, Tone) {
    match (&row.session.name, &row.session.prompt) {
        (Some(name), _) => (text::one_line(name), Tone::Strong),
        (None, Some(prompt)) => (text::one_line(prompt), Tone::Plain),
        (None, None) => ("-".to_owned(), Tone::Dim),
    }
}

fn detail(state: &State, row: &Row) -> String {
    if let Some(old) = row.old {
        return format!("as of {} ago", time::ago(state.now, old));
    }
    let session = &row.session;
    if let Some(words) = sessions::detail(session) {
        return words;
    }
    let said = session.last_message.as_deref().map(text::one_line);
    match session.status {
        Status::Idle => said.unwrap_or_else(|| "ready".to_owned()),
        _ => said.unwrap_or_default(),
    }
}

/// Exactly this wide.
pub(super) fn fixed(text: &str, width: usize) -> String {
    let cut = cut_end(text, width);
    let gap = width.saturating_sub(measure(&cut));
    format!("{cut}{}", " ".repeat(gap))
}
