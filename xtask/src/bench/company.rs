//! The live sessions among which events are measured: stand-ins of several agents, and real ones where they can be installed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use agentctl_testkit::troupe::{CAST, Player};
use agentctl_testkit::{Background, Claude, Codex, FakeModel, Signal, Skip, TestHome, new_uuid};
use anyhow::Context;

use super::events::LONGEST;
use super::stand_in::StandIns;
use crate::corpus::Manifest;

/// So many of each real agent are live. Each is a whole program with a hundred megabytes.
const OF_EACH_REAL: usize = 2;
/// One in so many of the others is a stand-in of Claude Code, which is most often met.
const CLAUDE_IN: usize = 3;

enum Member {
    /// One of [`Company::claudes`].
    Claude(usize),
    Other(Player, &'static str),
    RealClaude(Background, String),
    RealCodex(Background, String),
}

pub(super) struct Company {
    members: Vec<Member>,
    claudes: StandIns,
    claude: Option<Claude>,
    codex: Option<Codex>,
    turns: usize,
    home: TestHome,
    // The model outlives the agents that speak with it.
    _model: FakeModel,
}

impl Company {
    /// Starts so many sessions in a home that has this corpus.
    pub(super) fn start(mut home: TestHome, manifest: &Manifest, count: usize) -> anyhow::Result<Self> {
        let model = FakeModel::start();
        let told = |why: &Skip| eprintln!("not among the live sessions: {why}");
        let claude = Claude::settle(&mut home, &model.url()).inspect_err(told).ok();
        let codex = Codex::settle(&mut home, &model.url()).inspect_err(told).ok();
        let reals = [claude.is_some(), codex.is_some()].into_iter().filter(|is_there| *is_there).count();
        let others = count.saturating_sub(reals * OF_EACH_REAL);
        let claudes = StandIns::start(&home.path(), manifest, others.div_ceil(CLAUDE_IN), crate::now_ms())?;
        let mut company = Self { members: Vec::new(), claudes, claude, codex, turns: 0, home, _model: model };
        company.members = (0..company.claudes.all.len()).map(Member::Claude).collect();
        // The stand-in of Codex would be in the home of the real one.
        let cast =
            CAST.iter().map(|(agent, _)| *agent).filter(|agent| company.codex.is_none() || *agent != "codex");
        let cast: Vec<&'static str> = cast.collect();
        for agent in cast.iter().cycle().take(others - company.members.len()) {
            company.members.push(Member::Other(Player::start(&company.home, agent), agent));
        }
        for _ in 0..OF_EACH_REAL {
            let real = [company.real_claude(), company.real_codex()];
            company.members.extend(real.into_iter().flatten());
        }
        Ok(company)
    }

    pub(super) fn home(&self) -> PathBuf {
        self.home.path()
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// How many are live of each agent.
    pub(super) fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for member in &self.members {
            let name = match member {
                Member::Claude(_) => "claude-code".to_owned(),
                Member::Other(_, agent) => (*agent).to_owned(),
                Member::RealClaude(..) => "claude-code (real)".to_owned(),
                Member::RealCodex(..) => "codex (real)".to_owned(),
            };
            *counts.entry(name).or_default() += 1;
        }
        counts
    }

    pub(super) fn session(&self, which: usize) -> &str {
        match &self.members[which] {
            Member::Claude(which) => &self.claudes.all[*which].session,
            Member::Other(player, _) => &player.id,
            Member::RealClaude(_, id) | Member::RealCodex(_, id) => id,
        }
    }

    /// Ends its turn and lives on; says whether this one can.
    pub(super) fn finish_turn(&mut self, which: usize) -> anyhow::Result<bool> {
        match &mut self.members[which] {
            Member::Claude(which) => self.claudes.all[*which].finish_turn(&self.home.path())?,
            Member::Other(player, _) => return Ok(player.finish_turn()),
            // Their model never answers.
            Member::RealClaude(..) | Member::RealCodex(..) => return Ok(false),
        }
        Ok(true)
    }

    /// Kills the process as `kill -9` does.
    pub(super) fn kill(&mut self, which: usize) -> anyhow::Result<()> {
        match &mut self.members[which] {
            Member::Claude(which) => self.claudes.all[*which].kill()?,
            Member::Other(player, _) => player.kill(),
            Member::RealClaude(run, _) | Member::RealCodex(run, _) => {
                run.signal(Signal::KILL);
                run.wait(LONGEST);
            }
        }
        Ok(())
    }

    /// Starts another one in its place.
    pub(super) fn replace(&mut self, which: usize) -> anyhow::Result<()> {
        let next = match &self.members[which] {
            Member::Claude(which) => {
                self.claudes.restart(*which, &self.home.path(), crate::now_ms())?;
                return Ok(());
            }
            Member::Other(_, agent) => Some(Member::Other(Player::start(&self.home, agent), agent)),
            Member::RealClaude(..) => self.real_claude(),
            Member::RealCodex(..) => self.real_codex(),
        };
        self.members[which] = next.context("an agent is gone")?;
        Ok(())
    }

    fn real_claude(&mut self) -> Option<Member> {
        let cwd = self.next_folder();
        let id = new_uuid();
        let run = self.claude.as_ref()?.headless(&self.home, &cwd, &id, "[[hang]]", &[]);
        Some(Member::RealClaude(run, id))
    }

    fn real_codex(&mut self) -> Option<Member> {
        let cwd = self.next_folder();
        let mut run = self.codex.as_ref()?.exec(&self.home, &cwd, &["--skip-git-repo-check"], "[[hang]]");
        let id = Codex::thread_id(&mut run);
        Some(Member::RealCodex(run, id))
    }

    fn next_folder(&mut self) -> PathBuf {
        self.turns += 1;
        self.home.work_dir(&format!("real-{}", self.turns))
    }
}
