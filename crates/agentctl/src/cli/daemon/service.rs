//! The daemon as a service of the user: systemd on Linux, launchd on macOS. Ending the service never ends an
//! agent.

use std::io::Write;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use agentctl_model::ErrorKind;

use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::surroundings::Surroundings;

/// The service manager of this system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manager {
    Systemd,
    Launchd,
}

const LABEL: &str = "dev.agentctl.daemon";
/// More than enough for a service file.
const LARGEST_UNIT: u64 = 1 << 20;

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
        path.ok_or_else(|| {
            Failure::new(ErrorKind::Failed, "HOME is not set, so there is no place for a service")
        })
    }

    fn text(self, program: &Path, variables: &[(String, String)]) -> String {
        match self {
            Self::Systemd => unit(program, variables),
            Self::Launchd => plist(program, variables),
        }
    }

    /// A command that shows whether the user's service manager can be reached, and that changes nothing.
    fn probe(self) -> Vec<String> {
        let line: &[&str] = match self {
            Self::Systemd => &["systemctl", "--user", "show-environment"],
            Self::Launchd => &["launchctl", "list"],
        };
        line.iter().map(ToString::to_string).collect()
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

    /// The link that enabling creates beside the file.
    fn link(self, file: &Path) -> Option<PathBuf> {
        match self {
            Self::Systemd => Some(file.parent()?.join("default.target.wants").join(file.file_name()?)),
            Self::Launchd => None,
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
    // A service starts without the user's shell.
    let variables: Vec<(String, String)> = surroundings.root_variables().into_iter().collect();
    let text = manager.text(&program(surroundings)?, &variables);
    if print {
        out.write_all(text.as_bytes())?;
        return Ok(Exit::Done);
    }
    let file = manager.file(surroundings)?;
    // This is checked before anything is written: a file that was never announced would start a daemon at
    // some later time.
    ask(&manager.probe(), surroundings).map_err(|why| {
        Failure::new(ErrorKind::Failed, format!("no service can be installed, nothing was written: {why}")).hint(
            "try again in a session of your own (not sudo or su), or put what `agentctl daemon install --print` \
             prints where your system wants it",
        )
    })?;
    let failed = |error| Failure::new(ErrorKind::Failed, format!("cannot write {}: {error}", file.display()));
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let before = agentctl_files::read_small(&file, LARGEST_UNIT).ok();
    agentctl_files::write_anew(&file, text.as_bytes()).map_err(failed)?;
    for line in manager.on(&file) {
        if let Err(why) = ask(&line, surroundings) {
            // The previous file is restored; the manager notices that by itself.
            let undone = match before {
                Some(before) => agentctl_files::write_anew(&file, &before),
                None => std::fs::remove_file(&file),
            };
            let undone =
                if undone.is_ok() { "nothing was changed" } else { "its file could not be taken back" };
            return Err(Failure::new(ErrorKind::Failed, format!("{why}; {undone}")));
        }
        writeln!(out, "done: {}", line.join(" "))?;
    }
    writeln!(out, "written: {}", surroundings.shown(&file))?;
    Ok(Exit::Done)
}

/// Removes what exists, whether or not the manager can be informed.
pub(super) fn uninstall(surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let manager = Manager::here();
    let file = manager.file(surroundings)?;
    let files: Vec<PathBuf> = [Some(file.clone()), manager.link(&file)].into_iter().flatten().collect();
    // A dangling link exists too.
    let is_there = |path: &&PathBuf| std::fs::symlink_metadata(path).is_ok();
    if !files.iter().any(|path| is_there(&path)) {
        writeln!(out, "no service is installed")?;
        return Ok(Exit::Done);
    }
    for line in manager.off(&file) {
        match ask(&line, surroundings) {
            Ok(()) => writeln!(out, "done: {}", line.join(" "))?,
            Err(why) => {
                out.warn(&format!("the service manager was not told: {why}"));
                out.hint("`agentctl daemon stop` ends a daemon that still runs");
            }
        }
    }
    for path in files.iter().filter(is_there) {
        std::fs::remove_file(path).map_err(|error| {
            Failure::new(ErrorKind::Failed, format!("cannot remove {}: {error}", path.display()))
        })?;
        writeln!(out, "removed: {}", surroundings.shown(path))?;
    }
    Ok(Exit::Done)
}

/// This program as it was called. A link that a package manager or a person keeps up to date must stay a link
/// in the file: its current target may be gone after the next update.
fn program(surroundings: &Surroundings) -> Result<PathBuf, Failure> {
    let exact = std::env::current_exe()
        .map_err(|error| Failure::new(ErrorKind::Failed, format!("cannot find this program: {error}")))?;
    let called = std::env::args_os().next().map(PathBuf::from);
    let called = called.and_then(|called| surroundings.on_path(&called));
    let called = called.and_then(|called| plain(&surroundings.cwd.as_ref()?.join(called)));
    // The name by which a program was called may be anything, so it is checked.
    let real = |path: &Path| agentctl_files::real_path(path).ok();
    Ok(called.filter(|called| real(called).is_some() && real(called) == real(&exact)).unwrap_or(exact))
}

/// The same path as a service manager accepts it: without dots. If it goes up, the real folder is used.
fn plain(path: &Path) -> Option<PathBuf> {
    if !path.components().any(|part| part == Component::ParentDir) {
        return Some(path.components().collect());
    }
    Some(agentctl_files::real_path(path.parent()?).ok()?.join(path.file_name()?))
}

/// Runs one command of the service manager, and returns why it failed.
#[expect(clippy::disallowed_methods, reason = "the service manager is asked by its own program")]
fn ask(line: &[String], surroundings: &Surroundings) -> Result<(), String> {
    let shown = line.join(" ");
    let Some(program) = surroundings.on_path(Path::new(&line[0])) else {
        return Err(format!("`{}` is not here", line[0]));
    };
    let asked = Command::new(program).args(&line[1..]).stdin(Stdio::null()).output();
    let asked = asked.map_err(|error| format!("`{shown}`: {error}"))?;
    if asked.status.success() {
        return Ok(());
    }
    let words = agentctl_model::text::one_line(&String::from_utf8_lossy(&asked.stderr));
    let words = if words.is_empty() { asked.status.to_string() } else { words };
    Err(format!("`{shown}`: {words}"))
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

/// `AbandonProcessGroup` has the same effect for launchd.
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
