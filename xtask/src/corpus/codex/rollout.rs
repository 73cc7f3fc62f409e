//! The records of one Codex rollout.

use crate::corpus::Scene;
use crate::corpus::filler::Filler;
use crate::corpus::outfile::OutFile;
use crate::corpus::rng::Rng;

#[derive(Clone)]
pub(super) struct Identity {
    pub(super) id: String,
    pub(super) cwd_json: String,
    pub(super) model: &'static str,
    pub(super) is_exec: bool,
}

/// The agent's token counters. Cached input is part of the input.
#[derive(Clone, Copy, Default)]
pub(super) struct Counter {
    pub(super) input: u64,
    pub(super) cached: u64,
    pub(super) output: u64,
    reasoning: u64,
}

impl Counter {
    fn json(&self) -> String {
        format!(
            r#"{{"input_tokens":{},"cached_input_tokens":{},"cache_write_input_tokens":0,"output_tokens":{},"reasoning_output_tokens":{},"total_tokens":{}}}"#,
            self.input,
            self.cached,
            self.output,
            self.reasoning,
            self.input + self.output,
        )
    }
}

pub(super) struct Rollout<'s> {
    out: OutFile,
    filler: &'s Filler,
    pub(super) rng: &'s mut Rng,
    who: Identity,
    now_ms: i64,
    ordinal: u64,
    turn: String,
    pub(super) total: Counter,
}

impl<'s> Rollout<'s> {
    pub(super) fn new(out: OutFile, scene: &'s Scene, rng: &'s mut Rng, who: Identity) -> Self {
        let (turn, total) = (String::new(), Counter::default());
        Self { out, filler: &scene.filler, rng, who, now_ms: 0, ordinal: 0, turn, total }
    }

    /// Sets the time of the following records.
    pub(super) fn at(&mut self, ms: i64) {
        self.now_ms = ms;
    }

    pub(super) fn written(&self) -> u64 {
        self.out.written()
    }

    pub(super) fn close(self, modified_ms: i64) -> anyhow::Result<u64> {
        self.out.close(modified_ms)
    }

    pub(super) fn line_of_text(&mut self, bytes: usize) -> String {
        self.filler.line(self.rng, bytes)
    }

    fn record(&mut self, kind: &str, payload: &str, extra: &str) -> anyhow::Result<()> {
        let (time, ordinal) = (stamp(self.now_ms), self.ordinal);
        self.ordinal += 1;
        self.out.line(format_args!(
            r#"{{"timestamp":"{time}","ordinal":{ordinal},"type":"{kind}","payload":{payload}{extra}}}"#
        ))
    }

    fn event(&mut self, payload: &str) -> anyhow::Result<()> {
        self.record("event_msg", payload, "")
    }

    pub(super) fn meta(&mut self, instructions: usize) -> anyhow::Result<()> {
        let (source, originator) =
            if self.who.is_exec { ("exec", "codex_exec") } else { ("cli", "codex_cli_rs") };
        let (time, text) = (stamp(self.now_ms), self.filler.prose(self.rng, instructions));
        let (window, commit) = (uuid7(self.rng, self.now_ms), self.rng.hex(40));
        let (id, cwd) = (&self.who.id, &self.who.cwd_json);
        let payload = format!(
            r#"{{"session_id":"{id}","id":"{id}","timestamp":"{time}","cwd":{cwd},"runtime_workspace_roots":[{cwd}],"originator":"{originator}","cli_version":"0.166.0","source":"{source}","thread_source":"user","model_provider":"openai","base_instructions":{{"text":"{text}","provenance":{{"type":"default"}}}},"history_mode":"paginated","context_window":{{"window_id":"{window}"}},"git":{{"commit_hash":"{commit}","branch":"main"}}}}"#
        );
        self.record("session_meta", &payload, "")
    }

    pub(super) fn begin_turn(&mut self) -> anyhow::Result<()> {
        self.turn = uuid7(self.rng, self.now_ms);
        let (turn, seconds) = (&self.turn, self.now_ms / 1000);
        let trigger = if self.who.is_exec { "\"exec\"" } else { "null" };
        let started = format!(
            r#"{{"type":"task_started","turn_attribution":{{"turn_id":"{turn}","turn_trigger":{trigger},"parent_turn_id":null,"initiating_agent_path":null,"root_turn_id":"{turn}"}},"turn_id":"{turn}","root_turn_id":"{turn}","started_at":{seconds},"model_context_window":258400,"collaboration_mode_kind":"default"}}"#
        );
        let (cwd, model) = (&self.who.cwd_json, self.who.model);
        let context = format!(
            r#"{{"turn_id":"{turn}","root_turn_id":"{turn}","disabled_plugin_ids":[],"cwd":{cwd},"approval_policy":"never","approvals_reviewer":"user","sandbox_policy":{{"type":"danger-full-access"}},"permission_profile":{{"type":"disabled"}},"model":"{model}","collaboration_mode":{{"mode":"default","settings":{{"model":"{model}","reasoning_effort":null,"developer_instructions":null}}}},"multi_agent_version":"v1","realtime_active":false,"summary":"none"}}"#
        );
        self.event(&started)?;
        self.record("turn_context", &context, "")
    }

    /// Writes the user's prompt twice: as the model gets it, and as the agent's own event.
    pub(super) fn prompt(&mut self, text: &str) -> anyhow::Result<()> {
        let (message, turn) = (uuid7(self.rng, self.now_ms), &self.turn);
        let raw = format!(
            r#"{{"type":"message","id":"msg_{message}","role":"user","content":[{{"type":"input_text","text":"{text}"}}],"internal_chat_message_metadata_passthrough":{{"turn_id":"{turn}","content_item_kinds":["user.text"]}}}}"#
        );
        self.record("response_item", &raw, r#","metadata":{"client_authored":false}"#)?;
        let item = format!(
            r#"{{"type":"UserMessage","id":"{message}","content":[{{"type":"text","text":"{text}","text_elements":[]}}]}}"#
        );
        self.item(&item)
    }

    fn item(&mut self, item: &str) -> anyhow::Result<()> {
        let (id, turn, at) = (&self.who.id, &self.turn, self.now_ms);
        let payload = format!(
            r#"{{"type":"item_completed","thread_id":"{id}","turn_id":"{turn}","item":{item},"started_at_ms":{at},"completed_at_ms":{at}}}"#
        );
        self.event(&payload)
    }

    /// Writes one shell call with its result and its cost. The result is stored twice, as in real sessions.
    pub(super) fn tool(&mut self, output: usize) -> anyhow::Result<()> {
        let call = format!("call_{}", self.rng.hex(8));
        let bytes = self.rng.index(112) + 8;
        let (command, turn, metadata) =
            (self.line_of_text(bytes), self.turn.clone(), r#","metadata":{"client_authored":false}"#);
        let raw = format!(
            r#"{{"type":"function_call","status":"completed","id":"fc_{}","name":"exec_command","arguments":"{{\"cmd\":\"{command}\"}}","call_id":"{call}","internal_chat_message_metadata_passthrough":{{"turn_id":"{turn}"}}}}"#,
            self.rng.hex(8),
        );
        self.record("response_item", &raw, metadata)?;
        let reply = self.count()?;
        let text = self.filler.prose(self.rng, output);
        let item = format!(
            r#"{{"type":"CommandExecution","id":"{call}","process_id":"76847","command":["/bin/bash","-lc","{command}"],"cwd":"file:///home/dev","parsed_cmd":[{{"type":"unknown","cmd":"{command}"}}],"source":"unified_exec_startup","status":"completed","aggregated_output":"{text}","exit_code":0,"duration":{{"secs":0,"nanos":55554}}}}"#
        );
        self.item(&item)?;
        let answer = format!(
            r#"{{"type":"function_call_output","id":"fco_{}","call_id":"{call}","output":"{text}","internal_chat_message_metadata_passthrough":{{"turn_id":"{turn}"}}}}"#,
            uuid7(self.rng, self.now_ms),
        );
        self.record("response_item", &answer, metadata)?;
        self.token_count(&reply)
    }

    /// Writes the cost of one reply of the model into the usage record, which comes before the token count; returns it.
    fn count(&mut self) -> anyhow::Result<Counter> {
        let reply = Counter {
            input: self.rng.between(500, 9000),
            cached: self.rng.between(0, 500),
            output: self.rng.between(10, 900),
            reasoning: self.rng.between(0, 10),
        };
        self.total.input += reply.input;
        self.total.cached += reply.cached;
        self.total.output += reply.output;
        self.total.reasoning += reply.reasoning;
        let (id, turn, one) = (&self.who.id, &self.turn, reply.json());
        let payload = format!(
            r#"{{"thread_id":"{id}","turn_id":"{turn}","session_id":"{id}","root_turn_id":"{turn}","response_id":"resp_{}","usage":{one},"turn_token_usage":{one},"thread_token_usage":{}}}"#,
            self.rng.hex(8),
            self.total.json(),
        );
        self.record("token_usage_record", &payload, "")?;
        Ok(reply)
    }

    fn token_count(&mut self, reply: &Counter) -> anyhow::Result<()> {
        let payload = format!(
            r#"{{"type":"token_count","info":{{"total_token_usage":{},"last_token_usage":{},"last_usage_includes_reasoning":false,"model_context_window":258400}},"rate_limits":{{"limit_id":"codex","primary":null}}}}"#,
            self.total.json(),
            reply.json(),
        );
        self.event(&payload)
    }

    /// Writes the agent's message and the end of the turn.
    pub(super) fn reply(&mut self, text: &str) -> anyhow::Result<()> {
        let (message, turn) = (self.rng.hex(6), self.turn.clone());
        self.item(&format!(
            r#"{{"type":"AgentMessage","id":"msg_{message}","content":[{{"type":"Text","text":"{text}"}}]}}"#
        ))?;
        let raw = format!(
            r#"{{"type":"message","status":"completed","id":"msg_{message}","role":"assistant","content":[{{"type":"output_text","text":"{text}","annotations":[]}}],"internal_chat_message_metadata_passthrough":{{"turn_id":"{turn}"}}}}"#
        );
        self.record("response_item", &raw, "")?;
        let reply = self.count()?;
        self.token_count(&reply)?;
        self.complete(&format!(r#""last_agent_message":"{text}","#))
    }

    pub(super) fn fail(&mut self) -> anyhow::Result<()> {
        self.event(r#"{"type":"error","message":"made up failure","codex_error_info":"other"}"#)?;
        self.complete(
            r#""last_agent_message":null,"error":{"message":"made up failure","codex_error_info":"other"},"#,
        )
    }

    fn complete(&mut self, fields: &str) -> anyhow::Result<()> {
        let (turn, seconds) = (&self.turn, self.now_ms / 1000);
        let payload = format!(
            r#"{{"type":"task_complete","root_turn_id":"{turn}","turn_id":"{turn}",{fields}"started_at":{seconds},"completed_at":{seconds},"duration_ms":736}}"#
        );
        self.event(&payload)
    }

    pub(super) fn abort(&mut self) -> anyhow::Result<()> {
        let (turn, seconds) = (&self.turn, self.now_ms / 1000);
        let payload = format!(
            r#"{{"type":"turn_aborted","turn_id":"{turn}","reason":"interrupted","completed_at":{seconds},"duration_ms":900}}"#
        );
        self.event(&payload)
    }

    /// Writes half a record.
    pub(super) fn half_record(&mut self) -> anyhow::Result<()> {
        let torn =
            format!(r#"{{"timestamp":"{}","ordinal":9999,"type":"event_msg","payl"#, stamp(self.now_ms));
        self.out.put(&torn)
    }
}

pub(super) fn stamp(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map_or_else(
        |_| "1970-01-01T00:00:00.000Z".to_owned(),
        |at| at.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string(),
    )
}

/// A UUID of version 7, which begins with the time.
pub(super) fn uuid7(rng: &mut Rng, ms: i64) -> String {
    let time = format!("{:012x}", ms & 0xffff_ffff_ffff);
    format!("{}-{}-7{}-8{}-{}", &time[..8], &time[8..], rng.hex(3), rng.hex(3), rng.hex(12))
}
