//! What is known of the row under the cursor: its title, the end of its conversation, its status with the evidence, and
//! the whole request that it waits with.

use std::borrow::Cow;

use agentctl_model::{Entry, EntryKind, Pending, PendingKind, Role, Session, text};
use ratatui::layout::Rect;
use ratatui::style::Style;
use serde_json::Value;

use super::frame::{Canvas, Pieces, below};
use super::list::title_of;
use crate::render::style::{self, Tone};
use crate::render::width::{cut_end, measure, wrap};
use crate::render::{path, request as request_text, sessions, time};
use crate::top::rows::{Key, Row};
use crate::top::state::{Shown, State};

/// The column of who speaks.
const WHO: usize = 7;
/// How many lines the evidence may take, also where there is much room.
const REASONS: (usize, usize) = (2, 6);
/// From this height on there is much room.
const TALL: u16 = 16;

/// Draws the detail. Returns the request if the whole of it is there.
pub(super) fn draw(state: &State, area: Rect, canvas: &mut Canvas<'_>) -> Option<(Key, Pending)> {
    let row = state.selected()?;
    let width = usize::from(area.width);
    let [title, facts] = title(state, row, canvas);
    let is_tall = area.height >= TALL;
    let is_one_line = !is_tall || measure(&title.1) + measure(&facts.1) <= width;
    if is_one_line {
        canvas.text(area, 0, &[title, facts]);
    } else {
        canvas.text(area, 0, &[title]);
        canvas.text(area, 1, &[(facts.0, format!(" {}", facts.1.trim_start()))]);
    }
    let body = below(area, if is_one_line { 1 } else { 2 });
    let pending = state.request();
    let asked = pending.map(|pending| request_lines(pending, width)).unwrap_or_default();
    let reasons = if is_tall { REASONS.1 } else { REASONS.0 };
    let status = status(state, row, (width, reasons), canvas);
    let room = usize::from(body.height);
    // The status and its request come before the conversation: they are what a person decides about.
    let talk_room = room.saturating_sub(status.len() + asked.len()).max(usize::from(room > 6) * 2);
    let talk = conversation(state, width, talk_room, canvas);
    let mut line = 0;
    for pieces in talk.iter().chain(&status) {
        canvas.text(body, line, pieces);
        line += 1;
    }
    let left = room.saturating_sub(line.into());
    let plain = canvas.theme.plain();
    if asked.len() <= left {
        for words in &asked {
            canvas.text(body, line, &[(plain, words.clone())]);
            line += 1;
        }
        return pending.map(|pending| (row.key.clone(), pending.clone())).filter(|_| !asked.is_empty());
    }
    let kept = left.saturating_sub(1);
    for words in &asked[..kept] {
        canvas.text(body, line, &[(plain, words.clone())]);
        line += 1;
    }
    let more = format!("   … {} more lines; y shows the whole request", asked.len() - kept);
    canvas.text(body, line, &[(canvas.theme.of(Tone::Attention), more)]);
    None
}

/// The request alone, as large as the screen. It counts as seen when its last line is there.
pub(super) fn request(state: &State, area: Rect, canvas: &mut Canvas<'_>) -> Shown {
    let (Some(row), Some(pending)) = (state.selected(), state.request()) else {
        let words = " it does not wait any more; Esc leads back".to_owned();
        canvas.text(area, 0, &[(canvas.theme.plain(), words)]);
        return Shown::default();
    };
    let head = [
        (canvas.theme.of(Tone::Strong), format!(" {}", title_of(row).0)),
        (canvas.theme.of(Tone::Dim), format!("   {}", text::one_line(&row.session.adapter))),
    ];
    canvas.text(area, 0, &head);
    let asks = if pending.kind == PendingKind::Question { " asks:" } else { " asks for your approval:" };
    canvas.text(area, 1, &[(canvas.theme.of(Tone::Attention), asks.to_owned())]);
    let body = below(area, 2);
    let lines = request_lines(pending, usize::from(area.width));
    let room = usize::from(body.height);
    let most = lines.len().saturating_sub(room);
    let scroll = state.scroll.min(most);
    for (index, words) in lines.iter().skip(scroll).take(room).enumerate() {
        canvas.text(body, u16::try_from(index).unwrap_or(0), &[(canvas.theme.plain(), words.clone())]);
    }
    let request = (scroll == most).then(|| (row.key.clone(), pending.clone()));
    Shown { request, most, page: room, ..Shown::default() }
}

/// The words of a request in full, and what the agent offers to choose from.
fn request_lines(pending: &Pending, width: usize) -> Vec<String> {
    let Some(words) = pending.summary.as_deref().filter(|words| !words.trim().is_empty()) else {
        return vec!["   it does not say what for; o opens it where it runs".to_owned()];
    };
    let mut lines = request_text::lines(words, 3, width);
    if pending.kind == PendingKind::Question {
        let options = pending.options.iter();
        lines
            .extend(options.map(|option| cut_end(&format!("   - {}", text::one_line(&option.label)), width)));
    }
    lines
}

/// The title, and what is known of the session beside it.
fn title(state: &State, row: &Row, canvas: &Canvas<'_>) -> [(Style, String); 2] {
    let session = &row.session;
    let ids = sessions::short_ids(std::iter::once(session.id.as_str()));
    let mut parts = vec![text::one_line(ids.first().copied().unwrap_or_default())];
    if state.has_hosts() {
        parts[0] = format!("{}/{}", text::one_line(&row.key.host), parts[0]);
    }
    parts.extend(session.model.as_deref().map(text::one_line));
    let place = session.cwd.as_deref().map(|cwd| path::shown(cwd, state.home.as_deref()));
    let branch = session.branch.as_deref().map(|branch| format!(" {}", text::one_line(branch)));
    parts.extend(place.map(|place| format!("{place}{}", branch.unwrap_or_default())));
    parts.extend(session.cost.map(sessions::cost));
    [
        (canvas.theme.of(Tone::Strong), format!(" {}", cut_end(&title_of(row).0, 40))),
        (canvas.theme.of(Tone::Dim), format!("   {}", parts.join(" · "))),
    ]
}

/// The status in words, and the evidence for it on the next lines.
fn status(state: &State, row: &Row, (width, most): (usize, usize), canvas: &Canvas<'_>) -> Vec<Pieces> {
    let session = &row.session;
    let theme = canvas.theme;
    let now = row.now(state.now);
    let look = style::look(session.status, session.outcome);
    let since = style::time_in_status(session, now).map(time::short);
    let words = match (state.request(), since) {
        (Some(pending), since) => {
            let what = match pending.kind {
                PendingKind::Approval => "waits for your approval",
                PendingKind::Question => "asks you",
                PendingKind::Limit => "waits for its provider's limit",
            };
            let since = since.map(|since| format!(" since {since}")).unwrap_or_default();
            let several = session.pending.len();
            let more = if several > 1 { format!(" (1 of {several} requests)") } else { String::new() };
            format!("{what}{since}{more}")
        }
        (None, since) => {
            let since = since.map(|since| format!(" since {since}")).unwrap_or_default();
            let detail =
                session.status_detail.as_deref().map(|detail| format!(": {}", text::one_line(detail)));
            format!("{}{since}{}", look.word, detail.unwrap_or_default())
        }
    };
    let mut lines = vec![vec![
        (theme.plain(), " ".to_owned()),
        (theme.of(look.tone), look.glyph.to_string()),
        (theme.of(Tone::Strong), format!(" {words}")),
    ]];
    if let Some(old) = row.old {
        let words = format!("   not heard now; this is as of {} ago", time::ago(state.now, old));
        lines.push(vec![(theme.of(Tone::Attention), words)]);
    }
    // As much of the evidence as a glance takes in; `e` shows all of it.
    let mut reasons = wrap(&format!("why: {}", why(session, now)), width.saturating_sub(4));
    if reasons.len() > most {
        let rest = reasons.split_off(most - 1).join(" ");
        reasons.push(cut_end(&rest, width.saturating_sub(4)));
    }
    lines.extend(reasons.into_iter().map(|line| vec![(theme.of(Tone::Dim), format!("   {line}"))]));
    lines
}

/// The evidence in one line.
fn why(session: &Session, now: jiff::Timestamp) -> String {
    let fact = |evidence: &agentctl_model::Evidence| {
        let at = evidence.at.map(|at| format!(" ({} ago)", time::ago(now, at))).unwrap_or_default();
        format!("{}: {}{at}", evidence.source.as_str(), text::one_line(&evidence.fact.to_string()))
    };
    session.evidence.iter().map(fact).collect::<Vec<_>>().join(" · ")
}

/// The last entries, as many as there is room for.
fn conversation(state: &State, width: usize, room: usize, canvas: &Canvas<'_>) -> Vec<Pieces> {
    let theme = canvas.theme;
    let is_its = state.words.of == state.cursor;
    let said = |words: &str| vec![vec![(theme.of(Tone::Dim), format!(" {words}"))]];
    if room == 0 {
        return Vec::new();
    }
    if let Some(error) = state.words.error.as_deref().filter(|_| is_its) {
        return said(&format!("its conversation cannot be read: {}", text::one_line(error)));
    }
    if !is_its || !state.words.is_told {
        return said("…");
    }
    if state.words.entries.is_empty() {
        return said("nothing was said yet");
    }
    let mut lines: Vec<Pieces> = Vec::new();
    for entry in state.words.entries.iter().rev() {
        let mut block = entry_lines(entry, width, canvas);
        // One long message must not be all that is seen.
        if block.len() > 4 {
            block.truncate(4);
        }
        block.append(&mut lines);
        lines = block;
        if lines.len() >= room {
            break;
        }
    }
    lines.split_off(lines.len().saturating_sub(room))
}

/// No command is longer that is shown without the other things that its tool was given.
const LONGEST_CALL: usize = 4000;

/// What a tool is called with, for a glance: the command itself, or the only text that was given. Enter shows all of it.
fn brief(call: &str) -> Cow<'_, str> {
    let given = Some(call).filter(|call| call.starts_with('{') && call.len() <= LONGEST_CALL);
    let given = given.and_then(|call| serde_json::from_str::<serde_json::Map<String, Value>>(call).ok());
    let told = given.and_then(|mut given| {
        let only = (given.len() == 1).then(|| given.values().next().cloned()).flatten();
        given.remove("command").or(only)
    });
    match told {
        Some(Value::String(told)) => Cow::Owned(told),
        _ => Cow::Borrowed(call),
    }
}

fn entry_lines(entry: &Entry, width: usize, canvas: &Canvas<'_>) -> Vec<Pieces> {
    let theme = canvas.theme;
    let (who, tone) = match (entry.kind, entry.role) {
        (EntryKind::Error, _) => ("error", Tone::Bad),
        (EntryKind::ToolCall | EntryKind::ToolResult, _) | (_, Role::Tool) => ("tool", Tone::Dim),
        (_, Role::User) => ("you", Tone::Strong),
        (_, Role::Agent) => ("agent", Tone::Good),
        (_, Role::System) => ("system", Tone::Dim),
    };
    let room = width.saturating_sub(WHO + 2).max(10);
    let tool = entry.tool.as_deref().map(text::one_line).unwrap_or_default();
    let lines: Vec<String> = match entry.kind {
        EntryKind::ToolCall => {
            vec![cut_end(&format!("{tool}  {}", text::one_line(&brief(&entry.text))), room)]
        }
        EntryKind::ToolResult => vec![cut_end(&format!("← {}", text::one_line(&entry.text)), room)],
        _ => wrap(text::clean(&entry.text).trim(), room),
    };
    let body: Style = if matches!(tone, Tone::Dim | Tone::Bad) { theme.of(tone) } else { theme.plain() };
    let line = |(index, words): (usize, String)| {
        let who = if index == 0 { who } else { "" };
        vec![(theme.of(tone), format!(" {who:WHO$}")), (body, words)]
    };
    lines.into_iter().enumerate().map(line).collect()
}
