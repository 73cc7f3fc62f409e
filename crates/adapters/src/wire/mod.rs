//! Connections to the servers of agents: each with a deadline, none trusted before it has shown who it is.

pub(crate) mod deadline;
pub(crate) mod dial;
pub(crate) mod tls;
pub(crate) mod websocket;
