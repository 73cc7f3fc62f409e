//! How soon `launch` returns once the agent's own storage shows the turn.
//!
//! The agent is a copy of this program. It writes its turn, says over a socket when it began to, and lives until that socket
//! is closed. What is timed is the way from that moment to the end of the command.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use serde_json::json;

use super::measure::Cost;
use super::stand_in::MARK;

/// How often a launch is timed: its spread is larger than that of a list.
const ROUNDS: usize = 20;
/// Names the socket to a stand-in that is to write a turn.
const SOCKET: &str = "XTASK_LAUNCHED";
/// The launch is at rest by then, and waits.
const BEFORE_THE_TURN: Duration = Duration::from_millis(300);
/// Where the stand-in keeps its transcripts, below the home.
const PROJECT: &str = ".claude/projects/-bench-launch";
/// Nothing takes longer; what does is broken.
const LONGEST: Duration = Duration::from_mins(1);

/// The agent's part, where this process was launched to play it; says whether it was.
pub(crate) fn play() -> bool {
    let Some(socket) = std::env::var_os(SOCKET) else { return false };
    // Whatever goes wrong ends it, and the launch says so.
    if let Err(error) = write_turn(Path::new(&socket)) {
        eprintln!("the stand-in: {error:#}");
    }
    true
}

fn write_turn(socket: &Path) -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let id = args.iter().skip_while(|arg| *arg != "--session-id").nth(1).context("no --session-id")?;
    let home = PathBuf::from(std::env::var_os("HOME").context("no HOME")?);
    std::thread::sleep(BEFORE_THE_TURN);
    let now = jiff::Timestamp::now();
    let record = json!({"type": "user", "uuid": format!("{:032x}", now.as_nanosecond()), "sessionId": id,
        "cwd": std::env::current_dir()?, "timestamp": now.to_string(),
        "message": {"role": "user", "content": "do it"}});
    let mut stream = UnixStream::connect(socket)?;
    let wrote = clock();
    std::fs::write(home.join(PROJECT).join(format!("{id}.jsonl")), format!("{record}\n"))?;
    stream.write_all(&wrote.as_nanos().to_le_bytes())?;
    // Until whoever measures has seen enough.
    let _ = stream.read(&mut [0]);
    Ok(())
}

/// Both processes have this clock.
pub(super) fn clock() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The launches, and beside them the floor: a process that is woken by a write and ends.
pub(super) fn run(agentctl: &Path, home: &Path) -> anyhow::Result<(Vec<Cost>, Vec<Cost>)> {
    let stage = Stage::set(agentctl, home)?;
    let (mut own, mut floor) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        own.push(stage.launch()?);
        floor.push(woken()?);
    }
    Ok((own, floor))
}

/// Where the launches are made. It leaves the home as it was.
struct Stage<'a> {
    agentctl: &'a Path,
    home: &'a Path,
    folder: tempfile::TempDir,
    listener: UnixListener,
}

impl<'a> Stage<'a> {
    fn set(agentctl: &'a Path, home: &'a Path) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        std::fs::create_dir_all(folder.path().join("bin"))?;
        std::fs::create_dir_all(folder.path().join("work"))?;
        std::fs::copy(std::env::current_exe()?, folder.path().join("bin/claude"))
            .context("cannot copy this program")?;
        let listener = UnixListener::bind(folder.path().join("socket"))?;
        std::fs::create_dir_all(home.join(PROJECT))?;
        Ok(Self { agentctl, home, folder, listener })
    }

    fn launch(&self) -> anyhow::Result<Cost> {
        let own = tempfile::tempdir_in(self.folder.path())?;
        let mut command = self.command(own.path())?;
        let mut stream = self.hear(&mut command)?;
        let mut wrote = [0; 16];
        stream.read_exact(&mut wrote)?;
        let status = command.wait()?;
        let took = clock().as_nanos().saturating_sub(u128::from_le_bytes(wrote));
        if !status.success() {
            bail!("launch failed: {status}");
        }
        drop(stream);
        await_exit(&own.path().join("launches"))?;
        Ok(Cost::of_wall(Duration::from_nanos(u64::try_from(took)?)))
    }

    fn command(&self, own: &Path) -> anyhow::Result<Child> {
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.folder.path().join("bin").display());
        Command::new(self.agentctl)
            .args(["launch", "claude-code", "-p", "do it", "--force", "--json"])
            .env_clear()
            .env("PATH", path)
            .env("LANG", "C.UTF-8")
            .env("HOME", self.home)
            .env("AGENTCTL_HOME", own)
            .env("AGENTCTL_NO_DAEMON", "1")
            .env(MARK, "1")
            .env(SOCKET, self.folder.path().join("socket"))
            .current_dir(self.folder.path().join("work"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start agentctl")
    }

    /// The stand-in of this launch, unless the launch ends without one.
    fn hear(&self, command: &mut Child) -> anyhow::Result<UnixStream> {
        self.listener.set_nonblocking(true)?;
        let began = Instant::now();
        while began.elapsed() < LONGEST {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false)?;
                    return Ok(stream);
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
            if let Some(status) = command.try_wait()? {
                bail!("launch ended before its agent wrote a turn: {status}");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        bail!("no agent was started")
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.home.join(PROJECT));
    }
}

/// The runner has ended, so that it does not disturb the next round.
pub(super) fn await_exit(launches: &Path) -> anyhow::Result<()> {
    let began = Instant::now();
    while began.elapsed() < LONGEST {
        let mut folders = std::fs::read_dir(launches)?.flatten();
        if folders.all(|folder| folder.path().join("exit.json").exists()) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    bail!("a runner does not end")
}

/// A process that waits for one byte and ends: nothing that is woken by a write can be seen to end sooner.
fn woken() -> anyhow::Result<Cost> {
    let mut child = Command::new("head")
        .args(["-c", "1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .context("cannot start `head`")?;
    std::thread::sleep(BEFORE_THE_TURN);
    let mut input = child.stdin.take().context("no input")?;
    let wrote = Instant::now();
    input.write_all(b"x")?;
    child.wait()?;
    Ok(Cost::of_wall(wrote.elapsed()))
}
