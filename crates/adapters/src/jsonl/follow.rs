//! Following a transcript as it grows.
