//! What people and other programs write for the command line, for the fuzzer alone (fuzz/README.md).

use agentctl_model::Environ;

use crate::cli::events::cursor::Cursors;
use crate::cli::launch::matrix;
use crate::render::template::Template;
use crate::rpc::message;
use crate::settings::Settings;

/// `config.toml`. A file without mistakes is read the same way each time.
pub fn config(text: &str) {
    let environ: Environ = [("HOME", "/home/dev")].into_iter().collect();
    let settings = Settings::parse(text, &environ);
    for mistake in &settings.mistakes {
        let _ = mistake.to_string();
    }
    let _ = (settings.prevents_launch(), settings.hides_sessions(), settings.kept_at_least());
    let _ = (settings.programs(), settings.acp_agents(), settings.launch_defaults());
    assert_eq!(Settings::parse(text, &environ), settings);
}

/// `launch --matrix`: a file that is accepted names as many slots as it was counted for.
pub fn matrix(text: &str) {
    if let Ok(matrix) = matrix::parse(text) {
        assert_eq!(matrix.slots().len(), matrix.count(), "{text:?}");
    }
}

/// The cursor of several machines: what is understood is written and understood again.
pub fn cursors(text: &str) {
    if let Some(cursors) = Cursors::parse(text) {
        assert_eq!(Cursors::parse(&cursors.text()).as_ref(), Some(&cursors), "{text}");
    }
}

/// `--format`.
pub fn template(text: &str) {
    let _ = Template::parse(text);
}

/// One line of JSON-RPC, of an MCP or ACP client.
pub fn rpc(line: &[u8]) {
    let _ = message::parse(line);
}
