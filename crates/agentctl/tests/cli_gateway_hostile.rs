//! Misbehaving gateways, as a user meets them: the command ends, stays small, and shows all other sessions.
//! And a well-behaved one whose certificate this machine trusts.
#![allow(clippy::disallowed_methods, reason = "tests write what is read")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod machine;

use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use agentctl_testkit::agents::openclaw::{Act, Ledger, ScriptedGateway, Step, frame, tls};
use machine::Machine;
use serde_json::{Value, json};

/// Far more than a busy machine needs, and still bounded.
const BOUND: Duration = Duration::from_mins(1);
const KEY: &str = "agent:main:x";

/// What a command printed, and its peak memory in KiB, as far as the kernel reports it.
struct Ran {
    out: Value,
    peak: Option<u64>,
}

fn run(machine: &Machine, args: &[&str]) -> Ran {
    let mut child = machine.command(args).stdout(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdout.take().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let printed = std::thread::spawn(move || {
        let mut text = String::new();
        pipe.read_to_string(&mut text).unwrap();
        text
    });
    let (began, mut peak) = (Instant::now(), None);
    while child.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < BOUND, "{args:?} does not end");
        // The value only grows, so the last reading is the peak.
        let status = std::fs::read_to_string(&status).unwrap_or_default();
        let highest = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        peak = highest.and_then(|line| line.split_whitespace().next()?.parse().ok()).or(peak);
        std::thread::sleep(Duration::from_millis(1));
    }
    Ran { out: serde_json::from_str(&printed.join().unwrap()).unwrap(), peak }
}

fn with_gateways(machine: &Machine, gateways: &[&ScriptedGateway], timeout: &str) {
    let named = |gateway: &&ScriptedGateway| {
        format!("{{url = \"{}\", token = \"t\", tlsFingerprint = \"{}\"}}", gateway.url(), tls::FINGERPRINT)
    };
    let gateways: Vec<String> = gateways.iter().map(named).collect();
    let settings =
        format!("[adapters.openclaw]\ntimeout = \"{timeout}\"\ngateways = [{}]\n", gateways.join(", "));
    machine.write(".agentctl/config.toml", &settings);
}

fn ledger() -> Ledger {
    let row = json!({"key": KEY, "hasActiveRun": false, "workspaceDir": "/w", "status": "done"});
    Ledger { rows: vec![row], ..Ledger::default() }
}

/// Everything that could accumulate, from several gateways at once.
#[test]
fn whatever_a_gateway_sends_the_command_ends_and_stays_small() {
    let flood = |act: Act| {
        ScriptedGateway::start(move |step| match step {
            Step::Request { method: "sessions.list", .. } => act.clone(),
            other => ledger().answer(other),
        })
    };
    let telling = |at: &'static str, payload: fn(u64) -> Value| {
        ScriptedGateway::start(move |step| match step {
            Step::Request { method, params } if method == at => {
                Act::Proper(payload(params["offset"].as_u64().unwrap_or(0)))
            }
            other => ledger().answer(other),
        })
    };
    let endless_talk = telling("chat.history", |offset| {
        let words = "x".repeat(12 << 20);
        let message =
            json!({"role": "assistant", "content": words, "__openclaw": {"id": offset.to_string()}});
        json!({"messages": [message], "hasMore": true, "nextOffset": offset + 1})
    });
    let many_messages = telling("chat.history", |offset| {
        let said = |number: u64| json!({"role": "user", "content": "x".repeat(5000), "timestamp": number});
        let messages: Vec<Value> = (0..1000).map(|number| said(offset + number)).collect();
        json!({"messages": messages, "hasMore": true, "nextOffset": offset + 1000})
    });
    let endless_list = telling("sessions.list", |offset| {
        let row = |number: u64| json!({"key": format!("k{number}"), "hasActiveRun": false, "label": "y".repeat(5000)});
        let rows: Vec<Value> = (0..1000).map(|number| row(offset + number)).collect();
        json!({"sessions": rows, "hasMore": true, "nextOffset": offset + 1000})
    });
    let heavy = telling("sessions.list", |_| json!({"sessions": vec![json!({"key": ""}); 1_000_000]}));
    let many = telling("sessions.list", |_| {
        let rows: Vec<Value> = (0..99_000).map(|number| json!({"key": format!("k{number}")})).collect();
        json!({"sessions": rows})
    });
    let small_rows = telling("sessions.list", |offset| {
        let rows: Vec<Value> =
            (0..1000).map(|number| json!({"key": format!("k{}", offset + number)})).collect();
        json!({"sessions": rows, "hasMore": true, "nextOffset": offset + 1000})
    });
    let huge = flood(Act::Huge(50 << 20));
    let parts = flood(Act::Forever(frame(0x00, &vec![b'x'; 64 << 10])));
    let secure = ScriptedGateway::start_secure(tls::Identity::Own, |step| match step {
        Step::Request { method: "sessions.list", .. } => Act::Huge(50 << 20),
        other => ledger().answer(other),
    });

    let machine = Machine::furnished();
    let whole = ["list", "--json", "--since", "all", "--usage"];
    let quick = &whole[..4];
    let alone = run(&machine, &whole).out["sessions"].as_array().unwrap().len();
    let all = [
        (&endless_talk, &whole[..]),
        (&many_messages, &whole),
        (&endless_list, quick),
        (&small_rows, quick),
        (&heavy, quick),
        (&many, quick),
        (&huge, quick),
        (&parts, quick),
        (&secure, quick),
    ];
    for (gateway, list) in all {
        with_gateways(&machine, &[gateway], "30s");
        let ran = run(&machine, list);
        let others = |row: &&Value| row["adapter"] != "openclaw";
        assert_eq!(ran.out["sessions"].as_array().unwrap().iter().filter(others).count(), alone);
        let source = ran.out["sources"].as_array().unwrap().iter().find(|one| one["root"] == gateway.url());
        let source = source.unwrap();
        assert!(!source["error"].is_null() || source["warnings"] != json!([]), "{source:#}");
        println!("{:?} KiB: {} {}", ran.peak, source["error"], source["warnings"]);
        assert!(ran.peak.is_none_or(|peak| peak < 320 << 10), "{:?} KiB: {source:#}", ran.peak);
    }
}

#[test]
fn a_gateway_that_hangs_costs_its_own_patience_and_nobody_elses_answer() {
    let mute = |at: &'static str, act: Act| {
        ScriptedGateway::start(move |step| match step {
            Step::Request { method, .. } if method == at => act.clone(),
            other => ledger().answer(other),
        })
    };
    let gateways = [
        mute("connect", Act::Silence),
        mute("sessions.list", Act::Trickle(Duration::from_millis(5))),
        mute("sessions.list", Act::Forever(frame(0x89, b"ping"))),
        mute("sessions.list", Act::Close(4001, "gateway policy changed".into())),
    ];
    let machine = Machine::furnished();
    let ids = |ran: &Ran| -> Vec<Value> {
        ran.out["sessions"].as_array().unwrap().iter().map(|row| row["id"].clone()).collect()
    };
    let alone = ids(&run(&machine, &["list", "--json", "--since", "all"]));
    with_gateways(&machine, &gateways.iter().collect::<Vec<_>>(), "500ms");
    let ran = run(&machine, &["list", "--json", "--since", "all"]);
    assert_eq!(ids(&ran), alone);
    let sources = ran.out["sources"].as_array().unwrap().iter();
    let failed = sources.filter(|one| matches!(one["coverage"].as_str(), Some("failed" | "timed-out")));
    assert_eq!(failed.count(), gateways.len(), "{:#}", ran.out["sources"]);
}

/// The system decides which authorities it trusts; this machine's system knows one.
#[test]
#[cfg(target_os = "linux")]
fn a_certificate_that_the_system_trusts_needs_no_pin() {
    let machine = Machine::empty();
    machine.write("authority.pem", tls::AUTHORITY);
    let told = |identity: tls::Identity, trusting: bool| {
        let gateway = ScriptedGateway::start_secure(identity, |step| ledger().answer(step));
        let settings = format!(
            "[adapters.openclaw]\ntimeout = \"30s\"\ngateways = [{{url = \"{}\", token = \"t\"}}]\n",
            gateway.url()
        );
        machine.write(".agentctl/config.toml", &settings);
        let mut command = machine.command(&["list", "--json", "--since", "all", "--adapter", "openclaw"]);
        if trusting {
            command.env("SSL_CERT_FILE", machine.home().join("authority.pem"));
        }
        let list: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        let sources = list["sources"].as_array().unwrap();
        sources.iter().find(|one| one["root"] == gateway.url()).unwrap().clone()
    };
    let trusted = told(tls::Identity::Signed, true);
    assert_eq!((&trusted["coverage"], &trusted["sessions"]), (&json!("complete"), &json!(1)), "{trusted:#}");
    for (identity, trusting) in [(tls::Identity::Signed, false), (tls::Identity::Own, true)] {
        let refused = told(identity, trusting);
        let words = refused["error"].as_str().unwrap_or_default();
        assert!(words.contains("its certificate is not trusted"), "{identity:?} {trusting}: {refused:#}");
    }
}
