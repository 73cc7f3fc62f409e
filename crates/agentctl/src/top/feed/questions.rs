//! What is asked once: usage, the changes of a tree, the timeline.

use std::time::Duration;

use agentctl_fleet::{Purpose, Since, TimelineQuery, UsageAnswer, UsageQuery};
use agentctl_model::usage::By;
use agentctl_model::{ErrorKind, text};

use super::{News, guarded, locate};
use crate::cli::{timeline, usage};
use crate::failure::Failure;
use crate::link::Link;
use crate::render::style::Paint;
use crate::render::timeline::terminal;
use crate::top::Scene;
use crate::top::keys::Question;
use crate::top::rows::Key;

/// How far back usage is counted.
const USAGE: Duration = Duration::from_hours(7 * 24);
/// How `u` counts, each time that it is pressed.
const WAYS: [By; 3] = [By::Day, By::Model, By::Cwd];

pub(super) fn answer(question: Question, scene: &Scene) -> News {
    let told = match &question {
        Question::Usage(by) => {
            return News::Usage { by: *by, answer: guarded(|| spent(*by, scene)).map(Box::new) };
        }
        Question::Changes(key) => guarded(|| changes(key, scene)),
        Question::Timeline(width) => guarded(|| timeline(*width, scene)),
    };
    News::Sheet { of: question, told }
}

fn spent(by: usize, scene: &Scene) -> Result<UsageAnswer, Failure> {
    let surroundings = scene.surroundings.anew();
    let link = Link::open(&surroundings)?;
    let query = UsageQuery {
        by: WAYS[by.min(WAYS.len() - 1)],
        since: Since::Back(USAGE),
        until: None,
        adapters: scene.adapters.clone(),
        folders: scene.folders.clone(),
        zone: surroundings.zone.clone(),
    };
    usage::asked(&query, &scene.hosts, &link, &surroundings)
}

fn changes(key: &Key, scene: &Scene) -> Result<Vec<String>, Failure> {
    let link = Link::open(&scene.surroundings.anew())?;
    let located = locate(key, Purpose::Read, &link, scene)?;
    let changes = located.changes(&link.fleet)?;
    let Some(diff) = &changes.diff else {
        let why = changes.error.as_deref().unwrap_or("there is nothing to compare");
        return Err(Failure::new(ErrorKind::Failed, why));
    };
    if diff.is_empty() {
        return Ok(vec!["nothing was changed".to_owned()]);
    }
    let file = |file: &agentctl_fleet::worktree::ChangedFile| {
        format!(
            "{:>7} {:>7}  {}",
            format!("+{}", file.added),
            format!("-{}", file.removed),
            text::one_line(&file.path)
        )
    };
    let mut lines: Vec<String> = changes.files.iter().map(file).map(|line| format!(" {line}")).collect();
    lines.push(String::new());
    lines.extend(diff.lines().map(|line| text::clean(line).replace('\t', "    ")));
    if changes.truncated {
        lines.push("the patch is longer than what is shown; `git diff` there shows all of it".to_owned());
    }
    Ok(lines)
}

/// The same lanes as those of `agentctl timeline`.
fn timeline(width: usize, scene: &Scene) -> Result<Vec<String>, Failure> {
    let surroundings = scene.surroundings.anew();
    let link = Link::open(&surroundings)?;
    let query = TimelineQuery {
        since: TimelineQuery::WINDOW,
        ids: Vec::new(),
        adapters: scene.adapters.clone(),
        root: None,
        folders: scene.folders.clone(),
    };
    let answer = timeline::asked(&query, &scene.hosts, &link, &surroundings)?;
    if answer.lanes.iter().all(|lane| lane.spans.is_empty()) {
        return Ok(vec!["nothing is recorded of the last 24 hours".to_owned()]);
    }
    Ok(terminal::lines(&answer, width.saturating_sub(2), &surroundings.zone, Paint::new(false)))
}
