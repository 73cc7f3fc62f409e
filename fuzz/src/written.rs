//! Seeds for what people and programs write to agentctl itself.

use std::path::Path;

use serde_json::{Value, json};

use crate::seeds::{below, conversation, recorded, shortened, texts};

/// The code blocks of a kind in the documentation.
fn blocks(kind: &str) -> Vec<Vec<u8>> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let mut all = Vec::new();
    for path in below(&docs).into_iter().filter(|path| path.extension().is_some_and(|end| end == "md")) {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        for block in text.split("```").skip(1).step_by(2) {
            if let Some(block) = block.strip_prefix(kind) {
                all.push(shortened(block.trim_start_matches('\n').as_bytes()));
            }
        }
    }
    all
}

pub fn config() -> Vec<Vec<u8>> {
    let mut all = blocks("toml");
    all.extend(texts(&[
        "adapter = \"acp:goose\"\nhttp = \"127.0.0.1:7788\"\n[acp.goose]\ncommand = [\"~/bin/goose\", \"acp\"]\nenv = {A = \"b\"}\ntimeout = \"5s\"\n",
        "[[adapters.openclaw.gateways]]\nurl = \"ws://box.local\"\ntoken = \"t\"\n[adapters.codex]\nroots = [\"~/x\"]\ntimeout = \"2s\"\n",
        "[hosts.box]\nssh = \"dev@box\"\n[retention]\nlaunches = \"7d\"\n[prices.\"m\"]\ninput = 1.5\n[webhook]\nurl = \"http://x\"\nevents = [\"session.idle\"]\n",
        "model = 3\nmodle = \"x\"\n[notify]\ncommand = 1\n[nats]\nurl = \"nats://x\"\nserve = \"act\"\n",
    ]));
    all
}

pub fn matrix() -> Vec<Vec<u8>> {
    let mut all = blocks("yaml");
    all.extend(texts(&[
        "prompt: Do it\nmatrix:\n  - adapter: [codex, opencode]\n    model: [a, b]\n  - {adapter: pi, branch: mine}\n",
        "prompt: |\n  two\n  lines\ncwd: /w\nbase_branch: main\nmatrix:\n- adapter: &a codex\n- adapter: *a\n",
        "a: &a [x, x, x]\nb: &b [*a, *a, *a]\nmatrix: [*b, *b]\n",
    ]));
    all
}

pub fn template() -> Vec<Vec<u8>> {
    texts(&[
        "{{.id}}\\t{{.prompt | truncate 40 | upper}}",
        "table {{.id}}\\t{{.status}}\\t{{.tokens.in}}",
        "json",
        "{{json .}}",
        "{{join .owners \", \"}} {{lower \"X\\n\"}}",
    ])
}

pub fn rpc() -> Vec<Vec<u8>> {
    let mut all = texts(&[
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#,
        r#"{"jsonrpc":"2.0","id":"a","error":{"code":-32601,"message":"no"}}"#,
        r#"{"jsonrpc":"2.0","id":1.5,"result":null}"#,
        r#"[{"id":1}]"#,
    ]);
    for path in below(&recorded().join("acp")).into_iter().take(4) {
        all.extend(conversation(&path, ">").split(|byte| *byte == b'\n').take(20).map(<[u8]>::to_vec));
    }
    all
}

pub fn cursor() -> Vec<Vec<u8>> {
    texts(&["life-2", "life-18446744073709551614", "other-3", "hosts-eyJib3giOiJsaWZlLTMifQ", "hosts-", "-1"])
}

pub fn queries() -> Vec<Vec<u8>> {
    texts(&[
        "all=true&since=7d&limit=3&adapter=codex&adapter=pi&status=waiting&sort=tokens&cwd=%2Fhome%2Fd%C3%A9v",
        "q=word&regex=1&role=user&around=2&limit=5",
        "since=life-3&type=session.idle&snapshot=1&adapter=acp:goose",
        "all-agents&tree=0&usage=false&group=g%201&since=2026-11-15T07:00:00Z",
        "host=all&host=local&strict",
        "since=2h+5m&until=now&by=model&zone=Europe/Berlin&period=day",
    ])
}

/// The examples of the API document, and what stands in its schemas.
pub fn bodies(document: &Value) -> Vec<Vec<u8>> {
    let mut all = vec![b"{}".to_vec(), Vec::new()];
    examples(document, &mut all);
    let more = [
        json!({"adapter": "codex", "prompt": "x", "cwd": "/w", "model": "m", "permission": "default", "hold": true, "env": {"A": "b"}, "worktree": {"branch": "b"}}),
        json!({"slots": [{"adapter": "codex"}, {"adapter": "pi", "model": "m"}], "prompt": "x", "cwd": "/w"}),
        json!({"session": "s", "maxTime": "2h", "maxTokens": 5, "maxCost": 1.5, "onExpire": "stop"}),
        json!({"directory": "/w", "ttl": "10m", "label": "l"}),
        json!({"message": "hi", "queue": true}),
        json!({"request": "r", "decision": "allow", "text": "yes"}),
        json!({"sources": [{"adapter": "codex", "root": "/r", "store": null, "timeoutMs": 5}]}),
        json!({"a": "\u{0}"}),
    ];
    all.extend(more.iter().map(|body| body.to_string().into_bytes()));
    all
}

fn examples(value: &Value, all: &mut Vec<Vec<u8>>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                if key == "example" || key == "value" {
                    all.push(value.to_string().into_bytes());
                }
                examples(value, all);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| examples(value, all)),
        _ => {}
    }
}

pub fn roads() -> Vec<Vec<u8>> {
    texts(&[
        "Welcome!\nagentctl-stdio/1 {\"version\":\"0.1.0\",\"host\":\"box\",\"instance\":\"ab\",\"caller\":\"{}\"}\nHTTP/1.1 200 OK",
        "{\"road\":1,\"method\":\"GET\",\"target\":\"/v1/sessions\",\"accept\":\"application/json\",\"cursor\":\"a-1\"}\nbody",
        "{\"road\":1,\"status\":200,\"version\":\"0.1.0\",\"instance\":\"i\",\"part\":0,\"bytes\":2,\"more\":\"x\"}\nok",
        "{\"road\":1,\"answer\":\"x\",\"part\":2}\n",
    ])
}
