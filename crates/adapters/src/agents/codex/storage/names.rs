//! The names of threads, from `session_index.jsonl`, to which the agent appends each new name.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;

use agentctl_model::Harvest;
use agentctl_model::text::clean_cut;
use serde::Deserialize;

use crate::transcript::jsonl::open::open_regular;
use crate::transcript::jsonl::{Scan, scan_back};

/// How many bytes from the end are searched for names.
const REACH: u64 = 16 << 20;

#[derive(Deserialize)]
struct Line {
    id: String,
    thread_name: Option<String>,
}

/// Reads lines newest first: the first line with an id has its current name. Pure.
#[derive(Default)]
struct Names(HashMap<String, Option<String>>);

impl Scan for Names {
    fn line(&mut self, line: &[u8], distance: u64) -> ControlFlow<()> {
        if let Ok(line) = serde_json::from_slice::<Line>(line) {
            let name = line.thread_name.filter(|name| !name.trim().is_empty());
            self.0.entry(line.id).or_insert_with(|| name.map(|name| clean_cut(&name, None)));
        }
        if distance > REACH { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Sets the name of every session found that has one.
pub(crate) fn add_names(home: &Path, harvest: &mut Harvest) {
    let path = home.join("session_index.jsonl");
    let mut names = Names::default();
    let read = open_regular(&path).and_then(|opened| scan_back(&opened.file, opened.size, &mut names));
    match read {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
        // A session without its name is still reported.
        Err(error) => harvest.warnings.push(format!("{}: {error}", path.display())),
    }
    for found in &mut harvest.found {
        if let Some(Some(name)) = names.0.get(&found.id) {
            found.facts.name = Some(name.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_name_counts_and_an_empty_one_is_none() {
        let lines = b"{\"id\":\"a\",\"thread_name\":\"old\"}\nnoise\n{\"id\":\"b\",\"thread_name\":\"x\"}\n\
            {\"id\":\"a\",\"thread_name\":\"new\"}\n{\"id\":\"b\",\"thread_name\":\" \"}\n{\"id\":\"c\"";
        let mut names = Names::default();
        scan_back(&lines[..], lines.len() as u64, &mut names).unwrap();
        assert_eq!(names.0.get("a"), Some(&Some("new".to_owned())));
        assert_eq!((names.0.get("b"), names.0.get("c")), (Some(&None), None));
    }
}
