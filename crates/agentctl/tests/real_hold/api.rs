//! Held sessions through HTTP, and what the stream of events says of them.
