//! Refuses what a launch cannot ask of a session without a process here.

use agentctl_model::{Conversation, Error};

use crate::keep::launches::LaunchOrder;

/// Refuses options that need a process here, to which they could be passed or for which one could wait.
pub(super) fn refuse_what_needs_a_process(order: &LaunchOrder) -> Result<(), Error> {
    let resumed = matches!(order.conversation, Conversation::Stored { .. });
    let forked = matches!(order.conversation, Conversation::ForkOf { .. });
    let hooks = order.on_create.is_some() || order.on_complete.is_some();
    let chosen = order.model.is_some() || order.permission.is_some();
    let asked = [
        (forked, "--fork", "its gateway forks sessions only by itself", ""),
        (
            order.worktree.is_some(),
            "working tree",
            "its sessions live in a gateway, in folders of their own",
            "launch it alone, with --cwd for a folder that the gateway can reach",
        ),
        (!order.args.is_empty(), "argument after `--`", "no program of it is started here", ""),
        (order.terminal, "--terminal", "no program of it is started here", ""),
        (
            order.hold,
            "--hold",
            "its gateway holds its sessions by itself",
            "launch it without --hold: `agentctl send` reaches it all the same",
        ),
        (!order.env.is_empty(), "--env", "its sessions run in the gateway's environment", ""),
        (
            order.system_prompt.is_some(),
            "--system-prompt-append",
            "its gateway has its own",
            "say it in the prompt",
        ),
        (
            hooks,
            "--on-create or --on-complete",
            "nothing of it runs here that could run them",
            "`agentctl wait ID && CMD`, or a webhook on session.idle",
        ),
        (
            order.callback.is_some(),
            "--callback-session or --callback-agent",
            "nothing of it runs here that could tell",
            "let it tell them itself: it lives in the same gateway",
        ),
        (
            order.timeout_ms.is_some(),
            "--timeout",
            "nothing of it runs here that could be ended",
            "`agentctl fuse set --session ID --max-time 30m` stops it in the gateway",
        ),
        (
            resumed && chosen,
            "--model or --permission-mode with resume",
            "a session keeps what it began with",
            "",
        ),
    ];
    match asked.into_iter().find(|(asked, ..)| *asked) {
        None => Ok(()),
        Some((_, what, why, hint)) => {
            let refusal = Error::refused(format!("{} takes no {what}: {why}", order.adapter));
            Err(if hint.is_empty() { refusal } else { refusal.hint(hint) })
        }
    }
}
