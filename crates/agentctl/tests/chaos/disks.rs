//! Two small disks, one below agentctl's own folder and one below Claude Code's, that can be full, read-only or away.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use agentctl_testkit::TestHome;

pub(crate) struct Disks {
    own: PathBuf,
    pub(crate) claude: PathBuf,
    empty: PathBuf,
}

impl Disks {
    pub(crate) fn mount(home: &TestHome) -> Self {
        let (own, claude) = (home.agentctl_home(), home.path().join(".claude"));
        for place in [&own, &claude] {
            fs::create_dir_all(place).unwrap();
            mount(&["-t", "tmpfs", "-o", "size=64m,mode=700", "tmpfs", text(place)]);
        }
        Self { own, claude, empty: home.work_dir("empty") }
    }

    /// Takes all that is left of agentctl's own disk; what is returned gives it back.
    pub(crate) fn fill(&self) -> Filler {
        let path = self.own.join("filler");
        let mut file = fs::File::create(&path).unwrap();
        for size in [1 << 20, 1 << 12, 1] {
            let bytes = vec![0; size];
            while file.write_all(&bytes).is_ok() {}
        }
        Filler(path)
    }

    /// Nobody can write below this folder from now on, who does not write there already.
    fn protect(place: &Path) -> Covered {
        mount(&["--bind", text(place), text(place)]);
        mount(&["-o", "remount,bind,ro", text(place)]);
        Covered(place.to_owned())
    }

    pub(crate) fn protect_own(&self) -> Covered {
        Self::protect(&self.own)
    }

    pub(crate) fn protect_claude(&self) -> Covered {
        Self::protect(&self.claude)
    }

    /// Claude Code's disk is away: an empty folder stands there.
    pub(crate) fn take_claude_away(&self) -> Covered {
        mount(&["--bind", text(&self.empty), text(&self.claude)]);
        Covered(self.claude.clone())
    }
}

pub(crate) struct Filler(PathBuf);

impl Drop for Filler {
    fn drop(&mut self) {
        fs::remove_file(&self.0).unwrap();
    }
}

/// Something is mounted over this folder until it is dropped.
pub(crate) struct Covered(PathBuf);

impl Drop for Covered {
    fn drop(&mut self) {
        // Whoever still uses what was mounted keeps it; nobody finds it any more.
        let done = Command::new("umount").args(["--lazy", text(&self.0)]).status().unwrap();
        assert!(done.success() || std::thread::panicking(), "umount {}", self.0.display());
    }
}

fn mount(arguments: &[&str]) {
    let output = Command::new("mount").args(arguments).output().unwrap();
    assert!(output.status.success(), "mount {arguments:?}: {output:?}");
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
