//! Files that were counted once are not counted again while they are unchanged, and are counted again when
//! they change.

use std::fs;
use std::io::Write;

use serde_json::{Value, json};

use crate::conformance::forget_moments;
use crate::house::House;

const ID: &str = "77777777-0000-4000-8000-000000000000";
/// Large enough that reading it shows in the counters.
const SIZE: usize = 8 << 20;

/// A prompt and its reply.
fn turn(number: usize, text: &str) -> String {
    let prompt = json!({"type": "user", "uuid": format!("p{number}"), "sessionId": ID, "cwd": "/work",
        "timestamp": "2026-11-15T07:00:00Z", "message": {"role": "user", "content": "go on"}});
    let message = json!({"id": format!("m{number}"), "role": "assistant", "model": "m",
        "content": [{"type": "text", "text": text}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 2}});
    let record = json!({"type": "assistant", "uuid": format!("u{number}"), "sessionId": ID, "cwd": "/work",
        "timestamp": "2026-11-15T07:00:00Z", "message": message});
    format!("{prompt}\n{record}\n")
}

/// How much the daemon has read so far, as counted by the kernel.
pub(crate) fn read_by(pid: u32) -> usize {
    let counts = fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    counts.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

fn without_moments(mut value: Value) -> Value {
    forget_moments(&mut value);
    value
}

#[test]
fn a_conversation_that_stayed_the_same_is_not_read_again() {
    let house = House::new();
    let folder = house.home.path().join(".claude/projects/-work");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{ID}.jsonl"));
    let filler = "x".repeat(64 << 10);
    let written: String = (0..SIZE / filler.len()).map(|number| turn(number, &filler)).collect();
    fs::write(&path, &written).unwrap();
    let daemon = house.daemon(&[]);
    let ask = || {
        let before = read_by(daemon.pid());
        let answer = house.get("/v1/sessions?since=all&usage=true").json();
        (without_moments(answer), read_by(daemon.pid()) - before)
    };
    let alone =
        || without_moments(house.home.agentctl(&["list", "--since", "all", "--usage", "--json"]).ok().json());
    // A file that was written just now is not trusted to stay unchanged, so it is made older.
    let mut reads = Vec::new();
    agentctl_testkit::until(crate::house::SOON, "the count to be remembered", || {
        let (answer, read) = ask();
        assert_eq!(answer, alone());
        reads.push(read);
        (read < SIZE / 4).then_some(())
    });
    assert!(reads[0] > SIZE, "the first time it is read whole: {reads:?}");

    let total = (SIZE / filler.len()) as u64;
    assert_eq!(ask().0["sessions"][0]["tokens"]["out"], 2 * total);
    let more = turn(usize::MAX, "one more");
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(more.as_bytes()).unwrap();
    let (grown, read) = ask();
    assert_eq!(grown, alone());
    assert_eq!(grown["sessions"][0]["tokens"]["out"], 2 * total + 2);
    assert!(read > SIZE, "what has grown is counted anew: {read}");
}

/// A command that reads the end of a session has the daemon look it up, which is no reason to count it.
#[test]
fn a_look_up_for_another_command_counts_nothing() {
    let house = House::new();
    let folder = house.home.path().join(".claude/projects/-work");
    fs::create_dir_all(&folder).unwrap();
    let filler = "x".repeat(64 << 10);
    let written: String = (0..SIZE / filler.len()).map(|number| turn(number, &filler)).collect();
    fs::write(folder.join(format!("{ID}.jsonl")), &written).unwrap();
    let daemon = house.daemon(&[]);
    let reads = |arguments: &[&str]| {
        let (asked, before) = (house.requests(), read_by(daemon.pid()));
        let _ = house.run(arguments).ok();
        assert!(house.requests() > asked, "{arguments:?} did not ask the daemon");
        read_by(daemon.pid()) - before
    };
    for arguments in [&["peek", "-n", "1", ID][..], &["logs", "-n", "1", ID], &["explain", ID], &["wait", ID]]
    {
        let read = reads(arguments);
        assert!(read < SIZE / 2, "{arguments:?} had the daemon read {read} bytes");
    }
    assert!(reads(&["status", ID]) > SIZE, "which is what is measured here");
}
