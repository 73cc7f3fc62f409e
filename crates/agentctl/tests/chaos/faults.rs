//! The faults. Each ends with everything as it was, but for whoever was killed.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::process::Command;

use agentctl_testkit::{Signal, tools};

use crate::cast::{Actor, Turn};
use crate::dice::Dice;
use crate::house::SOON;
use crate::oracle::{Left, Unheard};
use crate::world::World;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    AgentKilled,
    AgentFrozen,
    DaemonKilled,
    DaemonEnded,
    DaemonFrozen,
    RunnerKilled,
    HookKilled,
    /// The command that writes a lock dies here.
    LockDies(String),
    /// The daemon dies here while it writes a timer.
    TimerDies(String),
    /// Whoever writes the record of a launch dies here.
    LaunchDies(String),
    /// The runner dies here when its agent has ended.
    ExitDies(String),
    Torn,
    Garbage,
    Replaced,
    Truncated,
    Deleted,
    RootFails(&'static str),
    SocketRemoved,
    HalfRequests,
    FewDescriptors,
    LittleMemory,
    Clock(&'static str),
    DiskFull,
    DiskReadOnly,
    RecordsReadOnly,
    RecordsAway,
}

const STEPS: [&str; 5] = ["begin", "written", "synced", "renamed", "done"];

impl Fault {
    /// Its kind.
    pub(crate) fn name(&self) -> String {
        let text = format!("{self:?}");
        text.split('(').next().unwrap_or_default().to_owned()
    }
}

impl World {
    pub(crate) fn choose(&self, dice: &mut Dice) -> Fault {
        let point = |dice: &mut Dice, of: &str| format!("{of}.{}", dice.pick(&STEPS));
        let kinds = if self.disks.is_some() { 26 } else { 22 };
        match dice.below(kinds) {
            0 => Fault::AgentKilled,
            1 => Fault::AgentFrozen,
            2 => Fault::DaemonKilled,
            3 => Fault::DaemonEnded,
            4 => Fault::DaemonFrozen,
            5 => Fault::RunnerKilled,
            6 => Fault::HookKilled,
            7 => Fault::LockDies(point(dice, "locks")),
            8 => Fault::TimerDies(point(dice, "fuses")),
            9 => {
                let time = 1 + dice.below(2);
                Fault::LaunchDies(format!("{}#{time}", point(dice, "launch")))
            }
            10 => Fault::ExitDies(point(dice, "exit")),
            11 => Fault::Torn,
            12 => Fault::Garbage,
            13 => Fault::Replaced,
            14 => Fault::Truncated,
            15 => Fault::Deleted,
            16 => {
                let others: Vec<&str> =
                    self.agents.iter().copied().filter(|name| *name != "claude-code").collect();
                Fault::RootFails(dice.pick(&others))
            }
            17 => Fault::SocketRemoved,
            18 => Fault::HalfRequests,
            19 => Fault::FewDescriptors,
            20 => Fault::LittleMemory,
            21 => Fault::Clock(dice.pick(&["+3h", "-3h", "+400d"])),
            22 => Fault::DiskFull,
            23 => Fault::DiskReadOnly,
            24 => Fault::RecordsReadOnly,
            _ => Fault::RecordsAway,
        }
    }

    pub(crate) fn play(&mut self, fault: &Fault, what: &str, dice: &mut Dice) {
        match fault {
            Fault::AgentKilled => {
                if !self.alive.is_empty() {
                    self.kill(dice.below(self.alive.len()));
                }
            }
            Fault::AgentFrozen => self.freeze_an_agent(what, dice),
            Fault::DaemonKilled => {
                self.kill_daemon();
                self.check(what, Unheard::Nothing, false);
            }
            Fault::DaemonEnded => {
                if let Some(mut daemon) = self.daemon.take() {
                    daemon.signal(Signal::TERM);
                    assert!(daemon.wait(SOON).success(), "{what}: {}", daemon.stderr());
                }
                self.deed(dice);
                self.check(what, Unheard::Nothing, false);
            }
            Fault::DaemonFrozen => {
                self.signal_daemon(Signal::STOP);
                self.lock(dice, None);
                self.check(what, Unheard::Nothing, false);
                let list = self.list(true);
                crate::oracle::judge(&list, &self.alive, &self.dead, Unheard::Nothing)
                    .unwrap_or_else(|why| panic!("{what}, with a daemon that stands still: {why}"));
                self.signal_daemon(Signal::CONT);
            }
            Fault::RunnerKilled => self.kill_a_runner(what, dice),
            Fault::HookKilled => self.kill_a_hook(what),
            Fault::LockDies(point) => self.lock(dice, Some(point)),
            Fault::TimerDies(point) => {
                self.kill_daemon();
                self.daemon = Some(self.house.daemon_with(&[], &[("AGENTCTL_FAULT", point)]));
                self.set_timer(dice);
                // It died there, or had nothing to write.
                self.kill_daemon();
            }
            Fault::LaunchDies(point) => self.launch(Some(point)),
            Fault::ExitDies(point) => self.die_at_the_exit(point),
            Fault::Torn | Fault::Garbage | Fault::Replaced | Fault::Truncated | Fault::Deleted => {
                self.damage(fault, dice);
            }
            Fault::RootFails(agent) => self.fail_root(agent, what),
            Fault::SocketRemoved => {
                fs::remove_file(self.house.socket()).unwrap();
                self.check(what, Unheard::Nothing, true);
                self.kill_daemon();
            }
            Fault::HalfRequests => {
                let half = |number: usize| {
                    let mut stream = UnixStream::connect(self.house.socket()).ok()?;
                    stream
                        .write_all(
                            &b"POST /v1/fuses HTTP/1.1\r\nHost: x\r\nContent-Length: 999\r\n\r\n{"
                                [..20 + number % 30],
                        )
                        .ok()?;
                    Some(stream)
                };
                let halves: Vec<_> = (0..40).map(half).collect();
                self.check(what, Unheard::Nothing, true);
                drop(halves);
            }
            Fault::FewDescriptors => {
                self.kill_daemon();
                // With a few less it would not look by itself any more, which it says; answers stay what they are.
                let too_few = dice.percent(30);
                self.daemon = Some(self.house.daemon_under(if too_few { 48 } else { 64 }, &[]));
                self.deed(dice);
                self.check(what, Unheard::Nothing, true);
                if !too_few {
                    self.check_stream(what);
                }
                self.kill_daemon();
            }
            Fault::LittleMemory => self.starve(what, dice),
            Fault::Clock(offset) => self.shift_the_clock(offset, what, dice),
            Fault::DiskFull | Fault::DiskReadOnly | Fault::RecordsReadOnly | Fault::RecordsAway => {
                self.spoil_a_disk(fault, what, dice);
            }
        }
    }

    fn signal_daemon(&mut self, signal: Signal) {
        self.daemon.as_mut().expect("a daemon").signal(signal);
    }

    fn freeze_an_agent(&mut self, what: &str, dice: &mut Dice) {
        let Some(one) = (!self.alive.is_empty()).then(|| dice.below(self.alive.len())) else { return };
        let pid = self.alive[one].pid();
        self.house.home.signal(pid, Signal::STOP);
        self.alive[one].is_frozen = true;
        self.check(what, Unheard::Nothing, true);
        if dice.percent(30) {
            // One that stands still can be killed all the same.
            return self.kill(one);
        }
        self.house.home.signal(pid, Signal::CONT);
        self.alive[one].is_frozen = false;
    }

    fn a_launched_one(&mut self) -> usize {
        if let Some(one) = (0..self.alive.len()).find(|one| self.alive[*one].as_launched().is_some()) {
            return one;
        }
        self.launch(None);
        self.alive.len() - 1
    }

    /// The runner goes; the agent works on, and its end is told all the same.
    fn kill_a_runner(&mut self, what: &str, dice: &mut Dice) {
        let one = self.a_launched_one();
        let home = &self.house.home;
        let launched = self.alive[one].as_launched().expect("it was launched");
        if let Some(runner) = launched.runner.take() {
            home.signal(runner, Signal::KILL);
            let agent = launched.agent;
            agentctl_testkit::until(SOON, "the end of a runner", || {
                (!crate::cast::is_ours(home, runner)).then_some(())
            });
            assert!(crate::cast::is_ours(home, agent), "{what}: its agent died with it");
        }
        self.check(what, Unheard::Nothing, true);
        if dice.percent(50) {
            self.kill(one);
        }
    }

    /// A hook that hangs is killed; the launch comes to its end, and its outcome is the agent's.
    fn kill_a_hook(&mut self, what: &str) {
        let cwd = self.house.home.work_dir("hooked");
        let hook = "exec sleep 424242";
        let mut command = self.house.home.agentctl_command(&[
            "launch",
            "claude-code",
            "-p",
            "x",
            "--json",
            "--on-complete",
            hook,
            "--cwd",
            cwd.to_str().unwrap(),
        ]);
        command.env("AGENTCTL_NO_DAEMON", "1");
        let launched = self.house.home.run(command).ok().json();
        let id = launched["id"].as_str().unwrap().to_owned();
        let mut actor = Actor::launched(&self.house, id);
        fs::write(crate::cast::gates(&self.house.home).join(&actor.id), "").unwrap();
        let hooks = || {
            let all = self.house.home.processes().into_iter();
            all.filter(|(_, line)| line.trim_end() == "sleep 424242").map(|(pid, _)| pid).next()
        };
        let hook = agentctl_testkit::until(SOON, &format!("the hook of {what}"), hooks);
        self.house.home.signal(hook, Signal::KILL);
        actor.as_launched().expect("it was launched").until_over(&self.house.home);
        actor.turn = Turn::Ended;
        self.bury(&actor);
    }

    fn die_at_the_exit(&mut self, point: &str) {
        let before = self.alive.len();
        self.launch(Some(point));
        if self.alive.len() > before {
            let mut actor = self.dismiss(before);
            actor.turn = Turn::Ended;
            self.bury(&actor);
            actor.finish_launch(&self.house.home);
        }
    }

    /// What can happen to the file of a session that nobody runs, or that somebody does.
    fn damage(&mut self, fault: &Fault, dice: &mut Dice) {
        let ended: Vec<String> =
            self.order.iter().filter(|id| self.transcript_of(id).exists()).cloned().collect();
        if ended.is_empty() {
            return;
        }
        let id = ended[dice.below(ended.len())].clone();
        let path = self.transcript_of(&id);
        let append = |path: &std::path::Path, bytes: &[u8]| {
            fs::OpenOptions::new().append(true).open(path).unwrap().write_all(bytes).unwrap();
        };
        match fault {
            Fault::Torn => {
                append(&path, br#"{"type":"user","message":{"role":"us"#);
                self.order.retain(|one| *one != id);
            }
            Fault::Garbage => {
                append(&path, b"\x00\xff\xfe not a record \x1b[31m {\n");
                let live = self.alive.iter().find(|actor| actor.is_stand_in_of_claude());
                if let Some(path) = live.and_then(|actor| actor.transcript(&self.house.home)) {
                    append(&path, b"[[[[[[ nor this \xc3\n");
                }
            }
            Fault::Replaced => {
                let copy = path.with_extension("copy");
                fs::copy(&path, &copy).unwrap();
                fs::rename(&copy, &path).unwrap();
            }
            Fault::Truncated => {
                let size = fs::metadata(&path).unwrap().len();
                let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
                file.set_len(u64::try_from(dice.below(usize::try_from(size).unwrap() + 1)).unwrap()).unwrap();
                self.dead.insert(id, ("claude-code", Left::Damaged));
            }
            _ => self.delete(&id),
        }
    }

    /// The place of an agent becomes a link that leads nowhere for a while.
    fn fail_root(&mut self, agent: &'static str, what: &str) {
        let (_, root) = *agentctl_testkit::troupe::CAST.iter().find(|(name, _)| *name == agent).unwrap();
        let root = self.house.home.path().join(root);
        if !root.exists() {
            return;
        }
        let away = root.with_extension("away");
        fs::rename(&root, &away).unwrap();
        std::os::unix::fs::symlink(&root, &root).unwrap();
        self.check(what, Unheard::Failing(agent), true);
        fs::remove_file(&root).unwrap();
        fs::rename(&away, &root).unwrap();
    }

    /// The daemon may have a little more memory than it has, and no more. It may die of that; nobody else does.
    fn starve(&mut self, what: &str, dice: &mut Dice) {
        let pid = self.daemon.as_ref().expect("a daemon").pid();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
        let size: u64 = size.trim().trim_end_matches(" kB").parse().unwrap();
        let limit = (size + 512) * 1024;
        let done = Command::new("prlimit")
            .args([&format!("--pid={pid}"), &format!("--as={limit}")])
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
        self.deed(dice);
        self.check(what, Unheard::Nothing, false);
        let _ = self.house.try_get("/v1/sessions?all=true&since=all");
        self.kill_daemon();
    }

    fn shift_the_clock(&mut self, offset: &str, what: &str, dice: &mut Dice) {
        let Ok(library) = tools::faketime() else { return };
        self.kill_daemon();
        let mut command = self.house.home.agentctl_command(&["daemon", "run"]);
        command.env("LD_PRELOAD", library).env("FAKETIME", offset).env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        // Timers would come to their end, as they should.
        let far = offset == "+400d";
        if far {
            self.cancel_all_timers();
        }
        self.daemon = Some(self.house.serving(command));
        if !far {
            self.deed(dice);
        }
        self.check(what, Unheard::Nothing, true);
        self.check_stream(what);
        self.kill_daemon();
    }

    fn cancel_all_timers(&mut self) {
        self.start_daemon();
        let set = self.house.get("/v1/fuses").json()["fuses"].take();
        for fuse in set.as_array().unwrap() {
            let (id, folder) = (fuse["id"].as_str().unwrap(), fuse["directory"].as_str().unwrap());
            let reply = self.house.write("DELETE", &format!("/v1/fuses/{id}"), "{}");
            assert_eq!(reply.status, 200, "{reply:?}");
            self.timers.note(folder, false, Some(0));
        }
        self.kill_daemon();
    }

    fn spoil_a_disk(&mut self, fault: &Fault, what: &str, dice: &mut Dice) {
        let disks = self.disks.take().expect("it is chosen only with disks");
        match fault {
            Fault::DiskFull | Fault::DiskReadOnly => {
                self.writes_may_fail = true;
                let (full, covered) = match fault {
                    Fault::DiskFull => (Some(disks.fill()), None),
                    _ => (None, Some(disks.protect_own())),
                };
                self.lock(dice, None);
                self.set_timer(dice);
                if dice.percent(30) {
                    self.launch(None);
                }
                self.check(what, Unheard::Nothing, true);
                drop((full, covered));
                self.writes_may_fail = false;
            }
            Fault::RecordsReadOnly => {
                let covered = disks.protect_claude();
                self.check(what, Unheard::Nothing, true);
                drop(covered);
            }
            _ => {
                self.stream.heard().may_be_gone = true;
                let covered = disks.take_claude_away();
                self.check(what, Unheard::Away("claude-code"), true);
                drop(covered);
                // A survey that began while they were away may still be told of. One that tells of this agent came later.
                let later = Actor::claude(&self.house);
                self.welcome(later);
                self.check_stream(what);
                self.stream.heard().may_be_gone = false;
            }
        }
        self.disks = Some(disks);
    }
}
