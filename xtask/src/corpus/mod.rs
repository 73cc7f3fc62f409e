//! `cargo xtask corpus`: a generated HOME full of agent sessions, for measurements.
//!
//! The same seed, session count, scale and `--now` give byte-identical files. The texts are invented; record types and
//! field order are those of the recorded fixtures. `manifest.json` contains what a list should show for each session.

pub(crate) mod claude;
mod codex;
mod ending;
pub(crate) mod filler;
mod manifest;
mod node_agents;
pub(crate) mod opencode;
mod outfile;
mod pi;
mod rng;
pub(crate) mod sizes;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail};

use self::filler::Filler;
pub(crate) use self::manifest::{Manifest, Row};
use self::rng::Rng;
use self::sizes::{MeanScale, Plan, SizeShape};

/// Increase this when the generator writes something else, so that a cached corpus is not taken for a new one.
pub(crate) const GENERATION: u32 = 1;

/// How one agent stores sessions. A further agent is one more file in this directory and one line in [`all`].
pub(crate) trait AgentCorpus {
    /// The name for `--agents`.
    fn name(&self) -> &'static str;
    /// Its share of the sessions, relative to the others.
    fn weight(&self) -> usize;
    fn shape(&self) -> SizeShape;
    /// Writes one session and returns what a list should show for it.
    fn session(&mut self, scene: &Scene, rng: &mut Rng, plan: Plan) -> anyhow::Result<Row>;
    /// Writes the files that all sessions of this agent share.
    fn finish(&mut self, scene: &Scene, rng: &mut Rng, rows: &mut [Row]) -> anyhow::Result<()>;
}

fn all() -> Vec<Box<dyn AgentCorpus>> {
    let mut agents: Vec<Box<dyn AgentCorpus>> = vec![
        Box::new(claude::Claude::default()),
        Box::new(codex::Codex::default()),
        Box::new(pi::Pi),
        Box::new(opencode::OpenCode::default()),
    ];
    agents.extend(node_agents::all());
    agents
}

/// The given names, with `all` replaced by the names of all agents.
pub(crate) fn expand(words: &[String]) -> Vec<String> {
    if words.iter().any(|word| word == "all") {
        return all().iter().map(|agent| agent.name().to_owned()).collect();
    }
    words.to_vec()
}

/// What to write.
pub(crate) struct Options {
    pub(crate) home: PathBuf,
    pub(crate) sessions: usize,
    pub(crate) seed: u64,
    pub(crate) scale: MeanScale,
    /// The moment taken as the present, in milliseconds since 1970.
    pub(crate) now_ms: i64,
    pub(crate) agents: Vec<String>,
}

/// The data that all agents share while a corpus is written.
pub(crate) struct Scene {
    pub(crate) home: PathBuf,
    pub(crate) now_ms: i64,
    pub(crate) filler: Filler,
    projects: Vec<String>,
    /// Running sums of the projects' weights: a few projects have most of the sessions.
    weights: Vec<f64>,
}

impl Scene {
    fn new(options: &Options) -> Self {
        const NAMES: [&str; 10] =
            ["api", "web", "infra", "parser", "cli", "docs site", "ml.train", "über-app", "mobile_app", "db"];
        let count = (options.sessions.isqrt() * 2).max(3);
        let mut sum = 0.0;
        let (mut projects, mut weights) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for n in 0..count {
            projects.push(format!("/home/dev/work/{}-{n}", NAMES[n % NAMES.len()]));
            sum += 1.0 / f64::from(u32::try_from(n + 1).unwrap_or(u32::MAX));
            weights.push(sum);
        }
        Self {
            home: options.home.clone(),
            now_ms: options.now_ms,
            filler: Filler::new(options.seed),
            projects,
            weights,
        }
    }

    pub(crate) fn project(&self, rng: &mut Rng) -> &str {
        let at = rng.unit() * self.weights.last().copied().unwrap_or(0.0);
        let index = self.weights.partition_point(|&sum| sum <= at);
        &self.projects[index.min(self.projects.len() - 1)]
    }

    /// A time at which a session ended, within the last sixty days; recent times are more likely.
    #[allow(clippy::cast_possible_truncation, reason = "milliseconds of sixty days")]
    pub(crate) fn end_ms(&self, rng: &mut Rng) -> i64 {
        const SIXTY_DAYS_MS: f64 = 60.0 * 86_400_000.0;
        self.now_ms - 60_000 - (SIXTY_DAYS_MS * rng.unit().powf(1.3)) as i64
    }
}

/// Writes the corpus and its manifest.
pub(crate) fn write(options: &Options) -> anyhow::Result<Manifest> {
    let mut agents = all();
    if let Some(unknown) =
        options.agents.iter().find(|word| !agents.iter().any(|agent| agent.name() == *word))
    {
        let known: Vec<_> = agents.iter().map(|agent| agent.name()).collect();
        bail!("no generator for agent {unknown:?}; known: {}", known.join(", "));
    }
    agents.retain(|agent| options.agents.iter().any(|word| word == agent.name()));
    if options.home.join("manifest.json").exists()
        || [".claude", ".pi", ".local"].iter().any(|agent| options.home.join(agent).exists())
    {
        bail!("{} already holds a corpus; remove it or name another folder", options.home.display());
    }

    let scene = Scene::new(options);
    let mut rows = Vec::with_capacity(options.sessions);
    let weights: Vec<usize> = agents.iter().map(|agent| agent.weight()).collect();
    for (agent, count) in agents.iter_mut().zip(shares(options.sessions, &weights)) {
        let plans = sizes::plan(options.seed, agent.name(), count, agent.shape(), options.scale);
        let first = rows.len();
        for (index, plan) in (0..).zip(plans) {
            let mut rng = Rng::for_stream(options.seed, agent.name(), index);
            rows.push(agent.session(&scene, &mut rng, plan)?);
        }
        let mut rng = Rng::for_stream(options.seed, agent.name(), u64::MAX - 1);
        agent.finish(&scene, &mut rng, &mut rows[first..])?;
    }
    let manifest = Manifest { seed: options.seed, now_ms: options.now_ms, rows };
    manifest.save(&options.home.join("manifest.json"))?;
    Ok(manifest)
}

/// Divides `total` by weight; the last share gets the rounding difference.
fn shares(total: usize, weights: &[usize]) -> Vec<usize> {
    let sum = weights.iter().sum::<usize>().max(1);
    let mut left = total;
    let last = weights.len().saturating_sub(1);
    weights
        .iter()
        .enumerate()
        .map(|(n, weight)| {
            let share = if n == last { left } else { (total * weight / sum).min(left) };
            left -= share;
            share
        })
        .collect()
}

/// Runs the command: writes the corpus and prints a summary.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let start = Instant::now();
    std::fs::create_dir_all(&options.home)
        .with_context(|| format!("cannot make {}", options.home.display()))?;
    let manifest = write(options)?;
    println!("{}", summary(&options.home, &manifest, start.elapsed().as_secs_f64()));
    Ok(())
}

#[allow(clippy::cast_precision_loss, reason = "shown with three digits")]
fn summary(home: &Path, manifest: &Manifest, seconds: f64) -> String {
    let mut sizes: Vec<u64> = manifest.rows.iter().map(|row| row.bytes).collect();
    sizes.sort_unstable();
    let at = |percent: usize| sizes.get(sizes.len() * percent / 100).copied().unwrap_or(0) as f64 / 1e3;
    format!(
        "{}: {} sessions, {:.2} GB, p50 {:.0} KB, p99 {:.0} KB, largest {:.0} KB, written in {seconds:.1} s",
        home.display(),
        sizes.len(),
        sizes.iter().sum::<u64>() as f64 / 1e9,
        at(50),
        at(99),
        sizes.last().copied().unwrap_or(0) as f64 / 1e3,
    )
}

#[cfg(test)]
mod tests;
