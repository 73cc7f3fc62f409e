//! The terminal multiplexer: in which pane of a running tmux a process lives, and the way there. Nothing is started that does
//! not run already, and no session of an agent is known here.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use agentctl_model::ProcessHead;

/// One pane of a running server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pane {
    /// The server's socket.
    pub socket: PathBuf,
    /// tmux's own name of it, such as `%3`: it stays the same when windows are moved.
    pub id: String,
    /// Where a person finds it: session, window and pane, such as `work:1.0`.
    pub place: String,
    /// The process that was started in it.
    pub pid: u32,
}

/// The sockets of a user's servers, in the folder where tmux puts them. One that belongs to somebody else is not looked at.
pub fn sockets(folder: &Path, user: u32) -> Vec<PathBuf> {
    let ours = fs::symlink_metadata(folder).is_ok_and(|found| found.is_dir() && found.uid() == user);
    let entries =
        ours.then(|| agentctl_files::entries(folder).ok()).flatten().into_iter().flatten().flatten();
    let is_socket = |path: &PathBuf| fs::metadata(path).is_ok_and(|found| found.file_type().is_socket());
    let mut sockets: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_socket).collect();
    sockets.sort_unstable();
    sockets
}

/// Every pane of one server; none when it does not run any more, there is no tmux, or it gives no whole answer in time.
pub fn panes(socket: &Path) -> Vec<Pane> {
    panes_by(Path::new("tmux"), socket)
}

#[expect(clippy::disallowed_methods, reason = "tmux can only be asked by its own program")]
fn panes_by(program: &Path, socket: &Path) -> Vec<Pane> {
    let until = Instant::now() + PATIENCE;
    let format = "#{pane_pid} #{pane_id} #{session_name}:#{window_index}.#{pane_index}";
    let mut command = Command::new(program);
    command.arg("-S").arg(socket).args(["list-panes", "-a", "-F", format]).stdin(Stdio::null());
    let Ok(mut child) = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn() else {
        return Vec::new();
    };
    let (give, take) = channel();
    if let Some(pipe) = child.stdout.take() {
        std::thread::spawn(move || {
            let mut answer = Vec::new();
            // What cannot be read is missing, and tmux's own exit says so.
            let _ = pipe.take(MOST).read_to_end(&mut answer);
            let _ = give.send(answer);
        });
    }
    // One that says more than any tmux has not said it all.
    let answer = take.recv_timeout(PATIENCE).ok().filter(|answer| (answer.len() as u64) < MOST);
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

/// How it ended, if it did in time: what has said everything may stay all the same.
fn ended_by(child: &mut Child, until: Instant) -> Option<ExitStatus> {
    loop {
        match child.try_wait() {
            Ok(None) if Instant::now() < until => std::thread::sleep(LOOK),
            other => return other.ok().flatten(),
        }
    }
}

/// How often it is looked whether it has ended.
const LOOK: Duration = Duration::from_millis(2);

/// Whatever listens at a socket may not be a tmux, and may never answer.
const PATIENCE: Duration = Duration::from_secs(2);
const MOST: u64 = 4 << 20;

fn parse(answer: &str, socket: &Path) -> Vec<Pane> {
    let pane = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let pid = words.next()?.parse().ok()?;
        let id = words.next().filter(|id| id.starts_with('%'))?.to_owned();
        Some(Pane { socket: socket.to_owned(), id, place: words.next()?.to_owned(), pid })
    };
    answer.lines().filter_map(pane).collect()
}

/// The pane that a process lives in: the one whose first process is the nearest among its ancestors, or itself.
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
    /// The command that brings a person there: into a terminal of their own, or from inside the same server.
    pub fn way(&self, from_inside: bool) -> Vec<String> {
        let last = if from_inside { "switch-client" } else { "attach-session" };
        let steps =
            ["select-window", "-t", &self.id, ";", "select-pane", "-t", &self.id, ";", last, "-t", &self.id];
        let socket = self.socket.to_string_lossy().into_owned();
        let tmux = ["tmux".to_owned(), "-S".to_owned(), socket];
        tmux.into_iter().chain(steps.map(str::to_owned)).collect()
    }
}

/// Becomes another program, in the same terminal. Returns only when that failed.
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

    /// Ten times what is promised: the machine may be busy.
    const BOUND: Duration = Duration::from_secs(20);

    fn asked(script: &str) -> Vec<Pane> {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("tmux");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        let (give, take) = channel();
        std::thread::spawn(move || give.send(panes_by(&program, Path::new("/s"))));
        take.recv_timeout(BOUND).unwrap_or_else(|_| panic!("{script:?} is still waited for"))
    }

    #[test]
    fn a_tmux_that_hangs_or_has_no_end_is_not_waited_for() {
        assert_eq!(asked("echo '77 %4 work:1.0'"), [Pane { place: "work:1.0".into(), ..pane("%4", 77) }]);
        for bad in [
            "exec sleep 86400",
            "echo '77 %4 work:1.0'; exec sleep 86400",
            // It has said everything and stays.
            "echo '77 %4 work:1.0'; exec sleep 86400 >&-",
            "exec yes '77 %4 work:1.0'",
            // It does not mind that nobody reads any more.
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
        let us = fs::metadata(folder.path()).unwrap().uid();
        assert_eq!(sockets(folder.path(), us), [folder.path().join("default")]);
        assert!(sockets(folder.path(), us + 1).is_empty());
        assert!(sockets(&folder.path().join("none"), us).is_empty());
    }
}
