//! One example of each object that a reader of the API document meets first.

use serde_json::{Value, json};

/// The names of the objects that have an example.
#[cfg(test)]
pub(super) const NAMES: [&str; 10] = [
    "Session",
    "SourceReport",
    "Problem",
    "Event",
    "Entry",
    "LaunchBody",
    "GroupBody",
    "AnswerBody",
    "LockBody",
    "FuseSpec",
];

/// The example of the object with this name in the document.
pub(super) fn of(name: &str) -> Option<Value> {
    Some(match name {
        "Session" => session(),
        "SourceReport" => json!({
            "adapter": "claude-code", "root": "/home/dev/.claude", "host": "box", "coverage": "complete", "error": null, "warnings": [],
            "sessions": 12, "tookMs": 4,
        }),
        "Problem" => json!({
            "type": "about:blank", "title": "Not Found", "status": 404,
            "detail": "no session has the id or name `fix-login`", "code": "not-found",
            "hint": "GET /v1/sessions?since=all lists everything that is stored",
        }),
        "Event" => json!({
            "cursor": "5f0c2a91-17", "type": "session.waiting", "at": "2026-11-15T07:05:12Z", "host": "box",
            "adapter": "claude-code", "sessionId": ID, "previous": "running", "session": session(), "source": null, "fuse": null, "lock": null, "action": null,
        }),
        "Entry" => json!({
            "at": "2026-11-15T07:05:10Z", "role": "agent", "kind": "message", "text": "I will run the tests first.",
            "tool": null,
        }),
        "LaunchBody" => json!({
            "adapter": "claude-code", "prompt": "fix the login test", "cwd": "/home/dev/api", "permissionMode": "accept-edits",
            "timeout": "2h", "labels": {"ticket": "API-12"},
        }),
        "GroupBody" => json!({
            "launches": [{"adapter": "claude-code"}, {"adapter": "codex", "branch": "try/codex"}],
            "prompt": "fix the login test", "cwd": "/home/dev/api",
        }),
        "AnswerBody" => json!({"decision": "approve"}),
        "LockBody" => json!({"directory": "/home/dev/api", "by": "ann", "reason": "release", "ttl": "30m"}),
        "FuseSpec" => json!({"session": ID, "maxTime": "1h", "maxTokens": 2_000_000, "label": "night run"}),
        _ => return None,
    })
}

const ID: &str = "0f5e1a7c-3f0b-4a55-9c1e-5d2f7a1b6c33";

fn session() -> Value {
    let process = json!({
        "pid": 4711, "startedAt": "2026-11-15T07:00:00Z", "role": "agent", "command": "claude",
    });
    json!({
        "id": ID, "adapter": "claude-code", "configRoot": "/home/dev/.claude", "host": "box",
        "status": "waiting", "outcome": null, "statusDetail": "Bash: cargo test", "since": "2026-11-15T07:05:12Z",
        "pending": [{
            "kind": "approval", "summary": "Bash: cargo test", "since": "2026-11-15T07:05:12Z", "answerable": false,
            "id": null, "options": [], "limitedUntil": null,
        }],
        "name": null, "prompt": "fix the login test", "lastMessage": "I will run the tests first.",
        "cwd": "/home/dev/api", "branch": "main", "model": "claude-opus-4-5",
        "startedAt": "2026-11-15T07:00:01Z", "updatedAt": "2026-11-15T07:05:12Z", "stoppedAt": null,
        "tokens": {"in": 1200, "out": 850, "cacheRead": 40000, "cacheWrite": null}, "cost": null,
        "pid": 4711, "processes": [process],
        "parentId": null, "relation": null, "group": null, "launch": null,
        "capabilities": ["peek", "stop"],
        "evidence": [{
            "source": "kernel", "fact": "pid 4711 is alive", "at": "2026-11-15T07:05:13Z",
        }],
        "meta": {},
    })
}
