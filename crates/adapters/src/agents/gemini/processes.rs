//! Which processes are Gemini CLI, which of them can own sessions, and what their argv tells about the
//! session. Pure.

use agentctl_model::ProcessHead;
use agentctl_model::text::clean;

use crate::join::node::NodeProgram;

pub(super) const GEMINI: NodeProgram =
    NodeProgram { name: "gemini", package: "@google/gemini-cli", entries: &["gemini.js", "index.js"] };
/// Management commands; a prompt may stand in the same position.
const COMMANDS: [&str; 8] = ["mcp", "extensions", "extension", "skills", "skill", "hooks", "hook", "gemma"];

/// Whether the process can own a session: it is neither a management command nor one that only prints.
pub(super) fn may_own(head: &ProcessHead) -> bool {
    const PRINTS: [&str; 8] =
        ["-h", "--help", "-v", "--version", "-l", "--list-extensions", "--list-sessions", "--delete-session"];
    GEMINI.run(head).is_some_and(|run| {
        !run.first_word().is_some_and(|word| COMMANDS.contains(&word)) && !run.has(&PRINTS)
    })
}

/// Whether the process works for another program, which may open several sessions in it.
pub(super) fn is_server(head: &ProcessHead) -> bool {
    GEMINI.run(head).is_some_and(|run| run.has(&["--acp", "--experimental-acp"]))
}

/// The session id in the argv. The agent accepts any word as the id of a new session; `latest` and numbers
/// are not ids to resume.
pub(super) fn id_in_argv(head: &ProcessHead) -> Option<&str> {
    let run = GEMINI.run(head).filter(|_| !is_server(head))?;
    let resumed = || {
        let named = run.option(&["-r", "--resume"])?;
        (named != "latest" && named.bytes().any(|byte| !byte.is_ascii_digit())).then_some(named)
    };
    run.option(&["--session-id"]).or_else(resumed).filter(|id| is_id(id))
}

/// Whether this can be an id. The agent accepts any word, but an id that would have to be altered for display
/// is rejected here, because the altered id could be another session's. So is one with bytes that are not UTF-8, which
/// were replaced when the line was read.
pub(super) fn is_id(id: &str) -> bool {
    let is_shown_as_it_is = clean(id) == id && !id.contains(['\n', '\t', char::REPLACEMENT_CHARACTER]);
    !id.is_empty() && id.len() <= 200 && is_shown_as_it_is
}

/// Whether the process was started with a prompt and exits with the turn.
pub(super) fn is_headless(head: &ProcessHead) -> bool {
    GEMINI.run(head).is_some_and(|run| {
        run.has(&["-p", "--prompt", "-o", "--output-format"])
            && !run.has(&["-i", "--prompt-interactive", "--acp", "--experimental-acp"])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::join::scene;

    const ID: &str = "11111111-1111-4111-8111-111111111111";

    fn head(argv: &[&str]) -> ProcessHead {
        scene::head("MainThread", &[&["node", "/n/.bin/gemini"], argv].concat())
    }

    #[test]
    fn arguments_say_what_kind_of_run_it_is() {
        for argv in [&["-p", "x"][..], &["--prompt=x"], &["-o", "stream-json", "--session-id", ID]] {
            assert!(is_headless(&head(argv)) && may_own(&head(argv)), "{argv:?}");
        }
        for argv in [&[][..], &["do it"], &["-i", "x"], &["-r", ID], &["--acp"]] {
            assert!(!is_headless(&head(argv)) && may_own(&head(argv)), "{argv:?}");
        }
        for argv in [&["mcp", "list"][..], &["--list-sessions"], &["--delete-session", "1"]] {
            assert!(!may_own(&head(argv)), "{argv:?}");
        }
    }

    #[test]
    fn the_id_is_read_where_it_names_this_very_session() {
        assert_eq!(id_in_argv(&head(&["--session-id", ID])), Some(ID));
        assert_eq!(id_in_argv(&head(&["-r", ID, "-p", "x"])), Some(ID));
        assert_eq!(id_in_argv(&head(&["--session-id=not-a-uuid"])), Some("not-a-uuid"));
        for argv in [&["-r", "latest"][..], &["-r", "5"], &["-r"], &["--acp", "--session-id", ID]] {
            assert_eq!(id_in_argv(&head(argv)), None, "{argv:?}");
        }
    }
}
