//! Connections and requests without a token: they cost little, take no one else's place, and are refused in
//! one form.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::attacks::with_http;
use crate::house::{House, Reply, SOON, exchange};

/// How many descriptors the daemon has in these tests: fewer than there are connections without a token.
const FEW: u64 = 256;
const STRANGERS: usize = 400;

fn ask(port: u16, lines: &[&str], body: &str) -> Reply {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    exchange(&mut stream, &format!("{}\r\nConnection: close\r\n\r\n{body}", lines.join("\r\n"))).unwrap()
}

#[test]
fn idle_and_half_sent_connections_take_nobodys_place() {
    let house = House::furnished();
    let daemon = house.daemon_under(FEW, &["--http", "127.0.0.1:0"]);
    let (port, token) = crate::attacks::door(&house);
    let mut strangers: Vec<TcpStream> = (0..STRANGERS)
        .map(|number| {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            if number % 2 == 0 {
                // One that was already evicted serves as well.
                let _ = stream.write_all(b"GET /v1/sessions HTTP/1.1\r\nHost: ");
            }
            stream
        })
        .collect();
    let open = std::fs::read_dir(format!("/proc/{}/fd", daemon.pid())).unwrap().count();
    assert!(open < 128, "half of its descriptors are its own: {open}");
    let before = house.requests();
    let began = Instant::now();
    let list = house.run(&["list", "--since", "all", "-q"]).ok();
    assert_eq!((list.stdout.lines().count(), list.stderr.as_str()), (4, ""));
    assert!(house.requests() > before + 1, "the daemon was not asked");
    assert!(house.run(&["daemon", "status"]).ok().stdout.contains("running"));
    let (host, right) = (format!("Host: 127.0.0.1:{port}"), format!("Authorization: Bearer {token}"));
    let lines = ["GET /healthz HTTP/1.1", host.as_str(), right.as_str()];
    assert_eq!(ask(port, &lines, "").status, 200, "whoever shows the token at once gets in");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    // The youngest of them has its place, but not for ever.
    let youngest = strangers.last_mut().unwrap();
    youngest.set_read_timeout(Some(SOON)).unwrap();
    assert_eq!(youngest.read(&mut [0; 8]).unwrap_or(0), 0, "it is closed");
}

#[test]
fn every_refusal_has_one_form() {
    let house = House::new();
    let _daemon = house.daemon(&[]);
    let json = "Content-Type: application/json";
    let long = format!("{{\"reason\": \"{}\"}}", "x".repeat(300 << 10));
    for (line, kind, body, status, code) in [
        ("GET /nothing", "", "", 404, "not-found"),
        ("GET /v1/daemon/stop", "", "", 405, "usage"),
        ("POST /healthz", json, "{}", 405, "usage"),
        ("DELETE /v1/sessions", json, "", 405, "usage"),
        ("PATCH /v1/locks", json, "{}", 405, "usage"),
        ("OPTIONS /v1/sessions", json, "", 405, "usage"),
        ("POST /v1/locks", "Content-Type: text/plain", "{}", 415, "usage"),
        ("POST /v1/locks", json, "{", 400, "usage"),
        ("POST /v1/locks", json, "[]", 400, "usage"),
        ("POST /v1/locks", json, &long, 413, "usage"),
        ("GET /v1/sessions/%ff%fe", "", "", 400, "usage"),
        ("GET /v1/sessions?wrong=1", "", "", 400, "usage"),
    ] {
        let length = format!("Content-Length: {}", body.len());
        let head = [&format!("{line} HTTP/1.1"), "Host: x", "Connection: close", kind, &length];
        let head: Vec<&str> = head.into_iter().filter(|line| !line.is_empty()).collect();
        let reply = house.send(&format!("{}\r\n\r\n{body}", head.join("\r\n")));
        assert_eq!(reply.status, status, "{line}: {reply:?}");
        assert!(reply.head.contains("content-type: application/problem+json"), "{line}: {reply:?}");
        let problem = reply.json();
        assert_eq!((&problem["status"], &problem["code"]), (&status.into(), &code.into()), "{line}");
        let words = problem["detail"].as_str().unwrap();
        assert!(words.len() > 10, "{line}: {words}");
        if status == 405 {
            assert!(reply.head.contains("\nallow: ") && words.contains("allowed: "), "{line}: {reply:?}");
        }
    }
}

#[test]
fn a_body_that_nobody_wants_is_refused_before_it_is_read() {
    let house = House::new();
    let (_daemon, port, token) = with_http(&house);
    let (host, right) = (format!("Host: 127.0.0.1:{port}"), format!("Authorization: Bearer {token}"));
    let lines = ["Content-Type: application/json", "X-Agentctl: 1", "Content-Length: 62914560"];
    let lines = [&["POST /v1/sessions HTTP/1.1", host.as_str(), right.as_str()][..], &lines].concat();
    let refused = ask(port, &lines, "{");
    assert_eq!((refused.status, &refused.json()["code"]), (413, &"usage".into()), "{refused:?}");
}

#[test]
fn any_loopback_address_can_be_served_and_a_second_host_is_refused() {
    let house = House::new();
    let _daemon = house.daemon(&["--http", "127.0.0.2:0"]);
    let (port, token) = crate::attacks::door(&house);
    let right = format!("Authorization: Bearer {token}");
    let mut stream = TcpStream::connect(("127.0.0.2", port)).unwrap();
    let request =
        format!("GET /healthz HTTP/1.1\r\nHost: 127.0.0.2:{port}\r\n{right}\r\nConnection: close\r\n\r\n");
    assert_eq!(exchange(&mut stream, &request).unwrap().status, 200);
    let mut stream = TcpStream::connect(("127.0.0.2", port)).unwrap();
    let second = request.replace("\r\nConnection", "\r\nHost: evil.example\r\nConnection");
    let refused = exchange(&mut stream, &second).unwrap();
    assert_eq!((refused.status, &refused.json()["code"]), (400, &"usage".into()), "{refused:?}");
}
