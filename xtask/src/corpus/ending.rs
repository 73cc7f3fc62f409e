//! How generated sessions end, in which proportion, and what a list should show for each.

use super::rng::Rng;

/// How the last turn ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Completed,
    Interrupted,
    Failed,
    Died,
    /// The agent died while it wrote a record.
    Torn,
}

impl Ending {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        match rng.between(0, 100) {
            0..80 => Self::Completed,
            80..88 => Self::Interrupted,
            88..92 => Self::Failed,
            92..99 => Self::Died,
            _ => Self::Torn,
        }
    }

    pub(super) fn outcome(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
            Self::Died | Self::Torn => "died",
        }
    }
}
