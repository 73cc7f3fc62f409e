//! A group whose slots are on several machines: each tells its own, and together they are one.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use agentctl_daemon::{encode, joined};
use agentctl_fleet::act::stop::StopAnswer;
use agentctl_fleet::read::groups::{GroupBrief, GroupDiff, GroupList, GroupView};
use agentctl_hosts::Ask;
use agentctl_model::{ErrorKind, Outcome, Status, text};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::hosts::{Asked, RosterHost, Unanswered, length, side_by_side};
use crate::output::Output;
use crate::render::sessions::{cost, tokens};
use crate::render::style::{self, Tone};
use crate::render::table::{Cell, Column, Table};
use crate::render::{json as writer, time};

/// What a machine told of a group, by its name. One that has no such group tells nothing.
fn told<T: DeserializeOwned + Send>(
    asked: &Asked,
    group: &str,
    ask: impl Fn(&RosterHost) -> Result<T, Unanswered> + Sync,
    out: &mut Output,
) -> Result<Vec<(String, T)>, Failure> {
    let (mut all, mut unheard) = (Vec::new(), None);
    for (host, answer) in asked.others.iter().zip(side_by_side(&asked.others, |host| ask(host))) {
        match answer {
            Ok(answer) => all.push((host.name.to_string(), answer)),
            Err(Unanswered::Problem(problem)) if problem.kind() == ErrorKind::NotFound => {}
            Err(why) => match host.refused(why) {
                Failure::Said(error) => {
                    out.warn(&text::clean(&error.message));
                    unheard = Some(error);
                }
                gone @ Failure::ReaderGone => return Err(gone),
            },
        }
    }
    if !all.is_empty() || group.is_empty() {
        return Ok(all);
    }
    let group = text::one_line(group);
    Err(match unheard {
        Some(error) => {
            let words = format!("group `{group}` was not found, but not every machine could be heard");
            let said = Failure::new(ErrorKind::Incomplete, words);
            error.hint.into_iter().fold(said, Failure::hint)
        }
        None => Failure::new(ErrorKind::NotFound, format!("none of these machines has a group `{group}`"))
            .hint("`agentctl group list --host all` shows those that are known"),
    })
}

pub(super) fn list(asked: &Asked, own: GroupList, as_json: bool, out: &mut Output) -> Result<Exit, Failure> {
    let mut all = own;
    for (host, there) in told(asked, "", |host| host.read::<GroupList>(Ask::get("/v1/groups")), out)? {
        for mut group in there.groups {
            group.slots.iter_mut().for_each(|slot| slot.host.clone_from(&host));
            match all.groups.iter_mut().find(|known| known.group == group.group) {
                Some(known) => known.slots.extend(group.slots),
                None => all.groups.push(group),
            }
        }
        all.sources.extend(there.sources.into_iter().map(|mut source| {
            source.host.clone_from(&host);
            source
        }));
    }
    if as_json {
        writer::answer(out, &all)?;
        return Ok(Exit::Done);
    }
    if all.groups.is_empty() {
        writeln!(out, "no groups were heard of")?;
        return Ok(Exit::Done);
    }
    let mut table =
        Table::new(vec![Column::whole("GROUP"), Column::whole("SLOTS"), Column::flexible("HOSTS", 16)]);
    for GroupBrief { group, slots, .. } in &all.groups {
        let mut hosts: Vec<&str> = slots.iter().map(|slot| slot.host.as_str()).collect();
        hosts.dedup();
        table.row(vec![
            Cell::plain(text::one_line(group)),
            Cell::plain(slots.len().to_string()),
            Cell::plain(text::one_line(&hosts.join(", "))),
        ]);
    }
    lines(&table, out)
}

pub(super) fn show(
    asked: &Asked,
    group: &str,
    own: Option<GroupView>,
    as_json: bool,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let target = format!("/v1/groups/{}", encode(group));
    let looked_for = if own.is_some() { "" } else { group };
    let mut all = own;
    for (host, mut there) in told(asked, looked_for, |host| host.read::<GroupView>(Ask::get(&target)), out)? {
        for slot in &mut there.slots {
            slot.host.clone_from(&host);
            if let Some(session) = &mut slot.session {
                session.host.clone_from(&host);
            }
        }
        there.sources.iter_mut().for_each(|source| source.host.clone_from(&host));
        match &mut all {
            None => all = Some(there),
            Some(all) => {
                all.slots.extend(there.slots);
                all.sources.extend(there.sources);
            }
        }
    }
    let Some(all) = all else { return Ok(Exit::NotFound) };
    if as_json {
        writer::answer(out, &all)?;
        return Ok(Exit::Done);
    }
    writeln!(out, "group {}", out.paint.strong(&text::one_line(&all.group)))?;
    let mut table = Table::new(vec![
        Column::flexible("SLOT", 24),
        Column::whole("STATUS"),
        Column::whole("ID"),
        Column::whole("TIME").expendable(1),
        Column::whole("TOKENS").expendable(3),
        Column::whole("COST").expendable(2),
        Column::whole("CHANGES"),
    ]);
    for slot in &all.slots {
        let session = slot.session.as_ref();
        let (status, tone) = state(session.map(|session| (session.status, session.outcome)));
        let id = session.map(|session| format!("{}/{}", slot.host, session.id)).unwrap_or_default();
        let diff =
            slot.diff.map(|diff| format!("{} files +{} -{}", diff.files, diff.insertions, diff.deletions));
        table.row(vec![
            Cell::new(text::one_line(&slot.slot), Tone::Strong),
            Cell::new(status, tone),
            Cell::plain(text::one_line(&id)),
            Cell::plain(slot.seconds.map(|took| time::short(Duration::from_secs(took))).unwrap_or_default()),
            Cell::plain(
                session.and_then(|session| session.tokens).map(|used| tokens(&used)).unwrap_or_default(),
            ),
            Cell::plain(session.and_then(|session| session.cost).map(cost).unwrap_or_default()),
            Cell::plain(diff.unwrap_or_default()),
        ]);
    }
    lines(&table, out)
}

pub(super) fn diff(
    asked: &Asked,
    group: &str,
    (slots, stat): (&[String], bool),
    as_json: bool,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let mut pairs: Vec<(&str, String)> = slots.iter().map(|slot| ("slot", slot.clone())).collect();
    if stat {
        pairs.push(("stat", "true".to_owned()));
    }
    let target = format!("/v1/groups/{}/diff?{}", encode(group), joined(&pairs));
    let mut all = GroupDiff { group: group.to_owned(), slots: Vec::new() };
    for (host, there) in told(asked, group, |host| host.read::<GroupDiff>(Ask::get(&target)), out)? {
        all.group = there.group;
        all.slots.extend(there.slots.into_iter().map(|mut slot| {
            slot.host.clone_from(&host);
            slot
        }));
    }
    if as_json {
        writer::answer(out, &all)?;
        return Ok(Exit::Done);
    }
    for slot in &all.slots {
        let name = text::one_line(&format!("{}/{}", slot.host, slot.slot));
        writeln!(out, "{}", out.paint.strong(&format!("# {name}")))?;
        match (&slot.diff, &slot.error) {
            // Into a pipe the patch is exact.
            (Some(diff), _) if !out.is_terminal() => out.write_all(diff.as_bytes())?,
            (Some(diff), _) => writeln!(out, "{}", text::clean(diff))?,
            (None, why) => {
                writeln!(out, "# {}", text::one_line(why.as_deref().unwrap_or("nothing to compare")))?;
            }
        }
    }
    Ok(Exit::Done)
}

pub(super) fn stop(
    asked: &Asked,
    group: &str,
    (grace, force): (Duration, bool),
    as_json: bool,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let shown = format!("/v1/groups/{}", encode(group));
    let target = format!("{shown}/stop");
    let body = json!({ "grace": length(grace), "force": force });
    let known = told(asked, group, |host| host.read::<GroupView>(Ask::get(&shown)), out)?;
    let has_it = |host: &&Arc<RosterHost>| known.iter().any(|(name, _)| host.name.as_str() == name);
    let known: Vec<_> = asked.others.iter().filter(has_it).collect();
    let stopped = side_by_side(&known, |host| {
        host.done::<StopAnswer>(("POST", &target), &body, grace.saturating_mul(100).min(LONGEST_STOP))
    });
    let (mut all, mut exit) = (StopAnswer::default(), Exit::Done);
    for (host, stopped) in known.iter().zip(stopped) {
        match stopped {
            Ok(answer) => {
                for mut report in answer.sessions {
                    report.session = report.session.map(|session| host.named(session));
                    let id = report.session.as_ref().map(|session| format!("{}/{}", host.name, session.id));
                    let done = report.error.is_none() && report.survived.is_empty();
                    exit = exit.or_worse(if done { Exit::Done } else { Exit::Failed });
                    if !as_json {
                        let word = if done { "stopped" } else { "not stopped" };
                        writeln!(out, "{} {word}", text::one_line(&id.unwrap_or_default()))?;
                    }
                    all.sessions.push(report);
                }
            }
            Err(Failure::Said(error)) => {
                out.error(&format!("{}: {}", host.name, text::clean(&error.message)));
                exit = exit.or_worse(error.kind.into());
            }
            Err(gone) => return Err(gone),
        }
    }
    if as_json {
        writer::answer(out, &all)?;
    }
    Ok(exit)
}

/// How long the end of a whole group may take on one machine.
const LONGEST_STOP: Duration = Duration::from_mins(10);

fn state(known: Option<(Status, Option<Outcome>)>) -> (String, Tone) {
    let Some((status, outcome)) = known else { return ("? not seen".to_owned(), Tone::Dim) };
    let look = style::look(status, outcome);
    (format!("{} {}", look.glyph, look.word), look.tone)
}

fn lines(table: &Table, out: &mut Output) -> Result<Exit, Failure> {
    for line in table.lines(out.width(), out.paint) {
        writeln!(out, "{line}")?;
    }
    Ok(Exit::Done)
}
