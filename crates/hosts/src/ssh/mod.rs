//! The road over the user's own ssh: his keys, his config, his known hosts. agentctl adds no listener and asks for no
//! password.

mod words;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use agentctl_model::Road;
use rustix::io::ioctl_fionbio;

use crate::connection::PipeConnection;
use crate::failure::{RoadFailure, Step};
use crate::road::{Connection, Host};

/// A socket's path has at most 108 bytes, of which ssh needs 57: its name is 40 digits, to which it adds up to 17
/// bytes of its own while it makes the socket.
const LONGEST_FOLDER: usize = 107 - 57 - 1;
/// How long ssh keeps a connection for the next command.
const KEPT: &str = "60";
/// How much of ssh's own words is read.
const MOST_WORDS: u64 = 16 << 10;
/// How long a child that closed its output may take to end.
const UNTIL_ENDED: Duration = Duration::from_millis(500);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A host behind ssh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshHost {
    /// Whatever ssh takes as a destination.
    pub destination: String,
    /// agentctl there, if it is not on the PATH.
    pub program: Option<String>,
    pub timeout: Duration,
}

/// Why this cannot be a destination.
pub fn check_destination(text: &str) -> Result<(), String> {
    // ssh would take it for an option.
    if text.starts_with('-') {
        return Err("a destination of ssh does not begin with `-`".to_owned());
    }
    if text.is_empty() || text.chars().any(|each| each.is_whitespace() || each.is_control()) {
        return Err("a destination of ssh is one word, such as dev@box or an alias of ~/.ssh/config; \
                    options belong there"
            .to_owned());
    }
    Ok(())
}

/// The road to such a host.
#[derive(Debug)]
pub struct SshRoad {
    pub host: SshHost,
    /// The private folder for ssh's own sockets, which are kept for a minute.
    pub sockets: Option<PathBuf>,
}

impl Host for SshRoad {
    fn via(&self) -> Road {
        Road::Ssh
    }

    fn timeout(&self) -> Duration {
        self.host.timeout
    }

    fn connect(&self) -> Result<Box<dyn Connection>, RoadFailure> {
        let deadline = Instant::now() + self.host.timeout;
        let child = self.host.command(self.sockets.as_deref()).spawn().map_err(|error| {
            RoadFailure::new(Step::Connect, format!("ssh cannot be started: {error}"))
                .hint("install OpenSSH's client on this machine")
        })?;
        let connection = PipeConnection::open(child, deadline, |child, error| {
            let timed_out = error.is_some_and(|error| error.kind() == std::io::ErrorKind::TimedOut);
            let ended = if timed_out { None } else { ended(child) };
            let said = said(child);
            words::failure(&self.host, ended.and_then(|ended| ended.code()), &said, timed_out)
        })?;
        Ok(Box::new(connection))
    }

    fn terminal(&self, words: &[String]) -> Option<Vec<String>> {
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        let there = format!("exec {} {}", self.host.remote_program(), words.join(" "));
        Some(vec!["ssh".to_owned(), "-t".to_owned(), "--".to_owned(), self.host.destination.clone(), there])
    }
}

impl SshHost {
    #[expect(clippy::disallowed_methods, reason = "the user's own ssh is the road")]
    fn command(&self, sockets: Option<&Path>) -> Command {
        let mut command = Command::new("ssh");
        command.args(self.options(sockets)).arg("--").arg(&self.destination).arg(self.remote_command());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn options(&self, sockets: Option<&Path>) -> Vec<String> {
        let seconds = self.timeout.as_secs().max(1);
        let mut options = vec!["-T".to_owned()];
        let mut set = |name: &str, value: &str| options.extend(["-o".to_owned(), format!("{name}={value}")]);
        set("BatchMode", "yes");
        set("ConnectTimeout", &seconds.to_string());
        set("ClearAllForwardings", "yes");
        set("LogLevel", "ERROR");
        if let Some(folder) = sockets.filter(|folder| folder.as_os_str().len() <= LONGEST_FOLDER)
            && let Some(folder) = folder.to_str().filter(|text| !text.contains(['%', ' ', '"']))
        {
            set("ControlMaster", "auto");
            set("ControlPath", &format!("{folder}/%C"));
            set("ControlPersist", KEPT);
        }
        options
    }

    /// What the shell there is given. The home folder is found by that shell, and nothing else is.
    fn remote_command(&self) -> String {
        format!("exec {} __serve-stdio", self.remote_program())
    }

    fn remote_program(&self) -> String {
        match self.program.as_deref() {
            None => "agentctl".to_owned(),
            Some(program) => match program.strip_prefix("~/") {
                Some(below) => format!("~/{}", quoted(below)),
                None => quoted(program),
            },
        }
    }
}

/// The folder for ssh's sockets: short, and private to this user.
pub fn sockets_folder(own: &Path) -> Option<PathBuf> {
    let folder = own.join("ssh");
    agentctl_files::own::make_folder(&folder).ok()?;
    Some(folder)
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// How the child ended, if it does so soon.
fn ended(child: &mut Child) -> Option<ExitStatus> {
    let until = Instant::now() + UNTIL_ENDED;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Err(_) => return None,
            Ok(None) if Instant::now() > until => return None,
            Ok(None) => std::thread::sleep(POLL_INTERVAL),
        }
    }
}

/// What ssh, or the shell there, has said so far. A connection that ssh keeps holds this pipe open, so its end is not
/// waited for.
fn said(child: &mut Child) -> String {
    let Some(errors) = child.stderr.take() else { return String::new() };
    if ioctl_fionbio(&errors, true).is_err() {
        return String::new();
    }
    let mut bytes = Vec::new();
    let _ = errors.take(MOST_WORDS).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(program: Option<&str>) -> SshHost {
        SshHost {
            destination: "dev@box".into(),
            program: program.map(str::to_owned),
            timeout: Duration::from_secs(5),
        }
    }

    #[test]
    fn nothing_that_is_typed_becomes_an_option_or_a_second_command() {
        for bad in ["-oProxyCommand=x", "", "a b", "a\nb"] {
            assert!(check_destination(bad).is_err(), "{bad:?}");
        }
        for good in ["box", "dev@box.lan", "ssh://dev@box:2222"] {
            assert!(check_destination(good).is_ok(), "{good:?}");
        }
        assert_eq!(host(None).remote_command(), "exec agentctl __serve-stdio");
        assert_eq!(host(Some("~/b/agentctl")).remote_command(), "exec ~/'b/agentctl' __serve-stdio");
        assert_eq!(
            host(Some("/o/a'; rm -rf x")).remote_command(),
            r"exec '/o/a'\''; rm -rf x' __serve-stdio"
        );
    }

    #[test]
    fn a_connection_is_kept_only_where_its_socket_fits() {
        let kept =
            |folder: &str| host(None).options(Some(Path::new(folder))).join(" ").contains("ControlPath");
        assert!(kept("/home/dev/.agentctl/ssh"));
        assert!(!kept(&format!("/home/{}/ssh", "x".repeat(60))));
        assert!(!kept("/home/a b/ssh") && !kept("/home/%h/ssh"));
        let options = host(None).options(None).join(" ");
        assert!(options.contains("BatchMode=yes") && options.contains("ConnectTimeout=5"), "{options}");
    }
}
