//! The other views: evidence, groups, hosts, usage, sheets of text, and the form of a launch.

use std::collections::BTreeMap;

use agentctl_fleet::UsageAnswer;
use agentctl_model::{CoverageKind, text};
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::frame::{Canvas, Pieces, below};
use super::list::{fixed, title_of};
use crate::cli::usage;
use crate::render::style::{self, Paint, Tone};
use crate::render::width::{cut_end, wrap};
use crate::render::{path, sessions, time};
use crate::top::form::{Field, Form};
use crate::top::rows::Row;
use crate::top::state::{Sheet, Shown, State};

/// Lines that can be scrolled from their beginning.
fn scrolled(state: &State, head: &str, lines: &[Pieces], area: Rect, canvas: &mut Canvas<'_>) -> Shown {
    canvas.text(area, 0, &[(canvas.theme.of(Tone::Strong), format!(" {head}"))]);
    let body = below(area, 1);
    let room = usize::from(body.height);
    let most = lines.len().saturating_sub(room);
    for (index, pieces) in lines.iter().skip(state.scroll.min(most)).take(room).enumerate() {
        canvas.text(body, u16::try_from(index).unwrap_or(0), pieces);
    }
    Shown { most, page: room, ..Shown::default() }
}

pub(super) fn evidence(state: &State, area: Rect, canvas: &mut Canvas<'_>) -> Shown {
    let Some(row) = state.selected() else { return Shown::default() };
    let theme = canvas.theme;
    let session = &row.session;
    let look = style::look(session.status, session.outcome);
    let width = usize::from(area.width);
    let mut lines: Vec<Pieces> = vec![vec![
        (theme.plain(), " ".to_owned()),
        (theme.of(look.tone), format!("{} {}", look.glyph, look.word)),
        (
            theme.plain(),
            session
                .status_detail
                .as_deref()
                .map(|words| format!("  {}", text::one_line(words)))
                .unwrap_or_default(),
        ),
    ]];
    lines.push(Vec::new());
    let now = row.now(state.now);
    for evidence in &session.evidence {
        let at =
            evidence.at.map(|at| format!(" · {}", time::moment(now, at, &state.zone))).unwrap_or_default();
        let words = format!("{}{at}", text::one_line(&evidence.fact.to_string()));
        for (index, line) in wrap(&words, width.saturating_sub(14)).into_iter().enumerate() {
            let source = if index == 0 { evidence.source.as_str() } else { "" };
            lines.push(vec![(theme.of(Tone::Strong), format!(" {source:<12} ")), (theme.plain(), line)]);
        }
    }
    lines.push(Vec::new());
    for process in &session.processes {
        let words = format!(" {:<12} {} {}", process.role, process.pid, text::one_line(&process.command));
        lines.push(vec![(theme.plain(), words)]);
    }
    for (label, value) in facts(row, state) {
        for (index, line) in wrap(&value, width.saturating_sub(14)).into_iter().enumerate() {
            let label = if index == 0 { label } else { "" };
            lines.push(vec![(theme.of(Tone::Dim), format!(" {label:<12} ")), (theme.plain(), line)]);
        }
    }
    scrolled(state, &title_of(row).0, &lines, area, canvas)
}

fn facts(row: &Row, state: &State) -> Vec<(&'static str, String)> {
    let session = &row.session;
    let moment = |at: Option<jiff::Timestamp>| at.map(|at| time::moment(row.now(state.now), at, &state.zone));
    let own = |text: &Option<String>| text.as_deref().map(text::one_line);
    let all = [
        ("id", Some(text::one_line(&session.id))),
        ("host", Some(text::one_line(&row.key.host)).filter(|host| !host.is_empty())),
        ("folder", session.cwd.as_deref().map(|cwd| path::shown(cwd, state.home.as_deref()))),
        ("branch", own(&session.branch)),
        ("model", own(&session.model)),
        ("group", own(&session.group)),
        ("tokens", session.tokens.as_ref().map(sessions::tokens)),
        ("cost", session.cost.map(sessions::cost)),
        ("started", moment(session.started_at)),
        ("updated", moment(session.updated_at)),
        ("stored in", Some(path::shown(&session.config_root, state.home.as_deref()))),
    ];
    all.into_iter().filter_map(|(label, value)| Some((label, value?))).collect()
}

pub(super) fn groups(state: &State, area: Rect, canvas: &mut Canvas<'_>) -> Shown {
    let theme = canvas.theme;
    let mut groups: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in state.rows() {
        if let Some(group) = row.session.group.as_deref() {
            groups.entry(group).or_default().push(row);
        }
    }
    // The group of the row under the cursor comes first.
    let own = state.selected().and_then(|row| row.session.group.clone());
    let mut names: Vec<&str> = groups.keys().copied().collect();
    names.sort_by_key(|name| own.as_deref() != Some(*name));
    let mut lines: Vec<Pieces> = Vec::new();
    for name in names {
        lines.push(vec![(theme.of(Tone::Strong), format!(" {}", text::one_line(name)))]);
        for row in &groups[name] {
            let session = &row.session;
            let look = style::look(session.status, session.outcome);
            let now = row.now(state.now);
            let took = session.started_at.map(|at| time::ago(now, at)).unwrap_or_default();
            let model = session.model.as_deref().map(text::one_line).unwrap_or_default();
            let tokens = session.tokens.as_ref().map(sessions::tokens).unwrap_or_default();
            let cost = session.cost.map(sessions::cost).unwrap_or_default();
            let branch = session.branch.as_deref().map(text::one_line).unwrap_or_default();
            lines.push(vec![
                (theme.plain(), "   ".to_owned()),
                (theme.of(look.tone), format!("{} {:<11}", look.glyph, look.word)),
                (
                    theme.plain(),
                    format!(
                        " {took:>4}  {} {} {tokens:>11} {cost:>7}  {branch}",
                        fixed(&text::one_line(&session.adapter), 12),
                        fixed(&model, 16)
                    ),
                ),
            ]);
        }
        lines.push(Vec::new());
    }
    if lines.is_empty() {
        let words = " no group is here; `agentctl launch` with several --adapter makes one";
        lines.push(vec![(theme.of(Tone::Dim), words.to_owned())]);
    } else {
        let words = " `agentctl group diff GROUP` says more; /group:NAME shows one alone";
        lines.push(vec![(theme.of(Tone::Dim), words.to_owned())]);
    }
    scrolled(state, "groups: status, time, agent, model, tokens, cost, branch", &lines, area, canvas)
}

pub(super) fn hosts(state: &State, area: Rect, canvas: &mut Canvas<'_>) -> Shown {
    let theme = canvas.theme;
    let mut lines: Vec<Pieces> = Vec::new();
    for part in state.parts.values() {
        for host in &part.hosts {
            let is_heard = host.coverage != CoverageKind::Failed;
            let (glyph, tone) = if is_heard { ('●', Tone::Good) } else { ('?', Tone::Attention) };
            let heard =
                part.heard_at.map(|at| format!("{} ago", time::ago(state.now, at))).unwrap_or_default();
            let words = match &host.error {
                Some(error) => format!("not heard: {}", text::one_line(error)),
                None => format!(
                    "{} live, {} waiting, heard {heard} in {} ms",
                    host.live.unwrap_or(0),
                    host.waiting.unwrap_or(0),
                    host.took_ms
                ),
            };
            lines.push(vec![
                (theme.plain(), " ".to_owned()),
                (theme.of(tone), glyph.to_string()),
                (theme.of(Tone::Strong), format!(" {}", fixed(&text::one_line(&host.name), 16))),
                (theme.of(Tone::Dim), format!(" {:<6}", host.via.as_str())),
                (theme.plain(), words),
            ]);
            if let Some(hint) = &host.hint {
                lines.push(vec![(theme.of(Tone::Dim), format!("     {}", text::one_line(hint)))]);
            }
            for source in
                part.sources.iter().filter(|source| source.host == host.name || host.name == state.host)
            {
                if source.coverage == CoverageKind::NotInstalled {
                    continue;
                }
                let (glyph, tone) =
                    if source.is_incomplete() { ('?', Tone::Attention) } else { (' ', Tone::Plain) };
                let reason = source.error.as_deref().or(source.warnings.first().map(String::as_str));
                let count = source.sessions.map_or_else(String::new, |count| format!("{count} sessions"));
                let words =
                    reason.map_or(count, |reason| format!("{}: {}", source.coverage, text::one_line(reason)));
                lines.push(vec![
                    (theme.plain(), "   ".to_owned()),
                    (theme.of(tone), glyph.to_string()),
                    (theme.plain(), format!(" {}", fixed(&text::one_line(&source.adapter), 14))),
                    (
                        theme.of(Tone::Dim),
                        format!(" {}", fixed(&path::shown(&source.root, state.home.as_deref()), 30)),
                    ),
                    (theme.plain(), format!(" {words}")),
                ]);
            }
        }
        if part.strays > 0 {
            let words = format!(
                "   {} that belong to no stored session; `agentctl doctor` says more",
                text::counted(part.strays, "live agent process", "live agent processes")
            );
            lines.push(vec![(theme.of(Tone::Dim), words)]);
        }
    }
    if lines.is_empty() {
        lines.push(vec![(theme.of(Tone::Dim), " looking …".to_owned())]);
    }
    scrolled(state, "hosts and sources; /host:NAME shows one machine alone", &lines, area, canvas)
}

pub(super) fn usage(state: &State, area: Rect, canvas: &mut Canvas<'_>) -> Shown {
    let by = ["day", "model", "folder"][state.usage_by.min(2)];
    let head = format!("usage of the last 7 days by {by}; u: another way");
    let lines = match &state.usage {
        None => vec![vec![(canvas.theme.of(Tone::Dim), " counting …".to_owned())]],
        Some(Err(why)) => complaint(why, area, canvas),
        Some(Ok(answer)) => usage_lines(answer, state, usize::from(area.width), canvas),
    };
    scrolled(state, &head, &lines, area, canvas)
}

/// Why there is nothing else to show, in as many lines as it takes.
fn complaint(why: &str, area: Rect, canvas: &Canvas<'_>) -> Vec<Pieces> {
    let lines = wrap(&text::clean(why), usize::from(area.width).saturating_sub(2)).into_iter();
    lines.map(|line| vec![(canvas.theme.of(Tone::Bad), format!(" {line}"))]).collect()
}

fn usage_lines(answer: &UsageAnswer, state: &State, width: usize, canvas: &Canvas<'_>) -> Vec<Pieces> {
    let theme = canvas.theme;
    if answer.rows.is_empty() {
        return vec![vec![(theme.of(Tone::Dim), " nothing was spent in this time".to_owned())]];
    }
    let table = usage::table(answer, true, state.home.as_deref());
    let mut lines: Vec<Pieces> = table
        .lines(width.saturating_sub(1), Paint::new(false))
        .into_iter()
        .map(|line| vec![(theme.plain(), format!(" {line}"))])
        .collect();
    if let Some(head) = lines.first_mut() {
        for (style, _) in head.iter_mut() {
            *style = theme.of(Tone::Dim);
        }
    }
    if !answer.unpriced.is_empty() {
        let names: Vec<String> = answer.unpriced.iter().map(|name| text::one_line(name)).collect();
        lines.push(vec![(theme.of(Tone::Dim), format!(" no price is known for: {}", names.join(", ")))]);
    }
    lines
}

pub(super) fn sheet(state: &State, what: &str, area: Rect, canvas: &mut Canvas<'_>) -> Shown {
    let theme = canvas.theme;
    let title = state.selected().map(|row| title_of(row).0).filter(|_| what == "changes");
    let head = title.map_or_else(|| what.to_owned(), |title| format!("{what} of {title}"));
    let lines: Vec<Pieces> = match &state.sheet {
        None | Some(Sheet::Asked) => vec![vec![(theme.of(Tone::Dim), " looking …".to_owned())]],
        Some(Sheet::Failed(why)) => complaint(why, area, canvas),
        Some(Sheet::Told(lines)) => lines
            .iter()
            .map(|line| {
                let tone = match line.as_bytes().first() {
                    Some(b'+') if what == "changes" => Tone::Good,
                    Some(b'-') if what == "changes" => Tone::Bad,
                    Some(b'@' | b'd') if what == "changes" => Tone::Dim,
                    _ => Tone::Plain,
                };
                vec![(theme.of(tone), format!(" {line}"))]
            })
            .collect(),
    };
    scrolled(state, &head, &lines, area, canvas)
}

pub(super) fn form(state: &State, form: &Form, area: Rect, canvas: &mut Canvas<'_>) {
    let theme = canvas.theme;
    let width = usize::from(area.width).saturating_sub(14);
    canvas.text(area, 0, &[(theme.of(Tone::Strong), " launch an agent".to_owned())]);
    for (index, field) in Field::ALL.into_iter().enumerate() {
        let is_here = form.field == field;
        let value = match field {
            Field::Agent => {
                format!("{} (←/→ chooses)", form.agents.get(form.agent).map_or("-", String::as_str))
            }
            Field::Prompt => text::visible_line(&form.prompt.typed),
            Field::Folder => path::shown(&form.folder.typed, state.home.as_deref()),
            Field::Hold if form.hold => {
                "[x] keep it after its turn, so that it can be spoken with".to_owned()
            }
            Field::Hold => "[ ] it ends with its turn".to_owned(),
        };
        let style = if is_here { theme.of(Tone::Strong) } else { theme.of(Tone::Dim) };
        let mark = if is_here { ">" } else { " " };
        let mut pieces = vec![(style, format!(" {mark} {:<8} ", field.label()))];
        let value =
            if field == Field::Prompt || field == Field::Folder { last(&value, width) } else { value };
        pieces.push((theme.plain(), value));
        if is_here {
            pieces.push((Style::new().add_modifier(Modifier::REVERSED), " ".to_owned()));
        }
        canvas.text(area, u16::try_from(index + 2).unwrap_or(0), &pieces);
    }
    let command = cut_end(&text::visible_line(&form.command()), usize::from(area.width).saturating_sub(4));
    canvas.text(area, 7, &[(theme.of(Tone::Dim), " the same as:".to_owned())]);
    canvas.text(area, 8, &[(theme.of(Tone::Dim), format!("   {command}"))]);
}

/// The end of a text that is typed.
fn last(value: &str, width: usize) -> String {
    let count = value.chars().count();
    value.chars().skip(count.saturating_sub(width)).collect()
}
