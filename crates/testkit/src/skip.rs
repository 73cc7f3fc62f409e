//! Reports that a test could not be run here.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;

/// Why something that a test needs is missing.
#[derive(Debug, Clone)]
pub struct Skip(pub String);

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reports a skipped test. It writes `SKIPPED: reason` to stderr, past the capture of the test harness, and a line
/// `test name: reason` to the file named by `AGENTCTL_SKIP_LOG`, so that a test command can count skips. With
/// `AGENTCTL_TEST_NO_SKIP` set, a skip is a failure.
pub fn skip(reason: impl fmt::Display) {
    let line = format!("SKIPPED: {reason}").replace('\n', " ") + "\n";
    assert!(std::env::var_os("AGENTCTL_TEST_NO_SKIP").is_none(), "{line}");
    // A failure to report must not turn a skip into a failed test.
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(path) = std::env::var_os("AGENTCTL_SKIP_LOG") {
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        let line = format!("{test}: {reason}").replace('\n', " ") + "\n";
        let file = OpenOptions::new().create(true).append(true).open(path);
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}
