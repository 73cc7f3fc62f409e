//! Which processes are Claude Code, which of them are only its helpers, and what their argv says. Pure.

use agentctl_model::ProcessHead;

/// Subcommands that manage sessions or the installation and are never a session themselves.
const NOT_SESSIONS: [&str; 22] = [
    "daemon",
    "agents",
    "stop",
    "attach",
    "logs",
    "rm",
    "respawn",
    "mcp",
    "update",
    "upgrade",
    "doctor",
    "install",
    "config",
    "plugin",
    "plugins",
    "setup-token",
    "auth",
    "login",
    "logout",
    "migrate-installer",
    "project",
    "gateway",
];

pub(super) fn is_claude(head: &ProcessHead) -> bool {
    let named = |name: &str| matches!(name, "claude" | "claude.exe");
    // Helper processes rewrite their title to one string, such as `claude bg-spare`.
    named(&head.comm) || named(head.program()) || head.program().starts_with("claude ")
}

/// Whether this is a spare, a pty host, the background daemon, or a command that only manages.
pub(super) fn is_helper(head: &ProcessHead) -> bool {
    let titled = head.argv.first().is_some_and(|title| title.contains("claude bg-"));
    let flagged = head.argv.iter().any(|arg| arg.starts_with("--bg-"));
    let managing = head.argv.get(1).is_some_and(|word| NOT_SESSIONS.contains(&word.as_str()));
    titled || flagged || managing
}

/// The session id in the argv. It is only a fallback, because `/clear` changes the session but not the argv.
pub(super) fn id_in_argv(head: &ProcessHead) -> Option<String> {
    if let Some(id) = head.option("--session-id") {
        return Some(id.to_owned()).filter(|id| is_uuid(id));
    }
    if head.has_flag("--fork-session") {
        // A fork names its parent's id here.
        return None;
    }
    let resumed = head.option("--resume").or_else(|| head.option("-r"))?;
    let name = resumed.rsplit('/').next().unwrap_or(resumed);
    let id = name.strip_suffix(".jsonl").unwrap_or(name);
    is_uuid(id).then(|| id.to_owned())
}

/// Whether the process runs without a terminal.
pub(super) fn is_headless(head: &ProcessHead) -> bool {
    head.has_flag("-p") || head.has_flag("--print")
}

/// Whether the process accepts several messages in turn, as programs with an embedded agent do.
pub(super) fn stays_for_more(head: &ProcessHead) -> bool {
    head.option("--input-format") == Some("stream-json")
}

/// Whether the process was started with a prompt and exits with the turn.
pub(super) fn ends_with_its_turn(head: &ProcessHead) -> bool {
    is_headless(head) && !stays_for_more(head)
}

pub(super) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::join::scene::head;

    const ID: &str = "11111111-1111-4111-8111-111111111111";

    #[test]
    fn helpers_are_claude_but_never_sessions() {
        for argv in [
            &["claude", "daemon", "run"][..],
            &["claude bg-spare"],
            &["claude bg-pty-host"],
            &["/x/claude", "--bg-pty-host", "--session-id", ID],
            &["claude", "agents", "--json"],
        ] {
            let head = head("claude", argv);
            assert!(is_claude(&head) && is_helper(&head), "{argv:?}");
        }
        assert!(!is_helper(&head("claude", &["claude", "-p", "--session-id", ID])));
    }

    #[test]
    fn a_run_that_takes_more_messages_does_not_end_with_its_turn() {
        assert!(ends_with_its_turn(&head("claude", &["claude", "-p", "--output-format", "stream-json"])));
        assert!(!ends_with_its_turn(&head("claude", &["claude", "-p", "--input-format", "stream-json"])));
        assert!(!ends_with_its_turn(&head("claude", &["claude"])));
    }

    #[test]
    fn the_id_is_read_where_it_names_this_very_session() {
        let id = |argv: &[&str]| id_in_argv(&head("claude", argv));
        assert_eq!(id(&["claude", "--session-id", ID]).as_deref(), Some(ID));
        assert_eq!(id(&["claude", "--resume", ID]).as_deref(), Some(ID));
        assert_eq!(id(&["claude", "--resume", &format!("/p/{ID}.jsonl")]).as_deref(), Some(ID));
        assert_eq!(id(&["claude", "--resume", ID, "--fork-session"]), None);
        assert_eq!(id(&["claude", "--resume", "a name"]), None);
        assert_eq!(id(&["claude"]), None);
    }
}
