//! Which processes are OpenCode (or the related Slate), what each is for, and what its argv says. Pure.

use agentctl_model::{Process, ProcessHead};

/// What a process of OpenCode does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `opencode run`: takes one prompt and ends with the turn.
    Run,
    /// The terminal interface.
    Terminal,
    /// `serve` and `web`: turns of many sessions in many directories.
    Server,
    /// `acp`: a server for one editor.
    Editor,
    /// The Node script that starts the native program and waits for it (until 1.2).
    Wrapper,
    /// A client of a server, or a management command: never a session.
    Neither,
}

/// Subcommands that manage sessions or the installation, or only show another process's session.
const NEITHER: [&str; 24] = [
    "attach",
    "session",
    "db",
    "import",
    "export",
    "stats",
    "models",
    "auth",
    "providers",
    "login",
    "logout",
    "upgrade",
    "uninstall",
    "mcp",
    "debug",
    "agent",
    "github",
    "pr",
    "completion",
    "plugin",
    "plug",
    "generate",
    "account",
    "console",
];

/// Options that take the next argument, so that it is not mistaken for a subcommand.
const WITH_VALUE: [&str; 22] = [
    "-m",
    "--model",
    "-s",
    "--session",
    "--prompt",
    "--agent",
    "--port",
    "--hostname",
    "--mdns-domain",
    "--cors",
    "--log-level",
    "--title",
    "--dir",
    "--attach",
    "--format",
    "-f",
    "--file",
    "--variant",
    "--command",
    "--username",
    "--password",
    "--cwd",
];

/// The names under which an agent of this family runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program {
    pub(crate) natives: &'static [&'static str],
    /// The script of the npm package, which only starts the native program.
    pub(crate) scripts: &'static [&'static str],
}

pub(super) const OPENCODE: Program = Program {
    natives: &["opencode", "opencode.exe", ".opencode", "opencode-cli"],
    scripts: &["opencode", "opencode.js"],
};

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

impl Program {
    /// `node …/opencode run …`
    fn is_wrapper(&self, head: &ProcessHead) -> bool {
        matches!(head.program(), "node" | "nodejs" | "bun")
            && head.argv.get(1).is_some_and(|script| self.scripts.contains(&file_name(script)))
    }

    pub(crate) fn is(&self, head: &ProcessHead) -> bool {
        self.natives.contains(&head.program()) || self.is_wrapper(head)
    }

    pub(crate) fn kind(&self, head: &ProcessHead) -> Kind {
        if self.is_wrapper(head) {
            return Kind::Wrapper;
        }
        match subcommand(head) {
            Some("run") if head.option("--attach").is_some() => Kind::Neither,
            Some("run") => Kind::Run,
            Some("serve" | "web") => Kind::Server,
            Some("acp") => Kind::Editor,
            Some(word) if NEITHER.contains(&word) => Kind::Neither,
            _ if head.has_flag("--version") || head.has_flag("-v") || head.has_flag("--help") => {
                Kind::Neither
            }
            // Anything else is the project's directory.
            _ => Kind::Terminal,
        }
    }

    /// A run with its own prompt that ends with the turn, unless its options make it stay for the next message.
    pub(crate) fn ends_with_its_turn(&self, head: &ProcessHead) -> bool {
        let stays = head.has_flag("-i")
            || head.has_flag("--interactive")
            || head.option("--input-format") == Some("stream-json");
        self.kind(head) == Kind::Run && !stays
    }

    /// A run that creates its own session: it cannot own one that is older than itself.
    pub(crate) fn makes_its_own(&self, head: &ProcessHead) -> bool {
        self.kind(head) == Kind::Run && !head.has_flag("--continue") && !head.has_flag("-c")
    }

    /// The directories in which its session may be: a run uses `$PWD`, which may be stale; every other process, and a
    /// run that was given a directory, uses its working directory.
    pub(crate) fn directories(&self, process: &Process) -> Vec<String> {
        let mut directories: Vec<String> = Vec::new();
        if self.kind(&process.head) == Kind::Run && process.head.option("--dir").is_none() {
            directories.extend(process.variable("PWD").map(str::to_owned));
        }
        let cwd = process.cwd.seen().map(|cwd| cwd.to_string_lossy().into_owned());
        directories.extend(cwd.filter(|cwd| directories.first() != Some(cwd)));
        directories
    }
}

fn subcommand(head: &ProcessHead) -> Option<&str> {
    let mut args = head.argv.iter().skip(1);
    while let Some(arg) = args.next() {
        if WITH_VALUE.contains(&arg.as_str()) {
            args.next();
        } else if arg == "--" {
            return None;
        } else if !arg.starts_with('-') {
            return Some(arg);
        }
    }
    None
}

/// The session in the argv. With `--fork` it is the parent's, and the process's own session is new.
pub(crate) fn id_in_argv(head: &ProcessHead) -> Option<&str> {
    let id = head.option("--session").or_else(|| head.option("-s"))?;
    (id.starts_with("ses") && !head.has_flag("--fork")).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::join::scene;

    fn head(argv: &[&str]) -> ProcessHead {
        scene::head("opencode", argv)
    }

    #[test]
    fn every_process_has_its_kind() {
        for (argv, wanted) in [
            (&["opencode", "run", "--format", "json"][..], Kind::Run),
            (&["/x/bin/opencode.exe", "--print-logs", "run", "hello"], Kind::Run),
            (&["opencode", "run", "--attach", "http://127.0.0.1:4096", "hi"], Kind::Neither),
            (&["opencode"], Kind::Terminal),
            (&["opencode", "-m", "run", "/some/project"], Kind::Terminal),
            (&["opencode", "--log-level", "DEBUG", "serve", "--port", "1"], Kind::Server),
            (&["opencode", "acp"], Kind::Editor),
            (&["opencode", "session", "list"], Kind::Neither),
            (&["opencode", "attach", "http://x"], Kind::Neither),
            (&["opencode", "--version"], Kind::Neither),
            (&["node", "/x/bin/opencode", "run", "hi"], Kind::Wrapper),
            (&["/x/opencode-linux-x64/bin/opencode", "run", "hi"], Kind::Run),
            (&["/x/bin/.opencode", "run", "hi"], Kind::Run),
        ] {
            let head = head(argv);
            assert!(OPENCODE.is(&head), "{argv:?}");
            assert_eq!(OPENCODE.kind(&head), wanted, "{argv:?}");
        }
        for argv in
            [&["vim", "/x/opencode"][..], &["grep", "-r", "opencode"], &["node", "/x/opencode/server.js"]]
        {
            assert!(!OPENCODE.is(&head(argv)), "{argv:?}");
        }
    }

    #[test]
    fn a_run_ends_with_its_turn_unless_it_was_told_to_stay() {
        let ends = |argv: &[&str]| OPENCODE.ends_with_its_turn(&head(argv));
        assert!(ends(&["opencode", "run", "hi"]) && ends(&["opencode", "run", "--format", "json"]));
        assert!(!ends(&["opencode", "run", "-i"]) && !ends(&["opencode", "run", "--interactive", "hi"]));
        assert!(!ends(&["opencode"]) && !ends(&["opencode", "serve"]));
    }

    #[test]
    fn the_id_is_read_where_it_names_this_very_session() {
        let id = |argv: &[&str]| id_in_argv(&head(argv)).map(str::to_owned);
        assert_eq!(id(&["opencode", "run", "--session", "ses_1"]).as_deref(), Some("ses_1"));
        assert_eq!(id(&["opencode", "-s", "ses_1"]).as_deref(), Some("ses_1"));
        assert_eq!(id(&["opencode", "run", "--session=ses_1"]).as_deref(), Some("ses_1"));
        assert_eq!(id(&["opencode", "run", "-s", "ses_1", "--fork"]), None);
        assert_eq!(id(&["opencode", "run", "--", "--session", "ses_1"]), None);
        assert_eq!(id(&["opencode", "run", "-s", "my text"]), None);
    }
}
