//! Whether anything can have changed since the last look at all sessions, where no daemon tells it.
//!
//! A look at thousands of stored sessions costs more than a view at rest may take. So the kernel is asked to tell of writes
//! below the agents' folders, and meanwhile only the live sessions are looked at and compared with what is shown. Where not
//! everything can be watched, all is looked at each time. No status rests on this, only when the stored sessions are looked
//! at again; and that is done now and then anyway, because somebody may have written where nobody watches: behind a link to
//! a file, which only a list of the folders that lie deepest would tell.

use std::time::{Duration, Instant};

use agentctl_files::watch::{Folders, WatchTarget};
use agentctl_fleet::{Fleet, Listing};
use agentctl_model::Session;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

pub(super) struct Quiet {
    /// How often the live sessions are looked at, and everything where something was written.
    period: Duration,
    /// How long everything is left unseen at most.
    longest: Duration,
    folders: Option<Folders>,
    targets: Vec<WatchTarget>,
    /// What was shown when the live sessions differed from it, and these sessions. Where another look at everything shows the
    /// same, they differ for a reason that a third one does not change either.
    differed: Option<(Live, Live)>,
}

/// The live sessions, with the number of processes that belong to no session.
pub(super) type Live = (Vec<Session>, usize);

/// The live ones among these sessions.
pub(super) fn live_of(listing: &Listing) -> Live {
    let sessions = listing.sessions.iter().map(|surveyed| &*surveyed.session);
    (sessions.filter(|session| session.is_live()).cloned().collect(), listing.strays)
}

impl Quiet {
    pub(super) fn new(period: Duration, longest: Duration) -> Self {
        Self { period, longest, folders: None, targets: Vec::new(), differed: None }
    }

    /// Waits until there is a reason to look at everything again. `targets` is `None` where not everything can be watched;
    /// `shown` is what the last look at everything showed of the live sessions.
    pub(super) fn wait(&mut self, targets: Option<Vec<WatchTarget>>, shown: &Live, live: impl Fn() -> Live) {
        let began = Instant::now();
        let was_watching = self.folders.is_some() && targets.as_ref() == Some(&self.targets);
        if !self.watch(targets) || !was_watching {
            // What was written before the watch began is not told.
            std::thread::sleep(self.period);
            return;
        }
        self.differed.take_if(|(before, _)| before != shown);
        let mut looked_at = began;
        while began.elapsed() < self.longest {
            // Counted from where the last look began: what it just missed is seen a period later, however long looks take.
            let rest = self.period.saturating_sub(looked_at.elapsed()).max(self.period / 10);
            if self.is_told(rest) {
                std::thread::sleep(self.period.saturating_sub(began.elapsed()));
                return;
            }
            looked_at = Instant::now();
            let now = live();
            if now == *shown {
                self.differed = None;
            } else if self.differed.as_ref().is_none_or(|(_, known)| *known != now) {
                self.differed = Some((shown.clone(), now));
                return;
            }
        }
    }

    /// Whether all of these are watched from now on.
    fn watch(&mut self, targets: Option<Vec<WatchTarget>>) -> bool {
        let folders = self.folders.take().map_or_else(Folders::new, Ok);
        let (Some(targets), Ok(mut folders)) = (targets, folders) else { return false };
        self.targets.clone_from(&targets);
        folders.watch(targets);
        let is_watched = folders.unwatched() == 0 && !folders.has_links();
        self.folders = Some(folders);
        is_watched
    }

    /// Waits so long at most until something was written.
    fn is_told(&mut self, longest: Duration) -> bool {
        let Some(folders) = &mut self.folders else { return true };
        let end = Instant::now() + longest;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let timeout =
                Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
            let is_ready = poll(&mut [PollFd::new(folders, PollFlags::IN)], Some(&timeout));
            if is_ready.is_ok_and(|ready| ready > 0) && folders.drain() {
                return true;
            }
            if left.is_zero() {
                return false;
            }
        }
    }
}

/// The folders in which a change of a session shows; `None` where one shows elsewhere: in a server, or on a file system
/// that others write to as well.
pub(super) fn targets(fleet: &Fleet, own: &[WatchTarget]) -> Option<Vec<WatchTarget>> {
    let is_elsewhere = |source: &agentctl_fleet::Source| {
        source.adapter.gateway().is_some_and(|gateway| gateway.is_reachable(&source.root))
    };
    if fleet.sources().iter().any(is_elsewhere) {
        return None;
    }
    // What names a session or moves it away may lie beside the conversations.
    let roots = fleet.sources().iter().map(|source| WatchTarget::new(&source.root.path, 1));
    let targets = fleet.watch_targets().into_iter().chain(roots).chain(own.iter().cloned());
    // The root of an agent that keeps nothing here is no path.
    let targets: Vec<WatchTarget> = targets.filter(|target| target.path.is_absolute()).collect();
    // Whoever waits here for a file system that does not answer looks at nothing any more.
    let is_served_here = |target: &WatchTarget| match agentctl_files::is_folder_within(&target.path) {
        Ok(true) => agentctl_files::open_folder(&target.path)
            .is_ok_and(|folder| agentctl_files::is_served_here(&folder)),
        Ok(false) => true,
        Err(_) => false,
    };
    targets.iter().all(is_served_here).then_some(targets)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::cell::Cell;
    use std::path::Path;

    use super::*;

    const PERIOD: Duration = Duration::from_millis(20);

    const NOBODY: Live = (Vec::new(), 0);

    /// A wait that has gone through its first, unwatched round.
    fn quiet(targets: &[WatchTarget], longest: Duration) -> Quiet {
        let mut quiet = Quiet::new(PERIOD, longest);
        quiet.wait(Some(targets.to_vec()), &NOBODY, || unreachable!("nothing is watched so far"));
        quiet
    }

    fn target(path: &Path) -> Vec<WatchTarget> {
        vec![WatchTarget::new(path, 1)]
    }

    #[test]
    fn as_long_as_nothing_changes_only_the_live_sessions_are_looked_at() {
        let place = tempfile::tempdir().unwrap();
        let targets = target(place.path());
        let longest = PERIOD * 300;
        let mut quiet = quiet(&targets, longest);
        let looks = Cell::new(0);
        let live = || {
            looks.set(looks.get() + 1);
            NOBODY
        };
        let began = Instant::now();
        quiet.wait(Some(targets), &NOBODY, live);
        assert!(looks.get() > 1 && began.elapsed() >= longest, "everything is looked at in the end");
    }

    #[test]
    fn what_lives_and_is_not_shown_or_is_shown_and_does_not_live_is_a_reason_to_look() {
        let place = tempfile::tempdir().unwrap();
        let targets = target(place.path());
        let mut quiet = quiet(&targets, Duration::from_hours(1));
        let one = (Vec::new(), 1);
        // It began, and while it was at work only the whole looks showed it, because it wrote again and again.
        quiet.wait(Some(targets.clone()), &NOBODY, || one.clone());
        for shown in [&NOBODY, &one, &one] {
            std::fs::write(place.path().join("new.jsonl"), "x").unwrap();
            quiet.wait(Some(targets.clone()), shown, || unreachable!("a write was told"));
        }
        quiet.wait(Some(targets), &one, || NOBODY);
    }

    #[test]
    fn a_difference_that_another_look_does_not_change_is_a_reason_only_once() {
        let place = tempfile::tempdir().unwrap();
        let targets = target(place.path());
        let longest = PERIOD * 300;
        let mut quiet = quiet(&targets, longest);
        let one = (Vec::new(), 1);
        let mut lasts = |shown: &Live, live: &dyn Fn() -> Live| {
            let began = Instant::now();
            quiet.wait(Some(targets.clone()), shown, live);
            began.elapsed() >= longest
        };
        assert!(!lasts(&one, &|| NOBODY));
        assert!(lasts(&one, &|| NOBODY), "nothing became different since");
        assert!(!lasts(&one, &|| (Vec::new(), 2)), "something did");
        let looks = Cell::new(0);
        let passing = || {
            looks.set(looks.get() + 1);
            if looks.get() == 1 { one.clone() } else { (Vec::new(), 2) }
        };
        assert!(!lasts(&one, &passing), "in between it was as it was shown");
    }

    #[test]
    fn what_is_written_is_a_reason_to_look_at_everything() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join("below")).unwrap();
        let targets = target(place.path());
        let mut quiet = quiet(&targets, Duration::from_hours(1));
        let live = || unreachable!("a write was told");
        for path in ["new.jsonl", "below/new.jsonl", "below/new.jsonl"] {
            std::fs::write(place.path().join(path), path).unwrap();
            quiet.wait(Some(targets.clone()), &NOBODY, live);
        }
    }

    #[test]
    fn a_name_beside_the_conversations_is_a_reason_to_look_too() {
        let place = tempfile::tempdir().unwrap();
        for folder in ["sessions", "archived_sessions"] {
            std::fs::create_dir(place.path().join(folder)).unwrap();
        }
        let adapter =
            agentctl_adapters::registry().into_iter().find(|one| one.card().name == "codex").unwrap();
        let root = agentctl_adapters::Root::at(place.path());
        let source = agentctl_fleet::Source { adapter, root, timeout: PERIOD };
        let kernel = std::sync::Arc::new(agentctl_process::fake::Scripted::new());
        let fleet = Fleet::new(vec![source], kernel);
        let watched = || targets(&fleet, &[]);
        let mut quiet = quiet(&watched().unwrap(), Duration::from_hours(1));
        for path in ["session_index.jsonl", "archived_sessions/rollout.jsonl"] {
            std::fs::write(place.path().join(path), path).unwrap();
            quiet.wait(watched(), &NOBODY, || unreachable!("a write was told"));
        }
    }

    #[test]
    fn the_root_of_an_agent_that_keeps_nothing_here_is_not_watched() {
        let adapter = agentctl_adapters::registry().into_iter().next().unwrap();
        let root = agentctl_adapters::Root::at("acp:name");
        let kernel = std::sync::Arc::new(agentctl_process::fake::Scripted::new());
        let fleet = Fleet::new(vec![agentctl_fleet::Source { adapter, root, timeout: PERIOD }], kernel);
        assert_eq!(targets(&fleet, &target(Path::new("/"))), Some(target(Path::new("/"))));
    }

    #[test]
    fn where_not_everything_is_watched_each_look_is_at_everything() {
        let place = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), place.path().join("link")).unwrap();
        let targets = target(place.path());
        let mut quiet = quiet(&targets, Duration::from_hours(1));
        for targets in [Some(targets), None] {
            quiet.wait(targets, &NOBODY, || unreachable!("everything is looked at"));
        }
    }
}
