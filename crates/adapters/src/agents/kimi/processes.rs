//! Which processes are Kimi Code. Pure.
//!
//! A moment after its start the agent overwrites its arguments with its title: only `kimi-code` is left,
//! whether it is a session in a terminal, a run with a prompt or a server. Its environment stays.

use agentctl_model::{KernelView, Process, ProcessHead};

use crate::join::node::{Invocation, NodeProgram};

const TITLE: &str = "kimi-code";
const KIMI: NodeProgram =
    NodeProgram { name: "kimi", package: "@moonshot-ai/kimi-code", entries: &["main.mjs"] };

/// Recognises the agent by its title, or by its script as long as the arguments are still there.
pub(super) fn is_kimi(head: &ProcessHead) -> bool {
    let Some(run) = Invocation::of(head) else { return head.argv.is_empty() && head.comm == TITLE };
    // A title may be padded with blanks, or with NULs, which the kernel's list of arguments no longer
    // contains.
    let titled = head.argv.len() == 1 && run.program.trim_end() == TITLE;
    titled || KIMI.is(head)
}

/// Whether the arguments, where they are still there, show that this is not a session: a management command,
/// help or version.
fn is_a_command(head: &ProcessHead) -> bool {
    Invocation::of(head)
        .is_some_and(|run| run.first_word().is_some() || run.has(&["--help", "-h", "--version", "-V"]))
}

/// The processes that may own a session of this source.
pub(super) fn possible_owners(
    kernel: &KernelView,
    ours: impl Fn(&Process) -> bool,
) -> impl Iterator<Item = &Process> {
    kernel
        .processes
        .iter()
        .filter(move |process| is_kimi(&process.head) && !is_a_command(&process.head) && ours(process))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::scene::process;

    #[test]
    fn the_title_and_the_script_are_kimi() {
        for argv in [
            &["kimi-code"][..],
            &["kimi-code      "],
            &["node", "/usr/bin/kimi", "-p", "x"],
            &["/n/bin/node", "--no-warnings", "/n/@moonshot-ai/kimi-code/dist/main.mjs"],
            &["/opt/kimi"],
        ] {
            let head = process(argv).head;
            assert!(is_kimi(&head) && !is_a_command(&head), "{argv:?}");
        }
        for argv in [
            &["vim", "kimi-code"][..],
            &["node", "/n/other/dist/main.mjs"],
            &["/w/kimi-code", "build"],
            &["grep", "-r", "kimi"],
        ] {
            assert!(!is_kimi(&process(argv).head), "{argv:?}");
        }
        for argv in [&["node", "/usr/bin/kimi", "session", "list"][..], &["kimi", "--version"]] {
            assert!(is_a_command(&process(argv).head), "{argv:?}");
        }
        let mut bare = process(&["kimi-code"]).head;
        bare.argv.clear();
        assert!(is_kimi(&bare), "only the kernel's name of it is left");
    }
}
