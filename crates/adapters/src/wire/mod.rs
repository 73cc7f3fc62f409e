//! Connections to servers: each with a deadline, none trusted before it has shown who it is.
//!
//! `deadline` bounds a socket, `dial` reaches a name, `tls` and `websocket` speak over it, for the servers of agents.
//! `http` is for everybody who asks a server on this machine, the daemon's client among them.

pub(crate) mod deadline;
pub(crate) mod dial;
pub mod http;
pub(crate) mod tls;
pub(crate) mod websocket;
