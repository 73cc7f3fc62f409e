//! A Codex app-server and a client for tests, which sends requests over a WebSocket on a unix socket.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::background::Background;
use crate::home::TestHome;
use crate::wait::until_seen;

const DEADLINE: Duration = Duration::from_mins(3);

/// A running app-server with a connected client.
pub struct AppServer {
    /// When dropped, it is killed together with every process that it has started.
    pub process: Background,
    stream: UnixStream,
    socket: PathBuf,
    asked: u64,
}

impl Drop for AppServer {
    fn drop(&mut self) {
        // The socket is a link into a directory of the agent outside the home, where a killed server leaves it.
        if let Ok(outside) = std::fs::read_link(&self.socket) {
            let mut lock = outside.clone().into_os_string();
            lock.push(".lock");
            let _ = std::fs::remove_file(outside);
            let _ = std::fs::remove_file(lock);
        }
    }
}

impl AppServer {
    pub(super) fn start(home: &TestHome, native: &Path) -> Self {
        let socket: PathBuf = home.path().join("app-server.sock");
        let mut command = home.command(native);
        command.args(["app-server", "--listen", &format!("unix://{}", socket.display())]);
        let mut process = Background::spawn(home, command);
        let stream = until_seen(DEADLINE, "the app-server's socket", || {
            assert!(process.try_wait().is_none(), "the app-server ended: {}", process.stderr());
            UnixStream::connect(&socket).map_err(|error| format!("{error}; stderr: {}", process.stderr()))
        });
        stream.set_read_timeout(Some(DEADLINE)).expect("bound the reads");
        let mut server = Self { process, stream, socket, asked: 0 };
        server.greet();
        server
    }

    fn greet(&mut self) {
        let greeting = "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
            Sec-WebSocket-Key: dGVzdGtpdC10ZXN0a2l0IQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
        self.stream.write_all(greeting.as_bytes()).expect("greet the app-server");
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).expect("be greeted by the app-server");
            answer.extend(byte);
        }
        let client = json!({"name": "testkit", "title": null, "version": "0"});
        let capabilities = json!({"experimentalApi": true});
        self.call("initialize", &json!({"clientInfo": client, "capabilities": capabilities}));
        self.send(&json!({"method": "initialized"}));
    }

    /// Sends a request and returns its result. Notifications and requests of the server are ignored.
    #[track_caller]
    pub fn call(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        self.send(&json!({"id": id, "method": method, "params": params}));
        loop {
            let message = self.receive();
            if message["id"] == id && message["method"].is_null() {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
        }
    }

    fn send(&mut self, message: &Value) {
        let text = message.to_string();
        let length = u16::try_from(text.len()).expect("a short request").to_be_bytes();
        let frame = [&[0x81, 0xfe], &length[..], &[0; 4], text.as_bytes()].concat();
        self.stream.write_all(&frame).expect("ask the app-server");
    }

    fn receive(&mut self) -> Value {
        let [_, length] = self.take::<2>();
        let length = match length {
            126 => u64::from(u16::from_be_bytes(self.take())),
            127 => u64::from_be_bytes(self.take()),
            short => u64::from(short),
        };
        let mut text = vec![0; usize::try_from(length).expect("a message that fits")];
        self.stream.read_exact(&mut text).expect("read from the app-server");
        serde_json::from_slice(&text).unwrap_or(Value::Null)
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut taken = [0; N];
        self.stream.read_exact(&mut taken).expect("read from the app-server");
        taken
    }
}
