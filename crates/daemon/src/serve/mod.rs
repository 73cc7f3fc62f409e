//! The API: sockets, who may ask, and one file for each resource. Callers are the command line, the page and scripts.

pub(crate) mod api;
pub(crate) mod bodies;
mod caller;
mod guard;
pub(crate) mod problem;
pub(crate) mod query;
pub(crate) mod server;
pub(crate) mod single_flight;
pub(crate) mod token;
mod visitors;
