//! The fuses that are set, as a file. Only the process that holds the daemon's lock writes it; everybody may read it.

use agentctl_model::Fuse;
use serde::{Deserialize, Serialize};

use super::store::Document;

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct FuseBook {
    pub fuses: Vec<Fuse>,
}

impl Document for FuseBook {
    const FILE: &'static str = "fuses.json";
    const VERSION: u64 = 1;
}
