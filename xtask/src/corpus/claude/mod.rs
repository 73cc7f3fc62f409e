//! Claude Code sessions: `.claude/projects/<slug>/<id>.jsonl`, sub-agents beside them, history and stale registry
//! files. Modelled on recordings of 2.1.325.

mod bulk;
mod session;
mod transcript;

pub(crate) use self::transcript::stamp;

use std::path::Path;

use serde_json::{Value, json};

use super::filler::visible_prefix;
use super::rng::Rng;
use super::sizes::{Plan, SizeShape};
use super::{AgentCorpus, Row, Scene, outfile};

pub(crate) const ADAPTER: &str = "claude-code";

/// The first pid in stale registry files. Real pids are rarely so large, and the start time differs anyway.
const STALE_PID: u64 = 4_190_000;

#[derive(Default)]
pub(crate) struct Claude {
    /// Lines of `history.jsonl` with their time.
    history: Vec<(i64, String)>,
}

impl AgentCorpus for Claude {
    fn name(&self) -> &'static str {
        "claude"
    }

    fn weight(&self) -> usize {
        50
    }

    fn shape(&self) -> SizeShape {
        SizeShape { median: 150_000.0, sigma: 2.1, floor: 12_000.0 }
    }

    fn session(&mut self, scene: &Scene, rng: &mut Rng, plan: Plan) -> anyhow::Result<Row> {
        let written = session::write(scene, rng, plan)?;
        if let Some(line) = written.history {
            self.history.push((written.started_ms, line));
        }
        Ok(written.row)
    }

    fn finish(&mut self, scene: &Scene, rng: &mut Rng, rows: &mut [Row]) -> anyhow::Result<()> {
        self.history.sort();
        let mut history = String::new();
        for (_, line) in &self.history {
            history.push_str(line);
            history.push('\n');
        }
        let root = scene.home.join(".claude");
        outfile::put(&root.join("history.jsonl"), &history, scene.now_ms)?;
        std::fs::create_dir_all(root.join("sessions"))?;
        // A killed agent leaves its registry file with the status busy.
        for n in 0..(rows.len() / 200).max(1).min(rows.len()) as u64 {
            let row = &mut rows[rng.index(rows.len())];
            // The agent derived the name in such a file, so a reader may show it or not.
            if row.expected["name"].is_null()
                && let Some(fields) = row.expected.as_object_mut()
            {
                fields.remove("name");
            }
            let at = row.updated_ms;
            let entry = registry_entry(STALE_PID + n, row, "67772", at, &format!("stale-{n}"));
            outfile::put(&root.join(format!("sessions/{}.json", STALE_PID + n)), &entry.to_string(), at)?;
        }
        Ok(())
    }
}

/// The registry file of a live, busy agent.
pub(crate) fn registry_entry(pid: u64, row: &Row, proc_start: &str, at_ms: i64, name: &str) -> Value {
    json!({
        "pid": pid, "sessionId": row.id, "cwd": row.expected["cwd"], "startedAt": at_ms, "procStart": proc_start,
        "version": "2.1.325", "peerProtocol": 1,
        "peerFeatures": ["notify_idle", "reply_across_default_dirs", "artifact_yield"],
        "kind": "interactive", "entrypoint": "cli",
        "pidDomain": "linux:00000000000000000000000000000000:pid:[4026531836]", "asksForConvertedSkills": null,
        "messagingSocketPath": format!("/tmp/cc-socks/{pid}.sock"), "name": name, "nameSource": "derived",
        "nameSince": at_ms, "status": "busy", "updatedAt": at_ms, "statusUpdatedAt": at_ms,
    })
}

/// The directory name for a working directory: everything but ASCII letters and digits becomes a dash.
fn slug(cwd: &str) -> String {
    cwd.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

/// Writes a sub-agent's transcript and its description.
fn write_subagent(
    folder: &Path,
    scene: &Scene,
    rng: &mut Rng,
    who: &transcript::Identity,
    span: (i64, i64),
) -> anyhow::Result<()> {
    let id = format!("a{}", rng.hex(16));
    let who = transcript::Identity { agent_id: Some(id.clone()), ..who.clone() };
    let file = outfile::OutFile::create(folder.join(format!("agent-{id}.jsonl")))?;
    let mut transcript = transcript::Transcript::new(file, scene, rng, who);
    let prompt = transcript.line_of_text(200);
    transcript.at(span.0);
    transcript.user(&format!("\"{prompt}\""), "")?;
    transcript.environment()?;
    transcript.tool_turn(800, 1500)?;
    transcript.at(span.1);
    let text = transcript.prose(600);
    transcript.final_reply(&text)?;
    transcript.close(span.1)?;
    let meta = json!({"agentType": "general-purpose", "isBuiltIn": true, "launchedWithDefaults": true,
                      "description": visible_prefix(&prompt, 20), "toolUseId": format!("toolu_{}", rng.hex(20)),
                      "spawnDepth": 1, "requestShape": "background", "requestNonInteractive": true,
                      "finished": true});
    outfile::put(&folder.join(format!("agent-{id}.meta.json")), &meta.to_string(), span.1)
}
