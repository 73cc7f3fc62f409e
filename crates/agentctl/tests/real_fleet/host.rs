//! One machine: its home, its daemon, its own small disk, and an sshd if it is asked over ssh.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use agentctl_testkit::{Background, Near, Signal, TestHome, tools, until};
use serde_json::json;

use crate::house::exchange;
use crate::network::Network;
use crate::stand_in::StandIn;

pub(crate) const PATIENCE: Duration = Duration::from_mins(2);
/// How long a daemon may take for what it is asked on its own machine.
const OWN: Duration = Duration::from_secs(30);
pub(crate) const SSH_PORT: u16 = 2222;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Road {
    Ssh,
    Nats,
}

pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) road: Road,
    pub(crate) network: Network,
    pub(crate) home: TestHome,
    /// How its program answers over ssh; empty: as it should.
    mode: PathBuf,
    daemon: Option<Background>,
    // Ends sshd.
    _sshd: Option<Background>,
    /// The folders that were locked there, in order.
    pub(crate) deeds: Vec<String>,
    /// An agent at work, whatever happens to the machine around it.
    pub(crate) agent: Agent,
}

/// A live agent, and whether it is in a turn.
pub(crate) struct Agent {
    process: StandIn,
    is_busy: bool,
}

impl Agent {
    fn start(home: &TestHome) -> Self {
        Self { process: StandIn::start(home), is_busy: true }
    }

    pub(crate) fn id(&self) -> &str {
        &self.process.id
    }

    /// Ends its turn, or begins one.
    pub(crate) fn turns(&mut self) {
        self.is_busy = !self.is_busy;
        if self.is_busy { self.process.begin() } else { self.process.finish() }
    }

    pub(crate) fn status(&self) -> &'static str {
        if self.is_busy { "running" } else { "idle" }
    }
}

/// The stopped sessions that each machine has.
pub(crate) const SESSIONS: usize = 2;

impl Host {
    pub(crate) fn make(number: usize, name: &str, road: Road, near: &Near) -> Self {
        let home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
        let network = Network::make(number);
        // A disk of its own, which can be full.
        let own = home.agentctl_home();
        fs::create_dir_all(&own).unwrap();
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=2m,mode=700", "tmpfs"]).arg(&own).status();
        assert!(mounted.unwrap().success());
        for session in 0..SESSIONS {
            transcript(&home, &format!("{number:08}-0000-4000-8000-{session:012}"));
        }
        let mode = home.work_dir("machine").join("mode");
        let sshd = (road == Road::Ssh).then(|| sshd(name, &network, near));
        let agent = Agent::start(&home);
        Self {
            name: name.to_owned(),
            road,
            network,
            home,
            mode,
            daemon: None,
            _sshd: sshd,
            deeds: Vec::new(),
            agent,
        }
    }

    /// agentctl there, as sshd starts it. It answers as the file of its mode says.
    pub(crate) fn program(&self, near: &Near) -> PathBuf {
        let greeting = r#"agentctl-stdio/1 {"version":"0.1.0","host":"x","instance":"y","caller":null}"#;
        let ok = "HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\n";
        let first = format!(
            "case \"$(cat '{}' 2>/dev/null)\" in\n\
             never) exec cat > /dev/null;;\n\
             garbage) head -c 100000 /dev/urandom; exec cat > /dev/null;;\n\
             half) echo '{greeting}'; read line; printf '{ok}Content-Length: 9000\\r\\n\\r\\n{{\"asOf\": '; exit;;\n\
             huge) echo '{greeting}'; read line; printf '{ok}Content-Length: 52428800\\r\\n\\r\\n'\n\
             head -c 52428800 /dev/zero; exec cat > /dev/null;;\n\
             esac",
            self.mode.display()
        );
        near.program_with(&self.home, &format!("agentctl-{}", self.name), &first)
    }

    pub(crate) fn answers(&self, mode: Option<&str>) {
        match mode {
            Some(mode) => fs::write(&self.mode, mode).unwrap(),
            None => fs::remove_file(&self.mode).unwrap(),
        }
    }

    pub(crate) fn configure(&self, text: &str) {
        fs::write(self.home.agentctl_home().join("config.toml"), text).unwrap();
    }

    /// Starts its daemon, with a clock that is so far ahead.
    pub(crate) fn start(&mut self, ahead: Option<&str>) {
        let mut command = self.home.agentctl_command(&["daemon", "run"]);
        if let Some(ahead) = ahead {
            let library = tools::faketime().expect("it was unpacked before");
            command
                .env("LD_PRELOAD", library)
                .env("FAKETIME", ahead)
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        self.daemon = Some(Background::spawn(&self.home, self.network.inside(&command)));
        until(PATIENCE, "the daemon to serve", || {
            self.asked("GET", "/healthz", "").filter(|reply| *reply == 200)
        });
    }

    /// Kills its daemon, as a power cut would.
    pub(crate) fn kill(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.signal(Signal::KILL);
            daemon.wait(PATIENCE);
        }
    }

    /// Kills what serves it over ssh, and not its daemon.
    pub(crate) fn kill_streams(&self) {
        let serving = self.home.processes().into_iter().filter(|(_, line)| line.contains("__serve-stdio"));
        serving.for_each(|(pid, _)| self.home.signal(pid, Signal::KILL));
    }

    /// The status of an answer of its daemon, asked on the machine itself.
    fn asked(&self, method: &str, target: &str, body: &str) -> Option<u16> {
        let mut stream = UnixStream::connect(self.home.agentctl_home().join("agentctl.sock")).ok()?;
        stream.set_read_timeout(Some(OWN)).ok()?;
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: agentctl\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        exchange(&mut stream, &request).map(|reply| reply.status)
    }

    /// Locks a new folder there; whether it was done. It stays locked: what is gone before anybody looks is no event.
    pub(crate) fn deed(&mut self) -> bool {
        let folder = self.home.work_dir("deeds").join(self.deeds.len().to_string());
        fs::create_dir_all(&folder).unwrap();
        let folder = folder.display().to_string();
        let locked = self.asked("POST", "/v1/locks", &json!({"directory": folder}).to_string());
        if locked == Some(200) {
            self.deeds.push(folder);
        }
        locked == Some(200)
    }

    /// Fills its disk.
    pub(crate) fn fill(&self) {
        let full = fs::write(self.filler(), vec![0; 4 << 20]);
        assert!(full.is_err(), "the disk is larger than that");
    }

    pub(crate) fn empty(&self) {
        fs::remove_file(self.filler()).unwrap();
    }

    fn filler(&self) -> PathBuf {
        self.home.agentctl_home().join("filler")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.network.signal(Signal::KILL);
        let _ = Command::new("umount").arg("-l").arg(self.home.agentctl_home()).status();
    }
}

/// A stopped session of Claude Code with one message.
fn transcript(home: &TestHome, id: &str) {
    let folder = home.path().join(".claude/projects/-w");
    fs::create_dir_all(&folder).unwrap();
    let line = json!({
        "type": "user", "uuid": "11111111-1111-4111-8111-111111111111", "parentUuid": null, "sessionId": id,
        "timestamp": "2026-11-15T10:00:00.000Z", "cwd": "/w", "version": "2.0.0",
        "message": {"role": "user", "content": "hello"},
    });
    fs::write(folder.join(format!("{id}.jsonl")), format!("{line}\n")).unwrap();
}

/// An sshd of the machine's own, which the home that asks knows.
fn sshd(name: &str, network: &Network, near: &Near) -> Background {
    let folder = near.home.work_dir("ssh");
    let at = |name: &str| folder.join(name).display().to_string();
    let address = network.address();
    let config = format!(
        "Port {SSH_PORT}\nListenAddress {address}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\n\
         StrictModes no\nMaxSessions 64\nMaxStartups 64\nUsePAM no\nPasswordAuthentication no\n",
        at("host"),
        at("authorized")
    );
    let path = folder.join(format!("sshd_config-{name}"));
    fs::write(&path, config).unwrap();
    let mut command = near.home.command("/usr/sbin/sshd");
    command.args(["-D", "-e", "-f"]).arg(&path);
    let sshd = Background::spawn(&near.home, network.inside(&command));
    let known = fs::read_to_string(folder.join("known")).unwrap();
    let key = fs::read_to_string(folder.join("host.pub")).unwrap();
    fs::write(folder.join("known"), format!("{known}\n[{address}]:{SSH_PORT} {key}")).unwrap();
    let text = fs::read_to_string(folder.join("config")).unwrap();
    fs::write(folder.join("config"), format!("Host {name}\n  HostName {address}\n  Port {SSH_PORT}\n{text}"))
        .unwrap();
    fs::set_permissions(folder.join("config"), fs::Permissions::from_mode(0o600)).unwrap();
    until(PATIENCE, "sshd to listen", || std::net::TcpStream::connect((address.as_str(), SSH_PORT)).ok());
    sshd
}
