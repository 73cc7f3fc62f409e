//! The network of one machine: a namespace with one link, which can be cut.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use agentctl_testkit::{Signal, until};
use rustix::process::{Pid, kill_process};

const SOON: Duration = Duration::from_secs(20);

/// Runs a tool that must succeed.
#[track_caller]
fn done(program: &str, arguments: &[&str]) {
    let ended = Command::new(program).args(arguments).output().unwrap();
    assert!(ended.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&ended.stderr));
}

/// Makes loopback usable in the network that the test was started in.
pub(crate) fn begin() {
    done("ip", &["link", "set", "lo", "up"]);
}

pub(crate) struct Network {
    /// Keeps the namespace.
    holder: Child,
    number: usize,
    inode: u64,
}

impl Network {
    pub(crate) fn make(number: usize) -> Self {
        let own = fs::metadata("/proc/self/ns/net").unwrap().ino();
        let holder = Command::new("unshare")
            .args(["--net", "sleep", "infinity"])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let pid = holder.id();
        let inode = until(SOON, "a network of its own", || {
            fs::metadata(format!("/proc/{pid}/ns/net")).ok().map(|one| one.ino()).filter(|one| *one != own)
        });
        let network = Self { holder, number, inode };
        let (near, pid) = (network.link(), pid.to_string());
        done("ip", &["link", "add", &near, "type", "veth", "peer", "name", "road0", "netns", &pid]);
        done("ip", &["addr", "add", &format!("{}/24", network.gate()), "dev", &near]);
        done("ip", &["link", "set", &near, "up"]);
        let inside = |arguments: &[&str]| {
            done("nsenter", &[&["-t", &pid, "-n", "ip"], arguments].concat());
        };
        inside(&["link", "set", "lo", "up"]);
        inside(&["addr", "add", &format!("{}/24", network.address()), "dev", "road0"]);
        inside(&["link", "set", "road0", "up"]);
        network
    }

    fn link(&self) -> String {
        format!("host{}", self.number)
    }

    /// The address of the machine.
    pub(crate) fn address(&self) -> String {
        format!("10.9.{}.2", self.number)
    }

    /// Where the machine finds the others.
    pub(crate) fn gate(&self) -> String {
        format!("10.9.{}.1", self.number)
    }

    pub(crate) fn cut(&self) {
        done("ip", &["link", "set", &self.link(), "down"]);
    }

    pub(crate) fn mend(&self) {
        done("ip", &["link", "set", &self.link(), "up"]);
    }

    /// The same command, inside.
    pub(crate) fn inside(&self, command: &Command) -> Command {
        let mut inside = Command::new("nsenter");
        inside
            .args(["-t", &self.holder.id().to_string(), "-n"])
            .arg(command.get_program())
            .args(command.get_args());
        inside.env_clear();
        for (name, value) in command.get_envs() {
            inside.env(name, value.unwrap());
        }
        if let Some(folder) = command.get_current_dir() {
            inside.current_dir(folder);
        }
        inside.stdin(Stdio::null());
        inside
    }

    /// Signals everything that runs inside.
    pub(crate) fn signal(&self, signal: Signal) {
        let all = fs::read_dir("/proc").unwrap().flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        for pid in pids.filter(|pid| *pid != self.holder.id()) {
            let net = fs::metadata(format!("/proc/{pid}/ns/net"));
            if net.is_ok_and(|net| net.ino() == self.inode)
                && let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw)
            {
                let _ = kill_process(pid, signal);
            }
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
