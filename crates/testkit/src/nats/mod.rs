//! A real nats-server on loopback, in a pinned version, with a configuration of the test's own.

mod responders;
mod wire;

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub use self::responders::{Liar, Responder, Script, respond};
pub use self::wire::{RawMessage, RawNats};
use crate::home::TestHome;
use crate::skip::Skip;
use crate::tools;
use crate::wait::until;

const PATIENCE: Duration = Duration::from_mins(1);

/// A server that runs. It is killed when this value is dropped.
pub struct NatsServer {
    program: PathBuf,
    config: PathBuf,
    log: PathBuf,
    pub port: u16,
    child: Option<Child>,
}

impl NatsServer {
    /// Starts a server with this configuration, without its port and the place of its streams.
    pub fn start(home: &TestHome, config: &str) -> Result<Self, Skip> {
        Self::start_as(home, "nats", config)
    }

    /// The same for one of several servers.
    pub fn start_as(home: &TestHome, name: &str, config: &str) -> Result<Self, Skip> {
        Self::start_at(home, name, "127.0.0.1", config)
    }

    /// The same for one that listens at this address, inside a network that the test made.
    pub fn start_at(home: &TestHome, name: &str, address: &str, config: &str) -> Result<Self, Skip> {
        let program = tools::nats_server()?;
        let folder = home.work_dir(name);
        let port = free_port();
        let streams = folder.join("streams");
        let text = format!(
            "listen: \"{address}:{port}\"\njetstream {{ store_dir: {:?} }}\n{config}\n",
            streams.display().to_string()
        );
        let path = folder.join("server.conf");
        fs::write(&path, text).expect("write the configuration of nats-server");
        let mut server = Self { program, config: path, log: folder.join("log"), port, child: None };
        server.resume();
        Ok(server)
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Starts it again after [`kill`](Self::kill), at the same address and with the same streams.
    pub fn resume(&mut self) {
        let mut command = Command::new(&self.program);
        command.arg("-c").arg(&self.config).arg("-l").arg(&self.log);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.child = Some(child.expect("start nats-server"));
        let port = self.port;
        until(PATIENCE, "nats-server to listen", || TcpStream::connect(("127.0.0.1", port)).ok());
    }

    /// Kills it at once, as a power cut would.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A port of loopback that nobody has just now. Where there are enough of them it is none of those that the kernel gives away
/// by itself, so that nobody gets it by chance before it is bound, or while whoever has it starts again.
pub fn free_port() -> u16 {
    const LOWEST: u32 = 20_000;
    let given_away = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let first: u32 = given_away.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(0);
    let any = || {
        if first < LOWEST + 1_000 {
            return 0;
        }
        let random =
            u32::from_str_radix(&crate::new_uuid()[..8], 16).expect("a uuid begins with eight digits");
        u16::try_from(LOWEST + random % (first - LOWEST)).expect("a port")
    };
    let bound = (0..1_000).find_map(|_| TcpListener::bind(("127.0.0.1", any())).ok());
    bound.expect("bind a port").local_addr().expect("a local address").port()
}
