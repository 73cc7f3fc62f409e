//! One machine is one host, by however many roads it was reached. Pure.

use std::collections::HashMap;

use agentctl_model::{CoverageKind, HostReport, Road, Session};
use serde_json::Value;

/// The extra of a session that stands on several machines.
const ALSO_ON: &str = "alsoOn";

/// What one host said, and how it was heard.
pub(crate) struct Heard<T> {
    pub(crate) answer: Option<T>,
    pub(crate) report: HostReport,
    /// The same for every road that leads to the same place.
    pub(crate) instance: Option<String>,
}

/// The row of each machine, and what was answered under which name. `rows` begins with that of this machine, if it was
/// asked, and `own` is its instance. A machine that was reached by two roads is told once: this machine before ssh,
/// and ssh before the bus. A name that two machines claim is a failed row.
pub(crate) fn merge<T>(
    mut rows: Vec<HostReport>,
    own: &str,
    mut heard: Vec<Heard<T>>,
) -> (Vec<HostReport>, Vec<(String, T)>) {
    let mut known: Vec<Option<String>> = rows.iter().map(|_| Some(own.to_owned())).collect();
    // Where each instance and each name stands among the rows.
    let mut by_instance: HashMap<String, usize> = rows.iter().map(|_| (own.to_owned(), 0)).collect();
    let mut by_name: HashMap<String, usize> =
        rows.iter().enumerate().map(|(index, row)| (row.name.clone(), index)).collect();
    let mut answers: Vec<(String, T)> = Vec::new();
    heard.sort_by_key(|one| match one.report.via {
        Road::Local => 0,
        Road::Ssh => 1,
        Road::Nats => 2,
    });
    for Heard { answer, report, instance } in heard {
        let same = instance.as_ref().and_then(|instance| by_instance.get(instance));
        if let Some(row) = same.and_then(|index| rows.get_mut(*index)) {
            // A road on which it answered counts before one on which it only greeted.
            let mut other = report;
            if let Some(answer) =
                answer.filter(|_| row.coverage == CoverageKind::Failed && row.error.is_some())
            {
                answers.push((other.name.clone(), answer));
                other.also_as = std::mem::take(&mut row.also_as);
                std::mem::swap(row, &mut other);
                by_name.extend(same.map(|index| (row.name.clone(), *index)));
            }
            if row.name != other.name && !row.also_as.contains(&other.name) {
                row.also_as.push(other.name);
            }
            continue;
        }
        if let Some(&index) = by_name.get(&report.name) {
            // Two roads of one name: if one of them was not heard, the other one speaks.
            let row = &mut rows[index];
            match (&known[index], &instance) {
                (_, None) => {}
                (None, Some(_)) => {
                    *row = report;
                    by_instance.extend(instance.clone().map(|instance| (instance, index)));
                    known[index] = instance;
                    answers.extend(answer.map(|answer| (row.name.clone(), answer)));
                }
                (Some(_), Some(_)) => {
                    answers.retain(|(name, _)| *name != row.name);
                    *row = claimed_twice(row, &report);
                }
            }
            continue;
        }
        answers.extend(answer.map(|answer| (report.name.clone(), answer)));
        by_name.insert(report.name.clone(), rows.len());
        by_instance.extend(instance.clone().map(|instance| (instance, rows.len())));
        rows.push(report);
        known.push(instance);
    }
    (rows, answers)
}

fn claimed_twice(one: &HostReport, other: &HostReport) -> HostReport {
    let words = format!(
        "two machines claim this name, one over {} and one over {}",
        one.via.as_str(),
        other.via.as_str()
    );
    HostReport {
        error: Some(words),
        hint: Some("give one of them another name in config.toml".to_owned()),
        coverage: CoverageKind::Failed,
        ..HostReport::unheard(one.name.clone(), one.via)
    }
}

/// Says at each session that stands on several machines where else it stands: in shared or copied homes.
pub(super) fn tell_twins(sessions: &mut [Box<Session>]) {
    // Hardly any session is one of them, so nothing is copied before one is found.
    let mut seen: HashMap<(&str, &str), &str> = HashMap::with_capacity(sessions.len());
    let mut hosts: HashMap<(String, String), Vec<String>> = HashMap::new();
    for session in sessions.iter() {
        let first = *seen.entry((&session.adapter, &session.id)).or_insert(&session.host);
        if first != session.host {
            let key = (session.adapter.clone(), session.id.clone());
            let names = hosts.entry(key).or_insert_with(|| vec![first.to_owned()]);
            if !names.contains(&session.host) {
                names.push(session.host.clone());
            }
        }
    }
    if hosts.is_empty() {
        return;
    }
    for session in sessions {
        let key = (session.adapter.clone(), session.id.clone());
        let Some(names) = hosts.get(&key) else { continue };
        let others = names.iter().filter(|name| **name != session.host);
        let others = others.map(|name| Value::String(name.clone())).collect();
        session.meta.insert(ALSO_ON.to_owned(), Value::Array(others));
    }
}

#[cfg(test)]
mod tests {
    use agentctl_testkit::sessions;

    use super::*;

    fn heard(name: &str, via: Road, instance: Option<&str>) -> Heard<&'static str> {
        let mut report = HostReport::unheard(name.to_owned(), via);
        if instance.is_some() {
            report.coverage = CoverageKind::Complete;
        }
        Heard { answer: instance.map(|_| "x"), report, instance: instance.map(str::to_owned) }
    }

    /// A name, the other names, and whether it failed.
    type Row = (String, Vec<String>, bool);

    fn rows(heard: Vec<Heard<&'static str>>, local: bool) -> (Vec<Row>, Vec<String>) {
        let own = HostReport::unheard("dev1".to_owned(), Road::Local);
        let (rows, answers) = merge(if local { vec![own] } else { Vec::new() }, "me", heard);
        let row = |row: HostReport| (row.name, row.also_as, row.error.is_some());
        (rows.into_iter().map(row).collect(), answers.into_iter().map(|(name, _)| name).collect())
    }

    #[test]
    fn one_machine_is_told_once_and_the_nearest_road_counts() {
        let row = |name: &str, also: &[&str], failed| {
            (name.to_owned(), also.iter().map(|&name| name.to_owned()).collect::<Vec<_>>(), failed)
        };
        let all = || {
            vec![
                heard("bus", Road::Nats, Some("a")),
                heard("box", Road::Ssh, Some("a")),
                heard("self", Road::Ssh, Some("me")),
                heard("quiet", Road::Ssh, None),
                heard("still", Road::Ssh, None),
            ]
        };
        let others = [row("quiet", &[], false), row("still", &[], false)];
        let near = [row("dev1", &["self"], false), row("box", &["bus"], false)];
        assert_eq!(rows(all(), true), ([&near[..], &others[..]].concat(), vec!["box".to_owned()]));
        // This machine is not asked, so the name that leads here is as good as any.
        let (far, answered) = rows(all(), false);
        assert_eq!(far[..2], [row("box", &["bus"], false), row("self", &[], false)]);
        assert_eq!(answered, ["box", "self"]);
        // Two machines with one name: neither is believed.
        let twice = vec![heard("box", Road::Ssh, Some("a")), heard("box", Road::Nats, Some("b"))];
        assert_eq!(rows(twice, false), (vec![row("box", &[], true)], Vec::new()));
        // One road on which it greets and does not answer, and one on which it does.
        let mut mute = heard("box", Road::Ssh, Some("a"));
        (mute.answer, mute.report.coverage) = (None, CoverageKind::Failed);
        mute.report.error = Some("cut".to_owned());
        let mixed = rows(vec![mute, heard("bus", Road::Nats, Some("a"))], false);
        assert_eq!(mixed, (vec![row("bus", &["box"], false)], vec!["bus".to_owned()]));
        let one_silent = vec![heard("box", Road::Ssh, None), heard("box", Road::Nats, Some("b"))];
        assert_eq!(rows(one_silent, false), (vec![row("box", &[], false)], vec!["box".to_owned()]));
    }

    #[test]
    fn a_session_that_stands_twice_says_where_else() {
        let on = |host: &str, id: &str| {
            let session = sessions::session(id, agentctl_model::Status::Stopped, None);
            Box::new(Session { host: host.to_owned(), ..session })
        };
        let mut all = [on("a", "1"), on("b", "1"), on("a", "2"), on("a", "3"), on("a", "3")];
        tell_twins(&mut all);
        assert_eq!(all[0].meta.get(ALSO_ON), Some(&serde_json::json!(["b"])));
        assert_eq!(all[1].meta.get(ALSO_ON), Some(&serde_json::json!(["a"])));
        assert!(all[2].meta.get(ALSO_ON).is_none());
        assert!(all[3].meta.get(ALSO_ON).is_none(), "two folders of one machine are no two machines");
    }
}
