//! Lanes as text: one line for each session, a texture for each status, times at the axis.

use agentctl_model::Status;
use agentctl_model::timeline::{Lane, Timeline};
use jiff::tz::TimeZone;

use super::axis::Axis;
use super::labels;
use crate::render::style::{Paint, Tone, look};
use crate::render::width::{cut_end, measure};

/// The label takes this share of a line, between these bounds.
const LABEL: (usize, usize, usize) = (3, 20, 48);
/// So many columns for each time at the axis.
const PER_TICK: usize = 10;

/// The statuses, the one first that is drawn if several fall into one column: what needed somebody is seen, however short
/// it was.
const DRAWN: [Status; 5] = [Status::Waiting, Status::Running, Status::Unknown, Status::Idle, Status::Stopped];

/// What a status is drawn with, readable without colour.
fn texture(status: Status) -> (char, Tone) {
    match status {
        Status::Running => ('█', Tone::Good),
        Status::Waiting => ('▚', Tone::Attention),
        Status::Idle => ('─', Tone::Plain),
        Status::Stopped => ('·', Tone::Dim),
        Status::Unknown => ('╱', Tone::Dim),
    }
}

pub(crate) fn lines(timeline: &Timeline, width: usize, zone: &TimeZone, paint: Paint) -> Vec<String> {
    let (share, least, most) = LABEL;
    let room = (width / share).clamp(least, most).min(width);
    let columns = width.saturating_sub(room + 1).max(1);
    let axis = Axis::of(timeline);
    let mut lines = vec![paint.dim(format!("{:room$} {}", "", times(axis, columns, zone)).trim_end())];
    for (lane, (id, name)) in timeline.lanes.iter().zip(labels(timeline)) {
        let look = look(lane.status, lane.outcome);
        let beside = room.saturating_sub(measure(&id) + 3);
        let name = if beside > 3 { cut_end(&name, beside) } else { String::new() };
        let label = cut_end(&format!("{} {id} {name}", look.glyph), room);
        let gap = " ".repeat(room.saturating_sub(measure(&label)) + 1);
        lines.push(format!("{}{gap}{}", paint.apply(look.tone, &label), bars(lane, axis, columns, paint)));
    }
    lines.push(legend(timeline, paint));
    lines
}

/// The times, each at its column.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "within a line"
)]
fn times(axis: Axis, columns: usize, zone: &TimeZone) -> String {
    let mut line = String::new();
    for tick in axis.ticks(columns / PER_TICK, zone) {
        let column = (tick.share * columns as f64) as usize;
        let is_free = line.is_empty() || column > measure(&line);
        if is_free && column + measure(&tick.label) <= columns {
            line.push_str(&" ".repeat(column - measure(&line)));
            line.push_str(&tick.label);
        }
    }
    line
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "within a line"
)]
fn bars(lane: &Lane, axis: Axis, columns: usize, paint: Paint) -> String {
    let mut drawn: Vec<Option<Status>> = vec![None; columns];
    for span in &lane.spans {
        let first = (axis.share(span.from) * columns as f64) as usize;
        let end = span.to.map_or(columns as f64, |to| axis.share(to) * columns as f64).ceil() as usize;
        let first = first.min(columns - 1);
        for cell in &mut drawn[first..end.clamp(first + 1, columns)] {
            let rank = |status: Status| DRAWN.iter().position(|known| *known == status);
            if cell.is_none_or(|there| rank(span.status) < rank(there)) {
                *cell = Some(span.status);
            }
        }
    }
    let mut bars = String::new();
    for run in drawn.chunk_by(|one, next| one == next) {
        let (glyph, tone) = run[0].map_or((' ', Tone::Plain), texture);
        bars.push_str(&paint.apply(tone, &glyph.to_string().repeat(run.len())));
    }
    bars.trim_end().to_owned()
}

fn legend(timeline: &Timeline, paint: Paint) -> String {
    let is_there = |status: &Status| {
        timeline.lanes.iter().flat_map(|lane| &lane.spans).any(|span| span.status == *status)
    };
    let shown = Status::ALL.into_iter().filter(is_there).map(|status| {
        let (glyph, tone) = texture(status);
        format!("{} {}", paint.apply(tone, &glyph.to_string()), status.as_str())
    });
    shown.collect::<Vec<_>>().join("   ")
}

#[cfg(test)]
mod tests {
    use agentctl_model::Outcome;
    use agentctl_model::timeline::{Span, TimeWindow};
    use jiff::Timestamp;

    use super::*;

    pub(crate) fn timeline(names: &[&str]) -> Timeline {
        let at = |minute: i64| Timestamp::from_second(1_794_700_800 + minute * 60).unwrap();
        let span = |from, to: Option<i64>, status| Span { from: at(from), to: to.map(at), status };
        let lane = |(index, name): (usize, &&str)| Lane {
            session_id: format!("{index}f0c1234"),
            host: "here".into(),
            adapter: "pi".into(),
            config_root: "/r".into(),
            name: Some((*name).to_owned()),
            cwd: None,
            status: Status::Idle,
            outcome: None,
            spans: vec![
                span(60, Some(120), Status::Running),
                span(120, Some(121), Status::Waiting),
                span(121, Some(600), Status::Unknown),
                span(600, None, Status::Idle),
            ],
        };
        Timeline {
            as_of: at(1440),
            host: "here".into(),
            window: TimeWindow { since: Some(at(0)), until: at(1440) },
            lanes: names.iter().enumerate().map(lane).collect(),
            sources: Vec::new(),
            hosts: Vec::new(),
        }
    }

    #[test]
    fn lanes_fit_and_are_readable_without_colour() {
        let hostile = "\u{1b}[31mred\u{202e} 你好".repeat(20);
        let timeline = timeline(&["fix the login", &hostile, ""]);
        for width in [60, 80, 200] {
            let lines = lines(&timeline, width, &TimeZone::UTC, Paint::new(false));
            for line in &lines {
                assert!(measure(line) <= width, "{width}: {line}");
                assert!(!line.contains('\u{1b}') && !line.contains('\u{202e}'), "{line}");
            }
            assert!(lines[1].contains("█▚"), "a short wait is seen: {}", lines[1]);
            assert!(lines[1].contains("╱╱") && lines[1].ends_with("──"), "{}", lines[1]);
            assert!(lines[0].contains(':'), "{}", lines[0]);
            assert_eq!(lines.last().unwrap(), "█ running   ▚ waiting   ─ idle   ╱ unknown");
        }
    }

    #[test]
    fn a_lane_has_the_glyph_of_its_session() {
        let mut timeline = timeline(&["done", "died", "cut off", "nobody knows", "at work"]);
        let ends = [Some(Outcome::Completed), Some(Outcome::Died), Some(Outcome::Interrupted), None];
        for (lane, outcome) in timeline.lanes.iter_mut().zip(ends) {
            (lane.status, lane.outcome) = (Status::Stopped, outcome);
        }
        timeline.lanes[4].status = Status::Running;
        let lines = lines(&timeline, 80, &TimeZone::UTC, Paint::new(false));
        let glyphs: String = lines[1..6].iter().filter_map(|line| line.chars().next()).collect();
        assert_eq!(glyphs, "✓✕··●");
    }
}
