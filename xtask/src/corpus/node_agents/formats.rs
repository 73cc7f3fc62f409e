//! The file formats in which the agents store a conversation.

use std::path::PathBuf;

use crate::corpus::Scene;
use crate::corpus::claude::stamp;
use crate::corpus::outfile::{self, OutFile};
use crate::corpus::rng::Rng;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Copilot,
    Qwen,
    Gemini,
}

impl Format {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Copilot => "copilot",
            Self::Qwen => "qwen",
            Self::Gemini => "gemini",
        }
    }

    pub(super) fn model(self) -> &'static str {
        match self {
            Self::Copilot => "gpt-6-codex",
            Self::Qwen => "qwen4-coder-plus",
            Self::Gemini => "gemini-3.8-flash",
        }
    }
}

/// The agent's text and a tool's result. Both are already escaped.
pub(super) struct Reply<'a> {
    pub(super) text: &'a str,
    pub(super) tool_output: Option<String>,
}

/// One conversation while it is written.
pub(super) struct Talk {
    pub(super) format: Format,
    pub(super) started: i64,
    /// The tokens of uncached input, of output, and read from a cache.
    pub(super) spent: (u64, u64, u64),
    id: String,
    cwd_json: String,
    now: i64,
    out: OutFile,
}

impl Talk {
    pub(super) fn begin(
        format: Format,
        scene: &Scene,
        id: String,
        cwd: &str,
        slug: &str,
        started: i64,
    ) -> anyhow::Result<Self> {
        let file: PathBuf = match format {
            Format::Copilot => format!(".copilot/session-state/{id}/events.jsonl").into(),
            Format::Qwen => format!(".qwen/projects/{slug}/chats/{id}.jsonl").into(),
            Format::Gemini => {
                let minute = stamp(started)[..16].replace(':', "-");
                format!(".gemini/tmp/{slug}/chats/session-{minute}-{}.jsonl", &id[..8]).into()
            }
        };
        let out = OutFile::create(scene.home.join(file))?;
        let cwd_json = serde_json::to_string(cwd)?;
        let mut talk = Self { format, started, spent: (0, 0, 0), id, cwd_json, now: started, out };
        talk.open(scene, cwd)?;
        Ok(talk)
    }

    fn open(&mut self, scene: &Scene, cwd: &str) -> anyhow::Result<()> {
        let (at, id, cwd_json) = (stamp(self.now), self.id.clone(), self.cwd_json.clone());
        match self.format {
            Format::Copilot => {
                let yaml = format!(
                    "id: {id}\ncwd: {cwd}\nclient_name: github/cli\nuser_named: false\nsummary_count: 0\ncreated_at: {at}\nupdated_at: {at}\n"
                );
                let place = scene.home.join(format!(".copilot/session-state/{id}/workspace.yaml"));
                outfile::put(&place, &yaml, self.now)?;
                let model = self.format.model();
                self.event("session.start", &format!(
                    r#""sessionId":"{id}","version":1,"producer":"copilot-agent","copilotVersion":"1.0.102","startTime":"{at}","selectedModel":"{model}","context":{{"cwd":{cwd_json}}},"alreadyInUse":false"#
                ))
            }
            Format::Qwen => Ok(()),
            Format::Gemini => {
                self.out.line(format_args!(
                    r#"{{"sessionId":"{id}","projectHash":"0","startTime":"{at}","lastUpdated":"{at}","kind":"main"}}"#
                ))?;
                self.out.line(format_args!(
                    r#"{{"$set":{{"messages":[{{"id":"c0","timestamp":"{at}","type":"user","content":[{{"text":"<session_context>\nThis is the Gemini CLI.\n</session_context>"}}]}}],"lastUpdated":"{at}"}}}}"#
                ))
            }
        }
    }

    pub(super) fn written(&self) -> u64 {
        self.out.written()
    }

    pub(super) fn at(&mut self, ms: i64) {
        self.now = self.now.max(ms);
    }

    pub(super) fn close(self, ended: i64) -> anyhow::Result<(String, u64)> {
        Ok((self.id, self.out.close(ended)?))
    }

    /// Writes half a record, as an agent that is killed while it writes.
    pub(super) fn half_record(&mut self) -> anyhow::Result<()> {
        self.out.put(r#"{"id":"0","timest"#)
    }

    pub(super) fn prompt(&mut self, rng: &mut Rng, text: &str) -> anyhow::Result<()> {
        let (at, name) = (stamp(self.now), rng.uuid4());
        match self.format {
            Format::Copilot => {
                self.event(
                    "user.message",
                    &format!(r#""content":"{text}","messageId":"{name}","delivery":"idle""#),
                )?;
                self.event("assistant.turn_start", r#""turnId":"0""#)
            }
            Format::Qwen => self.record(
                &name,
                "user",
                &format!(r#""message":{{"role":"user","parts":[{{"text":"{text}"}}]}}"#),
            ),
            Format::Gemini => {
                self.out.line(format_args!(
                    r#"{{"id":"{name}","timestamp":"{at}","type":"user","content":[{{"text":"{text}"}}]}}"#
                ))?;
                self.updated()
            }
        }
    }

    pub(super) fn reply(&mut self, rng: &mut Rng, reply: &Reply<'_>) -> anyhow::Result<()> {
        let (input, output, cached) = (rng.between(100, 4000), rng.between(5, 900), rng.between(0, 90));
        self.spent = (self.spent.0 + input - cached, self.spent.1 + output, self.spent.2 + cached);
        match self.format {
            Format::Copilot => self.copilot_reply(rng, reply, [input, output, cached]),
            Format::Qwen => self.qwen_reply(rng, reply, [input, output, cached]),
            Format::Gemini => self.gemini_reply(rng, reply, [input, output, cached]),
        }
    }

    fn copilot_reply(&mut self, rng: &mut Rng, reply: &Reply<'_>, spent: [u64; 3]) -> anyhow::Result<()> {
        let (model, id, call) = (self.format.model(), self.id.clone(), rng.hex(12));
        let [input, output, cached] = spent;
        self.event("session.usage_record", &format!(
            r#""usage":{{"model":"{model}","inputTokens":{input},"outputTokens":{output},"cacheReadTokens":{cached},"cacheWriteTokens":0,"reasoningTokens":7,"cost":0.0,"accounting":{{"sourceSessionId":"{id}","usageId":"u-{call}"}}}}"#
        ))?;
        let text = reply.text;
        let Some(answer) = &reply.tool_output else {
            self.event(
                "assistant.message",
                &format!(r#""model":"{model}","content":"{text}","toolRequests":[],"turnId":"0""#),
            )?;
            self.event("assistant.turn_end", r#""turnId":"0""#)?;
            return self
                .event("session.shutdown", &format!(r#""shutdownType":"routine","currentModel":"{model}""#));
        };
        self.event("assistant.message", &format!(
            r#""model":"{model}","content":"{text}","toolRequests":[{{"toolCallId":"{call}","name":"bash","arguments":{{"command":"make"}}}}],"turnId":"0""#
        ))?;
        self.event(
            "tool.execution_start",
            &format!(r#""toolCallId":"{call}","toolName":"bash","arguments":{{"command":"make"}}"#),
        )?;
        self.event(
            "tool.execution_complete",
            &format!(r#""toolCallId":"{call}","success":true,"result":{{"content":"{answer}"}}"#),
        )?;
        self.event("assistant.turn_end", r#""turnId":"0""#)?;
        self.event("assistant.turn_start", r#""turnId":"1""#)
    }

    fn qwen_reply(&mut self, rng: &mut Rng, reply: &Reply<'_>, spent: [u64; 3]) -> anyhow::Result<()> {
        let (model, text) = (self.format.model(), reply.text);
        let [input, output, cached] = spent;
        let name = rng.uuid4();
        self.record(&name, "system", &format!(
            r#""subtype":"ui_telemetry","systemPayload":{{"uiEvent":{{"event.name":"qwen-code.api_response","model":"{model}","input_token_count":{input}}}}}"#
        ))?;
        let call = if reply.tool_output.is_some() {
            r#",{"functionCall":{"name":"run_shell_command","args":{"command":"make"}}}"#
        } else {
            ""
        };
        let name = rng.uuid4();
        self.record(&name, "assistant", &format!(
            r#""model":"{model}","message":{{"role":"model","parts":[{{"text":"{text}"}}{call}]}},"usageMetadata":{{"promptTokenCount":{input},"candidatesTokenCount":{output},"cachedContentTokenCount":{cached}}}"#
        ))?;
        let Some(answer) = &reply.tool_output else { return Ok(()) };
        let name = rng.uuid4();
        self.record(&name, "tool_result", &format!(
            r#""message":{{"role":"user","parts":[{{"functionResponse":{{"name":"run_shell_command","response":{{"output":"{answer}"}}}}}}]}},"toolCallResult":{{"status":"success"}}"#
        ))
    }

    fn gemini_reply(&mut self, rng: &mut Rng, reply: &Reply<'_>, spent: [u64; 3]) -> anyhow::Result<()> {
        let (model, text, at, name) = (self.format.model(), reply.text, stamp(self.now), rng.uuid4());
        let [input, output, cached] = spent;
        let usage = format!(
            r#""tokens":{{"input":{input},"output":{output},"cached":{cached},"thoughts":7,"tool":0,"total":{}}},"model":"{model}""#,
            input + output + 7
        );
        let message = format!(
            r#"{{"id":"{name}","timestamp":"{at}","type":"gemini","content":"{text}","thoughts":[],{usage}"#
        );
        self.out.line(format_args!("{message}}}"))?;
        self.updated()?;
        let Some(answer) = &reply.tool_output else { return Ok(()) };
        let response = format!(
            r#"{{"functionResponse":{{"name":"run_shell_command","response":{{"output":"{answer}"}}}}}}"#
        );
        self.out.line(format_args!(
            r#"{message},"toolCalls":[{{"name":"run_shell_command","args":{{"command":"make"}},"status":"success","timestamp":"{at}","result":[{response}],"description":"make"}}]}}"#
        ))?;
        let answered = rng.uuid4();
        self.out.line(format_args!(
            r#"{{"id":"{answered}","timestamp":"{at}","type":"user","content":[{response}]}}"#
        ))?;
        self.updated()
    }

    fn updated(&mut self) -> anyhow::Result<()> {
        let at = stamp(self.now);
        self.out.line(format_args!(r#"{{"$set":{{"lastUpdated":"{at}"}}}}"#))
    }

    fn event(&mut self, kind: &str, data: &str) -> anyhow::Result<()> {
        let (at, number) = (stamp(self.now), self.out.written());
        self.out.line(format_args!(
            r#"{{"type":"{kind}","data":{{{data}}},"id":"e-{number}","timestamp":"{at}","parentId":null}}"#
        ))
    }

    fn record(&mut self, name: &str, kind: &str, more: &str) -> anyhow::Result<()> {
        let (at, id, cwd) = (stamp(self.now), &self.id, &self.cwd_json);
        self.out.line(format_args!(
            r#"{{"uuid":"{name}","parentUuid":null,"sessionId":"{id}","timestamp":"{at}","type":"{kind}","provenance":"system","cwd":{cwd},"version":"0.24.4",{more}}}"#
        ))
    }
}
