//! OpenCode sessions: rows of one SQLite database, `.local/share/opencode/opencode.db`. Modelled on 1.18.33, which
//! also keeps a snapshot of every change in `event`.

use anyhow::Context;
use rusqlite::{Connection, params};
use serde_json::{Value, json};

use super::filler::visible_prefix;
use super::rng::Rng;
use super::sizes::{GIANT_TEXT, Giant, Plan, SizeShape};
use super::{AgentCorpus, Row, Scene};

const ADAPTER: &str = "opencode";
const MODEL: &str = "claude-sonnet-5";

const SCHEMA: &str = "
PRAGMA synchronous=OFF; PRAGMA journal_mode=MEMORY;
CREATE TABLE project (id text PRIMARY KEY, worktree text NOT NULL, vcs text, time_created integer, time_updated integer);
CREATE TABLE session (id text PRIMARY KEY, project_id text NOT NULL, workspace_id text, parent_id text, slug text NOT NULL,
  directory text NOT NULL, path text, title text NOT NULL, version text NOT NULL, share_url text, summary_additions integer,
  summary_deletions integer, summary_files integer, summary_diffs text, metadata text, cost real DEFAULT 0 NOT NULL,
  tokens_input integer DEFAULT 0 NOT NULL, tokens_output integer DEFAULT 0 NOT NULL, tokens_reasoning integer DEFAULT 0 NOT NULL,
  tokens_cache_read integer DEFAULT 0 NOT NULL, tokens_cache_write integer DEFAULT 0 NOT NULL, revert text, permission text,
  agent text, model text, time_created integer NOT NULL, time_updated integer NOT NULL, time_compacting integer, time_archived integer);
CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL, time_created integer NOT NULL,
  time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE event_sequence (aggregate_id text PRIMARY KEY, seq integer NOT NULL);
CREATE TABLE event (id text PRIMARY KEY, aggregate_id text NOT NULL, seq integer NOT NULL, type text NOT NULL, data text NOT NULL);
CREATE INDEX message_session_time_created_id_idx ON message (session_id,time_created,id);
CREATE INDEX part_message_id_id_idx ON part (message_id,id);
CREATE INDEX part_session_idx ON part (session_id);
CREATE INDEX session_project_idx ON session (project_id);
CREATE INDEX session_parent_idx ON session (parent_id);
CREATE UNIQUE INDEX event_aggregate_seq_idx ON event (aggregate_id,seq);
BEGIN;";

#[derive(Default)]
pub(crate) struct OpenCode {
    database: Option<Connection>,
    /// A counter, so that ids are unique and sort by the time of writing.
    ids: u64,
    sessions: Vec<String>,
}

/// How the last turn ended, which decides what the last message contains.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Completed,
    Interrupted,
    Failed,
    Died,
}

impl Ending {
    fn draw(rng: &mut Rng) -> Self {
        match rng.between(0, 100) {
            0..80 => Self::Completed,
            80..88 => Self::Interrupted,
            88..92 => Self::Failed,
            _ => Self::Died,
        }
    }

    fn outcome(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
            Self::Died => "died",
        }
    }
}

#[derive(Default)]
struct Spent {
    input: u64,
    output: u64,
    cache_read: u64,
    cost: f64,
}

/// One session while it is written.
struct Writing<'w> {
    database: &'w Connection,
    ids: &'w mut u64,
    session: String,
    events: i64,
    bytes: u64,
}

impl Writing<'_> {
    fn id(&mut self, kind: &str) -> String {
        *self.ids += 1;
        format!("{kind}_{:012x}AbCdEfGhIjKlMn", *self.ids)
    }

    /// Writes the full snapshot of a change, as OpenCode logs it.
    fn event(&mut self, kind: &str, data: &str) -> anyhow::Result<()> {
        let id = self.id("evt");
        let mut insert = self.database.prepare_cached("INSERT INTO event VALUES(?,?,?,?,?)")?;
        insert.execute(params![id, self.session, self.events, kind, data])?;
        self.events += 1;
        self.bytes += 2 * data.len() as u64;
        Ok(())
    }

    fn message(&mut self, at_ms: i64, data: &Value) -> anyhow::Result<String> {
        let (id, data) = (self.id("msg"), data.to_string());
        let mut insert = self.database.prepare_cached("INSERT INTO message VALUES(?,?,?,?,?)")?;
        insert.execute(params![id, self.session, at_ms, at_ms, data])?;
        self.event("message.updated.1", &data)?;
        Ok(id)
    }

    fn part(&mut self, message: &str, at_ms: i64, data: &str) -> anyhow::Result<()> {
        let id = self.id("prt");
        let mut insert = self.database.prepare_cached("INSERT INTO part VALUES(?,?,?,?,?,?)")?;
        insert.execute(params![id, message, self.session, at_ms, at_ms, data])?;
        self.event("message.part.updated.1", data)
    }
}

impl AgentCorpus for OpenCode {
    fn name(&self) -> &'static str {
        "opencode"
    }

    fn weight(&self) -> usize {
        15
    }

    fn shape(&self) -> SizeShape {
        SizeShape { median: 60_000.0, sigma: 1.6, floor: 6_000.0 }
    }

    fn session(&mut self, scene: &Scene, rng: &mut Rng, plan: Plan) -> anyhow::Result<Row> {
        let database = match self.database.take() {
            Some(database) => database,
            None => create(scene)?,
        };
        let row = self.write(&database, scene, rng, plan);
        self.database = Some(database);
        row.context("cannot write a session of OpenCode")
    }

    fn finish(&mut self, _scene: &Scene, _rng: &mut Rng, _rows: &mut [Row]) -> anyhow::Result<()> {
        if let Some(database) = self.database.take() {
            // This is the state after a clean exit of the agent: WAL mode, without a WAL file.
            database.execute_batch("COMMIT; PRAGMA journal_mode=WAL;")?;
            database.close().map_err(|(_, error)| error)?;
        }
        Ok(())
    }
}

fn create(scene: &Scene) -> anyhow::Result<Connection> {
    let folder = scene.home.join(".local/share/opencode");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let database = Connection::open(folder.join("opencode.db"))?;
    database.execute_batch(SCHEMA)?;
    Ok(database)
}

impl OpenCode {
    fn write(
        &mut self,
        database: &Connection,
        scene: &Scene,
        rng: &mut Rng,
        plan: Plan,
    ) -> anyhow::Result<Row> {
        let cwd = scene.project(rng).to_owned();
        let ended_ms = scene.end_ms(rng);
        let span_ms = i64::try_from(plan.bytes)?.saturating_mul(10) / 3;
        let started_ms = ended_ms - span_ms.clamp(20_000, 3 * 3_600_000);
        let ending = Ending::draw(rng);
        let prompt_bytes = if plan.giant == Some(Giant::Head) { GIANT_TEXT } else { rng.index(280) + 20 };
        let prompt = scene.filler.line(rng, prompt_bytes);
        let session = format!("ses_{:012x}{}", u64::MAX >> 16 ^ u64::try_from(started_ms)?, rng.hex(14));
        let mut writing =
            Writing { database, ids: &mut self.ids, session: session.clone(), events: 0, bytes: 0 };

        let user = json!({"role": "user", "time": {"created": started_ms}, "agent": "build",
                          "model": {"providerID": "anthropic", "modelID": MODEL}});
        let asked = writing.message(started_ms, &user)?;
        writing.part(&asked, started_ms, &format!(r#"{{"type":"text","text":"{prompt}"}}"#))?;
        let mut spent = Spent::default();
        let last_text = work(&mut writing, scene, rng, plan, (started_ms, ended_ms, ending), &mut spent)?;

        let parent = (!self.sessions.is_empty() && rng.chance(0.06))
            .then(|| self.sessions[rng.index(self.sessions.len())].clone());
        let title: String = prompt.chars().take(60).collect();
        database
            .prepare_cached(
                "INSERT INTO session(id,project_id,parent_id,slug,directory,path,title,version,cost,tokens_input,tokens_output,\
                 tokens_cache_read,agent,model,time_created,time_updated,time_archived) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
            )?
            .execute(params![
                session,
                "global",
                parent,
                "calm-rocket",
                cwd,
                "",
                title,
                "1.18.33",
                spent.cost,
                i64::try_from(spent.input)?,
                i64::try_from(spent.output)?,
                i64::try_from(spent.cache_read)?,
                "build",
                json!({"id": MODEL, "providerID": "anthropic", "variant": "default"}).to_string(),
                started_ms,
                ended_ms,
                rng.chance(0.03).then_some(ended_ms),
            ])?;
        let bytes = writing.bytes;
        if parent.is_none() {
            self.sessions.push(session.clone());
        }
        let expected = json!({
            "cwd": cwd, "model": format!("anthropic/{MODEL}"), "status": "stopped", "outcome": ending.outcome(),
            "tokens": {"in": spent.input, "out": spent.output, "cacheRead": spent.cache_read, "cacheWrite": 0},
            "promptPrefix": visible_prefix(&prompt, 40), "lastMessagePrefix": visible_prefix(&last_text, 40),
            "name": title, "parentId": parent, "relation": parent.as_ref().map(|_| "subagent"),
        });
        Ok(Row {
            adapter: ADAPTER.to_owned(),
            id: session,
            bytes,
            updated_ms: ended_ms,
            subagents: 0,
            expected,
        })
    }
}

/// Writes steps with a tool call each, and a last one without; returns the last text.
fn work(
    writing: &mut Writing<'_>,
    scene: &Scene,
    rng: &mut Rng,
    plan: Plan,
    (started_ms, ended_ms, ending): (i64, i64, Ending),
    spent: &mut Spent,
) -> anyhow::Result<String> {
    let goal = plan.bytes as u64 + if plan.giant.is_some() { 2 * GIANT_TEXT as u64 } else { 0 };
    let mut giant_due = plan.giant == Some(Giant::Middle);
    loop {
        let is_last = writing.bytes >= goal && !giant_due;
        let percent = i64::try_from(writing.bytes * 98 / goal.max(1)).unwrap_or(98).min(98);
        let at_ms = if is_last { ended_ms } else { started_ms + (ended_ms - started_ms) / 100 * percent };
        let (input, output, cached) = (rng.between(100, 3000), rng.between(5, 800), rng.between(0, 20_000));
        let cost = f64::from(u32::try_from(input * 3 + output * 15)?) / 1e6;
        spent.input += input;
        spent.output += output;
        spent.cache_read += cached;
        spent.cost += cost;
        let mut message = json!({"role": "assistant", "mode": "build", "agent": "build", "cost": cost,
            "tokens": {"total": input + output + cached, "input": input, "output": output, "reasoning": 0,
                       "cache": {"write": 0, "read": cached}},
            "modelID": MODEL, "providerID": "anthropic", "time": {"created": at_ms}});
        let error = |name: &str| json!({"name": name, "data": {"message": "made up"}});
        match (is_last, ending) {
            (true, Ending::Died) => {}
            (true, Ending::Interrupted) => message["error"] = error("MessageAbortedError"),
            (true, Ending::Failed) => message["error"] = error("APIError"),
            (true, Ending::Completed) => message["finish"] = json!("stop"),
            (false, _) => message["finish"] = json!("tool-calls"),
        }
        if !(is_last && ending == Ending::Died) {
            message["time"]["completed"] = json!(at_ms + 900);
        }
        let id = writing.message(at_ms, &message)?;
        let snapshot = rng.hex(40);
        writing.part(&id, at_ms, &format!(r#"{{"snapshot":"{snapshot}","type":"step-start"}}"#))?;
        let bytes = rng.length(6.0, 1.0, 8_000).max(8);
        let text = scene.filler.prose(rng, bytes);
        let end = at_ms + 5;
        writing.part(
            &id,
            at_ms,
            &format!(r#"{{"type":"text","text":"{text}","time":{{"start":{at_ms},"end":{end}}}}}"#),
        )?;
        if is_last {
            return Ok(text);
        }
        let mut bytes = rng.length(7.2, 1.2, 30_000);
        if giant_due && writing.bytes * 2 > plan.bytes as u64 {
            giant_due = false;
            bytes = GIANT_TEXT;
        }
        let (command, output) = (scene.filler.line(rng, 60), scene.filler.prose(rng, bytes));
        writing.part(
            &id,
            at_ms,
            &format!(
                r#"{{"type":"tool","tool":"bash","callID":"call_1","state":{{"status":"completed","input":{{"command":"{command}"}},"output":"{output}","metadata":{{"exit":0}},"title":"run","time":{{"start":{at_ms},"end":{end}}}}}}}"#
            ),
        )?;
        writing.part(
            &id,
            at_ms,
            &format!(r#"{{"reason":"tool-calls","snapshot":"{snapshot}","type":"step-finish"}}"#),
        )?;
    }
}
