//! The real gateway in a [`TestHome`], on loopback, with a fake model.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::rpc::Rpc;
use crate::agents;
use crate::background::Background;
use crate::home::TestHome;
use crate::skip::Skip;
use crate::wait::until_seen;

/// Starting takes 10 s on an idle machine and a minute on a busy one.
const START: Duration = Duration::from_mins(4);
/// The agent that asks for approval before each command.
pub const CAREFUL: &str = "careful";
const TOKEN: &str = "gateway-token-of-the-test";
const HOOK_TOKEN: &str = "hook-token-of-the-test";

/// OpenClaw, set up in one home. Its config file is where its own command line looks for it.
pub struct OpenClaw {
    node: PathBuf,
    script: PathBuf,
    port: u16,
}

impl OpenClaw {
    pub fn settle(home: &mut TestHome, model_url: &str) -> Result<Self, Skip> {
        let installed = agents::install("openclaw")?;
        let node =
            agents::own_node(&installed).ok_or_else(|| Skip("OpenClaw's Node was not installed".into()))?;
        let script = installed.join("node_modules/openclaw/openclaw.mjs");
        let port = crate::nats::free_port();
        for switch in ["OPENCLAW_NO_AUTO_UPDATE", "DO_NOT_TRACK", "OPENCLAW_DISABLE_BONJOUR"] {
            home.set_env(switch, "1");
        }
        let workspace = home.work_dir("openclaw");
        let config = json!({
            "gateway": {"mode": "local", "port": port, "bind": "loopback", "controlUi": {"enabled": false},
                "auth": {"mode": "token", "token": TOKEN}},
            "hooks": {"enabled": true, "token": HOOK_TOKEN, "path": "/hooks"},
            "update": {"checkOnStart": false}, "telemetry": {"enabled": false},
            "discovery": {"mdns": {"mode": "off"}},
            "models": {"mode": "replace", "catalogRefresh": {"enabled": false}, "providers": {"fake": {
                "baseUrl": format!("{model_url}/v1"), "apiKey": "x", "api": "openai-completions",
                "models": [{"id": "fake-1", "name": "Fake", "reasoning": false, "input": ["text"],
                    "cost": {"input": 1, "output": 2, "cacheRead": 0.1, "cacheWrite": 0},
                    "contextWindow": 128_000, "maxTokens": 8000}]}}},
            "agents": {
                "defaults": {"workspace": workspace, "model": {"primary": "fake/fake-1"}, "heartbeat": {"every": "0m"}},
                "entries": {"main": {"default": true}, (CAREFUL): {"tools": {"exec": {"mode": "ask"}}}},
            },
        });
        let folder = home.path().join(".openclaw");
        let written = fs::create_dir_all(&folder)
            .and_then(|()| fs::write(folder.join("openclaw.json"), config.to_string()));
        written.expect("write OpenClaw's config");
        Ok(Self { node, script, port })
    }

    /// Starts the gateway, and returns when it answers requests.
    pub fn start(&self, home: &TestHome) -> Background {
        let mut command = home.command(&self.node);
        command.arg(&self.script).args(["gateway", "run"]);
        let mut gateway = Background::spawn(home, command);
        until_seen(START, "the gateway", || {
            if let Some(ended) = gateway.try_wait() {
                panic!("the gateway ended: {ended}\n{}\n{}", gateway.stdout(), gateway.stderr());
            }
            let ready = self.http("GET", "/readyz", "").is_some_and(|body| body.contains(r#""ready":true"#));
            if ready { Ok(()) } else { Err(gateway.stdout()) }
        });
        gateway
    }

    pub fn url(&self) -> String {
        format!("ws://127.0.0.1:{}", self.port)
    }

    pub fn token(&self) -> &'static str {
        TOKEN
    }

    pub fn rpc(&self, capabilities: &[&str]) -> Rpc {
        Rpc::connect(self.port, TOKEN, capabilities).expect("a connection to the gateway")
    }

    /// Posts to its hook for agents; the answer contains the id of the run.
    pub fn post_hook(&self, message: &str) -> Value {
        let body =
            self.http("POST", "/hooks/agent", &json!({"message": message, "deliver": false}).to_string());
        let body = body.expect("an answer of the hook");
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"))
    }

    fn http(&self, method: &str, path: &str, body: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_mins(1))).ok()?;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {HOOK_TOKEN}\r\n\
            Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.port,
            body.len()
        );
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
    }
}
