//! A home that cannot be written to: read-only, full, and full while the daemon runs. Reading continues,
//! failures report their reason, and nothing crashes or spins.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use agentctl_testkit::{Background, Output, until, until_seen};

use crate::house::{House, SOON};
use crate::stand_in::StandIn;
use crate::webhooks::Receiver;

/// A mount namespace of its own: what is mounted there is invisible elsewhere. Everything must be run inside
/// it.
struct Place {
    house: House,
    keeper: Background,
}

impl Place {
    /// `None`, with a printed reason, where mounting is not permitted.
    fn set(house: House, mount: &str) -> Option<Self> {
        let home = house.home.agentctl_home();
        fs::create_dir_all(&home).unwrap();
        let script = format!("{mount} && echo ready && exec sleep 600");
        let mut command = house.home.command("unshare");
        command.args(["--mount", "sh", "-c", &script]).env("PLACE", &home);
        let mut keeper = Background::spawn(&house.home, command);
        let ready = until(SOON, "the mount", || {
            let ready = keeper.stdout().contains("ready");
            (ready || keeper.try_wait().is_some()).then_some(ready)
        });
        if !ready {
            agentctl_testkit::skip(format!("nothing can be mounted here: {}", keeper.stderr().trim()));
            return None;
        }
        Some(Self { house, keeper })
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = self.house.home.command("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.keeper.pid())).arg("--").arg(program);
        command.args(arguments);
        command
    }

    fn agentctl(&self, arguments: &[&str]) -> Output {
        self.house.home.run(self.command(env!("CARGO_BIN_EXE_agentctl"), arguments))
    }

    fn sh(&self, script: &str) -> Output {
        let mut command = self.command("sh", &["-c", script]);
        command.env("PLACE", self.house.home.agentctl_home());
        self.house.home.run(command)
    }

    fn status(&self) -> serde_json::Value {
        self.agentctl(&["daemon", "status", "--json"]).json()["daemon"].clone()
    }

    #[track_caller]
    fn reading_goes_on(&self) {
        for arguments in [&["list", "--since", "all", "-q"][..], &["status", "2222"], &["locks"], &["doctor"]]
        {
            let read = self.agentctl(arguments);
            assert_eq!(read.code, Some(0), "{arguments:?}: {read:?}");
        }
        assert_eq!(self.agentctl(&["list", "--since", "all", "-q"]).stdout.lines().count(), 4);
    }

    #[track_caller]
    fn fails(&self, arguments: &[&str], words: &str) {
        let failed = self.agentctl(arguments);
        assert!(matches!(failed.code, Some(1 | 5)), "{arguments:?}: {failed:?}");
        assert!(failed.stderr.contains(words), "{arguments:?}: {failed:?}");
        assert!(failed.stderr.contains(".agentctl"), "it names the place: {arguments:?}: {failed:?}");
    }
}

#[test]
fn a_read_only_home_is_named_and_reading_goes_on() {
    let mount = r#"mount --bind "$PLACE" "$PLACE" && mount -o remount,bind,ro "$PLACE""#;
    let Some(place) = Place::set(House::furnished(), mount) else { return };
    place.reading_goes_on();
    for arguments in [
        &["daemon", "start"][..],
        &["daemon", "run"],
        &["events"],
        &["fuse", "set", "/tmp", "--ttl", "1h"],
        &["lock", "/usr"],
        &["launch", "claude-code", "-p", "x"],
    ] {
        place.fails(arguments, "Read-only file system");
    }
    // These commands can do without the daemon.
    assert_eq!(place.agentctl(&["wait", "2222", "--timeout", "0s"]).stderr, "");
    assert_eq!(place.agentctl(&["prune"]).code, Some(0));
    place.reading_goes_on();
}

#[test]
fn a_home_that_fills_up_loses_nothing_and_comes_back() {
    let mount = r#"mount -t tmpfs -o size=256k,mode=700 none "$PLACE""#;
    let Some(place) = Place::set(House::furnished(), mount) else { return };
    let receiver = Receiver::start(&[]);
    let config = format!("[webhook]\nurl = \"{}\"\n", receiver.url);
    let _ = place.sh(&format!("printf '%s' '{config}' > \"$PLACE/config.toml\"")).ok();
    let _ = place.agentctl(&["daemon", "start"]).ok();
    let daemon = place.status()["pid"].clone();
    let _ = place.agentctl(&["fuse", "set", "/tmp", "--ttl", "5h", "--label", "kept"]).ok();
    let _ = place.agentctl(&["lock", "/usr"]).ok();
    let _ =
        place.sh(r#"dd if=/dev/zero of="$PLACE/fill" bs=1k 2>/dev/null; : > "$PLACE/x" 2>/dev/null; true"#);

    place.reading_goes_on();
    place.fails(&["lock", "/var"], "No space left on device");
    place.fails(&["launch", "claude-code", "-p", "x"], "No space left on device");
    let refused = place.agentctl(&["fuse", "set", "/tmp", "--ttl", "9h"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("fuses.json cannot be written: No space left"), "{refused:?}");
    let fuses = place.agentctl(&["fuses", "--json"]).ok().json();
    assert_eq!(fuses["fuses"][0]["label"], "kept", "what was there stays: {fuses}");
    assert_eq!(place.agentctl(&["locks", "--json"]).ok().json()["locks"].as_array().unwrap().len(), 1);

    // A webhook that cannot be written to disk is sent all the same.
    let mut agent = StandIn::start(&place.house.home);
    until_seen(SOON, "the session to be seen", || {
        let live = place.status()["liveSessions"].clone();
        if live == 1 { Ok(()) } else { Err(live) }
    });
    agent.kill();
    assert!(receiver.accepted(1)[0].body.contains(&agent.id));
    // What is tried again for that webhook is over soon; one that spins never rests.
    until(SOON, "it to rest", || (!is_busy(daemon.as_u64().unwrap())).then_some(()));
    assert_eq!(place.status()["pid"], daemon, "it is still the same daemon");

    let _ = place.sh(r#"rm "$PLACE/fill""#).ok();
    let _ = place.agentctl(&["fuse", "set", "/tmp", "--ttl", "9h"]).ok();
    let _ = place.agentctl(&["lock", "/var"]).ok();
    assert_eq!(place.sh(r#"ls "$PLACE" | grep -c '[.]new$'"#).stdout.trim(), "0", "no half stays");
    let mut agent = StandIn::start(&place.house.home);
    until_seen(SOON, "the session to be seen", || {
        let live = place.status()["liveSessions"].clone();
        if live == 1 { Ok(()) } else { Err(live) }
    });
    agent.kill();
    assert!(receiver.accepted(2)[1].body.contains(&agent.id));
    let _ = place.agentctl(&["daemon", "stop"]).ok();
}

/// Whether a process uses more than a quarter of a core, over one second.
fn is_busy(pid: u64) -> bool {
    let used = || -> u64 {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let (before, began) = (used(), Instant::now());
    while began.elapsed() < Duration::from_secs(1) {
        std::thread::sleep(Duration::from_millis(50));
    }
    used() - before > rustix::param::clock_ticks_per_second() / 4
}
