//! Every agent that can be held, over every road. One road of each is seen in every run.

use agentctl_testkit::skip;

use crate::manner::Agent;
use crate::road::Road;
use crate::{Stage, acp, claude, pi, rounds, servers};

fn whole(agent: &'static Agent, road: Road) {
    if std::env::var_os("AGENTCTL_LONG").is_none() {
        skip("held agents are seen over every road with --long");
        return;
    }
    let Some(stage) = Stage::set(agent, road) else { return };
    if road == Road::Nats && !(agent.arguments)(&stage.scene).is_empty() {
        return skip("the bus passes no arguments on to an agent");
    }
    rounds::all(&stage);
    rounds::two_in_two_worktrees(&stage);
    if road != Road::Http {
        rounds::waits_for_the_first_turn(&stage);
    }
}

macro_rules! over_every_road {
    ($($name:ident: $agent:expr),* $(,)?) => {$(
        mod $name {
            use super::*;

            #[test]
            fn by_commands_alone() {
                whole(&$agent, Road::Alone);
            }

            #[test]
            fn by_commands_beside_a_daemon() {
                whole(&$agent, Road::Daemon);
            }

            #[test]
            fn by_ssh() {
                whole(&$agent, Road::Ssh);
            }

            #[test]
            fn by_nats() {
                whole(&$agent, Road::Nats);
            }

            #[test]
            fn by_http() {
                whole(&$agent, Road::Http);
            }
        }
    )*};
}

over_every_road! {
    claude_code: claude::CLAUDE_CODE,
    codex: servers::CODEX,
    copilot: acp::COPILOT,
    gemini: acp::GEMINI,
    kimi: acp::KIMI,
    opencode: servers::OPENCODE,
    pi_rust: acp::PI_RUST,
    pi_with_a_gate: pi::PI_WITH_A_GATE,
    qwen: acp::QWEN,
}
