//! `attach`: into the pane of a real tmux, or the agent's own command.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests run processes and wait for them")]

mod machine;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use agentctl_testkit::{Pty, skip, until};
use machine::agent::{Agent, note};
use machine::{DIED, Ended, Machine, SUBAGENT, TOOLS};

#[test]
fn a_session_whose_folder_is_gone_is_not_opened_there() {
    let machine = Machine::furnished();
    for args in [&["attach", DIED][..], &["attach", DIED, "--print"], &["attach", DIED, "--json"]] {
        let refused = machine.run(args);
        assert_eq!((refused.code, refused.out.as_str()), (Some(7), ""), "{refused:?}");
        assert!(refused.err.contains("its folder /home/dev/w/sig is gone"), "{refused:?}");
        assert!(refused.err.contains(&format!("`agentctl peek {DIED}`")), "what works is said: {refused:?}");
    }
}

#[test]
fn without_a_pane_the_agents_own_command_is_printed() {
    let machine = Machine::furnished();
    let folder = machine.folder_of_died();
    let ended = machine.run(&["attach", DIED]);
    let printed = format!("cd {folder} && claude --resume {DIED}\n");
    assert_eq!((ended.code, ended.out.as_str(), ended.err.as_str()), (Some(0), printed.as_str(), ""));
    let way = machine.json(&["attach", DIED, "--json"]);
    assert_eq!((way["argv"][2].as_str(), way["cwd"].as_str()), (Some(DIED), Some(folder.as_str())));
    assert!(way["tmux"].is_null() && way["shell"].is_string());

    let agent = Agent::start(&machine, TOOLS, Path::new("/home/dev/w/plain"));
    let live = machine.run(&["attach", TOOLS]);
    assert!(live.out.contains("claude --resume") && live.err.contains(&agent.pid().to_string()), "{live:?}");
    assert!(live.err.contains(&format!("agentctl stop {TOOLS}")), "what works is said: {live:?}");
    assert_eq!(machine.run(&["attach", "nobody"]).code, Some(3));
    let child = machine.run(&["attach", SUBAGENT]);
    assert_eq!(child.code, Some(7), "{child:?}");
    assert!(child.err.contains("its parent can"), "{child:?}");
}

#[test]
fn another_config_root_is_named_in_the_command() {
    let machine = Machine::furnished();
    let root = machine.home().join(".claude");
    machine.folder_of_died();
    let mut command = machine.command(&["attach", DIED]);
    let output = command.env("CLAUDE_CONFIG_DIR", &root).env("HOME", "/nowhere").output().unwrap();
    assert!(
        !String::from_utf8_lossy(&output.stdout).contains("CLAUDE_CONFIG_DIR"),
        "the shell has it already"
    );
    machine.write("own/config.toml", &format!("[adapters.claude-code]\nroots = [\"{}\"]\n", root.display()));
    let mut command = machine.command(&["attach", DIED]);
    let output =
        command.env("AGENTCTL_HOME", machine.home().join("own")).env("HOME", "/nowhere").output().unwrap();
    let line = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(line.contains(&format!("&& CLAUDE_CONFIG_DIR={} claude --resume", root.display())), "{line}");
}

/// A tmux server of its own, ended with the test.
struct Tmux<'m> {
    machine: &'m Machine,
}

impl<'m> Tmux<'m> {
    /// With the session `agents`, in which a process owns TOOLS below a shell. `None` when there is no tmux
    /// here.
    fn start(machine: &'m Machine) -> Option<Self> {
        let tmux = Self { machine };
        Command::new("tmux").arg("-V").output().ok()?;
        let pane = "echo this is the pane of the agent; bash -c 'exec -a claude sleep 600'; true";
        let started = tmux.run(&["-f", "/dev/null", "new-session", "-d", "-s", "agents", "sh", "-c", pane]);
        assert_eq!(started.code, Some(0), "{started:?}");
        let shell: u32 = tmux.run(&["list-panes", "-a", "-F", "#{pane_pid}"]).out.trim().parse().unwrap();
        let pid = until(Duration::from_mins(1), "the agent in the pane", || {
            let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).ok()?;
            let child: u32 = children.split_whitespace().next()?.parse().ok()?;
            let argv = std::fs::read(format!("/proc/{child}/cmdline")).ok()?;
            argv.starts_with(b"claude\0").then_some(child)
        });
        note(machine, pid, TOOLS, "/home/dev/w/plain", r#""status":"busy""#);
        Some(tmux)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.args(arguments);
        self.surround(&mut command);
        command
    }

    /// The same environment for tmux and for us, so that both find the same socket.
    fn surround(&self, command: &mut Command) {
        command.env_clear().current_dir("/").env("PATH", std::env::var_os("PATH").unwrap());
        command.env("HOME", self.machine.home()).env("TMUX_TMPDIR", self.machine.home());
        command.env("TERM", "xterm").env("LANG", "C.UTF-8").env("SHELL", "/bin/sh");
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        Ended::of(&self.command(arguments).output().unwrap())
    }

    fn agentctl(&self, arguments: &[&str]) -> Command {
        let mut command = self.machine.command(arguments);
        self.surround(&mut command);
        command
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}

#[test]
fn a_session_in_tmux_is_gone_to_from_outside_and_from_inside() {
    let machine = Machine::furnished();
    let Some(tmux) = Tmux::start(&machine) else { return skip("tmux is not installed") };
    let printed = Ended::of(&tmux.agentctl(&["attach", TOOLS, "--print"]).output().unwrap());
    assert_eq!((printed.code, printed.err.as_str()), (Some(0), ""), "{printed:?}");
    assert!(
        printed.out.starts_with("tmux -S ") && printed.out.ends_with("attach-session -t %0\n"),
        "{printed:?}"
    );
    let way = Ended::of(&tmux.agentctl(&["attach", TOOLS, "--json"]).output().unwrap());
    let way: serde_json::Value = serde_json::from_str(&way.out).unwrap();
    assert_eq!((way["tmux"]["place"].as_str(), way["tmux"]["id"].as_str()), (Some("agents:0.0"), Some("%0")));
    // A pipe cannot be attached, so the command is printed.
    let piped = Ended::of(&tmux.agentctl(&["attach", TOOLS]).output().unwrap());
    assert_eq!(piped.out, printed.out);

    let outside = Pty::spawn(&tmux.agentctl(&["attach", TOOLS]));
    outside.wait_for("this is the pane of the agent");
    drop(outside);

    let agentctl = env!("CARGO_BIN_EXE_agentctl");
    let go = format!("{agentctl} attach {TOOLS}; sleep 600");
    let inside = Pty::spawn(&tmux.command(&["new-session", "-s", "mine", "sh", "-c", &go]));
    inside.wait_for("this is the pane of the agent");
    // It may take a moment until the earlier client is gone.
    until(Duration::from_mins(1), "one client, moved to the other session", || {
        let clients = tmux.run(&["list-clients", "-F", "#{session_name}"]).out;
        (clients.trim() == "agents").then_some(())
    });
}
