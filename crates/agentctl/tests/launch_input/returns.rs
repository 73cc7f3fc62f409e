//! When `launch` returns: as soon as the agent's records show the turn. Writes wake it, so it surveys a few
//! times instead of waiting for a fixed time.
#![cfg(target_os = "linux")]

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use agentctl_testkit::until_seen;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

use crate::scene::Scene;

const TIMEOUT: Duration = Duration::from_mins(2);

/// Records its turn, and then nothing more.
const WRITES_ITS_TURN: &str = r#"#!/bin/bash
while [ $# -gt 0 ]; do [ "$1" = --session-id ] && id=$2; shift; done
cat > /dev/null
now=$(date -u +%Y-%m-%dT%H:%M:%S.%3NZ)
printf '{"type":"user","uuid":"u-1","sessionId":"%s","cwd":"%s","timestamp":"%s","message":{"role":"user","content":"do it"}}\n' \
    "$id" "$PWD" "$now" > "$HOME/.claude/projects/-work/$id.jsonl"
while :; do sleep 1000; done
"#;

/// The agent opens its file once, and each survey opens it again: the one that shows the turn, the one for
/// the answer, and those that other writes of the launch wake. A launch that polls for a fixed time opens it
/// far more often.
const MOST_OPENINGS: usize = 6;

#[test]
fn a_launch_returns_when_the_turn_is_shown_and_looks_only_when_something_was_written() {
    let scene = Scene::new();
    scene.put_on_path("claude", WRITES_ITS_TURN);
    let project = scene.home.path().join(".claude/projects/-work");
    std::fs::create_dir_all(&project).unwrap();
    let openings = Openings::of(&project);
    let launched = scene.launch(&["claude-code", "-p", "do it", "--json"]).ok().json();
    let count = openings.count();
    let id = launched["id"].as_str().unwrap();
    assert_eq!(
        (&launched["status"], &launched["prompt"]),
        (&"running".into(), &"do it".into()),
        "{launched:#}"
    );
    assert!(count <= MOST_OPENINGS, "the transcript was opened {count} times");
    let _ = scene.home.agentctl(&["stop", "--force", id]).ok();
    until_seen(TIMEOUT, "the end of all processes", || match scene.home.processes() {
        left if left.is_empty() => Ok(()),
        left => Err(format!("{left:?}")),
    });
}

/// Counts how often the files of a folder are opened.
struct Openings(OwnedFd);

impl Openings {
    fn of(folder: &Path) -> Self {
        let descriptor = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        // With the closings between them, two openings are not merged into one event.
        inotify::add_watch(&descriptor, folder, WatchFlags::OPEN | WatchFlags::CLOSE).unwrap();
        Self(descriptor)
    }

    fn count(&self) -> usize {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.0, &mut buffer);
        let mut count = 0;
        while let Ok(event) = reader.next() {
            let is_file = !event.events().contains(ReadFlags::ISDIR);
            count += usize::from(is_file && event.events().contains(ReadFlags::OPEN));
        }
        count
    }
}
