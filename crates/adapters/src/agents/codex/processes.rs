//! Which processes are Codex, and their roles: a run, a terminal, a server, or only a helper. Pure.

use agentctl_model::ProcessHead;

/// The role of a Codex process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// `codex exec`: a run with its own prompt that exits with the turn.
    Run,
    /// `codex` in a terminal. It owns its thread, or is a client of the shared server that owns it.
    Terminal,
    /// `codex app-server`, including the shared daemon: it owns the threads of its clients.
    Server,
    /// The Node script that starts the program and forwards signals. It owns nothing.
    Wrapper,
    /// A sandbox, or a command that only manages.
    Helper,
}

/// Options before a subcommand whose value is the next argument.
const VALUED: [&str; 22] = [
    "-c",
    "--config",
    "-m",
    "--model",
    "-p",
    "--profile",
    "-s",
    "--sandbox",
    "-a",
    "--ask-for-approval",
    "-C",
    "--cd",
    "-i",
    "--image",
    "--add-dir",
    "--enable",
    "--disable",
    "--local-provider",
    "--remote",
    "--thread-source",
    "-o",
    "--remote-auth-token-env",
];

/// Subcommands that serve the threads of other programs.
const SERVERS: [&str; 2] = ["app-server", "mcp-server"];

/// Subcommands that manage threads or the installation and never own a thread.
const MANAGING: [&str; 28] = [
    "login",
    "logout",
    "mcp",
    "mcp-server",
    "app",
    "completion",
    "update",
    "doctor",
    "sandbox",
    "debug",
    "apply",
    "a",
    "queue",
    "archive",
    "unarchive",
    "migrate-rollouts",
    "migrate-nfs-db",
    "delete",
    "cloud",
    "exec-server",
    "features",
    "plugin",
    "execpolicy",
    "stdio-to-uds",
    "responses-api-proxy",
    "remote-control",
    "agents",
    "help",
];

/// Whether this is a file name of the program: npm and package managers install `codex`, release archives add
/// the target.
fn is_program(name: &str) -> bool {
    name == "codex"
        || (name.starts_with("codex-")
            && (name.contains("-linux-") || name.contains("-apple-"))
            && !is_sandbox(name))
}

fn is_sandbox(name: &str) -> bool {
    // The kernel truncates names to 15 bytes.
    name.starts_with("codex-linux-san") || name == "codex-execve-wrapper" || name == "codex-code-mode-host"
}

/// Whether this is `node /x/bin/codex ARGS` or its script `codex.js`.
fn is_wrapper(head: &ProcessHead) -> bool {
    let script = head.argv.get(1).map(|path| path.rsplit('/').next().unwrap_or(path));
    matches!(head.program(), "node" | "nodejs" | "bun") && matches!(script, Some("codex" | "codex.js"))
}

pub(super) fn is_codex(head: &ProcessHead) -> bool {
    is_program(head.program()) || head.comm == "codex" || is_sandbox(head.program()) || is_wrapper(head)
}

pub(super) fn role(head: &ProcessHead) -> Role {
    if is_sandbox(head.program()) {
        return Role::Helper;
    }
    if is_wrapper(head) {
        return Role::Wrapper;
    }
    match subcommand(head) {
        Some("exec" | "e" | "review") => Role::Run,
        // `app-server daemon …`, `app-server proxy` and similar commands only manage the server.
        Some("app-server") if second_word(head, "app-server").is_some() => Role::Helper,
        Some(word) if SERVERS.contains(&word) => Role::Server,
        Some(word) if MANAGING.contains(&word) => Role::Helper,
        // `resume`, `fork`, a prompt, or nothing at all.
        _ => Role::Terminal,
    }
}

/// Whether the run stores nothing on disk.
pub(super) fn is_ephemeral(head: &ProcessHead) -> bool {
    head.has_flag("--ephemeral")
}

/// Whether the arguments name this thread as the one to resume. A fork names a thread that it only copies.
pub(super) fn is_resuming(head: &ProcessHead, id: &str) -> bool {
    let mut words = head.argv.iter().skip_while(|word| *word != "resume");
    words.any(|word| word == id)
}

/// The first argument that is not an option.
fn subcommand(head: &ProcessHead) -> Option<&str> {
    words_after(head, 1).next()
}

fn second_word<'h>(head: &'h ProcessHead, first: &str) -> Option<&'h str> {
    let at = head.argv.iter().position(|arg| arg == first)?;
    words_after(head, at + 1)
        .next()
        .filter(|word| word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'))
}

fn words_after(head: &ProcessHead, from: usize) -> impl Iterator<Item = &str> {
    let mut args = head.argv.iter().skip(from).map(String::as_str);
    std::iter::from_fn(move || {
        loop {
            let arg = args.next()?;
            if arg == "--" {
                return None;
            } else if VALUED.contains(&arg) || arg == "--listen" {
                args.next();
            } else if !arg.starts_with('-') {
                return Some(arg);
            }
        }
    })
}

/// The socket on which a server listens, if it is in the file system; an empty string means the default
/// socket.
pub(super) fn listens_on(head: &ProcessHead) -> Option<&str> {
    head.option("--listen")?.strip_prefix("unix://")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::join::scene::head;

    #[test]
    fn every_process_has_its_role() {
        let native = "/x/vendor/x86_64-unknown-linux-musl/bin/codex";
        let cases: [(&str, &[&str], Role); 16] = [
            ("codex", &[native, "exec", "--json", "hi"], Role::Run),
            ("codex", &[native, "-c", "model=\"exec\"", "-m", "x", "exec", "hi"], Role::Run),
            ("codex", &[native, "e", "resume", "--last"], Role::Run),
            ("codex", &[native], Role::Terminal),
            ("codex", &[native, "resume", "--no-daemon", "id"], Role::Terminal),
            ("codex", &[native, "--", "exec"], Role::Terminal),
            ("codex", &[native, "fix the exec command"], Role::Terminal),
            ("codex", &[native, "app-server"], Role::Server),
            ("codex", &[native, "app-server", "--listen", "unix://", "--managed-daemon"], Role::Server),
            ("codex", &[native, "app-server", "daemon", "pid-update-loop"], Role::Helper),
            ("codex", &[native, "app-server", "proxy"], Role::Helper),
            ("codex", &[native, "queue", "--thread", "id"], Role::Helper),
            ("codex", &["codex-linux-sandbox", "--sandbox-policy-cwd", "/w", "--", "sleep"], Role::Helper),
            ("codex-linux-san", &["codex-linux-sandbox"], Role::Helper),
            ("node", &["node", "/usr/bin/codex", "exec", "hi"], Role::Wrapper),
            ("codex-x86_64-un", &["/opt/codex-x86_64-unknown-linux-musl", "exec", "x"], Role::Run),
        ];
        for (comm, argv, expected) in cases {
            let head = head(comm, argv);
            assert!(is_codex(&head), "{argv:?}");
            assert_eq!(role(&head), expected, "{argv:?}");
        }
        for (comm, argv) in
            [("node", &["node", "/x/codex-tool.js"][..]), ("vim", &["vim", "codex"]), ("3", &["bwrap"])]
        {
            assert!(!is_codex(&head(comm, argv)), "{argv:?}");
        }
    }

    #[test]
    fn who_resumes_a_thread_names_it() {
        let resuming = |argv: &[&str]| is_resuming(&head("codex", argv), "id");
        assert!(
            resuming(&["codex", "exec", "resume", "--json", "id", "go on"])
                && resuming(&["codex", "resume", "id"])
        );
        assert!(!resuming(&["codex", "exec", "fork", "id", "go on"]) && !resuming(&["codex", "exec", "id"]));
        assert!(!resuming(&["codex", "exec", "resume", "--last"]));
    }

    #[test]
    fn a_servers_socket_is_read_from_its_argv() {
        let socket = |listen: &[&str]| {
            let argv: Vec<&str> = ["codex", "app-server"].iter().chain(listen).copied().collect();
            listens_on(&head("codex", &argv)).map(str::to_owned)
        };
        assert_eq!(socket(&["--listen", "unix://"]), Some(String::new()));
        assert_eq!(socket(&["--listen", "unix:///a/b.sock"]), Some("/a/b.sock".into()));
        assert_eq!(socket(&["--listen", "ws://127.0.0.1:1"]), None);
        assert_eq!(socket(&[]), None);
    }
}
