//! The daemon as a service of the user: systemd on Linux, launchd on macOS. Ending the service never ends an agent.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::settings::Origin;
use crate::surroundings::Surroundings;

/// Who looks after services here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manager {
    Systemd,
    Launchd,
}

const LABEL: &str = "dev.agentctl.daemon";

impl Manager {
    fn here() -> Self {
        if cfg!(target_os = "macos") { Self::Launchd } else { Self::Systemd }
    }

    fn file(self, surroundings: &Surroundings) -> Result<PathBuf, Failure> {
        let home = surroundings.home.clone();
        let config = surroundings.environ.path("XDG_CONFIG_HOME");
        let path = match self {
            Self::Systemd => config
                .or_else(|| home.map(|home| home.join(".config")))
                .map(|config| config.join("systemd/user/agentctl.service")),
            Self::Launchd => home.map(|home| home.join(format!("Library/LaunchAgents/{LABEL}.plist"))),
        };
        path.ok_or_else(|| Failure::new(Exit::Failed, "HOME is not set, so there is no place for a service"))
    }

    fn text(self, program: &Path, variables: &[(String, String)]) -> String {
        match self {
            Self::Systemd => unit(program, variables),
            Self::Launchd => plist(program, variables),
        }
    }

    fn on(self, file: &Path) -> Vec<Vec<String>> {
        let words = |line: &[&str]| line.iter().map(ToString::to_string).collect();
        match self {
            Self::Systemd => vec![
                words(&["systemctl", "--user", "daemon-reload"]),
                words(&["systemctl", "--user", "enable", "--now", "agentctl.service"]),
            ],
            Self::Launchd => vec![words(&["launchctl", "load", "-w", &file.to_string_lossy()])],
        }
    }

    fn off(self, file: &Path) -> Vec<Vec<String>> {
        let words = |line: &[&str]| line.iter().map(ToString::to_string).collect();
        match self {
            Self::Systemd => vec![words(&["systemctl", "--user", "disable", "--now", "agentctl.service"])],
            Self::Launchd => vec![words(&["launchctl", "unload", "-w", &file.to_string_lossy()])],
        }
    }
}

pub(super) fn install(print: bool, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let manager = Manager::here();
    let program = std::env::current_exe()
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot find this program: {error}")))?;
    let text = manager.text(&program, &variables(surroundings));
    if print {
        out.write_all(text.as_bytes())?;
        return Ok(Exit::Done);
    }
    let file = manager.file(surroundings)?;
    let failed = |error| Failure::new(Exit::Failed, format!("cannot write {}: {error}", file.display()));
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    agentctl_files::write_anew(&file, text.as_bytes()).map_err(failed)?;
    writeln!(out, "written: {}", surroundings.shown(&file))?;
    run_all(&manager.on(&file), surroundings, out)
}

pub(super) fn uninstall(surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let manager = Manager::here();
    let file = manager.file(surroundings)?;
    if !file.exists() {
        writeln!(out, "no service is installed")?;
        return Ok(Exit::Done);
    }
    let exit = run_all(&manager.off(&file), surroundings, out)?;
    std::fs::remove_file(&file)
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot remove {}: {error}", file.display())))?;
    writeln!(out, "removed: {}", surroundings.shown(&file))?;
    Ok(exit)
}

/// Where there is no such manager, what to do by hand is said.
#[expect(clippy::disallowed_methods, reason = "the service manager is asked by its own program")]
fn run_all(lines: &[Vec<String>], surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    for line in lines {
        let shown = line.join(" ");
        let Some(program) = surroundings.on_path(Path::new(&line[0])) else {
            out.hint(&format!("`{}` is not here; run `{shown}` where it is", line[0]));
            return Ok(Exit::Failed);
        };
        let status = Command::new(program).args(&line[1..]).status();
        let done = status.map_err(|error| Failure::new(Exit::Failed, format!("`{shown}`: {error}")))?;
        if !done.success() {
            return Err(Failure::new(Exit::Failed, format!("`{shown}` ended with {done}")));
        }
        writeln!(out, "done: {shown}")?;
    }
    Ok(Exit::Done)
}

/// A service starts without the user's shell: what moved agentctl or an agent's root must be told to it.
fn variables(surroundings: &Surroundings) -> Vec<(String, String)> {
    let own = surroundings.own_folder().map(|(_, origin)| origin);
    let roots = agentctl_adapters::registry().into_iter().map(|adapter| surroundings.root_origin(adapter));
    let mut variables: Vec<(String, String)> = roots
        .chain(own)
        .filter_map(|origin| match origin {
            Origin::Environment(name) => {
                let value = surroundings.environ.text(&name)?.to_owned();
                Some((name, value))
            }
            Origin::Default | Origin::File => None,
        })
        .collect();
    variables.sort();
    variables.dedup();
    variables
}

/// `KillMode=process`: by default the manager would end everything that the daemon ever started.
fn unit(program: &Path, variables: &[(String, String)]) -> String {
    let quoted =
        |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%"));
    let environment: Vec<String> = variables
        .iter()
        .map(|(name, value)| format!("Environment={}\n", quoted(&format!("{name}={value}"))))
        .collect();
    let environment = environment.concat();
    format!(
        "[Unit]\nDescription=agentctl, the coding-agent sessions of this user\n\n\
         [Service]\nType=notify\nExecStart={} daemon run\n{environment}\
         KillMode=process\nRestart=on-failure\nRestartSec=1\n\n\
         [Install]\nWantedBy=default.target\n",
        quoted(&program.to_string_lossy())
    )
}

/// `AbandonProcessGroup` is the same promise to launchd.
fn plist(program: &Path, variables: &[(String, String)]) -> String {
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let environment: Vec<String> = variables
        .iter()
        .map(|(name, value)| {
            format!("    <key>{}</key>\n    <string>{}</string>\n", escaped(name), escaped(value))
        })
        .collect();
    let environment = environment.concat();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
         <plist version=\"1.0\">\n<dict>\n  <key>Label</key>\n  <string>{LABEL}</string>\n\
         \x20 <key>ProgramArguments</key>\n  <array>\n    <string>{}</string>\n    <string>daemon</string>\n    \
         <string>run</string>\n  </array>\n  <key>EnvironmentVariables</key>\n  <dict>\n{environment}  </dict>\n\
         \x20 <key>RunAtLoad</key>\n  <true/>\n  <key>KeepAlive</key>\n  <dict>\n    <key>SuccessfulExit</key>\n    \
         <false/>\n  </dict>\n  <key>AbandonProcessGroup</key>\n  <true/>\n</dict>\n</plist>\n",
        escaped(&program.to_string_lossy())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ending_the_service_leaves_the_agents_alone_and_odd_paths_stay_whole() {
        let variables = [("CODEX_HOME".to_owned(), "/srv/100% \"codex\" <&>".to_owned())];
        let unit = unit(Path::new("/opt/my tools/agentctl"), &variables);
        assert!(unit.contains("\nKillMode=process\n") && unit.contains("\nType=notify\n"), "{unit}");
        assert!(unit.contains("ExecStart=\"/opt/my tools/agentctl\" daemon run\n"), "{unit}");
        assert!(unit.contains("Environment=\"CODEX_HOME=/srv/100%% \\\"codex\\\" <&>\"\n"), "{unit}");
        let plist = plist(Path::new("/opt/agentctl"), &variables);
        assert!(plist.contains("<key>AbandonProcessGroup</key>\n  <true/>"), "{plist}");
        assert!(plist.contains("<string>/srv/100% \"codex\" &lt;&amp;&gt;</string>"), "{plist}");
    }
}
