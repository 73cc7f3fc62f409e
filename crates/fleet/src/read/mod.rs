//! Questions: which sessions there are, what each is doing and why, and what needs a person. Nothing here changes
//! anything. Every command and every route of the API asks its questions here.

pub(crate) mod budget;
pub(crate) mod explain;
pub(crate) mod find;
pub mod groups;
pub mod inbox;
pub(crate) mod known_agents;
pub(crate) mod list;
pub mod moment;
pub mod offers;
pub(crate) mod prices;
pub(crate) mod query;
pub mod recover;
pub(crate) mod search;
pub(crate) mod survey;
pub(crate) mod timeline;
pub(crate) mod usage;
pub mod wait;
