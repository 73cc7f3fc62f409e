//! The records of a Claude Code transcript, field by field in the recorded order.

use crate::corpus::Scene;
use crate::corpus::filler::Filler;
use crate::corpus::outfile::OutFile;
use crate::corpus::rng::Rng;

/// The fields that every record of a session repeats.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) session_id: String,
    pub(crate) cwd_json: String,
    pub(crate) version: &'static str,
    pub(crate) branch: &'static str,
    pub(crate) model: &'static str,
    pub(crate) headless: bool,
    pub(crate) agent_id: Option<String>,
}

impl Identity {
    /// The fields at the end of each conversation record.
    pub(crate) fn tail(&self) -> String {
        let entrypoint = if self.headless { "sdk-cli" } else { "cli" };
        format!(
            r#""userType":"external","entrypoint":"{entrypoint}","cwd":{},"sessionId":"{}","version":"{}","gitBranch":"{}"}}"#,
            self.cwd_json, self.session_id, self.version, self.branch
        )
    }
}

/// The tokens of the session so far. Each reply counts once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tokens {
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) cache_read: u64,
    pub(crate) cache_write: u64,
}

/// One reply of the model. Its blocks are separate records with the same id and usage.
struct Reply {
    id: String,
    usage: Tokens,
}

pub(crate) struct Transcript<'a> {
    pub(crate) out: OutFile,
    pub(crate) rng: &'a mut Rng,
    pub(crate) who: Identity,
    pub(crate) parent: Option<String>,
    pub(crate) tokens: Tokens,
    pub(crate) shape_hash: String,
    pub(crate) request_ref: String,
    filler: &'a Filler,
    now_ms: i64,
}

impl<'a> Transcript<'a> {
    pub(crate) fn new(out: OutFile, scene: &'a Scene, rng: &'a mut Rng, who: Identity) -> Self {
        let (shape_hash, request_ref) = (rng.hex(64), rng.uuid4());
        let tokens = Tokens::default();
        Self {
            out,
            rng,
            who,
            parent: None,
            tokens,
            shape_hash,
            request_ref,
            filler: &scene.filler,
            now_ms: 0,
        }
    }

    /// Sets the time of the following records.
    pub(crate) fn at(&mut self, ms: i64) {
        self.now_ms = ms;
    }

    pub(crate) fn prose(&mut self, bytes: usize) -> String {
        self.filler.prose(self.rng, bytes)
    }

    pub(crate) fn line_of_text(&mut self, bytes: usize) -> String {
        self.filler.line(self.rng, bytes)
    }

    pub(crate) fn time(&self) -> String {
        stamp(self.now_ms)
    }

    pub(crate) fn parent_json(&self) -> String {
        self.parent.as_ref().map_or_else(|| "null".to_owned(), |uuid| format!("\"{uuid}\""))
    }

    pub(crate) fn sidechain(&self) -> String {
        match &self.who.agent_id {
            Some(agent) => format!(r#""isSidechain":true,"agentId":"{agent}""#),
            None => r#""isSidechain":false"#.to_owned(),
        }
    }

    /// Writes a record that contains only the session's id and `fields`.
    pub(crate) fn note(&mut self, kind: &str, fields: &str) -> anyhow::Result<()> {
        let id = &self.who.session_id;
        self.out.line(format_args!(r#"{{"type":"{kind}",{fields},"sessionId":"{id}"}}"#))
    }

    pub(crate) fn queue_operations(&mut self, prompt: &str) -> anyhow::Result<()> {
        let (id, time) = (&self.who.session_id, stamp(self.now_ms));
        self.out.line(format_args!(
            r#"{{"type":"queue-operation","operation":"enqueue","timestamp":"{time}","sessionId":"{id}","content":"{prompt}"}}"#
        ))?;
        self.out.line(format_args!(
            r#"{{"type":"queue-operation","operation":"dequeue","timestamp":"{time}","sessionId":"{id}"}}"#
        ))
    }

    /// Writes a user record. `content` is JSON; `extra` has further fields, each followed by a comma.
    pub(crate) fn user(&mut self, content: &str, extra: &str) -> anyhow::Result<()> {
        let (uuid, prompt_id, side) = (self.rng.uuid4(), self.rng.uuid4(), self.sidechain());
        let (parent, time, tail) = (self.parent_json(), self.time(), self.who.tail());
        self.out.line(format_args!(
            r#"{{"parentUuid":{parent},{side},"promptId":"{prompt_id}","type":"user","message":{{"role":"user","content":{content}}},"uuid":"{uuid}","timestamp":"{time}",{extra}{tail}"#
        ))?;
        self.parent = Some(uuid);
        Ok(())
    }

    fn reply(&mut self) -> Reply {
        let usage = Tokens {
            input: self.rng.between(3, 300),
            output: self.rng.between(5, 2500),
            cache_read: self.rng.between(0, 90_000),
            cache_write: self.rng.between(0, 4000),
        };
        self.tokens.input += usage.input;
        self.tokens.output += usage.output;
        self.tokens.cache_read += usage.cache_read;
        self.tokens.cache_write += usage.cache_write;
        Reply { id: format!("msg_{}", self.rng.hex(20)), usage }
    }

    fn block(&mut self, reply: &Reply, index: u32, block: &str, stop: &str) -> anyhow::Result<()> {
        let (uuid, side, tail) = (self.rng.uuid4(), self.sidechain(), self.who.tail());
        let (parent, time, model) = (self.parent_json(), self.time(), self.who.model);
        let streamed = if index == 0 { "" } else { r#""toolInputStreamMs":1,"# };
        let Tokens { input, output, cache_read, cache_write } = reply.usage;
        let (id, request) = (&reply.id, &reply.id[4..]);
        self.out.line(format_args!(
            r#"{{"parentUuid":{parent},{side},"message":{{"id":"{id}","type":"message","role":"assistant","model":"{model}","content":[{block}],"stop_reason":"{stop}","stop_sequence":null,"usage":{{"input_tokens":{input},"cache_creation_input_tokens":{cache_write},"cache_read_input_tokens":{cache_read},"output_tokens":{output},"output_tokens_details":{{"thinking_tokens":0}},"server_tool_use":{{"web_search_requests":0,"web_fetch_requests":0}},"service_tier":"standard","cache_creation":{{"ephemeral_1h_input_tokens":0,"ephemeral_5m_input_tokens":0}},"inference_geo":"","iterations":[],"speed":"standard","fallback_credit":null}},"stop_details":null}},{streamed}"apiBlockIndex":{index},"requestId":"req_{request}","requestRef":"{}","requestedModel":"{model}","promptCacheRequested":"5m","type":"assistant","uuid":"{uuid}","timestamp":"{time}","effort":"medium","perTurnEffort":"medium","madeBy":"model",{tail}"#,
            self.request_ref,
        ))?;
        self.parent = Some(uuid);
        Ok(())
    }

    /// Writes a reply with a text and a tool call; returns the id of the tool call.
    pub(crate) fn tool_call(&mut self, text: &str) -> anyhow::Result<String> {
        let reply = self.reply();
        self.block(&reply, 0, &format!(r#"{{"type":"text","text":"{text}"}}"#), "tool_use")?;
        let tool = format!("toolu_{}", self.rng.hex(20));
        let bytes = self.rng.index(180) + 24;
        let command = self.line_of_text(bytes);
        let call = format!(
            r#"{{"type":"tool_use","id":"{tool}","name":"Bash","input":{{"command":"{command}","description":"run it"}}}}"#
        );
        self.block(&reply, 1, &call, "tool_use")?;
        Ok(tool)
    }

    /// Writes the result of a tool. The record contains a large output twice, and the second copy is cut.
    pub(crate) fn tool_result(&mut self, tool: &str, output: &str) -> anyhow::Result<()> {
        let source = self.parent.clone().unwrap_or_default();
        let stdout = match output.get(..20_000.min(output.len())) {
            Some(all) if all.len() == output.len() => all,
            _ => cut_at_word(output, 20_000),
        };
        let extra = format!(
            r#""toolUseResult":{{"stdout":"{stdout}","stderr":"","interrupted":false,"isImage":false,"noOutputExpected":false}},"sandboxed":false,"sourceToolAssistantUUID":"{source}","permissionDecision":{{"decision":"accept","source":"config","reasonType":"mode"}},"#
        );
        let content = format!(
            r#"[{{"tool_use_id":"{tool}","type":"tool_result","content":"{output}","is_error":false}}]"#
        );
        self.user(&content, &extra)
    }

    /// Writes a whole round: request, reply with a tool call, result.
    pub(crate) fn tool_turn(&mut self, text_bytes: usize, output_bytes: usize) -> anyhow::Result<()> {
        self.request()?;
        let text = self.prose(text_bytes.max(24));
        let tool = self.tool_call(&text)?;
        let output = self.prose(output_bytes);
        self.tool_result(&tool, &output)
    }

    /// Writes the reply that ends a turn.
    pub(crate) fn final_reply(&mut self, text: &str) -> anyhow::Result<()> {
        self.request()?;
        let reply = self.reply();
        self.block(&reply, 0, &format!(r#"{{"type":"text","text":"{text}"}}"#), "end_turn")
    }

    /// Writes the record of a final model error, which names a model that does not exist.
    pub(crate) fn model_error(&mut self) -> anyhow::Result<()> {
        let (uuid, message, side) = (self.rng.uuid4(), self.rng.uuid4(), self.sidechain());
        let (parent, time, tail) = (self.parent_json(), self.time(), self.who.tail());
        self.out.line(format_args!(
            r#"{{"parentUuid":{parent},{side},"type":"assistant","uuid":"{uuid}","timestamp":"{time}","message":{{"diagnostics":null,"id":"{message}","container":null,"model":"<synthetic>","role":"assistant","stop_details":null,"stop_reason":"stop_sequence","stop_sequence":"","type":"message","usage":{{"output_tokens_details":null,"input_tokens":0,"output_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"server_tool_use":{{"web_search_requests":0,"web_fetch_requests":0}},"service_tier":null,"cache_creation":{{"ephemeral_1h_input_tokens":0,"ephemeral_5m_input_tokens":0}},"inference_geo":null,"iterations":null,"speed":null,"fallback_credit":null}},"content":[{{"type":"text","text":"API Error: 500 made up"}}],"context_management":null}},"requestId":"req_made_up","error":"server_error","isApiErrorMessage":true,"apiErrorStatus":500,"apiErrorType":"api_error","perTurnEffort":"medium","failedResponseHadNoToolCall":true,"madeBy":"model",{tail}"#
        ))?;
        self.parent = Some(uuid);
        Ok(())
    }

    pub(crate) fn last_prompt(&mut self, prompt: &str) -> anyhow::Result<()> {
        let leaf = self.parent.clone().unwrap_or_default();
        self.note("last-prompt", &format!(r#""lastPrompt":"{prompt}","leafUuid":"{leaf}""#))
    }

    /// Writes the agent's own totals, which it writes when it exits normally.
    pub(crate) fn cost_state(&mut self, started_ms: i64) -> anyhow::Result<()> {
        let Tokens { input, output, cache_read, cache_write } = self.tokens;
        let (id, model) = (&self.who.session_id, self.who.model);
        let cost = format!("{}.{:06}", output / 40_000, output % 40_000 * 25);
        self.out.line(format_args!(
            r#"{{"type":"cost-state","sessionId":"{id}","totalCostUSD":{cost},"totalAPIDuration":3764,"totalAPIDurationWithoutRetries":3731,"totalToolDuration":3353,"totalLinesAdded":0,"totalLinesRemoved":0,"totalDuration":14657,"startTime":{started_ms},"modelUsage":{{"{model}":{{"inputTokens":{input},"outputTokens":{output},"thinkingTokens":0,"cacheReadInputTokens":{cache_read},"cacheCreationInputTokens":{cache_write},"cacheCreationEphemeral5mInputTokens":0,"cacheCreationEphemeral1hInputTokens":0,"webSearchRequests":0,"costUSD":{cost}}}}},"hasUnknownModelCost":false}}"#
        ))
    }

    pub(crate) fn close(self, modified_ms: i64) -> anyhow::Result<u64> {
        self.out.close(modified_ms)
    }
}

/// The longest whole words of `text` within `bytes`, so that no escape is cut.
fn cut_at_word(text: &str, bytes: usize) -> &str {
    text.char_indices()
        .take_while(|(at, _)| *at < bytes)
        .filter(|(_, c)| *c == ' ')
        .last()
        .map_or("", |(at, _)| &text[..at])
}

/// A time in the agent's format, from milliseconds since 1970.
pub(crate) fn stamp(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map_or_else(
        |_| "1970-01-01T00:00:00.000Z".to_owned(),
        |at| at.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::{cut_at_word, stamp};

    #[test]
    fn a_time_has_milliseconds() {
        assert_eq!(stamp(1_794_725_463_358), "2026-11-15T06:51:03.358Z");
        assert_eq!(stamp(0), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn a_cut_keeps_escapes_whole() {
        assert_eq!(cut_at_word(r"end.\n next word", 5), "");
        assert_eq!(cut_at_word(r"end.\n next word", 9), r"end.\n");
        assert_eq!(cut_at_word("日本 語", 20), "日本");
    }
}
