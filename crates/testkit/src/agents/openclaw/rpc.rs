//! A plain client with all scopes, for what the product does not do (cron jobs, hooks) and to check its answers.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::wire;

const TIMEOUT: Duration = Duration::from_mins(2);
const SCOPES: [&str; 5] =
    ["operator.read", "operator.write", "operator.admin", "operator.approvals", "operator.pairing"];

/// A connection that is kept open.
pub struct Present {
    line: TcpStream,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Present {
    fn drop(&mut self) {
        let _ = self.line.shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// One connection to the gateway. It must not be inactive for long.
pub struct Rpc {
    stream: TcpStream,
    asked: u64,
}

impl Rpc {
    /// Connects with these capabilities, such as `exec-approvals`.
    pub fn connect(port: u16, token: &str, capabilities: &[&str]) -> anyhow::Result<Self> {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).context("connect")?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let upgrade = format!(
            "GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
            Sec-WebSocket-Key: dGVzdGtpdC1hc2tzLWl0IQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        );
        stream.write_all(upgrade.as_bytes())?;
        let head = wire::read_http_head(&mut stream)?;
        if !head.starts_with("HTTP/1.1 101") {
            bail!("no WebSocket: {head}");
        }
        let mut rpc = Self { stream, asked: 0 };
        rpc.receive()?;
        rpc.call(
            "connect",
            &json!({
                "minProtocol": 4, "maxProtocol": 4, "role": "operator", "scopes": SCOPES, "caps": capabilities,
                "client": {"id": "cli", "mode": "cli", "version": "0", "platform": "linux"},
                "auth": {"token": token},
            }),
        )?;
        Ok(rpc)
    }

    /// Returns the payload of the answer, or the gateway's own error.
    pub fn call(&mut self, method: &str, params: &Value) -> anyhow::Result<Value> {
        self.asked += 1;
        let id = self.asked.to_string();
        let request = json!({"type": "req", "id": id, "method": method, "params": params}).to_string();
        wire::write(&mut self.stream, wire::TEXT, request.as_bytes(), true)?;
        loop {
            let frame = self.receive()?;
            if frame["type"] == "res" && frame["id"] == id.as_str() {
                if frame["ok"] == true {
                    return Ok(frame["payload"].clone());
                }
                bail!("{method}: {}", frame["error"]);
            }
        }
    }

    /// Returns the text of the answer without parsing it, to measure the cost of the connection alone.
    pub fn call_unread(&mut self, method: &str, params: &Value) -> anyhow::Result<String> {
        self.asked += 1;
        let request =
            json!({"type": "req", "id": self.asked.to_string(), "method": method, "params": params});
        wire::write(&mut self.stream, wire::TEXT, request.to_string().as_bytes(), true)?;
        loop {
            match wire::read(&mut self.stream)? {
                (wire::TEXT, payload) => return Ok(String::from_utf8(payload)?),
                (wire::CLOSE, _) => bail!("{method}: closed"),
                _ => {}
            }
        }
    }

    /// Stays connected until dropped, as the client of a person does. The gateway drops a client that sends requests only now
    /// and then.
    pub fn stay(mut self) -> Present {
        let line = self.stream.try_clone().expect("share the connection");
        let thread = std::thread::spawn(move || while self.receive().is_ok() {});
        Present { line, thread: Some(thread) }
    }

    fn receive(&mut self) -> anyhow::Result<Value> {
        loop {
            let (kind, payload) = wire::read(&mut self.stream)?;
            match kind {
                wire::TEXT => return Ok(serde_json::from_slice(&payload)?),
                wire::CLOSE => {
                    bail!("closed: {}", String::from_utf8_lossy(payload.get(2..).unwrap_or_default()))
                }
                wire::PING => wire::write(&mut self.stream, 10, &payload, true)?,
                _ => {}
            }
        }
    }
}
