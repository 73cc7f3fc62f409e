//! Every caller that must not get in tries to.

use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use agentctl_testkit::{Background, skip};

use crate::house::{House, Reply, SOON, exchange};

/// A daemon that also serves TCP, on a port of its own choice.
pub(crate) fn with_http(house: &House) -> (Background, u16, String) {
    let daemon = house.daemon(&["--http", "127.0.0.1:0"]);
    let (port, token) = door(house);
    (daemon, port, token)
}

/// The port that a daemon serves, and its token.
pub(crate) fn door(house: &House) -> (u16, String) {
    let address = house.get("/v1/daemon").json()["http"].as_str().unwrap().to_owned();
    let port = address.rsplit(':').next().unwrap().parse().unwrap();
    let token = std::fs::read_to_string(house.home.agentctl_home().join("http.token")).unwrap();
    (port, token)
}

fn knock(port: u16, line: &str, headers: &[&str]) -> Reply {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let headers = headers.join("\r\n");
    exchange(&mut stream, &format!("{line} HTTP/1.1\r\n{headers}\r\nConnection: close\r\n\r\n")).unwrap()
}

#[test]
fn over_tcp_only_the_token_at_the_right_address_gets_in() {
    let house = House::furnished();
    let (_daemon, port, token) = with_http(&house);
    let (host, right) = (format!("Host: 127.0.0.1:{port}"), format!("Authorization: Bearer {token}"));
    for route in ["/v1/sessions", "/metrics", "/healthz", "/openapi.json", "/nothing"] {
        assert_eq!(knock(port, &format!("GET {route}"), &[&host]).status, 401, "{route}");
    }
    let line = "GET /v1/sessions?since=all";
    let welcome = knock(port, line, &[&host, &right]);
    assert_eq!(welcome.status, 200);
    assert_eq!(welcome.json()["sessions"].as_array().unwrap().len(), 4);
    for promise in ["nosniff", "frame-ancestors 'none'", "no-store"] {
        assert!(welcome.head.contains(promise), "{}", welcome.head);
    }
    assert_eq!(knock(port, line, &[&format!("Host: localhost:{port}"), &right]).status, 200);
    let rebound = [
        "Host: evil.example".to_owned(),
        format!("Host: evil.example:{port}"),
        "Host: 127.0.0.1".to_owned(),
        format!("Host: 127.0.0.1:{port}.evil.example"),
        "Host:".to_owned(),
    ];
    for rebound in &rebound {
        assert_eq!(knock(port, line, &[rebound, &right]).status, 403, "{rebound}");
    }
    let foreign = [
        "Origin: null".to_owned(),
        "Origin: http://evil.example".to_owned(),
        format!("Origin: http://evil.example:{port}"),
        format!("Origin: https://127.0.0.1:{port}"),
        format!("Origin: http://127.0.0.1:{}", port ^ 1),
    ];
    for foreign in &foreign {
        for route in [line, "GET /v1/events"] {
            assert_eq!(knock(port, route, &[&host, &right, foreign]).status, 403, "{foreign}");
        }
    }
    let own = format!("Origin: http://127.0.0.1:{port}");
    assert_eq!(knock(port, line, &[&host, &right, &own]).status, 200);
    let caller = r#"x-agentctl-caller: {"sources":[]}"#;
    let pointed = knock(port, line, &[&host, &right, caller]).json();
    assert_eq!(pointed["sessions"].as_array().unwrap().len(), 4, "over TCP nobody chooses what is read");
}

#[test]
fn a_write_over_tcp_needs_json_and_the_header() {
    let house = House::new();
    let (mut daemon, port, token) = with_http(&house);
    let (host, right) = (format!("Host: 127.0.0.1:{port}"), format!("Authorization: Bearer {token}"));
    let line = "POST /v1/daemon/stop";
    let (json, ours, empty) = ("Content-Type: application/json", "X-Agentctl: 1", "Content-Length: 0");
    assert_eq!(knock(port, line, &[&host, &right, json, empty]).status, 403);
    assert_eq!(knock(port, line, &[&host, &right, ours, empty]).status, 415);
    assert_eq!(knock(port, line, &[&host, &right, ours, "Content-Type: text/plain", empty]).status, 415);
    assert_eq!(knock(port, line, &[&host, json, ours, empty]).status, 401);
    assert_eq!(knock(port, "GET /v1/daemon/stop", &[&host, &right]).status, 405, "reading never changes");
    assert!(daemon.try_wait().is_none());
    assert_eq!(knock(port, line, &[&host, &right, json, ours, empty]).status, 200);
    assert!(daemon.wait(SOON).success());
}

/// Every write in the API document, with a name where one is needed.
fn every_write() -> Vec<String> {
    let document = agentctl_daemon::openapi();
    let paths = document["paths"].as_object().unwrap();
    let operations = paths.iter().flat_map(|(path, operations)| {
        let methods = operations.as_object().unwrap().keys().filter(|method| *method != "get");
        methods.map(|method| format!("{} {}", method.to_uppercase(), path.replace("{id}", "nobody")))
    });
    operations.collect()
}

#[test]
fn every_write_stands_behind_the_guard() {
    let house = House::new();
    let (mut daemon, port, token) = with_http(&house);
    let (host, right) = (format!("Host: 127.0.0.1:{port}"), format!("Authorization: Bearer {token}"));
    let (json, ours, empty) = ("Content-Type: application/json", "X-Agentctl: 1", "Content-Length: 0");
    let foreign = "Origin: http://evil.example";
    let writes = every_write();
    assert!(writes.len() >= 14 && writes.contains(&"POST /v1/sessions".to_owned()), "{writes:?}");
    for line in &writes {
        assert_eq!(knock(port, line, &[&host, json, ours, empty]).status, 401, "{line}");
        assert_eq!(knock(port, line, &[&host, &right, json, empty]).status, 403, "{line}");
        assert_eq!(knock(port, line, &[&host, &right, ours, empty]).status, 415, "{line}");
        assert_eq!(knock(port, line, &[&host, &right, ours, json, foreign, empty]).status, 403, "{line}");
        let plain = format!("{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{empty}\r\n\r\n");
        assert_eq!(house.send(&plain).status, 415, "{line}");
    }
    let body = r#"{"prompt": "x", "cwd": "/", "adapter": "codex", "environment": {"HOME": "/x"}}"#;
    let length = format!("Content-Length: {}", body.len());
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let headers = [host.as_str(), right.as_str(), json, ours, &length, "Connection: close"].join("\r\n");
    let reply =
        exchange(&mut stream, &format!("POST /v1/sessions HTTP/1.1\r\n{headers}\r\n\r\n{body}")).unwrap();
    assert_eq!(reply.status, 403, "over TCP nobody chooses what is read: {reply:?}");
    assert!(daemon.try_wait().is_none(), "one of them got through");
    drop(daemon);
    let mut daemon = house.daemon(&["--read-only"]);
    // The page may be opened to read.
    for line in writes.iter().filter(|line| !line.contains(" /v1/web")) {
        let (method, target) = line.split_once(' ').unwrap();
        assert_eq!(house.write(method, target, "{}").json()["code"], "forbidden", "{line}");
    }
    assert!(daemon.try_wait().is_none());
}

#[test]
fn on_the_socket_a_write_needs_json_too_and_read_only_refuses_all() {
    let house = House::new();
    let mut daemon = house.daemon(&["--read-only"]);
    let plain = "POST /v1/daemon/stop HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(house.send(plain).status, 403);
    assert_eq!(house.write("POST", "/v1/daemon/stop", "{}").json()["code"], "forbidden");
    assert!(daemon.try_wait().is_none());
    drop(daemon);
    let _daemon = house.daemon(&[]);
    assert_eq!(house.send(plain).status, 415);
    assert_eq!(house.write("POST", "/v1/daemon/stop", "{}").status, 200);
}

#[test]
fn neither_guessing_nor_asking_without_a_token_keeps_its_owner_out() {
    let house = House::new();
    let (_daemon, port, token) = with_http(&house);
    let (host, right) = (format!("Host: 127.0.0.1:{port}"), format!("Authorization: Bearer {token}"));
    let welcome = || assert_eq!(knock(port, "GET /healthz", &[&host, &right]).status, 200);
    for _ in 0..12 {
        assert_eq!(knock(port, "GET /healthz", &[&host]).status, 401, "an image on somebody's page");
    }
    welcome();
    for _ in 0..10 {
        assert_eq!(knock(port, "GET /healthz", &[&host, "Authorization: Bearer 0"]).status, 401);
    }
    let told_off = knock(port, "GET /healthz", &[&host, "Authorization: Bearer 0"]);
    assert_eq!((told_off.status, &told_off.json()["code"]), (429, &"locked-out".into()));
    assert_eq!(knock(port, "GET /healthz", &[&host, "Authorization: Bearer 1"]).status, 401);
    welcome();
}

#[test]
fn only_loopback_is_served_and_a_busy_port_is_said_loudly() {
    let house = House::new();
    for open in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
        let refused = house.run(&["daemon", "run", "--http", open]);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains("no loopback address"), "{refused:?}");
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let refused = house.run(&["daemon", "start", "--http", &address]);
    assert_eq!(refused.code, Some(5), "{refused:?}");
    assert!(refused.stderr.contains(&address), "{refused:?}");
}

#[test]
fn another_user_is_refused_even_where_the_folder_stands_open() {
    let house = House::new();
    let _daemon = house.daemon(&[]);
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&house.home.agentctl_home()), 0o700);
    assert_eq!(mode(&house.socket()), 0o600);
    if !rustix::process::geteuid().is_root() {
        return skip("only root can play another user");
    }
    for path in house.socket().ancestors().take_while(|path| *path != std::path::Path::new("/tmp")) {
        let open = mode(path) | 0o777;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(open)).unwrap();
    }
    let script = "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n\
        s.sendall(b'GET /v1/sessions HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n')\n\
        print(s.recv(9999).decode())\n";
    let mut other = Command::new("python3");
    let other =
        other.args(["-c", script]).arg(house.socket()).uid(65534).stdin(Stdio::null()).output().unwrap();
    let heard = String::from_utf8(other.stdout).unwrap();
    assert!(heard.starts_with("HTTP/1.1 403"), "{heard} {}", String::from_utf8_lossy(&other.stderr));
    assert!(heard.contains("belongs to another user"), "{heard}");
}

#[test]
fn a_symlinked_home_is_refused_and_reading_goes_on() {
    let mut house = House::furnished();
    let real = house.home.path().join("real");
    std::fs::create_dir(&real).unwrap();
    let link = house.home.path().join("link");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    house.home.set_env("AGENTCTL_HOME", &link);
    let refused = house.run(&["daemon", "start"]);
    assert_eq!(refused.code, Some(5));
    assert!(refused.stderr.contains("symbolic link"), "{refused:?}");
    assert_eq!(house.run(&["list", "--since", "all", "-q"]).ok().stdout.lines().count(), 4);
    assert_eq!(std::fs::read_dir(&real).unwrap().count(), 0, "nothing was written through the link");
}

#[test]
fn a_request_that_never_ends_keeps_nobody_waiting() {
    let house = House::new();
    let _daemon = house.daemon(&[]);
    let mut slow: Vec<_> =
        (0..50).map(|_| std::os::unix::net::UnixStream::connect(house.socket()).unwrap()).collect();
    for stream in &mut slow {
        stream.write_all(b"GET /v1/sessions HTTP/1.1\r\nHost: ").unwrap();
    }
    assert_eq!(house.get("/healthz").status, 200);
}
