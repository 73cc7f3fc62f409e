//! Sessions work in a folder whose file system does not answer. Every command ends all the same, and reports
//! what it knows.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests run processes and mount traps")]

mod machine;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use machine::agent::Agent;
use machine::{DIED, Ended, INTERRUPTED, Machine, PARENT, TOOLS};
use serde_json::Value;

/// Ten times the promised time.
const DEADLINE: Duration = Duration::from_secs(20);

/// Mounts a file system at its first argument. With `takes` it accepts every request and answers none: a
/// waiting process then cannot even be killed. Without it, requests are not accepted.
const SILENT: &str = "import ctypes,os,struct,sys,time\n\
    libc=ctypes.CDLL(None,use_errno=True)\n\
    fd=os.open('/dev/fuse',os.O_RDWR)\n\
    how=f'fd={fd},rootmode=40000,user_id=0,group_id=0'.encode()\n\
    if libc.mount(b'silent',sys.argv[1].encode(),b'fuse',0,how)!=0: sys.exit(99)\n\
    print('mounted',flush=True)\n\
    while sys.argv[2]!='takes': time.sleep(60)\n\
    while True:\n\
    \x20asked=os.read(fd,1<<20)\n\
    \x20_,kind,number=struct.unpack_from('IIQ',asked)\n\
    \x20if kind!=26: continue\n\
    \x20body=struct.pack('IIIIHHIII',7,31,65536,0,12,9,65536,1,0)+bytes(28)\n\
    \x20os.write(fd,struct.pack('IiQ',16+len(body),0,number)+body)\n";

/// A file system that does not answer, visible only to the commands that are run in here. It ends with this
/// value, and waiting processes continue.
struct Mounted<'m> {
    machine: &'m Machine,
    server: Child,
    at: PathBuf,
}

impl<'m> Mounted<'m> {
    /// `None` where nothing can be mounted.
    fn new(machine: &'m Machine, how: &str) -> Option<Self> {
        let at = machine.home().join("gone");
        fs::create_dir_all(&at).unwrap();
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "python3", "-c", SILENT]).arg(&at).arg(how);
        let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
        let mut said = String::new();
        let _ = BufReader::new(server.stdout.take()?).read_line(&mut said);
        if said != "mounted\n" {
            let _ = server.kill();
            let _ = server.wait();
            return None;
        }
        Some(Self { machine, server, at })
    }

    fn command(&self, args: &[&str]) -> Command {
        let plain = self.machine.command(args);
        let mut command = Command::new("nsenter");
        command.args(["-m", "-t", &self.server.id().to_string()]).arg(plain.get_program()).args(args);
        command.env("HOME", self.machine.home()).current_dir("/");
        command
    }

    /// The output of the command, which must end by itself.
    fn run(&self, args: &[&str], has_daemon: bool) -> Ended {
        let mut command = self.command(args);
        if !has_daemon {
            command.env("AGENTCTL_NO_DAEMON", "1");
        }
        let began = Instant::now();
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        while child.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < DEADLINE, "{args:?} did not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ended::of(&child.wait_with_output().unwrap())
    }

    fn json(&self, args: &[&str], has_daemon: bool) -> Value {
        let ended = self.run(args, has_daemon);
        serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{args:?} {error}: {ended:?}"))
    }

    /// Our processes that wait for this file system, found by their mount namespace.
    fn waiting(&self) -> usize {
        let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
        let ours = namespace(&self.server.id().to_string());
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let pids = processes.filter_map(|entry| entry.file_name().into_string().ok());
        pids.filter(|pid| {
            namespace(pid) == ours
                && fs::read_to_string(format!("/proc/{pid}/stat"))
                    .is_ok_and(|stat| stat.contains("(look-") && stat.contains(") D "))
        })
        .count()
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn works_as_if_it_were_not_there(how: &str, has_daemon: bool) {
    let machine = Machine::furnished();
    let Some(mounted) = Mounted::new(&machine, how) else {
        return agentctl_testkit::skip("no file system can be mounted here");
    };
    let gone = mounted.at.clone();
    let free = machine.home().join("free");
    fs::create_dir(&free).unwrap();
    std::os::unix::fs::symlink(&gone, machine.home().join("link")).unwrap();
    let hung =
        [(TOOLS, gone.join("a")), (INTERRUPTED, machine.home().join("link/b")), (PARENT, gone.clone())];
    let _agents: Vec<Agent> = hung.iter().map(|(id, cwd)| Agent::start(&machine, id, cwd)).collect();
    let other = Agent::start(&machine, DIED, &free);
    if has_daemon {
        let started = mounted.run(&["daemon", "start"], true);
        assert_eq!(started.code, Some(0), "{started:?}");
    }
    let list = mounted.json(&["list", "--json"], has_daemon);
    assert_eq!(list["sessions"].as_array().map(Vec::len), Some(4), "{list}");
    let locks = mounted.json(&["locks", "--json"], has_daemon);
    let held: Vec<&str> =
        locks["locks"].as_array().unwrap().iter().map(|lock| lock["directory"].as_str().unwrap()).collect();
    assert_eq!(held.len(), 4, "what nobody can look at is still held: {held:?}");
    assert!(held.contains(&gone.join("a").to_str().unwrap()), "{held:?}");
    for args in [
        &["list", "--cwd", free.to_str().unwrap()][..],
        &["list", "--cwd", gone.to_str().unwrap()],
        &["status", TOOLS],
        &["status", DIED],
        &["peek", TOOLS],
        &["inbox"],
    ] {
        let ended = mounted.run(args, has_daemon);
        assert_eq!(ended.code, Some(0), "{args:?} {ended:?}");
    }
    for args in [
        &["lock", gone.to_str().unwrap()][..],
        &["launch", "claude-code", "--cwd", gone.to_str().unwrap(), "words"],
    ] {
        let ended = mounted.run(args, has_daemon);
        assert_ne!(ended.code, Some(0), "{args:?} {ended:?}");
        assert!(ended.err.contains("does not answer"), "{args:?} {ended:?}");
    }
    let stopped = mounted.run(&["stop", DIED], has_daemon);
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    assert!(!Path::new(&format!("/proc/{}/fd/0", other.pid())).exists());
    // The number of waiting processes is bounded, however often a command runs.
    for _ in 0..20 {
        assert_eq!(mounted.run(&["locks"], has_daemon).code, Some(0));
    }
    let waiting = mounted.waiting();
    assert!(waiting <= 16, "{waiting}");
    if has_daemon {
        let stopped = mounted.run(&["daemon", "stop"], true);
        assert_eq!(stopped.code, Some(0), "{stopped:?}");
    } else if how == "unserved" {
        // A killed process takes a moment to end.
        agentctl_testkit::until(DEADLINE, "what can be ended to end with its command", || {
            (mounted.waiting() == 0).then_some(())
        });
    }
}

/// A root of an agent lies there. What changes elsewhere is seen as soon as without it.
#[test]
fn a_root_on_a_file_system_that_does_not_answer_holds_up_no_view() {
    let machine = Machine::furnished();
    // It ends after the file system: while it waits for that, it cannot even be killed.
    let top;
    let Some(mounted) = Mounted::new(&machine, "takes") else {
        return agentctl_testkit::skip("no file system can be mounted here");
    };
    let with_root = |args: &[&str]| {
        let mut command = mounted.command(args);
        command.env("CODEX_HOME", mounted.at.join("codex"));
        command
    };
    let path = std::env::var_os("PATH").unwrap();
    let mut command = with_root(&["top"]);
    command.env("AGENTCTL_NO_DAEMON", "1").env("PATH", path).env("TERM", "xterm-256color").env("TZ", "UTC");
    top = agentctl_testkit::Pty::spawn(&command);
    top.wait_for("does not answer");
    let first = Agent::start(&machine, TOOLS, machine.home());
    top.wait_for("● 1");
    drop(first);
    top.wait_for("no session was heard of");
    assert!(with_root(&["daemon", "start"]).output().unwrap().status.success());
    agentctl_testkit::until_seen(DEADLINE, "the daemon to say what it does not watch", || {
        let status = mounted.json(&["daemon", "status", "--json"], true).to_string();
        if status.contains("codex is on a file system that does not answer") { Ok(()) } else { Err(status) }
    });
    assert_eq!(mounted.run(&["daemon", "stop"], true).code, Some(0));
}

#[test]
fn a_file_system_that_nobody_serves_holds_up_no_command() {
    works_as_if_it_were_not_there("unserved", false);
}

#[test]
fn a_file_system_that_takes_requests_and_answers_none_holds_up_no_command() {
    works_as_if_it_were_not_there("takes", false);
}

#[test]
fn a_file_system_that_nobody_serves_holds_up_no_daemon() {
    works_as_if_it_were_not_there("unserved", true);
}

#[test]
fn a_file_system_that_takes_requests_and_answers_none_holds_up_no_daemon() {
    works_as_if_it_were_not_there("takes", true);
}
