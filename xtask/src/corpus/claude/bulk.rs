//! Bulk records: attachments and recorded requests. They are most of a short transcript and contain nothing about the
//! session, so a good reader skips them by their first bytes.

use super::transcript::Transcript;

const REQUEST_PARAMS: &str = r#""betas":["claude-code-20250219","interleaved-thinking-2025-05-14","context-management-2025-06-27","per-turn-control-2026-07-01"],"max_tokens":128000,"thinking":{"type":"adaptive","display":"updates"},"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},"output_config":{"effort":"medium"}"#;

const CACHE_CONTROL: &str = r#""cacheControl":[{"path":["system",0],"value":{"type":"ephemeral"}},{"path":["system",1],"value":{"type":"ephemeral"}},{"path":["messages",1,"content",0],"value":{"type":"ephemeral"}}]"#;

impl Transcript<'_> {
    /// Writes the attachments before the first request of a session: about 6 KB of small records and `bytes` of text.
    pub(crate) fn opening_attachments(&mut self, bytes: usize) -> anyhow::Result<()> {
        self.environment()?;
        let (model, text) = (self.who.model, self.prose(124));
        let identity = format!(
            r#"{{"type":"model","identity":{{"modelId":"{model}","marketingName":"made up","knowledgeCutoff":"June 2026"}},"text":"{text}"}}"#
        );
        self.attachment(&identity, Some((160, "system")))?;
        self.attachment(r#"{"type":"deferred_tools_delta","addedNames":["CronCreate","CronDelete","CronList","EnterWorktree"],"addedLines":["CronCreate","CronDelete","CronList","EnterWorktree"],"removedNames":[],"wireHiddenNames":[],"readdedNames":[],"pendingMcpServers":[],"needsAuthMcpServers":[],"failedMcpServers":[]}"#, Some((404, "system")))?;
        let skills = format!(
            r#"{{"type":"skill_listing","content":"{}","skillCount":13,"isInitial":true,"names":["dataviz","update-config","keybindings-help","code-review"],"digests":["140faf7359fd9e4c","909bf5fe1d1fb81f","8bcbb8b001b829d1","8986cb20b0ed6ddf"]}}"#,
            self.prose(bytes / 4),
        );
        self.attachment(&skills, Some((bytes / 8, "system")))?;
        self.latch()?;
        self.attachment(r#"{"type":"session_context","context":{}}"#, None)?;
        self.snapshot(bytes / 8)
    }

    pub(crate) fn environment(&mut self) -> anyhow::Result<()> {
        let body = format!(
            r#"{{"type":"environment","snapshot":{{"workingDirectory":{},"isWorktree":false,"isGitRepo":false,"additionalWorkingDirectories":[],"platform":"linux","shell":"bash","osVersion":"Linux 6.x"}}}}"#,
            self.who.cwd_json,
        );
        self.attachment(&body, Some((700, "system")))
    }

    /// Writes the system prompt and the tools as they were sent: real sessions have up to 55 KB after the last reply.
    pub(crate) fn snapshot(&mut self, bytes: usize) -> anyhow::Result<()> {
        let body = format!(
            r#"{{"type":"prompt_snapshot","systemPrompt":["{}","{}"],"reminderFold":false,"echoWireToolInputs":false,"contextRendering":"announced"}}"#,
            self.prose(bytes / 4),
            self.prose(bytes - bytes / 4),
        );
        self.attachment(&body, None)
    }

    fn attachment(&mut self, body: &str, rendered: Option<(usize, &str)>) -> anyhow::Result<()> {
        let rendered = rendered.map_or_else(String::new, |(bytes, role)| {
            format!(r#""rendered":[{{"content":"{}"}}],"renderedRole":"{role}","#, self.prose(bytes))
        });
        let (uuid, side, tail) = (self.rng.uuid4(), self.sidechain(), self.who.tail());
        let (parent, time) = (self.parent_json(), self.time());
        self.out.line(format_args!(
            r#"{{"parentUuid":{parent},{side},"attachment":{body},"type":"attachment","uuid":"{uuid}","timestamp":"{time}",{rendered}{tail}"#
        ))?;
        self.parent = Some(uuid);
        Ok(())
    }

    /// Writes the shape of the requests (system prompt, tools) and the first message, each once per session.
    pub(crate) fn request_shape(&mut self, bytes: usize) -> anyhow::Result<()> {
        let (id, version, time) = (self.who.session_id.clone(), self.who.version, self.time());
        let (system, tool) = (self.prose(bytes / 4), self.prose(bytes - bytes / 4));
        self.shape_hash = self.rng.hex(64);
        self.out.line(format_args!(
            r#"{{"type":"api-request-shape","sessionId":"{id}","shapeHash":"{}","timestamp":"{time}","version":"{version}","shape":{{"system":[{{"type":"text","text":"{system}"}}],"tools":[{{"name":"Bash","description":"{tool}","input_schema":{{"type":"object","properties":{{"command":{{"type":"string"}}}},"required":["command"]}}}}]}}}}"#,
            self.shape_hash,
        ))?;
        let (hash, text) = (self.rng.hex(64), self.prose(580));
        self.out.line(format_args!(
            r#"{{"type":"api-request-blob","sessionId":"{id}","hash":"{hash}","message":{{"role":"user","content":[{{"type":"text","text":"{text}"}}]}}}}"#
        ))
    }

    pub(crate) fn request(&mut self) -> anyhow::Result<()> {
        let (hash, tail, digest) = (self.rng.hex(64), self.rng.hex(64), self.rng.hex(64));
        let (request, time) = (self.rng.uuid4(), self.time());
        let (id, version, model) = (self.who.session_id.as_str(), self.who.version, self.who.model);
        let source = if self.who.headless { "sdk" } else { "repl_main_thread" };
        self.out.line(format_args!(
            r#"{{"type":"api-request","sessionId":"{id}","id":"{request}","timestamp":"{time}","version":"{version}","querySource":"{source}","shapeHash":"{}","params":{{"model":"{model}",{REQUEST_PARAMS}}},"keep":0,"tail":["{hash}","{tail}"],{CACHE_CONTROL},"requestDigest":"{digest}"}}"#,
            self.shape_hash,
        ))?;
        self.request_ref = request;
        Ok(())
    }

    pub(crate) fn latch(&mut self) -> anyhow::Result<()> {
        let id = &self.who.session_id;
        self.out.line(format_args!(r#"{{"type":"atis-latch","atis":"","sessionId":"{id}"}}"#))
    }
}
