//! Finds the tmux pane in which a process runs, and the command that attaches to it. This module starts no tmux server and
//! knows nothing about agents' sessions.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use agentctl_model::ProcessHead;

/// One pane of a running tmux server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pane {
    /// The server's socket.
    pub socket: PathBuf,
    /// tmux's own id of the pane, such as `%3`, which stays the same when windows are moved.
    pub id: String,
    /// Session, window and pane as tmux shows them to a person, such as `work:1.0`.
    pub place: String,
    /// The first process of the pane.
    pub pid: u32,
}

/// The sockets of a user's tmux servers in this directory. A directory that belongs to another user is not read.
pub fn sockets(folder: &Path, user: u32) -> Vec<PathBuf> {
    let ours = fs::symlink_metadata(folder).is_ok_and(|found| found.is_dir() && found.uid() == user);
    let entries =
        ours.then(|| agentctl_files::entries(folder).ok()).flatten().into_iter().flatten().flatten();
    let is_socket = |path: &PathBuf| fs::metadata(path).is_ok_and(|found| found.file_type().is_socket());
    let mut sockets: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_socket).collect();
    sockets.sort_unstable();
    sockets
}

/// Every pane of one server. The list is empty when the server has exited, tmux is not installed, or the answer is not
/// complete in time.
pub fn panes(socket: &Path) -> Vec<Pane> {
    panes_by(Path::new("tmux"), socket)
}

#[expect(clippy::disallowed_methods, reason = "tmux can only be asked by its own program")]
fn panes_by(program: &Path, socket: &Path) -> Vec<Pane> {
    let until = Instant::now() + TIMEOUT;
    let format = "#{pane_pid} #{pane_id} #{session_name}:#{window_index}.#{pane_index}";
    let mut command = Command::new(program);
    command.arg("-S").arg(socket).args(["list-panes", "-a", "-F", format]).stdin(Stdio::null());
    let Ok(mut child) = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn() else {
        return Vec::new();
    };
    let (sender, receiver) = channel();
    if let Some(pipe) = child.stdout.take() {
        std::thread::spawn(move || {
            let mut answer = Vec::new();
            // If the read fails, the exit code of tmux shows it.
            let _ = pipe.take(MAX_ANSWER).read_to_end(&mut answer);
            let _ = sender.send(answer);
        });
    }
    // An answer of the maximum length was cut off.
    let answer = receiver.recv_timeout(TIMEOUT).ok().filter(|answer| (answer.len() as u64) < MAX_ANSWER);
    let ended = answer.as_ref().and_then(|_| ended_by(&mut child, until));
    if ended.is_none() {
        let _ = child.kill();
        let _ = child.wait();
    }
    match (ended, answer) {
        (Some(status), Some(answer)) if status.success() => parse(&String::from_utf8_lossy(&answer), socket),
        _ => Vec::new(),
    }
}

/// Waits for the exit until this moment: a program that has closed its output may still go on running.
fn ended_by(child: &mut Child, until: Instant) -> Option<ExitStatus> {
    loop {
        match child.try_wait() {
            Ok(None) if Instant::now() < until => std::thread::sleep(POLL_INTERVAL),
            other => return other.ok().flatten(),
        }
    }
}

/// How often the exit of tmux is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The program behind the socket may not be tmux, and may never answer.
const TIMEOUT: Duration = Duration::from_secs(2);
const MAX_ANSWER: u64 = 4 << 20;

fn parse(answer: &str, socket: &Path) -> Vec<Pane> {
    let pane = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let pid = words.next()?.parse().ok()?;
        let id = words.next().filter(|id| id.starts_with('%'))?.to_owned();
        Some(Pane { socket: socket.to_owned(), id, place: words.next()?.to_owned(), pid })
    };
    answer.lines().filter_map(pane).collect()
}

/// The pane in which a process runs: the one whose first process is the process itself or its nearest ancestor.
pub fn pane_of<'p>(panes: &'p [Pane], heads: &[ProcessHead], pid: u32) -> Option<&'p Pane> {
    let parent = |pid: u32| heads.iter().find(|head| head.process.pid == pid).map(|head| head.parent);
    let mut seen = Vec::new();
    let mut next = Some(pid);
    while let Some(pid) = next.filter(|pid| !seen.contains(pid)) {
        if let Some(pane) = panes.iter().find(|pane| pane.pid == pid) {
            return Some(pane);
        }
        seen.push(pid);
        next = parent(pid);
    }
    None
}

impl Pane {
    /// The command that shows the pane to a person, from a plain terminal or from inside the same tmux server.
    pub fn way(&self, from_inside: bool) -> Vec<String> {
        let last = if from_inside { "switch-client" } else { "attach-session" };
        let steps =
            ["select-window", "-t", &self.id, ";", "select-pane", "-t", &self.id, ";", last, "-t", &self.id];
        let socket = self.socket.to_string_lossy().into_owned();
        let tmux = ["tmux".to_owned(), "-S".to_owned(), socket];
        tmux.into_iter().chain(steps.map(str::to_owned)).collect()
    }
}

/// Replaces this process by another program (`exec`) in the same terminal. Returns only on failure.
#[expect(clippy::disallowed_methods, reason = "this process becomes the other program")]
pub fn become_program(argv: &[String]) -> io::Error {
    let Some((program, arguments)) = argv.split_first() else {
        return io::Error::from(io::ErrorKind::InvalidInput);
    };
    Command::new(program).args(arguments).exec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::ScriptedProcess;

    fn pane(id: &str, pid: u32) -> Pane {
        Pane { socket: "/s".into(), id: id.into(), place: "work:0.0".into(), pid }
    }

    fn head(pid: u32, parent: u32) -> ProcessHead {
        ScriptedProcess::new(pid, &["x"]).parent(parent).process.head
    }

    #[test]
    fn the_nearest_pane_above_a_process_is_where_it_lives() {
        let heads = [head(10, 1), head(11, 10), head(12, 11), head(20, 1), head(30, 31), head(31, 30)];
        let panes = [pane("%1", 10), pane("%2", 20), pane("%3", 11)];
        let of = |pid| pane_of(&panes, &heads, pid).map(|pane| pane.id.as_str());
        assert_eq!(of(12), Some("%3"), "a tmux inside a tmux");
        assert_eq!(of(10), Some("%1"));
        assert_eq!(of(20), Some("%2"));
        assert_eq!(of(1), None);
        assert_eq!(of(30), None, "parents that name each other end");
    }

    #[test]
    fn names_with_blanks_are_read_and_other_lines_are_not() {
        let panes = parse("77 %4 my work:1.0\nno server\n78 4 x:0.0\n", Path::new("/s"));
        assert_eq!(panes, [Pane { place: "my work:1.0".into(), ..pane("%4", 77) }]);
    }

    /// Ten times the timeout, because the machine may be busy.
    const BOUND: Duration = Duration::from_secs(20);

    fn asked(script: &str) -> Vec<Pane> {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("tmux");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        let began = Instant::now();
        let panes = panes_by(&program, Path::new("/s"));
        assert!(began.elapsed() < BOUND, "{script:?} took {:?}", began.elapsed());
        panes
    }

    #[test]
    fn a_tmux_that_hangs_or_has_no_end_is_not_waited_for() {
        assert_eq!(asked("echo '77 %4 work:1.0'"), [Pane { place: "work:1.0".into(), ..pane("%4", 77) }]);
        for bad in [
            "exec sleep 86400",
            "echo '77 %4 work:1.0'; exec sleep 86400",
            // It closes its output and goes on running.
            "echo '77 %4 work:1.0'; exec sleep 86400 >&-",
            "exec yes '77 %4 work:1.0'",
            // It ignores that its reader is gone.
            "trap '' PIPE; while :; do echo '77 %4 work:1.0 and so on and on and on' 2>&-; done",
            "echo '77 %4 work:1.0'; exit 1",
        ] {
            assert_eq!(asked(bad), [], "{bad}");
        }
    }

    #[test]
    fn the_way_differs_inside_and_outside() {
        let outside = pane("%4", 7).way(false).join(" ");
        assert_eq!(outside, "tmux -S /s select-window -t %4 ; select-pane -t %4 ; attach-session -t %4");
        assert!(pane("%4", 7).way(true).join(" ").ends_with("switch-client -t %4"));
    }

    #[test]
    fn only_sockets_of_the_user_count() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(folder.path().join("default")).unwrap();
        let own_uid = fs::metadata(folder.path()).unwrap().uid();
        assert_eq!(sockets(folder.path(), own_uid), [folder.path().join("default")]);
        assert!(sockets(folder.path(), own_uid + 1).is_empty());
        assert!(sockets(&folder.path().join("none"), own_uid).is_empty());
    }
}
