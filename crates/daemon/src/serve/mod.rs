//! The API: listeners, access control, and one file for each resource. Clients are the command line, the web
//! page and scripts.

pub(crate) mod api;
pub(crate) mod body_budget;
mod chosen_sources;
mod connections;
pub(crate) mod elsewhere;
mod guard;
pub(crate) mod nats;
pub(crate) mod problem;
pub(crate) mod query;
pub(crate) mod server;
pub(crate) mod single_flight;
pub(crate) mod token;
pub(crate) mod web;
