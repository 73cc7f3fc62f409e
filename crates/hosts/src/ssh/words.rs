//! What ssh's own words mean: at which step the road ended, and what a person can do. Pure.

use super::SshHost;
use crate::failure::{RoadFailure, Step};

/// ssh's own exit code for a connection that failed.
const SSH_FAILED: i32 = 255;
/// A shell's exit codes for a program that is not there, and for one that cannot be run.
const NOT_FOUND: i32 = 127;
const NOT_RUNNABLE: i32 = 126;

/// Words of OpenSSH, the step at which they are said, and the remedy. The first that fits counts.
const KNOWN: [(&str, Step, &str); 14] = [
    ("could not resolve hostname", Step::Resolve, "check the name in `ssh =` of this host, or ~/.ssh/config"),
    (
        "remote host identification has changed",
        Step::Authenticate,
        "its host key is another one than before: if that is expected, `ssh-keygen -R` removes the old one",
    ),
    (
        "host key verification failed",
        Step::Authenticate,
        "connect once by hand with ssh and accept its host key",
    ),
    (
        "permission denied",
        Step::Authenticate,
        "only keys are used here: load one with ssh-add, or set IdentityFile in ~/.ssh/config",
    ),
    (
        "too many authentication failures",
        Step::Authenticate,
        "set IdentitiesOnly and IdentityFile for this host",
    ),
    ("no matching", Step::Authenticate, "both sides share no algorithm; see ~/.ssh/config there and here"),
    ("bad configuration option", Step::Connect, "correct ~/.ssh/config"),
    ("bad owner or permissions", Step::Connect, "correct the permissions of ~/.ssh/config"),
    ("connection refused", Step::Connect, "nobody listens there: is sshd running, and is it this port?"),
    ("no route to host", Step::Connect, "the machine is off, or not in this network"),
    ("network is unreachable", Step::Connect, "this machine has no way to that network"),
    ("timed out", Step::Connect, "the machine is off, or a firewall keeps it away"),
    ("connection reset", Step::Connect, "sshd there may be full: see MaxStartups"),
    ("kex_exchange_identification", Step::Connect, "something else than sshd answers there, or sshd is full"),
];

pub(super) fn failure(host: &SshHost, code: Option<i32>, said: &str, timed_out: bool) -> RoadFailure {
    let lower = said.to_lowercase();
    let last = said.lines().map(str::trim).rfind(|line| !line.is_empty());
    if let Some((needle, step, hint)) = KNOWN.iter().find(|(needle, ..)| lower.contains(needle)) {
        let line = said.lines().map(str::trim).find(|line| line.to_lowercase().contains(needle));
        return RoadFailure::new(*step, line.or(last).unwrap_or(needle)).hint(*hint);
    }
    if timed_out {
        let words = format!("no answer within {:?}", host.timeout);
        return RoadFailure::new(Step::Connect, words)
            .hint("raise `timeout` of this host if it is only slow; `agentctl hosts check` says more");
    }
    match code {
        Some(NOT_FOUND) => {
            let program = host.program.as_deref().unwrap_or("agentctl");
            RoadFailure::new(Step::Program, format!("{program} is not found there"))
                .hint("install agentctl there, or name it with `program = \"~/bin/agentctl\"` of this host")
        }
        Some(NOT_RUNNABLE) => RoadFailure::new(Step::Program, last.unwrap_or("agentctl cannot be run there"))
            .hint("it may be built for another machine, or lack the permission to run"),
        Some(SSH_FAILED) | None => {
            RoadFailure::new(Step::Connect, last.unwrap_or("ssh ended without a word"))
        }
        // An agentctl without `__serve-stdio` refuses it as an unknown word.
        Some(2) if lower.contains("__serve-stdio") => {
            RoadFailure::new(Step::Version, "agentctl there is too old for this")
                .hint("install the same version as here")
        }
        Some(code) => {
            let words = last.map_or_else(|| format!("agentctl there ended with {code}"), str::to_owned);
            RoadFailure::new(Step::Program, words).hint("`agentctl doctor` on that machine says more")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn step(code: Option<i32>, said: &str, timed_out: bool) -> (Step, bool) {
        let host = SshHost { destination: "box".into(), program: None, timeout: Duration::from_secs(5) };
        let failure = failure(&host, code, said, timed_out);
        (failure.step, failure.hint.is_some())
    }

    #[test]
    fn every_known_word_has_its_step_and_remedy() {
        for (said, expected) in [
            ("ssh: Could not resolve hostname bx: Name or service not known\r\n", Step::Resolve),
            ("ssh: connect to host 127.0.0.1 port 9: Connection refused\r\n", Step::Connect),
            ("dev@box: Permission denied (publickey,password).\r\n", Step::Authenticate),
            (
                "@@@\n@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.\r\n",
                Step::Authenticate,
            ),
            ("No ED25519 host key is known\nHost key verification failed.", Step::Authenticate),
        ] {
            assert_eq!(step(Some(255), said, false), (expected, true), "{said}");
        }
        assert_eq!(
            step(Some(127), "bash: line 1: agentctl: command not found", false),
            (Step::Program, true)
        );
        assert_eq!(
            step(Some(2), "error: unrecognized subcommand '__serve-stdio'", false),
            (Step::Version, true)
        );
        assert_eq!(step(None, "", true), (Step::Connect, true));
        assert_eq!(step(Some(1), "error: HOME is not set", false), (Step::Program, true));
    }
}
