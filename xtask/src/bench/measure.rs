//! Runs one command once and measures its wall time, its processor time and its peak memory.
//!
//! A small extra process (`xtask __measure`) starts the command: the kernel counts the memory of the parent into the peak
//! of the child, and a benchmark with a manifest in memory is not small.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// The cost of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) wall: Duration,
    /// Of all its threads.
    pub(crate) cpu: Duration,
    pub(crate) peak_kib: u64,
}

impl Cost {
    /// Where only the time on the clock was measured.
    pub(crate) fn of_wall(wall: Duration) -> Self {
        Self { wall, cpu: Duration::ZERO, peak_kib: 0 }
    }
}

/// The environment of a measured command: it inherits nothing but these.
pub(crate) struct Place<'a> {
    pub(crate) home: &'a Path,
    pub(crate) agentctl_home: &'a Path,
    /// Whether a daemon of this folder is asked.
    pub(crate) daemon: bool,
}

/// Runs `program` in a fresh process that writes to `output`. An exit code other than 0 is an error.
pub(crate) fn run(place: &Place<'_>, output: &Path, program: &Path, args: &[&str]) -> anyhow::Result<Cost> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg("__measure")
        .arg(output)
        .arg(program)
        .args(args)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("LANG", "C.UTF-8")
        .env("TZ", "UTC")
        .env("HOME", place.home)
        .env("AGENTCTL_HOME", place.agentctl_home)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    if !place.daemon {
        command.env("AGENTCTL_NO_DAEMON", "1");
    }
    let answer = command.output()?;
    if !answer.status.success() {
        bail!("`{} {}` failed", program.display(), args.join(" "));
    }
    let line = String::from_utf8(answer.stdout)?;
    let numbers: Vec<u64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let [wall, cpu, peak_kib] = numbers[..] else { bail!("__measure said {line:?}") };
    Ok(Cost { wall: Duration::from_nanos(wall), cpu: Duration::from_nanos(cpu), peak_kib })
}

/// `xtask __measure OUTPUT PROGRAM ARGS…` prints nanoseconds, those of processors, and peak KiB.
pub(crate) fn main(args: &[String]) -> anyhow::Result<()> {
    let [output, program, rest @ ..] = args else { bail!("use: __measure OUTPUT PROGRAM ARGS…") };
    let output = File::create(output).with_context(|| format!("cannot make {output}"))?;
    let mut command = Command::new(program);
    command.args(rest).stdin(Stdio::null()).stdout(output);
    let start = Instant::now();
    let ended = run_to_end(&mut command).with_context(|| format!("cannot run {program}"))?;
    let wall = start.elapsed();
    if ended.status != 0 {
        bail!("{program} ended with wait status {:#x}", ended.status);
    }
    println!("{} {} {}", wall.as_nanos(), ended.cpu.as_nanos(), ended.peak_kib);
    Ok(())
}

/// What the kernel says of a child that has ended.
struct Ended {
    status: i32,
    cpu: Duration,
    peak_kib: u64,
}

/// Starts the command and waits for it.
#[expect(
    unsafe_code,
    reason = "only wait4 tells the peak memory of one child, and no safe wrapper is at hand"
)]
fn run_to_end(command: &mut Command) -> anyhow::Result<Ended> {
    let child = command.spawn()?;
    let pid = libc::pid_t::try_from(child.id())?;
    loop {
        let mut status = 0;
        // SAFETY: rusage consists of integers, for which all zeros is a valid value; both pointers are valid during the call.
        let (waited, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            (libc::wait4(pid, &raw mut status, 0, &raw mut usage), usage)
        };
        if waited == pid {
            let cpu = duration(usage.ru_utime)? + duration(usage.ru_stime)?;
            return Ok(Ended { status, cpu, peak_kib: u64::try_from(usage.ru_maxrss)? });
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error).with_context(|| format!("cannot wait for pid {pid}"));
        }
    }
}

fn duration(time: libc::timeval) -> anyhow::Result<Duration> {
    Ok(Duration::from_secs(u64::try_from(time.tv_sec)?) + Duration::from_micros(u64::try_from(time.tv_usec)?))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::run_to_end;

    #[test]
    fn tells_status_processor_time_and_memory_of_a_child() {
        let mut command = Command::new("sh");
        let counts = "i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done; exit 3";
        let ended = run_to_end(command.args(["-c", counts]).stdin(Stdio::null())).unwrap();
        assert_eq!(ended.status, 3 << 8);
        assert!(ended.peak_kib > 100, "{}", ended.peak_kib);
        assert!(ended.cpu.as_micros() > 100, "{:?}", ended.cpu);
    }
}
