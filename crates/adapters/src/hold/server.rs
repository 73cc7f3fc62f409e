//! Private servers: an agent's own server that is started for one session alone.
//!
//! Everything that callers want goes to the server itself, as with a server that somebody else started. The runner only
//! begins the session, keeps it loaded and hears when turns begin and end.

use std::io;
use std::path::Path;
use std::time::Duration;

use agentctl_model::{Error, SpawnPlan};

use super::Said;

/// One agent's private server, as its runner uses it. Unlike a [`Protocol`](super::Protocol) it does its own I/O.
pub trait PrivateServer: Send {
    /// Completes the plan with what exists only once the launch does: the place of a socket in its folder, or a secret.
    fn equip(&mut self, spawn: &mut SpawnPlan, folder: &Path) -> Result<(), Error>;

    /// Connects, or connects again. `printed` is what the server has written to its standard output. An error means that
    /// it does not listen yet.
    fn connect(&mut self, printed: &str) -> io::Result<()>;

    /// Begins or continues the session, and returns its id. On a further connection it only listens to it again.
    fn join(&mut self) -> Result<String, Error>;

    /// Says the first words.
    fn say(&mut self, words: &str) -> Result<(), Error>;

    /// Waits at most so long for the beginning or the end of a turn. An error means that the connection is lost.
    fn hear(&mut self, timeout: Duration) -> io::Result<Option<Said>>;

    /// Ends the open turn.
    fn interrupt(&mut self) -> Result<(), Error>;
}
