//! Sessions of Copilot, Qwen Code and Gemini CLI. Modelled on recordings of 1.0.102, 0.24.4 and 0.61.0.

mod formats;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use self::formats::{Format, Reply, Talk};
use super::claude::stamp;
use super::filler::visible_prefix;
use super::rng::Rng;
use super::sizes::{GIANT_TEXT, Giant, Plan, SizeShape};
use super::{AgentCorpus, Row, Scene, outfile};

pub(crate) struct NodeAgent {
    format: Format,
    /// The names of Gemini's session directories, by working directory.
    slugs: BTreeMap<String, String>,
}

pub(crate) fn all() -> Vec<Box<dyn AgentCorpus>> {
    let of = |format| Box::new(NodeAgent { format, slugs: BTreeMap::new() }) as Box<dyn AgentCorpus>;
    vec![of(Format::Copilot), of(Format::Qwen), of(Format::Gemini)]
}

impl NodeAgent {
    /// The name for a working directory; another directory with the same name gets a number.
    fn slug(&mut self, cwd: &str) -> String {
        if let Some(known) = self.slugs.get(cwd) {
            return known.clone();
        }
        let dashed = |text: &str| -> String {
            text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
        };
        let slug = match self.format {
            Format::Gemini => dashed(&cwd.rsplit('/').next().unwrap_or(cwd).to_lowercase()),
            Format::Copilot | Format::Qwen => dashed(cwd),
        };
        let taken = self.slugs.values().filter(|known| known.starts_with(&slug)).count();
        let slug = if taken > 0 && self.format == Format::Gemini { format!("{slug}-{taken}") } else { slug };
        self.slugs.insert(cwd.to_owned(), slug.clone());
        slug
    }
}

impl AgentCorpus for NodeAgent {
    fn name(&self) -> &'static str {
        self.format.as_str()
    }

    fn weight(&self) -> usize {
        10
    }

    fn shape(&self) -> SizeShape {
        SizeShape { median: 40_000.0, sigma: 1.8, floor: 6_000.0 }
    }

    fn session(&mut self, scene: &Scene, rng: &mut Rng, plan: Plan) -> anyhow::Result<Row> {
        let cwd = scene.project(rng).to_owned();
        let slug = self.slug(&cwd);
        let ended = scene.end_ms(rng);
        let span = i64::try_from(plan.bytes)?.saturating_mul(3).clamp(10_000, 2 * 3_600_000);
        let mut talk = Talk::begin(self.format, scene, rng.uuid4(), &cwd, &slug, ended - span)?;
        let prompt_bytes = if plan.giant == Some(Giant::Head) { GIANT_TEXT } else { rng.index(300) + 24 };
        let prompt = scene.filler.line(rng, prompt_bytes);
        talk.prompt(rng, &prompt)?;

        let goal = plan.bytes as u64 + if plan.giant == Some(Giant::Head) { GIANT_TEXT as u64 } else { 0 };
        let mut giant_due = plan.giant == Some(Giant::Middle);
        let mut last = String::new();
        while last.is_empty() || talk.written() < goal {
            let done = i64::try_from((talk.written() * 98 / goal.max(1)).min(98)).unwrap_or(98);
            talk.at(ended - span + span / 100 * done);
            let giant = giant_due && talk.written() * 2 >= goal;
            giant_due &= !giant;
            let output = if giant { GIANT_TEXT } else { rng.length(7.2, 1.3, 50_000) };
            last = scene.filler.prose(rng, 200);
            let reply = Reply { text: &last, tool_output: Some(scene.filler.prose(rng, output)) };
            talk.reply(rng, &reply)?;
        }
        talk.at(ended);
        let completed = rng.chance(0.85);
        if completed {
            last = scene.filler.prose(rng, 300);
            talk.reply(rng, &Reply { text: &last, tool_output: None })?;
        } else {
            talk.prompt(rng, "and then")?;
            if rng.chance(0.3) {
                talk.half_record()?;
            }
        }
        let expected = expected(&talk, &cwd, completed, &prompt, &last);
        let (id, bytes) = talk.close(ended)?;
        Ok(Row { adapter: self.name().to_owned(), id, bytes, updated_ms: ended, subagents: 0, expected })
    }

    fn finish(&mut self, scene: &Scene, _rng: &mut Rng, _rows: &mut [Row]) -> anyhow::Result<()> {
        if self.format != Format::Gemini {
            return Ok(());
        }
        for (cwd, slug) in &self.slugs {
            let place = scene.home.join(".gemini/tmp").join(slug).join(".project_root");
            outfile::put(&place, cwd, scene.now_ms)?;
        }
        let list = json!({"projects": self.slugs}).to_string();
        outfile::put(&scene.home.join(".gemini/projects.json"), &list, scene.now_ms)
    }
}

fn expected(talk: &Talk, cwd: &str, completed: bool, prompt: &str, last: &str) -> Value {
    let (input, output, cached) = talk.spent;
    // Only Copilot reports the tokens that were written to a cache.
    let written = if talk.format == Format::Copilot { json!(0) } else { Value::Null };
    json!({
        "cwd": cwd, "model": talk.format.model(), "status": "stopped",
        "outcome": if completed { "completed" } else { "died" },
        "tokens": {"in": input, "out": output, "cacheRead": cached, "cacheWrite": written},
        "promptPrefix": visible_prefix(prompt, 40), "lastMessagePrefix": visible_prefix(last, 40),
        "parentId": null, "relation": null, "startedAt": stamp(talk.started),
    })
}
