//! `agentctl top` in a real tmux with a real shell, and with a real agent behind it.
#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests run processes and read what they left"
)]

mod changes;
mod ends;
mod looks;
#[path = "../machine/mod.rs"]
mod machine;
mod pane;
mod scripted;
#[path = "../steer/mod.rs"]
mod steer;
mod steers;

use std::fs;

use agentctl_testkit::TestHome;

/// A home with stored sessions of Claude Code that ended within the last day: one that failed, and one that is done.
fn stored() -> TestHome {
    let home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
    let recorded = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recorded/claude-code");
    let now = jiff::Timestamp::now();
    let today = (now - jiff::SignedDuration::from_mins(90)).strftime("%Y-%m-%dT%H").to_string();
    for case in ["auth-error-401", "resumed"] {
        let projects = recorded.join(case).join(".claude/projects");
        for project in steer::folders(&projects) {
            let to = home.path().join(".claude/projects").join(project.file_name().unwrap());
            fs::create_dir_all(&to).unwrap();
            for file in steer::folders(&project).into_iter().filter(|file| file.is_file()) {
                // The recorded times are moved to the last hours.
                let text = fs::read_to_string(&file).unwrap();
                let moved: String = text
                    .split("\"timestamp\":\"")
                    .enumerate()
                    .map(|(index, part)| match index {
                        0 => part.to_owned(),
                        _ => format!("\"timestamp\":\"{today}{}", &part["2026-11-15T07".len()..]),
                    })
                    .collect();
                fs::write(to.join(file.file_name().unwrap()), moved).unwrap();
            }
        }
    }
    home
}
