//! What is handed to the process that becomes an agent on its own screen.
//!
//! A tmux server shows its arguments and variables for as long as it lives, so nothing of a launch is given to it. The
//! process in its pane reads what it is to become from the launch folder, which only its user can enter, and removes it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::{fs, io};

use serde::{Deserialize, Serialize};

use super::folder::LaunchFolder;

/// `screen.json`: what the process in the pane becomes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScreenOrder {
    pub program: OsString,
    pub args: Vec<OsString>,
    /// All variables, without those of the terminal.
    pub variables: Vec<(OsString, OsString)>,
    pub cwd: OsString,
}

const ORDER: &str = "screen.json";

impl LaunchFolder {
    /// The socket of the tmux server that shows the agent's screen. There is none for other launches.
    pub fn screen_socket(&self) -> PathBuf {
        self.path().join("tmux.sock")
    }

    pub fn write_screen_order(&self, order: &ScreenOrder) -> io::Result<()> {
        self.write(ORDER, order)
    }

    /// Returns the order and removes it, because it may contain secrets.
    pub fn take_screen_order(&self) -> io::Result<ScreenOrder> {
        let order = self.read(ORDER);
        self.forget_screen_order();
        order
    }

    pub fn forget_screen_order(&self) {
        let _ = fs::remove_file(self.path().join(ORDER));
    }
}
