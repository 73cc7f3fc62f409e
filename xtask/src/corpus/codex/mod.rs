//! Codex sessions: `.codex/sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl`, some archived, some named, and lock files
//! that killed owners left behind. Modelled on recordings of 0.166.0.

mod rollout;

use serde_json::{Value, json};

use super::ending::Ending;
use super::filler::visible_prefix;
use super::outfile::{self, OutFile};
use super::rng::Rng;
use super::sizes::{GIANT_TEXT, Giant, Plan, SizeShape};
use super::{AgentCorpus, Row, Scene};
use rollout::{Identity, Rollout, stamp, uuid7};

pub(crate) const ADAPTER: &str = "codex";

#[derive(Default)]
pub(crate) struct Codex {
    /// Lines of `session_index.jsonl`.
    names: String,
    /// Threads whose owner was killed.
    left_locked: Vec<String>,
}

impl AgentCorpus for Codex {
    fn name(&self) -> &'static str {
        "codex"
    }

    fn weight(&self) -> usize {
        25
    }

    fn shape(&self) -> SizeShape {
        SizeShape { median: 90_000.0, sigma: 1.9, floor: 18_000.0 }
    }

    fn session(&mut self, scene: &Scene, rng: &mut Rng, plan: Plan) -> anyhow::Result<Row> {
        let ended_ms = scene.end_ms(rng);
        let span_ms = i64::try_from(plan.bytes)?.saturating_mul(2).clamp(20_000, 4 * 3_600_000);
        let started_ms = ended_ms - span_ms;
        let cwd = scene.project(rng).to_owned();
        let who = Identity {
            id: uuid7(rng, started_ms),
            cwd_json: serde_json::to_string(&cwd)?,
            model: rng.pick(&["gpt-5-codex", "gpt-5-codex", "gpt-5.2-codex"]),
            is_exec: rng.chance(0.5),
        };
        let ending = Ending::draw(rng);
        let prompt_bytes = if plan.giant == Some(Giant::Head) { GIANT_TEXT } else { rng.index(380) + 20 };
        let prompt = scene.filler.line(rng, prompt_bytes);
        let name = rng.chance(0.1).then(|| scene.filler.line(rng, 40));

        let path = path_of(&who.id, started_ms, rng.chance(0.04));
        let mut rollout = Rollout::new(OutFile::create(scene.home.join(path))?, scene, rng, who.clone());
        rollout.at(started_ms);
        rollout.meta((plan.bytes / 3).min(12_000))?;
        let last_text = write_turns(&mut rollout, plan, &prompt, ending, (started_ms, ended_ms))?;
        let total = rollout.total;
        let bytes = rollout.close(ended_ms)?;

        if let Some(name) = &name {
            let line = json!({"id": who.id, "thread_name": name, "updated_at": stamp(ended_ms)});
            self.names.push_str(&line.to_string());
            self.names.push('\n');
        }
        if matches!(ending, Ending::Died | Ending::Torn) && rng.chance(0.5) {
            self.left_locked.push(who.id.clone());
        }
        let mut expected = json!({
            "cwd": cwd, "model": who.model, "branch": "main", "status": "stopped", "outcome": ending.outcome(),
            "tokens": {"in": total.input - total.cached, "out": total.output, "cacheRead": total.cached,
                       "cacheWrite": 0},
            "name": name, "promptPrefix": visible_prefix(&prompt, 40), "parentId": null, "relation": null,
            "startedAt": stamp(started_ms),
        });
        // With another ending the last message may be too far back for a bounded read, so it is not checked.
        if ending == Ending::Completed {
            expected["lastMessagePrefix"] = Value::from(visible_prefix(&last_text, 40));
        }
        Ok(Row {
            adapter: ADAPTER.to_owned(),
            id: who.id,
            bytes,
            updated_ms: ended_ms,
            subagents: 0,
            expected,
        })
    }

    fn finish(&mut self, scene: &Scene, _rng: &mut Rng, _rows: &mut [Row]) -> anyhow::Result<()> {
        let root = scene.home.join(".codex");
        if !self.names.is_empty() {
            outfile::put(&root.join("session_index.jsonl"), &self.names, scene.now_ms)?;
        }
        let locks = root.join("thread-writer-locks");
        outfile::put(&locks.join(".coordination.lock"), "", scene.now_ms)?;
        for id in &self.left_locked {
            outfile::put(&locks.join(format!("{id}.lock")), "", scene.now_ms)?;
        }
        Ok(())
    }
}

fn path_of(id: &str, started_ms: i64, archived: bool) -> String {
    let stamp = stamp(started_ms);
    let name = format!("rollout-{}-{id}.jsonl", stamp[..19].replace(':', "-"));
    if archived {
        format!(".codex/archived_sessions/{name}")
    } else {
        format!(".codex/sessions/{}/{name}", stamp[..10].replace('-', "/"))
    }
}

/// Writes turns until the planned size is reached; returns the agent's last message.
fn write_turns(
    rollout: &mut Rollout<'_>,
    plan: Plan,
    prompt: &str,
    ending: Ending,
    (started_ms, ended_ms): (i64, i64),
) -> anyhow::Result<String> {
    let opening = if plan.giant == Some(Giant::Head) { 2 * GIANT_TEXT as u64 } else { 0 };
    let goal = plan.bytes as u64 + opening;
    let mut giant_due = plan.giant == Some(Giant::Middle);
    let mut first = true;
    loop {
        rollout.begin_turn()?;
        let said = if first { prompt.to_owned() } else { rollout.line_of_text(280) };
        first = false;
        rollout.prompt(&said)?;
        for _ in 0..rollout.rng.between(2, 10) {
            let percent = i64::try_from((rollout.written() * 98 / goal.max(1)).min(98)).unwrap_or(98);
            rollout.at(started_ms + (ended_ms - started_ms) / 100 * percent);
            let mut output = rollout.rng.length(7.4, 1.3, 40_000);
            if giant_due && rollout.written() * 2 >= goal {
                giant_due = false;
                output = GIANT_TEXT;
            }
            rollout.tool(output)?;
            if rollout.written() >= goal {
                break;
            }
        }
        let done = rollout.written() * 100 >= goal * 95;
        let bytes = rollout.rng.index(880) + 20;
        let words = rollout.line_of_text(bytes);
        if !done {
            rollout.reply(&words)?;
            continue;
        }
        rollout.at(ended_ms);
        match ending {
            Ending::Completed => rollout.reply(&words)?,
            Ending::Failed => rollout.fail()?,
            Ending::Interrupted => rollout.abort()?,
            Ending::Died => {}
            Ending::Torn => rollout.half_record()?,
        }
        return Ok(words);
    }
}
