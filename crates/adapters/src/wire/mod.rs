//! Connections to servers: each has a deadline, and none is trusted before the server has shown who it is.
//!
//! `deadline` bounds a socket, `dial` connects to a name, `tls` and `websocket` run over it, for the servers of
//! agents. `http` is for every client of a server on this machine, including the daemon's client.

pub(crate) mod deadline;
pub(crate) mod dial;
pub mod http;
pub(crate) mod tls;
pub(crate) mod websocket;
