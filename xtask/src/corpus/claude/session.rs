//! Writes one Claude Code session: its beginning, its turns and its end.

use anyhow::Context;
use serde_json::{Value, json};

use super::transcript::{Identity, Tokens, Transcript, stamp};
use super::{ADAPTER, slug, write_subagent};
use crate::corpus::ending::Ending;
use crate::corpus::filler::visible_prefix;
use crate::corpus::outfile::OutFile;
use crate::corpus::rng::Rng;
use crate::corpus::sizes::{GIANT_TEXT, Giant, Plan};
use crate::corpus::{Row, Scene};

pub(crate) struct Written {
    pub(crate) row: Row,
    pub(crate) started_ms: i64,
    /// The line for `history.jsonl`; headless runs have none.
    pub(crate) history: Option<String>,
}

/// The facts about the session that a reader should find.
struct Story {
    ending: Ending,
    prompt: String,
    title: Option<String>,
    started_ms: i64,
    ended_ms: i64,
    last_text: String,
}

pub(crate) fn write(scene: &Scene, rng: &mut Rng, plan: Plan) -> anyhow::Result<Written> {
    let cwd = scene.project(rng).to_owned();
    let who = Identity {
        session_id: rng.uuid4(),
        cwd_json: serde_json::to_string(&cwd)?,
        version: rng.pick(&["2.1.325", "2.1.325", "2.1.318", "2.1.301"]),
        branch: rng.pick(&["HEAD", "main", "main", "feat/x-1"]),
        model: rng.pick(&["claude-opus-5-5", "claude-opus-5-5", "claude-sonnet-5", "claude-haiku-5"]),
        headless: rng.chance(0.4),
        agent_id: None,
    };
    let ended_ms = scene.end_ms(rng);
    let span_ms = i64::try_from(plan.bytes)?.saturating_mul(5) / 2;
    let prompt_bytes = if plan.giant == Some(Giant::Head) { GIANT_TEXT } else { rng.index(380) + 24 };
    let mut story = Story {
        ending: Ending::draw(rng),
        prompt: scene.filler.line(rng, prompt_bytes),
        title: rng.chance(0.2).then(|| scene.filler.line(rng, 40)),
        started_ms: ended_ms - span_ms.clamp(30_000, 6 * 3_600_000),
        ended_ms,
        last_text: String::new(),
    };

    let folder = scene.home.join(".claude/projects").join(slug(&cwd));
    let file = OutFile::create(folder.join(format!("{}.jsonl", who.session_id)))?;
    let mut transcript = Transcript::new(file, scene, rng, who.clone());
    let bulk = (plan.bytes / 4).min(40_000);
    open(&mut transcript, &story, bulk)?;
    work(&mut transcript, &mut story, plan, bulk)?;
    end(&mut transcript, &mut story, bulk)?;
    let tokens = transcript.tokens;
    let bytes = transcript.close(ended_ms)?;

    let subagents = u64::from(rng.chance(0.06));
    if subagents > 0 {
        let beside = folder.join(&who.session_id).join("subagents");
        write_subagent(&beside, scene, rng, &who, (story.started_ms, ended_ms))
            .with_context(|| format!("cannot write the sub-agent of {}", who.session_id))?;
    }
    let history = (!who.headless).then(|| {
        let display: String = story.prompt.chars().take(500).collect();
        json!({"display": display, "pastedContents": {}, "timestamp": story.started_ms, "project": cwd,
               "sessionId": who.session_id})
        .to_string()
    });
    let expected = expected(&story, &who, &cwd, tokens);
    let row = Row {
        adapter: ADAPTER.to_owned(),
        id: who.session_id,
        bytes,
        updated_ms: ended_ms,
        subagents,
        expected,
    };
    Ok(Written { row, started_ms: story.started_ms, history })
}

fn open(transcript: &mut Transcript<'_>, story: &Story, bulk: usize) -> anyhow::Result<()> {
    transcript.at(story.started_ms);
    let prompt = &story.prompt;
    let source = if transcript.who.headless {
        transcript.queue_operations(prompt)?;
        "sdk"
    } else {
        transcript.note("mode", r#""mode":"normal""#)?;
        transcript.note("permission-mode", r#""permissionMode":"default""#)?;
        "typed"
    };
    let extra = format!(
        r#""permissionMode":"default","promptSource":"{source}","turnOrigin":"{source}","turnPosition":{{"promptIndex":0,"turnIndex":1}},"#
    );
    transcript.user(&format!("\"{prompt}\""), &extra)?;
    transcript.opening_attachments(bulk)?;
    transcript.request_shape(bulk)?;
    transcript.last_prompt(&shown_prompt(prompt))?;
    transcript.latch()?;
    transcript.note("tools-used", r#""tools":["Bash"]"#)
}

fn work(transcript: &mut Transcript<'_>, story: &mut Story, plan: Plan, bulk: usize) -> anyhow::Result<()> {
    let opening = transcript.out.written();
    // Giant texts are added to the planned size, and the end of the session needs some room.
    let goal = plan.bytes.saturating_sub(bulk + 4_000) as u64
        + if plan.giant == Some(Giant::Head) { opening } else { 0 };
    let mut giant_due = plan.giant == Some(Giant::Middle);
    let mut turns = 0_u32;
    while turns == 0 || transcript.out.written() < goal {
        let done = transcript.out.written();
        let room = usize::try_from(goal.saturating_sub(done)).unwrap_or(usize::MAX);
        transcript.at(between(story, done, goal));
        let mut output = transcript.rng.length(7.6, 1.3, 60_000).min(room / 2);
        if giant_due && done * 2 >= goal {
            giant_due = false;
            output = GIANT_TEXT;
        }
        let text = transcript.rng.length(6.6, 1.1, 9_000).min(room / 4);
        transcript.tool_turn(text, output)?;
        turns += 1;
        if turns == 1
            && let Some(title) = &story.title
        {
            transcript.note("ai-title", &format!(r#""aiTitle":"{title}""#))?;
        }
        if turns.is_multiple_of(12) {
            let bytes = transcript.rng.index(580) + 24;
            let text = transcript.line_of_text(bytes);
            transcript.user(&format!("\"{text}\""), r#""promptSource":"typed","#)?;
        }
    }
    if giant_due {
        transcript.tool_turn(100, GIANT_TEXT)?;
    }
    Ok(())
}

/// The time for a record, by the size that the file has reached.
fn between(story: &Story, done: u64, goal: u64) -> i64 {
    let span = story.ended_ms - story.started_ms;
    let percent = (done * 98 / goal.max(1)).min(98);
    story.started_ms + span / 100 * i64::try_from(percent).unwrap_or(98)
}

fn end(transcript: &mut Transcript<'_>, story: &mut Story, bulk: usize) -> anyhow::Result<()> {
    transcript.at(story.ended_ms);
    let bytes = transcript.rng.index(1_900) + 100;
    let text = transcript.prose(bytes);
    let bulk_last = transcript.rng.chance(0.3);
    // In real sessions the bulk record after the last reply has up to 55 KB.
    let snapshot = (bulk * 2).min(54_000);
    match story.ending {
        Ending::Completed => transcript.final_reply(&text)?,
        Ending::Failed => transcript.model_error()?,
        Ending::Interrupted => {
            transcript.request()?;
            let tool = transcript.tool_call(&text)?;
            let rejected = format!(
                r#"[{{"type":"tool_result","content":"The user does not want this.","is_error":true,"tool_use_id":"{tool}"}}]"#
            );
            transcript.user(
                &rejected,
                r#""toolUseResult":"User rejected tool use","toolDenialKind":"user-rejected","#,
            )?;
            if bulk_last {
                transcript.snapshot(snapshot)?;
            }
            transcript
                .user(r#"[{"type":"text","text":"[Request interrupted by user for tool use]"}]"#, "")?;
        }
        Ending::Died | Ending::Torn => {
            transcript.request()?;
            transcript.tool_call(&text)?;
        }
    }
    story.last_text = text;
    if bulk_last && story.ending != Ending::Interrupted {
        transcript.snapshot(snapshot)?;
    }
    if story.ending == Ending::Torn {
        let parent = transcript.parent_json();
        let torn = format!(
            r#"{{"parentUuid":{parent},"isSidechain":false,"promptId":"0","type":"user","message":{{"role":"user","content":[{{"tool_us"#
        );
        return transcript.out.put(&torn);
    }
    if story.ending == Ending::Died {
        // A killed agent writes no closing records. The title is then only at the beginning, and a bounded read need not
        // find it.
        return Ok(());
    }
    transcript.last_prompt(&shown_prompt(&story.prompt))?;
    transcript.latch()?;
    if let Some(title) = &story.title {
        transcript.note("ai-title", &format!(r#""aiTitle":"{title}""#))?;
    }
    transcript.cost_state(story.started_ms)
}

fn shown_prompt(prompt: &str) -> String {
    prompt.chars().take(200).collect()
}

fn expected(story: &Story, who: &Identity, cwd: &str, tokens: Tokens) -> Value {
    let mut expected = json!({
        "cwd": cwd, "model": who.model, "status": "stopped", "outcome": story.ending.outcome(),
        "tokens": {"in": tokens.input, "out": tokens.output, "cacheRead": tokens.cache_read,
                   "cacheWrite": tokens.cache_write},
        "promptPrefix": visible_prefix(&story.prompt, 40), "parentId": null, "relation": null,
        "startedAt": stamp(story.started_ms),
    });
    // A reader may or may not take the text of a model error for the agent's last message.
    if story.ending != Ending::Failed {
        expected["lastMessagePrefix"] = json!(visible_prefix(&story.last_text, 40));
    }
    // Outside a repository the agent writes `HEAD`, which a reader may show as no branch.
    if who.branch != "HEAD" {
        expected["branch"] = json!(who.branch);
    }
    if story.title.is_none() || !matches!(story.ending, Ending::Died | Ending::Torn) {
        expected["name"] = json!(story.title);
    }
    expected
}
