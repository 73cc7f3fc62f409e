//! Waits for what a starting agent writes. The kernel only reports that there may be something to read; what is true is
//! decided by a survey.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use agentctl_adapters::WatchTarget;
use agentctl_files::watch::Folders;
use agentctl_model::ProcessRef;
use agentctl_process::wait_any_gone;

/// How often to survey although the kernel reports every write: some things change without a write, such as which
/// process has a file open.
const SURVEY_INTERVAL: Duration = Duration::from_secs(1);
/// How often to survey where the kernel reports nothing.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A watch on the directories in which a launch becomes visible.
pub(super) struct LaunchWatch {
    folders: Option<Folders>,
}

impl LaunchWatch {
    /// Begins to watch; every write from now on is reported.
    pub(super) fn of(targets: Vec<WatchTarget>) -> Self {
        let folders = Folders::new().ok().map(|mut folders| {
            folders.watch(targets);
            folders
        });
        Self { folders }
    }

    /// Waits until something was written, the agent has exited, or it is time to survey anyway.
    pub(super) fn wait(&mut self, agent: Option<ProcessRef>, longest: Duration) {
        let is_whole = self.folders.as_ref().is_some_and(|folders| folders.unwatched() == 0);
        let until = Instant::now() + longest.min(if is_whole { SURVEY_INTERVAL } else { POLL_INTERVAL });
        while !self.wait_once(agent, until.saturating_duration_since(Instant::now())) {
            if Instant::now() >= until {
                return;
            }
        }
    }

    /// Returns whether there is something to read. Writes beside the watched directories do not count.
    fn wait_once(&mut self, agent: Option<ProcessRef>, longest: Duration) -> bool {
        // A process that exited before it could be identified has no identity; the caller asks its handle instead.
        let Some(process) = agent else { return true };
        let ended = wait_any_gone(&[process], self.folders.as_ref().map(AsFd::as_fd), longest);
        self.folders.as_mut().is_some_and(Folders::drain) || ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Far longer than any of this takes: what the test waits for must come before.
    const DEADLINE: Duration = Duration::from_mins(1);

    /// Whether something woke it, rather than the end of the time.
    fn is_woken(watch: &mut LaunchWatch, agent: Option<ProcessRef>) -> bool {
        let began = Instant::now();
        watch.wait_once(agent, DEADLINE) && began.elapsed() < DEADLINE
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_write_wakes_and_what_is_written_elsewhere_does_not() {
        let place = tempfile::tempdir().unwrap();
        let (here, elsewhere) = (place.path().join("here"), place.path().join("elsewhere"));
        std::fs::create_dir_all(&elsewhere).unwrap();
        let this = agentctl_process::identity(std::process::id());
        let mut watch = LaunchWatch::of(vec![WatchTarget::new(&here, 0)]);
        // The folder above is watched too, because the target does not exist yet.
        std::fs::write(elsewhere.join("file"), "x").unwrap();
        std::fs::write(place.path().join("beside"), "x").unwrap();
        assert!(!watch.wait_once(this, Duration::ZERO));
        std::fs::create_dir(&here).unwrap();
        assert!(is_woken(&mut watch, this), "the folder that was not there yet");
        std::fs::write(here.join("file"), "x").unwrap();
        assert!(is_woken(&mut watch, this));
        assert!(!watch.wait_once(this, Duration::ZERO), "it was told already");
    }

    #[test]
    fn the_exit_of_the_agent_wakes() {
        let place = tempfile::tempdir().unwrap();
        let mut watch = LaunchWatch::of(vec![WatchTarget::new(place.path(), 0)]);
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let agent = agentctl_process::identity(child.id());
        assert!(agent.is_some() && !watch.wait_once(agent, Duration::ZERO), "it lives");
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(is_woken(&mut watch, agent));
        assert!(is_woken(&mut watch, None), "it was never identified");
    }
}
