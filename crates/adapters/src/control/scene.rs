//! What the tests of steering need: a session and a process that exist only as data.

use agentctl_model::{Observed, Process, ProcessHead, ProcessRef, Session};
use serde_json::json;

pub(crate) fn session(adapter: &str, id: &str, pid: Option<u32>) -> Session {
    let processes: Vec<_> = pid
        .iter()
        .map(|pid| json!({"pid": pid, "startedAt": null, "role": "agent", "command": "x"}))
        .collect();
    let session = json!({
        "id": id, "adapter": adapter, "configRoot": "/r", "status": "running", "pending": [], "cwd": "/w",
        "processes": processes, "capabilities": [], "evidence": [], "meta": {},
    });
    serde_json::from_value(session).unwrap()
}

pub(crate) fn process(argv: &[&str]) -> Process {
    let head = ProcessHead {
        process: ProcessRef { pid: 1, start: 1, boot: 1 },
        parent: 0,
        uid: None,
        comm: argv[0].to_owned(),
        argv: argv.iter().map(ToString::to_string).collect(),
        started_at: None,
        forked: false,
    };
    Process {
        head,
        exe: unseen(),
        cwd: unseen(),
        environ: unseen(),
        open_files: unseen(),
        listening: unseen(),
        inner_pid: None,
    }
}

fn unseen<T>() -> Observed<T> {
    Observed::Unobservable("not looked at".to_owned())
}
