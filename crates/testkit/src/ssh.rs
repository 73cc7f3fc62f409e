//! A real sshd on loopback, and a home that asks other machines over it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::{Background, TestHome, skip, until};

const PATIENCE: Duration = Duration::from_mins(2);
const SSHD: &str = "/usr/sbin/sshd";

/// An sshd of its own on loopback, and a home that asks it.
pub struct Near {
    pub home: TestHome,
    pub port: u16,
    program: PathBuf,
    /// Ends with it.
    sshd: Background,
}

impl Near {
    /// With this agentctl on all machines. `None`, with a printed reason, where there is no sshd.
    pub fn set(agentctl: impl Into<PathBuf>) -> Option<Self> {
        if !Path::new(SSHD).exists() {
            skip("openssh-server is not installed");
            return None;
        }
        let program = agentctl.into();
        let home = TestHome::with_agentctl(&program);
        let folder = home.work_dir("ssh");
        for key in ["host", "other-host", "user", "stranger"] {
            let mut keygen = home.command("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(folder.join(key));
            let _ = home.run(keygen).ok();
        }
        fs::copy(folder.join("user.pub"), folder.join("authorized")).unwrap();
        // sshd wants this folder when root starts it.
        if rustix::process::geteuid().is_root() {
            fs::create_dir_all("/run/sshd").unwrap();
        }
        let port = crate::nats::free_port();
        let at = |name: &str| folder.join(name).display().to_string();
        let sshd = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\n\
             StrictModes no\nMaxSessions 64\nMaxStartups 64\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n",
            at("host"),
            at("authorized")
        );
        fs::write(folder.join("sshd_config"), sshd).unwrap();
        let mut command = home.command(SSHD);
        command.args(["-D", "-e", "-f"]).arg(folder.join("sshd_config"));
        let sshd = Background::spawn(&home, command);
        until(PATIENCE, "sshd to listen", || TcpStream::connect(("127.0.0.1", port)).ok());

        let near = Self { home, port, program, sshd };
        let host_key = fs::read_to_string(folder.join("host.pub")).unwrap();
        fs::write(folder.join("known"), format!("[127.0.0.1]:{port} {host_key}")).unwrap();
        // ssh takes the home folder of the user from the system, so its config is named.
        let config = format!(
            "Host *\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {}\n  IdentitiesOnly yes\n  \
             UserKnownHostsFile {}\n  GlobalKnownHostsFile none\n",
            at("user"),
            at("known")
        );
        fs::write(folder.join("config"), config).unwrap();
        let ssh = near.script("ssh", &format!("exec /usr/bin/ssh -F '{}' \"$@\"", at("config")));
        near.home.put_on_path("ssh", &ssh);
        Some(near)
    }

    /// The home for a scene that wants it for itself, and what keeps sshd running.
    pub fn split(self) -> (TestHome, Background) {
        (self.home, self.sshd)
    }

    pub fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.home.work_dir("scripts").join(name);
        fs::write(&path, format!("#!/bin/bash\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// agentctl of another machine: what sshd starts has the home of that one.
    pub fn program_of(&self, far: &TestHome, name: &str) -> PathBuf {
        self.program_with(far, name, "")
    }

    /// The same, with these lines of the shell before it.
    pub fn program_with(&self, far: &TestHome, name: &str, first: &str) -> PathBuf {
        let variables = far.run(far.command("env")).ok().stdout;
        let exports = variables.lines().filter_map(|line| line.split_once('='));
        let exports: Vec<String> = exports.map(|(name, value)| format!("export {name}='{value}'")).collect();
        let program = self.program.display();
        self.script(name, &format!("{}\n{first}\nexec '{program}' \"$@\"", exports.join("\n")))
    }

    pub fn configure(&self, text: &str) {
        fs::create_dir_all(self.home.agentctl_home()).unwrap();
        fs::write(self.home.agentctl_home().join("config.toml"), text).unwrap();
    }

    pub fn configure_program(&self, program: &Path, timeout: &str) {
        let program = program.display();
        self.configure(&format!(
            "[hosts.box]\nssh = \"box\"\nprogram = \"{program}\"\ntimeout = \"{timeout}\"\n"
        ));
    }

    /// The rows of other machines; that of this one comes first.
    pub fn rows(&self) -> Value {
        let mut answer = self.home.agentctl(&["hosts", "--json"]).ok().json();
        let rows = answer["hosts"].as_array_mut().unwrap();
        let own = rows.remove(0);
        assert_eq!((own["via"].as_str(), own["coverage"].as_str()), (Some("local"), Some("complete")));
        answer["hosts"].take()
    }

    /// The steps of `hosts check`: which went well, which failed, with words and a remedy.
    pub fn check(&self) -> (Vec<String>, Value) {
        let check = self.home.agentctl(&["hosts", "check", "box", "--json"]).json();
        let steps = check["steps"].as_array().unwrap();
        let passed = steps.iter().filter(|step| step["ok"] == true);
        let passed = passed.map(|step| step["step"].as_str().unwrap().to_owned()).collect();
        (passed, steps.iter().find(|step| step["ok"] == false).cloned().unwrap_or(Value::Null))
    }
}
