//! Agents that are held over ACP.

#![no_main]

use agentctl_adapters::hold::acp::{Acp, Opening, Start, agent};
use agentctl_fuzz::machines::{check, seeds};

fn machine(first: u8) -> Acp {
    let agents = [agent::UNKNOWN, agent::GEMINI, agent::QWEN, agent::COPILOT, agent::KIMI, agent::OPENCODE];
    let start = if first & 0x80 == 0 {
        Start::New
    } else {
        Start::Continue { session: "s".to_owned(), may_load: first & 0x40 == 0 }
    };
    let number = usize::from(first & 0x3f) % agents.len();
    let agent = agents.into_iter().nth(number).expect("one of them");
    Acp::new(agent, Opening { cwd: "/w".to_owned(), start, modes: &[], model: None, launch: "l".to_owned() })
}

agentctl_fuzz::target!(
    |bytes: &[u8]| {
        if let Some((first, rest)) = bytes.split_first() {
            check(|| machine(*first), rest);
        }
    },
    seeds(&["acp", "holding/gemini", "holding/qwen", "holding/copilot"])
        .into_iter()
        .zip([0, 1, 2, 3, 4, 5, 0x80, 0xc1].into_iter().cycle())
        .map(|(seed, first)| [vec![first], seed].concat())
        .collect()
);
