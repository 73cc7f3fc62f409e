//! The marks that agents leave in the environment of what they start. An agent may itself call agentctl; what agentctl
//! starts must not look as if that agent had started it.

/// Variables that name the agent, its session or its process. Where an agent keeps its files is no mark.
pub(crate) const MARKS: &[&str] = &[
    "AGENTCTL_LAUNCH_ID",
    "CLAUDECODE",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SESSION_ID",
    "CODEX_CI",
    "CODEX_INTERNAL_ORIGINATOR_OVERRIDE",
    "CODEX_MANAGED_BY_NPM",
    "CODEX_MANAGED_PACKAGE_ROOT",
    "CODEX_SANDBOX",
    "CODEX_SANDBOX_NETWORK_DISABLED",
    "CODEX_SESSION_ID",
    "CODEX_THREAD_ID",
    "CODEX_TOOL_CALL_ID",
    "CODEX_VERSION",
    "GEMINI_CLI",
    "OPENCODE",
    "OPENCODE_PID",
    "PI_CODING_AGENT",
    "PI_MODEL",
    "PI_PROGRAM_STATUS",
    "PI_PROVIDER",
    "PI_SESSION_FILE",
    "PI_SESSION_ID",
    "QWEN_CODE",
];
