//! What stands around everything: the header, the line of messages, the line of keys.

use agentctl_model::{Capability, PendingKind, Status, text};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::Theme;
use crate::render::style::Tone;
use crate::render::time;
use crate::render::width::{cut_end, measure};
use crate::top::state::{State, View};

/// Where it is drawn, and how.
pub(super) struct Canvas<'b> {
    pub(super) buffer: &'b mut Buffer,
    pub(super) theme: Theme,
}

/// Pieces of one line, each with its look.
pub(super) type Pieces = Vec<(Style, String)>;

impl Canvas<'_> {
    /// Writes pieces on one line of an area, and cuts what does not fit.
    pub(super) fn text(&mut self, area: Rect, line: u16, pieces: &[(Style, String)]) {
        if line >= area.height {
            return;
        }
        let mut left = usize::from(area.width);
        let mut x = area.x;
        for (style, piece) in pieces {
            let piece = cut_end(&shown(piece), left);
            if left == 0 || piece.is_empty() {
                continue;
            }
            let (end, _) = self.buffer.set_stringn(x, area.y + line, &piece, left, *style);
            left -= usize::from(end - x);
            x = end;
        }
    }

    /// A line across, with words in it.
    pub(super) fn rule(&mut self, area: Rect, words: &[(Style, String)]) {
        let dim = self.theme.of(Tone::Dim);
        self.text(area, 0, &[(dim, "─".repeat(area.width.into()))]);
        if !words.is_empty() {
            let inner = Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area };
            let plain = self.theme.plain();
            let spaced: Pieces = std::iter::once((plain, " ".to_owned()))
                .chain(words.iter().cloned())
                .chain([(plain, " ".to_owned())])
                .collect();
            self.text(inner, 0, &spaced);
        }
    }

    pub(super) fn banner(&mut self, area: Rect, words: &str) {
        let padded = format!(" {words:<width$}", width = usize::from(area.width));
        let style = self.theme.of(Tone::Attention);
        self.text(area, 0, &[(style, padded)]);
    }

    pub(super) fn vertical(&mut self, area: Rect) {
        let dim = self.theme.of(Tone::Dim);
        for line in 0..area.height {
            self.text(area, line, &[(dim, "│".to_owned())]);
        }
    }

    pub(super) fn invert(&mut self, area: Rect, line: u16) {
        let area = Rect { y: area.y + line, height: 1, ..area };
        // What is dim would have a darker ground than the rest of the row.
        let inverted = Style::new().add_modifier(Modifier::REVERSED).remove_modifier(Modifier::DIM);
        self.buffer.set_style(area, inverted);
    }
}

/// Text as cells can hold it: no variation selectors, which leave residue, and no tabs.
fn shown(text: &str) -> String {
    text.chars()
        .filter(|letter| *letter != '\u{fe0f}')
        .map(|letter| if letter == '\t' { ' ' } else { letter })
        .collect()
}

pub(super) fn below(area: Rect, lines: u16) -> Rect {
    let lines = lines.min(area.height);
    Rect { y: area.y + lines, height: area.height - lines, ..area }
}

/// Draws header, messages and keys, and returns what is left between them.
pub(super) fn around(state: &State, area: Rect, canvas: &mut Canvas<'_>) -> Rect {
    header(state, area, canvas);
    let bottom = area.height - 2;
    let (words, tone) = message(state);
    let words = words.map(|words| (canvas.theme.of(tone), words));
    canvas.rule(Rect { y: area.y + bottom, height: 1, ..area }, words.as_slice());
    let keys = Rect { y: area.y + bottom + 1, height: 1, ..area };
    if let Some(input) = &state.input {
        let label = input.label();
        let room = usize::from(area.width).saturating_sub(measure(label) + 2);
        let pieces = [
            (canvas.theme.of(Tone::Strong), format!(" {label}")),
            (canvas.theme.plain(), tail(&text::visible_line(&input.line.typed), room)),
            (Style::new().add_modifier(Modifier::REVERSED), " ".to_owned()),
        ];
        canvas.text(keys, 0, &pieces);
    } else {
        let mut pieces = Vec::new();
        let mut left = usize::from(area.width).saturating_sub(2);
        for (key, what) in keys_of(state) {
            let width = measure(key) + measure(what) + 3;
            if width > left {
                continue;
            }
            left -= width;
            pieces.push((canvas.theme.of(Tone::Strong), format!(" {key}")));
            pieces.push((canvas.theme.plain(), format!(" {what} ")));
        }
        pieces.push((canvas.theme.of(Tone::Strong), " ?".to_owned()));
        canvas.text(keys, 0, &pieces);
    }
    Rect { y: area.y + 1, height: bottom - 1, ..area }
}

/// The end of a line that is typed.
fn tail(typed: &str, room: usize) -> String {
    let mut used = 0;
    let kept: Vec<char> = typed
        .chars()
        .rev()
        .take_while(|letter| {
            used += measure(&letter.to_string());
            used <= room
        })
        .collect();
    kept.into_iter().rev().collect()
}

fn message(state: &State) -> (Option<String>, Tone) {
    if let Some(message) = &state.message {
        let tone = if message.is_bad { Tone::Bad } else { Tone::Strong };
        return (Some(text::one_line(&message.words)), tone);
    }
    if let Some(doing) = state.deeds.values().next_back() {
        return (Some(format!("{} …", text::one_line(doing))), Tone::Strong);
    }
    if !state.find.is_empty() && state.input.is_none() {
        let words = format!("only what fits \"{}\"; Esc shows all", text::one_line(&state.find.typed));
        return (Some(words), Tone::Plain);
    }
    if state.order_waits && state.view == View::List {
        return (Some("↕ the order has changed; it is shown when the cursor moves".to_owned()), Tone::Dim);
    }
    (None, Tone::Plain)
}

fn header(state: &State, area: Rect, canvas: &mut Canvas<'_>) {
    let theme = canvas.theme;
    let counts = state.counts();
    let name = format!(" agentctl · {}", text::one_line(&state.host));
    let clock = format!("{} ", time::clock(state.now, &state.zone));
    let needs = if counts.waiting == 1 { "needs you" } else { "need you" };
    let mut middle: Pieces = Vec::new();
    let mut count = |number: usize, words: String, tone: Tone| {
        if number > 0 {
            middle.push((theme.of(tone), words));
            middle.push((theme.plain(), "   ".to_owned()));
        }
    };
    count(counts.waiting, format!("◐ {} {needs}", counts.waiting), Tone::Attention);
    count(counts.running, format!("● {}", counts.running), Tone::Good);
    count(counts.idle, format!("○ {}", counts.idle), Tone::Plain);
    count(counts.failed, format!("✕ {}", counts.failed), Tone::Bad);
    count(counts.unknown, format!("? {}", counts.unknown), Tone::Plain);
    middle.pop();
    let width = middle.iter().map(|(_, piece)| measure(piece)).sum::<usize>();
    let all = usize::from(area.width);
    let right = all.saturating_sub(measure(&clock));
    // They stand over the middle of the list.
    let list = if area.width >= super::WIDE { all * 11 / 20 } else { all };
    let start =
        (right.saturating_sub(width + 4)).min((list / 2).saturating_sub(width / 2)).max(measure(&name) + 2);
    canvas.text(area, 0, &[(theme.of(Tone::Strong), name)]);
    let at = |x: usize| {
        let x = u16::try_from(x.min(all)).unwrap_or(area.width);
        Rect { x: area.x + x, width: area.width - x, ..area }
    };
    canvas.text(at(start), 0, &middle);
    canvas.text(at(right), 0, &[(theme.of(Tone::Dim), clock)]);
}

/// What must be known before anything else on the screen is believed.
pub(super) fn banners(state: &State) -> Vec<String> {
    let lost = state.daemon_lost.map(|since| {
        let ago = time::ago(state.now, since);
        format!("the daemon is not heard since {ago}; agentctl looks by itself and asks again")
    });
    let broken = state.broken.iter().map(|words| text::one_line(words));
    lost.into_iter().chain(broken).collect()
}

/// The keys that do something now, for the row under the cursor, the most needed first.
pub(super) fn keys_of(state: &State) -> Vec<(&'static str, &'static str)> {
    let mut keys: Vec<(&'static str, &'static str)> = Vec::new();
    if state.form.is_some() {
        return vec![("Tab", "next"), ("Space", "change"), ("Enter", "launch"), ("Esc", "back")];
    }
    let request = state.request().filter(|pending| pending.answerable);
    match request.map(|pending| pending.kind) {
        Some(PendingKind::Approval) => keys.extend([("y", "approve"), ("n", "deny"), ("a", "answer")]),
        Some(PendingKind::Question) => keys.extend([("a", "answer"), ("n", "deny")]),
        _ => {}
    }
    if let Some(row) = state.selected() {
        let can = |wanted| row.session.capabilities.contains(&wanted);
        let is_live = row.session.status != Status::Stopped;
        let offers = [
            (Capability::Send, ("s", "send"), is_live),
            (Capability::Interrupt, ("i", "interrupt"), is_live),
            (Capability::Stop, ("x", "stop"), is_live),
            (Capability::Resume, ("r", "resume"), !is_live),
        ];
        keys.extend(
            offers.into_iter().filter(|(wanted, _, now)| *now && can(*wanted)).map(|(_, key, _)| key),
        );
    }
    match state.view {
        View::List if state.selected().is_some() => keys.extend([("Enter", "open"), ("/", "find")]),
        View::List => keys.push(("/", "find")),
        View::Usage => keys.extend([("u", "next"), ("Esc", "back")]),
        _ => keys.extend([("Esc", "back"), ("PgDn", "more")]),
    }
    if state.view == View::List {
        keys.extend([("l", "launch"), ("e", "evidence"), ("d", "changes"), ("u", "usage"), ("q", "quit")]);
    }
    keys
}
