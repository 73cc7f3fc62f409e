//! Lanes as a picture. It has no script, no link and no outside address, and every text in it is escaped. Light and dark
//! follow the reader's own setting.

use std::fmt::Write;

use agentctl_model::Status;
use agentctl_model::timeline::{Lane, Span, Timeline};
use jiff::tz::TimeZone;

use super::axis::Axis;
use super::labels;
use crate::render::width::cut_end;

const WIDTH: f64 = 1200.0;
const LABEL: f64 = 260.0;
const MARGIN: f64 = 16.0;
const HEAD: f64 = 34.0;
const ROW: f64 = 26.0;
const BAR: f64 = 16.0;
const FOOT: f64 = 36.0;
/// A span is never drawn narrower.
const LEAST: f64 = 1.5;

const STYLE: &str = "\
svg{background:#fff;font:12px system-ui,sans-serif}\
text{fill:#24292f}.dim{fill:#6e7781}line{stroke:#d0d7de}\
.running{fill:#0969da}.waiting{fill:#e16f24}.idle{fill:#afb8c1}.stopped{fill:#eaeef2}.unknown{fill:url(#hatch)}\
.hatched{stroke:#8c959f;stroke-width:2}\
@media (prefers-color-scheme: dark){\
svg{background:#0d1117}text{fill:#e6edf3}.dim{fill:#8b949e}line{stroke:#30363d}\
.running{fill:#58a6ff}.waiting{fill:#f0883e}.idle{fill:#484f58}.stopped{fill:#21262d}.hatched{stroke:#6e7681}}";

pub(crate) fn picture(timeline: &Timeline, zone: &TimeZone) -> String {
    let axis = Axis::of(timeline);
    let mut rows = String::new();
    let mut y = HEAD;
    for (lane, (id, name)) in timeline.lanes.iter().zip(labels(timeline)) {
        row(&mut rows, y, lane, &cut_end(&format!("{id} {name}"), 38), axis);
        y += ROW;
    }
    let height = y + FOOT;
    let mut picture = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"Timeline of agent sessions\">\n\
         <style>{STYLE}</style>\n\
         <defs><pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
         patternTransform=\"rotate(45)\"><line class=\"hatched\" x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\"/></pattern></defs>\n"
    );
    for tick in axis.ticks(12, zone) {
        let x = across(tick.share);
        // Strings are written to memory, which does not fail.
        let _ = writeln!(
            picture,
            "<line x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{x:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"dim\" x=\"{x:.1}\" y=\"20\" text-anchor=\"middle\">{}</text>",
            HEAD - 8.0,
            escaped(&tick.label),
        );
    }
    picture.push_str(&rows);
    legend(&mut picture, y + FOOT / 2.0);
    picture.push_str("</svg>\n");
    picture
}

fn across(share: f64) -> f64 {
    LABEL + share * (WIDTH - LABEL - MARGIN)
}

fn row(picture: &mut String, y: f64, lane: &Lane, label: &str, axis: Axis) {
    let (top, middle) = (y + (ROW - BAR) / 2.0, y + ROW / 2.0 + 4.0);
    let _ = writeln!(picture, "<text x=\"{MARGIN}\" y=\"{middle:.1}\">{}</text>", escaped(label));
    for span in &lane.spans {
        let from = across(axis.share(span.from));
        let to = across(span.to.map_or(1.0, |to| axis.share(to)));
        let _ = writeln!(
            picture,
            "<rect class=\"{}\" x=\"{from:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{BAR}\"><title>{}</title></rect>",
            span.status.as_str(),
            (to - from).max(LEAST),
            escaped(&words(span)),
        );
    }
}

/// The status and the times of the two records.
fn words(span: &Span) -> String {
    let to = span.to.map_or_else(|| "now".to_owned(), |to| to.to_string());
    format!("{}, {} to {to}", span.status.as_str(), span.from)
}

fn legend(picture: &mut String, y: f64) {
    let mut x = LABEL;
    for status in [Status::Running, Status::Waiting, Status::Idle, Status::Unknown, Status::Stopped] {
        let word = status.as_str();
        let _ = writeln!(
            picture,
            "<rect class=\"{word}\" x=\"{x}\" y=\"{:.1}\" width=\"14\" height=\"10\"/>\
             <text class=\"dim\" x=\"{}\" y=\"{y:.1}\">{word}</text>",
            y - 9.0,
            x + 20.0,
        );
        x += 100.0;
    }
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // What XML does not allow at all.
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}
