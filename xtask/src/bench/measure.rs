//! Runs one command once and measures its wall time and its peak memory.
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
    pub(crate) peak_kib: u64,
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
    let [nanos, peak_kib] = numbers[..] else { bail!("__measure said {line:?}") };
    Ok(Cost { wall: Duration::from_nanos(nanos), peak_kib })
}

/// `xtask __measure OUTPUT PROGRAM ARGS…` prints nanoseconds and peak KiB.
pub(crate) fn main(args: &[String]) -> anyhow::Result<()> {
    let [output, program, rest @ ..] = args else { bail!("use: __measure OUTPUT PROGRAM ARGS…") };
    let output = File::create(output).with_context(|| format!("cannot make {output}"))?;
    let mut command = Command::new(program);
    command.args(rest).stdin(Stdio::null()).stdout(output);
    let start = Instant::now();
    let (status, peak_kib) = run_to_end(&mut command).with_context(|| format!("cannot run {program}"))?;
    let wall = start.elapsed();
    if status != 0 {
        bail!("{program} ended with wait status {status:#x}");
    }
    println!("{} {peak_kib}", wall.as_nanos());
    Ok(())
}

/// Starts the command and waits for it; returns its wait status and its peak memory in KiB.
#[expect(
    unsafe_code,
    reason = "only wait4 tells the peak memory of one child, and no safe wrapper is at hand"
)]
fn run_to_end(command: &mut Command) -> anyhow::Result<(i32, u64)> {
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
            return Ok((status, u64::try_from(usage.ru_maxrss)?));
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error).with_context(|| format!("cannot wait for pid {pid}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::run_to_end;

    #[test]
    fn tells_status_and_memory_of_a_child() {
        let mut command = Command::new("sh");
        let (status, peak_kib) = run_to_end(command.args(["-c", "exit 3"]).stdin(Stdio::null())).unwrap();
        assert_eq!(status, 3 << 8);
        assert!(peak_kib > 100, "{peak_kib}");
    }
}
