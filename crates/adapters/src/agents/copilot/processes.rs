//! Which processes are Copilot, and what their argv tells about the session. Pure.

use agentctl_model::ProcessHead;

use crate::join::node::NodeProgram;

/// The wrapper script in Node, and the native program that it starts.
pub(super) const COPILOT: NodeProgram =
    NodeProgram { name: "copilot", package: "@github/copilot", entries: &["npm-loader.js", "index.js"] };

/// Whether this is a session. A session has only options: a word in first position is a management command
/// (or this is another program of the same name).
pub(super) fn is_session(head: &ProcessHead) -> bool {
    COPILOT.run(head).is_some_and(|run| {
        run.first_word().is_none() && !run.has(&["--help", "-h", "--version", "-v", "--acp", "--server"])
    })
}

/// The session id in the argv. A prefix, a name or a picker identifies no session.
pub(super) fn id_in_argv(head: &ProcessHead) -> Option<&str> {
    let run = COPILOT.run(head)?;
    run.option(&["--session-id"]).or_else(|| run.option(&["--resume", "-r"])).filter(|id| is_folder_name(id))
}

/// Whether the process was started with a prompt, as an argument or on stdin, and exits with the turn.
pub(super) fn is_headless(head: &ProcessHead) -> bool {
    COPILOT
        .run(head)
        .is_some_and(|run| run.has(&["-p", "--prompt"]) || run.option(&["--output-format"]) == Some("json"))
}

/// Whether an id is a plain folder name; no other id from an argv or a listing is accepted.
pub(super) fn is_folder_name(id: &str) -> bool {
    !id.is_empty() && !id.starts_with('.') && !id.contains('/') && id.len() < 256
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::join::scene;

    fn head(argv: &[&str]) -> ProcessHead {
        scene::head("MainThread", argv)
    }

    #[test]
    fn the_wrapper_and_the_native_program_are_copilot() {
        let native = "/n/@github/copilot-linux-x64/copilot";
        for argv in [
            &["node", "/usr/bin/copilot", "-p", "x"][..],
            &["node", "/n/@github/copilot/npm-loader.js", "--session-id", "a"],
            &[native],
            &["copilot", "--resume", "a"],
        ] {
            assert!(COPILOT.is(&head(argv)) && is_session(&head(argv)), "{argv:?}");
        }
        for argv in [&["vim", "copilot"][..], &["node", "/x/copilot-helper.js"], &["grep", "-r", "copilot"]] {
            assert!(!COPILOT.is(&head(argv)), "{argv:?}");
        }
        // Another vendor's program of that name, and commands that only manage.
        for argv in [&["copilot", "svc", "deploy"][..], &[native, "mcp", "list"], &[native, "--acp"]] {
            assert!(!is_session(&head(argv)), "{argv:?}");
        }
    }

    #[test]
    fn the_id_is_a_folder_name_or_nothing() {
        assert_eq!(id_in_argv(&head(&["copilot", "--session-id", "a-b"])), Some("a-b"));
        assert_eq!(id_in_argv(&head(&["copilot", "--resume=a-b"])), Some("a-b"));
        assert_eq!(id_in_argv(&head(&["copilot", "--resume"])), None);
        assert_eq!(id_in_argv(&head(&["copilot", "--session-id", "../x"])), None);
        assert!(is_headless(&head(&["copilot", "-p", "x"])) && !is_headless(&head(&["copilot", "-i", "x"])));
        assert!(is_headless(&head(&["copilot", "--output-format", "json", "--resume=a-b"])));
    }
}
