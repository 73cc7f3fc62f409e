//! An intent for an agent, the plan that carries it out, and how the process ended. Data only.

pub mod exit;
pub mod intent;
pub mod plan;
