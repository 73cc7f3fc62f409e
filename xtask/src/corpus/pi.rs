//! Pi sessions: `.pi/agent/sessions/--<folder>--/<time>_<id>.jsonl`, a chain of records, a few forks and branches.
//! Modelled on recordings of 1.5.0.

use serde_json::{Value, json};

use super::claude::stamp;
use super::ending::Ending;
use super::filler::visible_prefix;
use super::outfile::OutFile;
use super::rng::Rng;
use super::sizes::{GIANT_TEXT, Giant, Plan, SizeShape};
use super::{AgentCorpus, Row, Scene};

const ADAPTER: &str = "pi";

#[derive(Default)]
pub(crate) struct Pi;

impl AgentCorpus for Pi {
    fn name(&self) -> &'static str {
        "pi"
    }

    fn weight(&self) -> usize {
        10
    }

    fn shape(&self) -> SizeShape {
        SizeShape { median: 40_000.0, sigma: 1.8, floor: 8_000.0 }
    }

    fn session(&mut self, scene: &Scene, rng: &mut Rng, plan: Plan) -> anyhow::Result<Row> {
        write(scene, rng, plan)
    }

    fn finish(&mut self, _: &Scene, _: &mut Rng, _: &mut [Row]) -> anyhow::Result<()> {
        Ok(())
    }
}

/// The stop reason of the last reply; a killed agent leaves none.
fn stop_reason(ending: Ending) -> Option<&'static str> {
    match ending {
        Ending::Completed => Some("stop"),
        Ending::Interrupted => Some("aborted"),
        Ending::Failed => Some("error"),
        Ending::Died | Ending::Torn => None,
    }
}

/// One file while it is written.
struct Chain<'s> {
    out: OutFile,
    scene: &'s Scene,
    rng: &'s mut Rng,
    provider: &'static str,
    model: &'static str,
    parent: String,
    at_ms: i64,
    input: u64,
    output: u64,
    cache_read: u64,
}

impl Chain<'_> {
    fn record(&mut self, kind: &str, rest: &str) -> anyhow::Result<()> {
        let id = self.rng.hex(8);
        let (parent, time) = (&self.parent, stamp(self.at_ms));
        self.out.line(format_args!(
            r#"{{"type":"{kind}","id":"{id}","parentId":{parent},"timestamp":"{time}",{rest}}}"#
        ))?;
        self.parent = format!("\"{id}\"");
        Ok(())
    }

    fn message(&mut self, role: &str, rest: &str) -> anyhow::Result<()> {
        let at = self.at_ms;
        self.record("message", &format!(r#""message":{{"role":"{role}",{rest},"timestamp":{at}}}"#))
    }

    fn reply(&mut self, content: &str, stop: &str, more: &str) -> anyhow::Result<()> {
        let (input, output) = (self.rng.between(100, 4000), self.rng.between(5, 900));
        self.input += input;
        self.output += output;
        self.cache_read += 800;
        let (provider, model) = (self.provider, self.model);
        let total = input + output + 800;
        let micros = input * 3 + output * 15;
        self.message(
            "assistant",
            &format!(
                r#""content":[{content}],"api":"anthropic-messages","provider":"{provider}","model":"{model}","usage":{{"input":{input},"output":{output},"cacheRead":800,"cacheWrite":0,"reasoning":0,"totalTokens":{total},"cost":{{"input":0,"output":0,"cacheRead":0.00024,"cacheWrite":0,"total":0.{micros:06},"totalFromProvider":false}}}},"stopReason":"{stop}","responseId":"r{total}","rawStopReason":"{stop}","durationMs":157,"thinkingLevel":"off"{more}"#
            ),
        )
    }

    fn prose(&mut self, bytes: usize) -> String {
        self.scene.filler.prose(self.rng, bytes)
    }

    /// Writes a reply that calls a tool, and the tool's result.
    fn tool_turn(&mut self, answer_bytes: usize) -> anyhow::Result<String> {
        let bytes = self.rng.length(5.5, 1.0, 6_000).max(20);
        let (text, command) = (self.prose(bytes), self.scene.filler.line(self.rng, 60));
        let call = format!("call_{}", self.rng.hex(8));
        let content = format!(
            r#"{{"type":"text","text":"{text}"}},{{"type":"toolCall","id":"{call}","name":"bash","arguments":{{"command":"{command}"}}}}"#
        );
        self.reply(&content, "toolUse", "")?;
        if answer_bytes > 0 {
            let answer = self.prose(answer_bytes);
            self.message(
                "toolResult",
                &format!(
                    r#""toolCallId":"{call}","toolName":"bash","content":[{{"type":"text","text":"{answer}"}}],"isError":false,"durationMs":20"#
                ),
            )?;
        }
        Ok(text)
    }
}

fn write(scene: &Scene, rng: &mut Rng, plan: Plan) -> anyhow::Result<Row> {
    let cwd = scene.project(rng).to_owned();
    let (id, ending) = (rng.uuid4(), Ending::draw(rng));
    let ended_ms = scene.end_ms(rng);
    let started_ms = ended_ms - (i64::try_from(plan.bytes)? * 3).clamp(10_000, 7_200_000);
    let prompt_bytes = if plan.giant == Some(Giant::Head) { GIANT_TEXT } else { rng.index(280) + 20 };
    let prompt = scene.filler.line(rng, prompt_bytes);
    let title = rng.chance(0.2).then(|| scene.filler.line(rng, 40));
    let (provider, model) = rng.pick(&[("anthropic", "claude-sonnet-5"), ("openai", "gpt-5.2")]);

    let folder = scene.home.join(".pi/agent/sessions").join(slug(&cwd));
    let name = format!("{}_{id}.jsonl", stamp(started_ms).replace([':', '.'], "-"));
    let mut out = OutFile::create(folder.join(name))?;
    let header =
        json!({"type": "session", "version": 3, "id": id, "timestamp": stamp(started_ms), "cwd": cwd});
    out.line(format_args!("{header}"))?;
    let mut chain = Chain {
        out,
        scene,
        rng,
        provider,
        model,
        parent: "null".to_owned(),
        at_ms: started_ms,
        input: 0,
        output: 0,
        cache_read: 0,
    };
    open(&mut chain, &cwd, &prompt, title.as_deref())?;
    work(&mut chain, plan, (started_ms, ended_ms))?;
    let last_text = end(&mut chain, ending, ended_ms)?;
    let expected = json!({
        "cwd": cwd, "model": format!("{provider}/{model}"), "status": "stopped", "outcome": ending.outcome(),
        "tokens": {"in": chain.input, "out": chain.output, "cacheRead": chain.cache_read, "cacheWrite": 0},
        "promptPrefix": visible_prefix(&prompt, 40), "lastMessagePrefix": visible_prefix(&last_text, 40),
        "name": title.map_or(Value::Null, Value::from), "parentId": null, "relation": null,
        "startedAt": stamp(started_ms),
    });
    let bytes = chain.out.close(ended_ms)?;
    Ok(Row { adapter: ADAPTER.to_owned(), id, bytes, updated_ms: ended_ms, subagents: 0, expected })
}

fn open(chain: &mut Chain<'_>, cwd: &str, prompt: &str, title: Option<&str>) -> anyhow::Result<()> {
    if let Some(title) = title {
        chain.record("session_info", &format!(r#""name":"{title}""#))?;
    }
    let (provider, model) = (chain.provider, chain.model);
    chain.record("model_change", &format!(r#""provider":"{provider}","modelId":"{model}""#))?;
    chain.record("thinking_level_change", r#""thinkingLevel":"off""#)?;
    let [preamble, tools, rules, docs] = [300, 600, 1500, 2200].map(|bytes| chain.prose(bytes));
    let cwd = serde_json::to_string(cwd)?;
    chain.message(
        "system",
        &format!(
            r#""content":"","sections":{{"preamble":"{preamble}","tools":"{tools}","rules":"{rules}","docs":"{docs}","cwd":{cwd}}},"toolsAdded":[]"#
        ),
    )?;
    chain.message("user", &format!(r#""content":[{{"type":"text","text":"{prompt}"}}]"#))
}

fn work(chain: &mut Chain<'_>, plan: Plan, (started_ms, ended_ms): (i64, i64)) -> anyhow::Result<()> {
    let begun = chain.out.written();
    let goal = (plan.bytes as u64).max(begun + 1);
    let mut giant_due = plan.giant == Some(Giant::Middle);
    while chain.out.written() < goal || giant_due {
        let done = chain.out.written();
        let percent = i64::try_from((done * 98 / goal).min(98))?;
        chain.at_ms = started_ms + (ended_ms - started_ms) / 100 * percent;
        let mut bytes = chain.rng.length(7.2, 1.3, 50_000).max(20);
        if giant_due && done * 2 >= goal {
            giant_due = false;
            bytes = GIANT_TEXT;
        }
        chain.tool_turn(bytes)?;
        if chain.rng.chance(0.05) {
            // The user went back, so the records that followed are now on another branch.
            let kept = chain.parent.clone();
            chain.tool_turn(200)?;
            chain.parent = kept;
        }
    }
    Ok(())
}

/// Writes the end of the session; returns the agent's last text.
fn end(chain: &mut Chain<'_>, ending: Ending, ended_ms: i64) -> anyhow::Result<String> {
    chain.at_ms = ended_ms;
    let Some(stop) = stop_reason(ending) else {
        let text = chain.tool_turn(0)?;
        if ending == Ending::Torn {
            let (id, parent) = (chain.rng.hex(8), chain.parent.clone());
            chain.out.put(&format!(r#"{{"type":"message","id":"{id}","parentId":{parent},"timest"#))?;
        }
        return Ok(text);
    };
    let text = chain.prose(200);
    let error = if ending == Ending::Completed { "" } else { r#","errorMessage":"made up""# };
    chain.reply(&format!(r#"{{"type":"text","text":"{text}"}}"#), stop, error)?;
    Ok(text)
}

/// The directory name for a working directory.
fn slug(cwd: &str) -> String {
    format!("--{}--", cwd.trim_start_matches('/').replace(['/', '\\', ':'], "-"))
}
