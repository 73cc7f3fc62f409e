//! A helper process that reads paths for us. Unlike a thread it can be abandoned: a thread that waits in the kernel for a
//! file system that does not answer would keep this whole process from ever exiting.

use std::collections::HashMap;
use std::ffi::{CString, OsStr};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::path_question::Question;

/// The argument that makes this program run as a helper.
pub const HELPER_ARGUMENT: &str = "__look";

const START_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum length of a path or an answer.
const MAX_MESSAGE: u32 = 1 << 20;

pub(crate) struct Helper {
    child: Child,
    line: UnixStream,
}

impl Helper {
    pub(crate) fn start() -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        // This is the running program itself, even if the file at its path was replaced.
        let own = Path::new("/proc/self/exe");
        let own = if cfg!(target_os = "linux") { own.to_owned() } else { std::env::current_exe()? };
        let mut command = Command::new(own);
        // The helper exits when its socket is closed. It has no other descriptors of ours, on which anybody could wait.
        command.arg0("agentctl").arg(HELPER_ARGUMENT).current_dir("/").env_clear().process_group(0);
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
        let mut helper = Self { child: command.spawn()?, line: ours };
        drop(command);
        // A busy machine may start it late, which says nothing about any path.
        helper.line.set_read_timeout(Some(START_TIMEOUT))?;
        match receive(&mut helper.line) {
            Ok(_) => Ok(helper),
            Err(error) => {
                helper.end();
                Err(error)
            }
        }
    }

    /// Returns `WouldBlock` when no answer comes before the timeout. `around` is the mount that contains `place`.
    pub(crate) fn ask(
        &mut self,
        question: &str,
        (place, around): (&Path, &Path),
        timeout: Duration,
    ) -> io::Result<Option<Vec<u8>>> {
        self.line.set_read_timeout(Some(timeout))?;
        send(&mut self.line, name_at(around).as_bytes())?;
        send(&mut self.line, question.as_bytes())?;
        send(&mut self.line, place.as_os_str().as_bytes())?;
        match receive(&mut self.line)?.split_first() {
            Some((1, answer)) => Ok(Some(answer.to_vec())),
            _ => Ok(None),
        }
    }

    /// Whether the helper has still not answered the last question.
    pub(crate) fn is_stuck(&mut self) -> bool {
        let waits = |error: io::Error| error.kind() == io::ErrorKind::WouldBlock;
        self.line.set_nonblocking(true).is_ok() && self.line.read(&mut [0]).is_err_and(waits)
    }

    /// Kills the helper, and waits for its exit unless it is stuck in the kernel, where a signal does not reach it.
    pub(crate) fn end(mut self) {
        let is_stuck = self.is_stuck();
        let _ = self.child.kill();
        if !is_stuck {
            let _ = self.child.wait();
        }
    }
}

/// The thread name that a helper takes while it reads below this mount, so that other commands can count the helpers that
/// wait for it.
pub(crate) fn name_at(around: &Path) -> String {
    let mut hasher = DefaultHasher::new();
    around.hash(&mut hasher);
    format!("look-{:08x}", hasher.finish() & 0xffff_ffff)
}

/// Counts the helpers of this user that wait in the kernel now (state `D`), by name and whichever command started them.
pub(crate) fn waiting() -> HashMap<String, usize> {
    let own_uid = rustix::process::geteuid().as_raw();
    let mut waiting = HashMap::new();
    let Ok(processes) = std::fs::read_dir("/proc") else { return waiting };
    for entry in processes.flatten() {
        if !entry.file_name().as_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        let Ok(stat) = std::fs::read(entry.path().join("stat")) else { continue };
        let stat = String::from_utf8_lossy(&stat);
        let named = stat.split_once('(').and_then(|(_, rest)| rest.rsplit_once(") D "));
        if let Some((name, _)) = named.filter(|(name, _)| name.starts_with("look-"))
            && entry.metadata().is_ok_and(|seen| seen.uid() == own_uid)
        {
            *waiting.entry(name.to_owned()).or_default() += 1;
        }
    }
    waiting
}

/// The main loop of the helper process: it answers these questions until its socket is closed.
pub fn run_helper(questions: &[&Question]) -> io::Result<()> {
    let mut line = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    send(&mut line, b"ready")?;
    loop {
        let Ok(known_as) = receive(&mut line) else { return Ok(()) };
        let _ = rustix::thread::set_name(&CString::new(known_as)?);
        let name = receive(&mut line)?;
        let place = receive(&mut line)?;
        let place = Path::new(OsStr::from_bytes(&place));
        let question = questions.iter().find(|question| question.name.as_bytes() == name);
        let answer = question.and_then(|question| (question.answer)(place));
        let is_there = u8::from(answer.is_some());
        send(&mut line, &[&[is_there], answer.unwrap_or_default().as_slice()].concat())?;
    }
}

fn send(line: &mut UnixStream, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).ok().filter(|length| *length <= MAX_MESSAGE);
    let length = length.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    line.write_all(&[&length.to_le_bytes(), bytes].concat())
}

fn receive(line: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    line.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > MAX_MESSAGE {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length as usize];
    line.read_exact(&mut bytes)?;
    Ok(bytes)
}
