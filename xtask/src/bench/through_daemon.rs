//! The same questions to a daemon that has read everything before, against finding and looking at all files.

use std::fs::{File, FileTimes};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use super::events::Daemon;
use super::measure::{self, Cost, Place};
use super::report::{Measured, Timing};
use super::{Bench, check, fail_on};

const LIST: [&str; 5] = ["list", "--all", "--since", "all", "--json"];
const USAGE: [&str; 4] = ["usage", "--by", "session", "--json"];
/// So many files are touched before a list in which something has changed.
const CHANGED: usize = 10;

impl Bench<'_> {
    pub(super) fn through_the_daemon(&self) -> anyhow::Result<Vec<Measured>> {
        eprintln!("measuring {} sessions: through the daemon", self.manifest.rows.len());
        let own = tempfile::tempdir_in(self.scratch)?;
        let daemon = Daemon::start(&self.options.agentctl, self.home, own.path())?;
        let place = Place { home: self.home, agentctl_home: own.path(), daemon: true };
        let ask = |args: &[&str]| -> anyhow::Result<Cost> {
            let cost = measure::run(&place, &self.output(), &self.options.agentctl, args)?;
            // The memory that counts is the daemon's, with everything in it.
            Ok(Cost { peak_kib: daemon.memory_kib()?, ..cost })
        };
        ask(&LIST)?;
        fail_on(&check::differences(self.manifest, &self.printed(&LIST)?, false))?;
        let limit = ["__limit", self.home.to_str().context("the corpus path is not UTF-8")?, "nothing", "1"];
        let program = std::env::current_exe()?;
        let transcripts = some_transcripts(self.home)?;
        let (mut warm, mut changed, mut looks) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.options.repeats {
            warm.push(ask(&LIST)?);
            looks.push(self.time(&program, &limit)?);
        }
        for _ in 0..self.options.repeats {
            transcripts.iter().try_for_each(|file| touch(file))?;
            changed.push(ask(&LIST)?);
        }
        ask(&USAGE)?;
        fail_on(&check::usage_differences(self.manifest, &self.printed(&USAGE)?))?;
        let mut usage = Vec::new();
        for _ in 0..self.options.repeats {
            usage.push(ask(&USAGE)?);
        }
        let limit = Timing::of(&looks).map(|timing| (timing, 1));
        Ok(vec![
            self.measured(&["list", "(daemon, warm)"], &warm, limit)?,
            self.measured(&["list", "(daemon, 10 files changed)"], &changed, limit)?,
            self.measured(&["usage", "(daemon, warm)"], &usage, limit)?,
        ])
    }
}

/// Some transcripts of Claude Code, one of each project.
fn some_transcripts(home: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for project in std::fs::read_dir(home.join(".claude/projects"))?.flatten() {
        let files = std::fs::read_dir(project.path())?.flatten().map(|file| file.path());
        all.extend(files.filter(|file| file.extension().is_some_and(|end| end == "jsonl")).take(1));
    }
    all.truncate(CHANGED);
    ensure!(all.len() == CHANGED, "the corpus has too few projects of Claude Code");
    Ok(all)
}

/// Has the kernel say that somebody touched the file, without a change of what it says.
fn touch(file: &Path) -> anyhow::Result<()> {
    let open =
        File::options().append(true).open(file).with_context(|| format!("cannot open {}", file.display()))?;
    let modified = open.metadata()?.modified()?;
    Ok(open.set_times(FileTimes::new().set_modified(modified))?)
}
