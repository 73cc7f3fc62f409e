//! The agents that are held: what they are started with, and when they did what.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use agentctl_testkit::{Claude, FakeModel, TestHome};
use anyhow::{Context, bail};
use serde_json::Value;

use super::super::events::LONGEST;
use super::super::stand_in::MARK;
use super::scripted::{ASK, PROJECT, SOCKET};

/// The prompt of every launch; the fake model of the real agent replies at once.
pub(super) const FIRST_WORDS: &str = "[[text:first]] begin";

pub(super) enum Agent {
    Scripted(Scripted),
    ClaudeCode(Real),
}

/// Claude Code in a home of its own.
pub(super) struct Real {
    home: TestHome,
    cwd: PathBuf,
    /// It answers as long as this exists.
    _model: FakeModel,
}

/// A stand-in in a home of its own.
pub(super) struct Scripted {
    folder: tempfile::TempDir,
    listener: UnixListener,
    heard: Option<BufReader<UnixStream>>,
    pid: u32,
}

impl Agent {
    pub(super) fn scripted() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        for name in ["bin", "work", PROJECT] {
            std::fs::create_dir_all(folder.path().join(name))?;
        }
        std::fs::copy(std::env::current_exe()?, folder.path().join("bin/claude"))
            .context("cannot copy this program")?;
        let listener = UnixListener::bind(folder.path().join("socket"))?;
        Ok(Self::Scripted(Scripted { folder, listener, heard: None, pid: 0 }))
    }

    pub(super) fn claude_code(agentctl: &Path) -> anyhow::Result<Self> {
        let model = FakeModel::start();
        let mut home = TestHome::with_agentctl(agentctl);
        if let Err(reason) = Claude::settle(&mut home, &model.url()) {
            bail!("Claude Code cannot be had: {reason:?}");
        }
        let cwd = home.git_repo("project");
        Ok(Self::ClaudeCode(Real { home, cwd, _model: model }))
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Scripted(_) => "a stand-in",
            Self::ClaudeCode(_) => "Claude Code",
        }
    }

    pub(super) fn asking_words(&self) -> &'static str {
        match self {
            Self::Scripted(_) => ASK,
            Self::ClaudeCode(_) => "[[bash:touch asked]] [[text:done]]",
        }
    }

    pub(super) fn cwd(&self) -> PathBuf {
        match self {
            Self::Scripted(one) => one.folder.path().join("work"),
            Self::ClaudeCode(one) => one.cwd.clone(),
        }
    }

    fn home(&self) -> PathBuf {
        match self {
            Self::Scripted(one) => one.folder.path().to_owned(),
            Self::ClaudeCode(one) => one.home.path(),
        }
    }

    pub(super) fn agentctl_home(&self) -> PathBuf {
        match self {
            Self::Scripted(one) => one.folder.path().join("own"),
            Self::ClaudeCode(one) => one.home.agentctl_home(),
        }
    }

    /// All variables of a command.
    pub(super) fn environ(&self) -> Vec<(OsString, OsString)> {
        match self {
            Self::Scripted(one) => {
                let at = |name: &str| one.folder.path().join(name).into_os_string();
                let path =
                    format!("{}:/usr/local/bin:/usr/bin:/bin", one.folder.path().join("bin").display());
                let pair = |name: &str, value: OsString| (name.into(), value);
                vec![
                    pair("PATH", path.into()),
                    pair("LANG", "C.UTF-8".into()),
                    pair("HOME", one.folder.path().into()),
                    pair("AGENTCTL_HOME", at("own")),
                    pair(MARK, "1".into()),
                    pair(SOCKET, at("socket")),
                ]
            }
            Self::ClaudeCode(one) => {
                let command = one.home.command("true");
                let given = command.get_envs().filter_map(|(name, value)| Some((name.into(), value?.into())));
                given.filter(|(name, _): &(OsString, OsString)| name != "AGENTCTL_NO_DAEMON").collect()
            }
        }
    }

    /// When the agent began its first turn: its own records show the prompt.
    pub(super) fn began(&mut self, id: &str) -> anyhow::Result<Duration> {
        if let Self::Scripted(one) = self {
            one.connect()?;
            return one.hear("turn");
        }
        let name = format!("{id}.jsonl");
        let folders = std::fs::read_dir(self.home().join(".claude/projects"))?.flatten();
        let text = folders
            .map(|folder| folder.path().join(&name))
            .find_map(|path| std::fs::read_to_string(path).ok())
            .context("no transcript")?;
        let records = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let prompt = records.into_iter().find(|record| record["type"] == "user").context("no prompt")?;
        let at: jiff::Timestamp = prompt["timestamp"].as_str().context("no time")?.parse()?;
        Ok(Duration::from_millis(u64::try_from(at.as_millisecond())?))
    }

    /// When the agent asked last. Claude Code writes its note a few milliseconds after the request.
    pub(super) fn asked(&mut self, id: &str) -> anyhow::Result<Duration> {
        if let Self::Scripted(one) = self {
            return one.hear("ask");
        }
        let began = Instant::now();
        while began.elapsed() < LONGEST {
            let note = self.note(id)?.filter(|note| note["status"] == "waiting");
            if let Some(at) = note.and_then(|note| note["statusUpdatedAt"].as_u64()) {
                return Ok(Duration::from_millis(at));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        bail!("the agent does not say when it asked")
    }

    fn note(&self, id: &str) -> anyhow::Result<Option<Value>> {
        let files = std::fs::read_dir(self.home().join(".claude/sessions"))?.flatten();
        let notes = files.filter_map(|file| {
            serde_json::from_str::<Value>(&std::fs::read_to_string(file.path()).ok()?).ok()
        });
        Ok(notes.into_iter().find(|note| note["sessionId"] == id))
    }

    /// The process that holds the session.
    pub(super) fn runner(&self) -> anyhow::Result<u32> {
        let pid = match self {
            Self::Scripted(one) => one.pid,
            Self::ClaudeCode(one) => {
                let processes = one.home.processes();
                let runner = processes.iter().find(|(_, line)| line.contains("agentctl __run "));
                return Ok(runner.context("no runner")?.0);
            }
        };
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
        Ok(parent.context("an odd stat")?.parse()?)
    }
}

impl Scripted {
    /// The stand-in of the launch that has just returned.
    fn connect(&mut self) -> anyhow::Result<()> {
        let (stream, _) = self.listener.accept()?;
        self.heard = Some(BufReader::new(stream));
        self.pid = u32::try_from(self.word("pid")?)?;
        Ok(())
    }

    fn hear(&mut self, word: &str) -> anyhow::Result<Duration> {
        Ok(Duration::from_nanos(self.word(word)?))
    }

    /// The number behind the next such word.
    fn word(&mut self, word: &str) -> anyhow::Result<u64> {
        let heard = self.heard.as_mut().context("no stand-in")?;
        loop {
            let mut line = String::new();
            if heard.read_line(&mut line)? == 0 {
                bail!("the stand-in ended");
            }
            if let Some(number) = line.strip_prefix(word) {
                return Ok(number.trim().parse()?);
            }
        }
    }
}
