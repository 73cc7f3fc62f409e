//! Which processes are Qwen Code, which of them can own sessions, and what their argv tells about the
//! session. Pure.

use agentctl_model::ProcessHead;

use crate::join::node::NodeProgram;

pub(super) const QWEN: NodeProgram = NodeProgram {
    name: "qwen",
    package: "@qwen-code/qwen-code",
    entries: &["cli-entry.js", "cli.js", "index.js", "qwen.js"],
};
/// Commands that manage or serve other programs; a prompt may stand in the same position.
const COMMANDS: [&str; 11] = [
    "auth",
    "board",
    "channel",
    "extensions",
    "hooks",
    "mcp",
    "review",
    "sandbox",
    "serve",
    "sessions",
    "update",
];
const SWITCHES: [&str; 18] = [
    "-d",
    "--debug",
    "-s",
    "--sandbox",
    "-y",
    "--yolo",
    "-c",
    "--continue",
    "--acp",
    "--bare",
    "--safe-mode",
    "--insecure",
    "--chat-recording",
    "--openai-logging",
    "--screen-reader",
    "--include-partial-messages",
    "--fork-session",
    "--telemetry",
];

/// Whether the process can own a session: it is neither a management command nor one that only prints.
pub(super) fn may_own(head: &ProcessHead) -> bool {
    QWEN.run(head).is_some_and(|run| {
        !run.first_word().is_some_and(|word| COMMANDS.contains(&word))
            && !run.has(&["-h", "--help", "-v", "--version", "-l", "--list-extensions"])
    })
}

/// Whether the process works for another program, which may open several sessions in it.
pub(super) fn is_server(head: &ProcessHead) -> bool {
    QWEN.run(head).is_some_and(|run| run.has(&["--acp", "--experimental-acp"]))
}

/// The session id in the argv, if it names exactly this session.
pub(super) fn id_in_argv(head: &ProcessHead) -> Option<&str> {
    let run = QWEN.run(head)?;
    let resumed = || run.option(&["-r", "--resume"]).filter(|_| !run.has(&["--fork-session"]));
    run.option(&["--session-id"]).or_else(resumed).filter(|id| is_id(id))
}

/// Whether the process was started with a prompt and exits with the turn.
pub(super) fn is_headless(head: &ProcessHead) -> bool {
    QWEN.run(head).is_some_and(|run| {
        let goes_on = run.has(&["-i", "--prompt-interactive", "--acp", "--experimental-acp"])
            || run.option(&["--input-format"]) == Some("stream-json");
        let asked = run.has(&["-p", "--prompt", "-o", "--output-format"]) || !run.words(&SWITCHES).is_empty();
        asked && !goes_on
    })
}

/// Whether this has the form that the agent requires of an id.
pub(super) fn is_id(text: &str) -> bool {
    (32..=36).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::join::scene;

    const ID: &str = "11111111-1111-4111-8111-111111111111";

    fn head(argv: &[&str]) -> ProcessHead {
        scene::head("MainThread", &[&["node", "/n/.bin/qwen"], argv].concat())
    }

    #[test]
    fn arguments_say_what_kind_of_run_it_is() {
        for argv in
            [&["do it"][..], &["--session-id", ID, "-y", "do it"], &["-p", "x"], &["-o", "stream-json"]]
        {
            assert!(is_headless(&head(argv)) && may_own(&head(argv)), "{argv:?}");
        }
        for argv in [&[][..], &["-r", ID], &["-i", "do it"], &["--acp"], &["--input-format", "stream-json"]] {
            assert!(!is_headless(&head(argv)) && may_own(&head(argv)), "{argv:?}");
        }
        for argv in [&["serve"][..], &["mcp", "list"], &["--version"]] {
            assert!(!may_own(&head(argv)), "{argv:?}");
        }
        assert!(is_server(&head(&["--acp"])) && !is_server(&head(&[])));
    }

    #[test]
    fn the_id_is_read_where_it_names_this_very_session() {
        assert_eq!(id_in_argv(&head(&["x", "--session-id", ID])), Some(ID));
        assert_eq!(id_in_argv(&head(&["-r", ID])), Some(ID));
        assert_eq!(id_in_argv(&head(&["-r", ID, "--fork-session"])), None);
        assert_eq!(id_in_argv(&head(&["-r", "../../etc"])), None);
    }
}
