//! The client of a gateway: the connection, the requests, the bounded reading of what it returns.

mod bounded_list;
pub(super) mod connection;
mod device;
pub(super) mod error;
pub(super) mod gateway_client;
pub(super) mod paging;
pub(super) mod rows;
pub(super) mod watch;
pub(super) mod weight;
