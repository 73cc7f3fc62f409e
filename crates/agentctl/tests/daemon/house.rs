//! A home with a daemon in it, and a simple client for its socket.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use agentctl_testkit::{Background, Output, TestHome, until, until_seen};
use serde_json::Value;

pub(crate) const SOON: Duration = Duration::from_mins(1);

/// Becomes the program that its arguments name, for which there is no `pidfd_open` from then on. A filter of four steps: the
/// number of the call, whether it is 434, ENOSYS if so, and leave if not.
#[cfg(target_os = "linux")]
const WITHOUT_PIDFD_OPEN: &str = "import ctypes,os,struct,sys\n\
    libc=ctypes.CDLL(None)\n\
    steps=[(0x20,0,0,0),(0x15,0,1,434),(0x06,0,0,0x50026),(0x06,0,0,0x7fff0000)]\n\
    steps=ctypes.create_string_buffer(b''.join(struct.pack('HBBI',*step) for step in steps))\n\
    program=ctypes.create_string_buffer(struct.pack('HxxxxxxQ',4,ctypes.addressof(steps)))\n\
    zero=ctypes.c_ulong(0)\n\
    if libc.prctl(38,ctypes.c_ulong(1),zero,zero,zero): sys.exit(98)\n\
    if libc.prctl(22,ctypes.c_ulong(2),ctypes.byref(program),zero,zero): sys.exit(99)\n\
    os.execv(sys.argv[1],sys.argv[1:])\n";

pub(crate) struct House {
    pub(crate) home: TestHome,
}

/// What came back over HTTP.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl House {
    pub(crate) fn new() -> Self {
        Self { home: TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl")) }
    }

    /// With five recorded sessions of Claude Code.
    pub(crate) fn furnished() -> Self {
        let house = Self::new();
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/home"), &house.home.path());
        house
    }

    /// Sets OpenClaw up, with its gateway at this port.
    pub(crate) fn has_gateway(&self, port: u16) {
        let folder = self.home.path().join(".openclaw");
        fs::create_dir_all(&folder).unwrap();
        let settings = format!("{{gateway: {{port: {port}, auth: {{token: 'secret-word'}}}}}}");
        fs::write(folder.join("openclaw.json"), settings).unwrap();
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.home.agentctl_home().join("agentctl.sock")
    }

    /// Runs the daemon in the foreground and waits until it serves.
    pub(crate) fn daemon(&self, arguments: &[&str]) -> Background {
        self.daemon_with(arguments, &[])
    }

    pub(crate) fn daemon_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Background {
        let mut command = self.home.agentctl_command(&[&["daemon", "run"], arguments].concat());
        command.envs(variables.iter().copied());
        self.serving(command)
    }

    /// The same with a hard limit of this many descriptors.
    pub(crate) fn daemon_under(&self, descriptors: u64, arguments: &[&str]) -> Background {
        self.limited(&format!("ulimit -n {descriptors}"), arguments)
    }

    /// The same with a soft limit of this many descriptors.
    pub(crate) fn daemon_under_soft(&self, descriptors: u64, arguments: &[&str]) -> Background {
        self.limited(&format!("ulimit -S -n {descriptors}"), arguments)
    }

    /// The same where the kernel refuses `pidfd_open`; `None` where that cannot be arranged.
    #[cfg(target_os = "linux")]
    pub(crate) fn daemon_without_pidfd_open(&self) -> Option<Background> {
        let refused = |program: &str| {
            let mut command = self.home.command("python3");
            command.args(["-c", WITHOUT_PIDFD_OPEN, program]);
            command
        };
        if !refused("/bin/true").status().is_ok_and(|status| status.success()) {
            return None;
        }
        let mut command = refused(env!("CARGO_BIN_EXE_agentctl"));
        command.args(["daemon", "run"]);
        Some(self.serving(command))
    }

    /// The same where the kernel grants hardly any of these of inotify, in a user namespace of its own; `None` where that
    /// cannot be arranged.
    #[cfg(target_os = "linux")]
    pub(crate) fn daemon_with_few_inotify(&self, what: &str) -> Option<Background> {
        let limit = format!("/proc/sys/user/max_inotify_{what}");
        let few = if what == "watches" { 2 } else { 0 };
        let limited = |program: &str| {
            let line = format!("echo {few} > {limit} && exec \"$0\" \"$@\"");
            let mut command = self.home.command("unshare");
            command.args(["--user", "--map-root-user", "sh", "-c", &line, program]);
            command
        };
        if !limited("true").status().is_ok_and(|status| status.success()) {
            return None;
        }
        let mut command = limited(env!("CARGO_BIN_EXE_agentctl"));
        command.args(["daemon", "run"]);
        Some(self.serving(command))
    }

    /// The same of another program.
    pub(crate) fn daemon_of(&self, program: &Path) -> Background {
        let mut command = self.home.command(program);
        command.args(["daemon", "run"]);
        self.serving(command)
    }

    fn limited(&self, limit: &str, arguments: &[&str]) -> Background {
        let mut command = self.home.command("sh");
        let line = format!("{limit} && exec \"$0\" daemon run \"$@\"");
        command.args(["-c", &line, env!("CARGO_BIN_EXE_agentctl")]).args(arguments);
        self.serving(command)
    }

    pub(crate) fn serving(&self, command: Command) -> Background {
        let mut daemon = Background::spawn(&self.home, command);
        until_seen(SOON, "the daemon to serve", || {
            if let Some(ended) = daemon.try_wait() {
                panic!("the daemon ended with {ended}: {}", daemon.stderr());
            }
            match self.try_get("/v1/daemon") {
                Some(reply) if reply.status == 200 && reply.json()["pid"] == daemon.pid() => Ok(()),
                other => Err(format!("{other:?} {}", daemon.stderr())),
            }
        });
        daemon
    }

    /// Runs a command that may use the daemon.
    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.home.agentctl_command(arguments);
        command.env_remove("AGENTCTL_NO_DAEMON");
        self.home.run(command)
    }

    pub(crate) fn try_get(&self, target: &str) -> Option<Reply> {
        self.try_send(&format!("GET {target} HTTP/1.1\r\nHost: agentctl\r\nConnection: close\r\n\r\n"))
    }

    #[track_caller]
    pub(crate) fn get(&self, target: &str) -> Reply {
        self.try_get(target).expect("the daemon answers")
    }

    #[track_caller]
    pub(crate) fn send(&self, request: &str) -> Reply {
        self.try_send(request).expect("the daemon answers")
    }

    #[track_caller]
    pub(crate) fn write(&self, method: &str, target: &str, body: &str) -> Reply {
        self.try_write(method, target, body).expect("the daemon answers")
    }

    pub(crate) fn try_write(&self, method: &str, target: &str, body: &str) -> Option<Reply> {
        self.try_send(&format!(
            "{method} {target} HTTP/1.1\r\nHost: agentctl\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ))
    }

    fn try_send(&self, request: &str) -> Option<Reply> {
        let mut stream = UnixStream::connect(self.socket()).ok()?;
        stream.set_read_timeout(Some(SOON)).ok()?;
        exchange(&mut stream, request)
    }

    /// How many requests the daemon has had, this one not counted.
    pub(crate) fn requests(&self) -> u64 {
        self.get("/v1/daemon").json()["requests"].as_u64().unwrap() - 1
    }

    /// Waits until the daemon knows what is live: every later change is an event.
    pub(crate) fn settled(&self) {
        let looks = || self.get("/v1/daemon").json()["looks"].as_u64().unwrap();
        until(SOON, "the daemon's first look", || (looks() > 0).then_some(()));
    }
}

/// One request and its response, on any connection that is closed afterwards.
pub(crate) fn exchange(stream: &mut (impl Read + Write), request: &str) -> Option<Reply> {
    stream.write_all(request.as_bytes()).ok()?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    Some(Reply { status, head: head.to_lowercase(), body: body.to_owned() })
}

/// Removes what may differ between two surveys: when they were made, and how long they took.
pub(crate) fn forget_moments(value: &mut Value) {
    match value {
        Value::Object(object) => {
            for key in ["asOf", "tookMs"] {
                object.remove(key);
            }
            if let Some(Value::Array(evidence)) = object.get_mut("evidence") {
                for one in evidence {
                    one["at"] = Value::Null;
                }
            }
            object.values_mut().for_each(forget_moments);
        }
        Value::Array(array) => array.iter_mut().for_each(forget_moments),
        _ => {}
    }
}

/// Every recorded home: the one of this crate, and those of all agents.
pub(crate) fn recorded_homes() -> Vec<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut homes = vec![here.join("tests/fixtures/home")];
    let folders = |path: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
        folders.sort();
        folders
    };
    for agent in folders(&here.join("../../tests/recorded")) {
        // These hold recorded protocols, not homes.
        if !matches!(agent.file_name().and_then(|name| name.to_str()), Some("acp" | "holding" | "openclaw")) {
            homes.extend(folders(&agent));
        }
    }
    homes
}

pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            copy(&entry.path(), &target);
        } else if kind.is_file() {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
