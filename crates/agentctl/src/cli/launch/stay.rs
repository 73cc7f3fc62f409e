//! How long a session stays: the same flags for `launch` and `resume`.

use std::time::Duration;

use agentctl_fleet::act::launch::Stay;

use crate::render::time;

#[derive(Debug, clap::Args)]
pub(crate) struct StayArgs {
    /// Stop it after this time: 30m, 2h; with --hold, interrupt a turn
    #[arg(long, value_name = "TIME", value_parser = time::parse_duration)]
    timeout: Option<Duration>,
    /// Keep the session after its turn: send, approve, answer and interrupt reach it
    #[arg(long)]
    hold: bool,
    /// End a held session that nobody talked to for this long: 30m, 2h
    #[arg(long, value_name = "TIME", requires = "hold", value_parser = time::parse_duration)]
    idle_timeout: Option<Duration>,
    /// Start the agent's own screen in a detached tmux session; `attach` opens it
    #[arg(long, conflicts_with = "hold")]
    terminal: bool,
}

impl From<&StayArgs> for Stay {
    fn from(&StayArgs { timeout, hold, idle_timeout, terminal }: &StayArgs) -> Self {
        Self { timeout, hold, idle_timeout, terminal }
    }
}
