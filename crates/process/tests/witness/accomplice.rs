//! What only a program of our own can do for a test: it is started as a child and plays one part.

use std::path::Path;
use std::process::Command;

use crate::child::Kept;

const FOLDER: &str = "ACCOMPLICE_FOLDER";

/// Starts the part (see `accomplice/parts.rs`); it works in `folder` and lives until its stdin is closed.
pub(crate) fn start(part: &str, folder: &Path) -> Kept {
    let [program, arguments @ ..] = &call(part)[..] else { unreachable!("a call has a program") };
    Kept::start(Command::new(program).args(arguments).env(FOLDER, folder))
}

/// The same, in an overlay that only the child sees. It says `file unavailable` where overlays cannot be mounted.
pub(crate) fn start_in_overlay(part: &str, folder: &Path) -> Kept {
    let script = r#"
        { mount -t tmpfs none "$ACCOMPLICE_FOLDER" && cd "$ACCOMPLICE_FOLDER" && mkdir lower upper work merged &&
          mount -t overlay none -o lowerdir=lower:/usr,upperdir=upper,workdir=work merged; } 2>/dev/null ||
          { echo file unavailable; exit; }
        ACCOMPLICE_FOLDER=$PWD/merged exec "$@""#;
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh"]).args(call(part)).env(FOLDER, folder);
    Kept::start(&mut command)
}

fn call(part: &str) -> [&str; 2] {
    [env!("CARGO_BIN_EXE_process-accomplice"), part]
}
