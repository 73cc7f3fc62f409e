//! `[notify] terminal`: `top` tells its own terminal when a session needs somebody, as the other commands that watch do.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Scene;
use super::state::Part;
use crate::cli::terminal_notices::TerminalNotices;
use crate::output::Output;
use crate::render::style::Colour;

/// What was told, for each machine by itself: what waits on one that is heard for the first time is no news.
pub(crate) struct Notices {
    scene: Arc<Scene>,
    out: Output,
    told: BTreeMap<String, TerminalNotices>,
}

impl Notices {
    pub(crate) fn of(scene: &Arc<Scene>) -> Self {
        let out = Output::new(&scene.surroundings, Colour::Never);
        Self { scene: scene.clone(), out, told: BTreeMap::new() }
    }

    pub(crate) fn see(&mut self, name: &str, part: &Part) {
        // Who was not heard says nothing about what its sessions need.
        if part.hosts.iter().any(|host| host.error.is_some()) {
            return;
        }
        let surroundings = &self.scene.surroundings;
        if !self.told.contains_key(name) {
            self.told.insert(name.to_owned(), TerminalNotices::of(surroundings, &self.out));
        }
        let Some(told) = self.told.get_mut(name) else { return };
        let own = agentctl_fleet::own_name();
        let rows = part.rows.iter().map(|row| {
            let id = &row.session.id;
            let called = if row.key.host == own { id.clone() } else { format!("{}/{id}", row.key.host) };
            (&*row.session, called)
        });
        told.see(rows, surroundings, &mut self.out);
    }
}
