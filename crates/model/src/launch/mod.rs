//! What somebody wants an agent to do, how that is carried out, and how it ended. Data only.

pub mod exit;
pub mod intent;
pub mod plan;
