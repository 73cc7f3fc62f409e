//! A daemon that exists and does not answer, because it is stopped or seems to be. No command waits long for
//! it, those that can do without it do, and the cause is reported.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use agentctl_testkit::nats::free_port;
use agentctl_testkit::{Output, Signal};
use serde_json::Value;

use crate::house::{House, SOON, forget_moments};

/// Ten times the promised time.
const PROMPTLY: Duration = Duration::from_secs(20);

#[track_caller]
fn promptly(house: &House, arguments: &[&str]) -> Output {
    let mut command = house.home.agentctl_command(arguments);
    command.env_remove("AGENTCTL_NO_DAEMON");
    house.home.run_within(PROMPTLY, command)
}

#[test]
fn a_stopped_daemon_holds_nobody_up_and_restarting_it_keeps_its_manner() {
    let house = House::furnished();
    let (alone, silence) = list(&house);
    assert_eq!(silence, "");
    let http = format!("127.0.0.1:{}", free_port());
    let mut daemon = house.daemon(&["--http", &http]);
    daemon.signal(Signal::STOP);

    let (stopped, words) = list(&house);
    assert_eq!(stopped, alone, "the answer is what it always is");
    assert!(words.contains("holds its lock and does not answer"), "{words}");
    assert!(words.contains("agentctl daemon restart"), "{words}");
    for (arguments, code) in [
        (&["status", "2222"][..], 0),
        (&["explain", "2222"], 0),
        (&["logs", "2222"], 0),
        (&["stop", "2222"], 0),
        (&["locks"], 0),
        (&["doctor"], 1),
    ] {
        let output = promptly(&house, arguments);
        assert_eq!(output.code, Some(code), "{arguments:?}: {output:?}");
    }
    let status = promptly(&house, &["daemon", "status"]);
    assert_eq!(status.code, Some(5), "{status:?}");
    let words = format!("(pid {}) holds its lock and does not answer", daemon.pid());
    assert!(status.stdout.contains(&words) && !status.stdout.contains("no daemon runs"), "{status:?}");
    let standing = promptly(&house, &["daemon", "status", "--json"]).json();
    assert_eq!(
        (&standing["running"], &standing["answers"], &standing["pid"]),
        (&true.into(), &false.into(), &daemon.pid().into())
    );
    // A command that requires the daemon fails with that message, and its request is not performed later
    // either.
    for needing in [&["fuse", "set", "/tmp", "--ttl", "1h"][..], &["events"]] {
        let refused = promptly(&house, needing);
        assert_eq!(refused.code, Some(5), "{needing:?}: {refused:?}");
        assert!(refused.stderr.contains(&words) && refused.stderr.contains("restart"), "{refused:?}");
    }
    daemon.signal(Signal::CONT);
    assert_eq!(house.get("/v1/fuses").json()["fuses"], serde_json::json!([]));
    daemon.signal(Signal::STOP);
    let _ = promptly(&house, &["daemon", "restart"]).ok();
    assert!(daemon.wait(SOON).success(), "a clean end");
    assert_eq!(house.get("/v1/daemon").json()["http"], http.as_str(), "the next one serves what it served");
    let _ = house.run(&["daemon", "stop"]).ok();
}

/// A process of this user listens at the daemon's socket and sends one byte after the other, without an end.
fn trickle_at(house: &House) {
    fs::create_dir_all(house.home.agentctl_home()).unwrap();
    let _ = fs::remove_file(house.socket());
    let listener = UnixListener::bind(house.socket()).unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut bytes = b"HTTP/1.1 200 OK\r\nX: ".iter().chain(std::iter::repeat(&b'x'));
                while bytes.next().is_some_and(|byte| stream.write_all(&[*byte]).is_ok()) {
                    std::thread::sleep(Duration::from_millis(50));
                }
            });
        }
    });
}

/// A list that is made promptly, and what is printed beside it.
fn list(house: &House) -> (Value, String) {
    let output = promptly(house, &["list", "--since", "all", "--json"]);
    let mut list = output.json();
    forget_moments(&mut list);
    (list, output.stderr)
}

#[test]
#[cfg(target_os = "linux")]
fn whoever_does_not_hold_the_lock_is_not_the_daemon() {
    let house = House::furnished();
    let (alone, _) = list(&house);
    let not_the_daemon = "listens at the daemon's socket and does not hold the daemon's lock";
    trickle_at(&house);
    let (listed, words) = list(&house);
    assert_eq!(listed, alone);
    assert!(words.contains(not_the_daemon) && words.contains("agentctl looked by itself"), "{words}");
    assert!(words.contains(&format!("process {} ", std::process::id())), "{words}");
    assert!(promptly(&house, &["daemon", "status"]).stdout.contains("no daemon runs"));

    // A command that requires a daemon starts one, which takes its socket back.
    let _ = promptly(&house, &["daemon", "start"]).ok();
    let (listed, words) = list(&house);
    assert_eq!((listed, words.as_str()), (alone.clone(), ""), "this one is believed");
    let before = house.requests();
    let _ = list(&house);
    assert!(house.requests() > before + 1, "and asked");

    // The daemon runs, and another process has its socket.
    trickle_at(&house);
    let (listed, words) = list(&house);
    assert_eq!(listed, alone);
    assert!(words.contains(not_the_daemon), "{words}");
    let refused = promptly(&house, &["fuse", "set", "/tmp", "--ttl", "1h"]);
    assert_eq!(refused.code, Some(5), "{refused:?}");
    assert!(refused.stderr.contains("agentctl daemon restart"), "{refused:?}");
    let _ = house.run(&["daemon", "restart"]).ok();
    assert_eq!(list(&house), (alone, String::new()));
    let _ = house.run(&["daemon", "stop"]).ok();
}

#[test]
fn one_that_holds_the_lock_and_answers_byte_by_byte_holds_nobody_up() {
    let house = House::furnished();
    let (alone, _) = list(&house);
    trickle_at(&house);
    let lock = fs::File::create(house.home.agentctl_home().join("daemon.lock")).unwrap();
    lock.lock().unwrap();
    let (listed, words) = list(&house);
    assert_eq!(listed, alone);
    assert!(words.contains("holds its lock and does not answer, so agentctl looked by itself"), "{words}");
    assert_eq!(promptly(&house, &["status", "2222"]).code, Some(0));
}

/// A gateway that accepts a connection and sends nothing may hold another matching session.
#[test]
fn nothing_is_done_by_a_shortened_id_while_a_source_is_silent() {
    let house = House::furnished();
    let gateway = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    house.has_gateway(gateway.local_addr().unwrap().port());
    std::fs::create_dir_all(house.home.agentctl_home()).unwrap();
    let impatient = "[adapters.openclaw]\ntimeout = \"300ms\"\n";
    std::fs::write(house.home.agentctl_home().join("config.toml"), impatient).unwrap();
    let whole = "22222222-2222-4222-8222-222222222222";
    let acts: [&[&str]; 8] = [
        &["stop", "2222"],
        &["send", "2222", "go on"],
        &["approve", "2222"],
        &["answer", "2222", "yes"],
        &["resume", "2222", "go on"],
        &["attach", "2222"],
        &["inbox", "--done", "2222"],
        &["fuse", "set", "--session", "2222", "--max-tokens", "5"],
    ];
    let daemon = house.daemon(&[]);
    for arguments in acts {
        let refused = promptly(&house, arguments);
        assert_eq!(refused.code, Some(6), "{arguments:?}: {refused:?}");
        assert!(refused.stderr.contains("openclaw") && refused.stderr.contains(whole), "{refused:?}");
        let mut full = arguments.to_vec();
        *full.iter_mut().find(|word| **word == "2222").unwrap() = whole;
        assert_ne!(promptly(&house, &full).code, Some(6), "{full:?}");
    }
    for (path, body) in [
        ("stop", "{}"),
        ("send", r#"{"message": "go on"}"#),
        ("answer", r#"{"decision": "approve"}"#),
        ("resume", r#"{"message": "go on"}"#),
    ] {
        let refused = house.write("POST", &format!("/v1/sessions/2222/{path}"), body);
        assert_eq!(refused.status, 503, "{path}: {refused:?}");
        let problem = refused.json();
        assert_eq!(
            (&problem["code"], &problem["sources"][0]["adapter"]),
            (&"incomplete".into(), &"openclaw".into())
        );
        assert!(problem["hint"].as_str().unwrap().contains(whole), "{problem:#}");
        let taken = house.write("POST", &format!("/v1/sessions/{whole}/{path}"), body);
        assert_ne!(taken.status, 503, "{path}: {taken:?}");
    }
    // Reading does no harm, and what could not be read is reported.
    let looked = promptly(&house, &["status", "2222"]).ok();
    assert!(looked.stderr.contains("openclaw"), "{looked:?}");
    assert_eq!(house.get("/v1/sessions/2222").status, 200);
    drop(daemon);
}
