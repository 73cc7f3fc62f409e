//! The page's port: who gets in, with what, and for how long.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;

use agentctl_testkit::{Signal, until};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::house::{House, Reply, SOON, exchange};

/// A tab: the port of the page, and the token if it has signed in.
struct Tab {
    port: u16,
    token: Option<String>,
    id: String,
}

/// The address that a command printed, as port and code.
#[track_caller]
fn address(printed: &str) -> (u16, String) {
    let line = printed.strip_suffix('\n').unwrap();
    assert!(!line.contains('\n'), "exactly one line: {printed:?}");
    let (page, code) = line.split_once("/#code=").unwrap();
    let port = page.strip_prefix("http://127.0.0.1:").unwrap().parse().unwrap();
    assert!(
        code.len() >= 32 && code.bytes().all(|digit| digit.is_ascii_hexdigit()),
        "at least 128 bits: {code}"
    );
    (port, code.to_owned())
}

#[track_caller]
fn asked(house: &House, more: &[&str]) -> (u16, String) {
    let ended = house.run(&[&["web", "--print"], more].concat());
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    address(&ended.stdout)
}

impl Tab {
    #[track_caller]
    fn signed_in(house: &House, more: &[&str]) -> Self {
        let (port, code) = asked(house, more);
        let reply =
            Self { port, token: None, id: String::new() }.post("/v1/web/sign-in", &json!({ "code": code }));
        assert_eq!(reply.status, 200, "{reply:#?}");
        let text = |name: &str| reply.json()[name].as_str().unwrap().to_owned();
        Self { port, token: Some(text("token")), id: text("id") }
    }

    fn request(&self, line: &str, headers: &[&str], body: &str) -> Option<Reply> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(SOON)).unwrap();
        let token =
            self.token.as_ref().map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let headers = [headers.join("\r\n"), String::new()].join("\r\n");
        let length = body.len();
        let head = format!(
            "{line} HTTP/1.1\r\n{headers}{token}Connection: close\r\nContent-Length: {length}\r\n\r\n"
        );
        exchange(&mut stream, &format!("{head}{body}"))
    }

    #[track_caller]
    fn get(&self, target: &str) -> Reply {
        self.request(&format!("GET {target}"), &[&self.host()], "").unwrap()
    }

    #[track_caller]
    fn post(&self, target: &str, body: &Value) -> Reply {
        let headers = [&*self.host(), "Content-Type: application/json", "X-Agentctl: 1"];
        self.request(&format!("POST {target}"), &headers, &body.to_string()).unwrap()
    }

    fn host(&self) -> String {
        format!("Host: 127.0.0.1:{}", self.port)
    }

    /// A stream of events of this tab.
    fn stream(&self) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        let (host, token) = (self.host(), self.token.as_ref().unwrap());
        write!(
            stream,
            "GET /v1/events HTTP/1.1\r\n{host}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n"
        )
        .unwrap();
        let mut first = [0; 4096];
        let read = stream.read(&mut first).unwrap();
        assert!(first[..read].starts_with(b"HTTP/1.1 200"));
        stream
    }
}

/// Reads until the other end closes.
#[track_caller]
fn is_cut(mut stream: TcpStream) {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "the stream goes on"),
    }
}

#[test]
fn a_code_signs_in_one_tab_once_and_only_the_token_is_let_in() {
    let house = House::furnished();
    let _daemon = house.daemon(&[]);
    let tab = Tab::signed_in(&house, &[]);
    let stranger = Tab { port: tab.port, token: None, id: String::new() };
    assert_eq!(tab.get("/v1/sessions?since=all").json()["sessions"].as_array().unwrap().len(), 4);
    for route in
        ["/v1/sessions", "/v1/web", "/metrics", "/healthz", "/openapi.json", "/nothing", "/v1/events"]
    {
        assert_eq!(stranger.get(route).status, 401, "{route}");
    }
    let (port, code) = asked(&house, &[]);
    assert_eq!(port, tab.port, "the port stays");
    let signed = stranger.post("/v1/web/sign-in", &json!({ "code": code }));
    assert_eq!(signed.status, 200);
    assert_ne!(signed.json()["token"].as_str(), tab.token.as_deref());
    assert_eq!(stranger.post("/v1/web/sign-in", &json!({ "code": code })).status, 403, "a code is good once");
    assert_eq!(stranger.post("/v1/web/sign-in", &json!({ "code": "0".repeat(64) })).status, 403);
    // The token of the API is not one of the page.
    fs::write(house.home.agentctl_home().join("http.token"), "0".repeat(64)).unwrap();
    let api = Tab { token: Some("0".repeat(64)), ..stranger };
    assert_eq!(api.get("/v1/sessions").status, 401);
    let kept = house.home.agentctl_home().join("web.json");
    let text = fs::read_to_string(&kept).unwrap();
    assert!(!text.contains(tab.token.as_deref().unwrap()) && !text.contains(&code), "only hashes are kept");
    assert_eq!(fs::metadata(kept).unwrap().permissions().mode() & 0o777, 0o600);
    let log = fs::read_to_string(house.home.agentctl_home().join("daemon.log")).unwrap();
    assert!(!log.contains(&code) && !log.contains(tab.token.as_deref().unwrap()), "{log}");
}

#[test]
fn every_answer_has_the_policy_and_other_hosts_and_origins_get_nothing() {
    let house = House::furnished();
    let _daemon = house.daemon(&[]);
    let tab = Tab::signed_in(&house, &[]);
    for route in
        ["/", "/app/main.js", "/app/style.css", "/app/nothing", "/v1/sessions", "/healthz", "/metrics"]
    {
        let reply = tab.get(route);
        assert_eq!(reply.status, if route == "/app/nothing" { 404 } else { 200 }, "{route}");
        for promise in [
            "nosniff",
            "default-src 'none'",
            "script-src 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        ] {
            assert!(reply.head.contains(promise), "{route}: {}", reply.head);
        }
        assert!(
            !reply.head.contains("set-cookie") && !reply.head.contains("access-control-allow"),
            "{}",
            reply.head
        );
        let line = format!("GET {route}");
        for host in [
            "Host: evil.example".to_owned(),
            format!("Host: evil.example:{}", tab.port),
            "Host: 127.0.0.1".to_owned(),
        ] {
            assert_eq!(tab.request(&line, &[&host], "").unwrap().status, 403, "{route} {host}");
        }
        for origin in [
            "null".to_owned(),
            "http://evil.example".to_owned(),
            format!("http://127.0.0.1:{}", tab.port ^ 1),
        ] {
            let origin = format!("Origin: {origin}");
            assert_eq!(
                tab.request(&line, &[&tab.host(), &origin], "").unwrap().status,
                403,
                "{route} {origin}"
            );
        }
    }
    let forwarded =
        tab.request("GET /v1/web", &["Host: localhost:9", "Origin: http://localhost:9"], "").unwrap();
    assert_eq!(forwarded.status, 200, "a forwarded port is another one");
    let (line, body) = ("POST /v1/web/sign-in", r#"{"code": "x"}"#);
    let plain = tab.request(line, &[&tab.host(), "Content-Type: text/plain", "X-Agentctl: 1"], body).unwrap();
    assert_eq!(plain.status, 415);
    // The same request is done with the header, so it is the header that is missing.
    let (line, body) = ("POST /v1/locks", r#"{"directory": "/tmp"}"#);
    let simple = tab.request(line, &[&tab.host(), "Content-Type: application/json"], body).unwrap();
    assert_eq!(simple.status, 403, "a form of another page cannot set the header");
    assert_eq!(tab.post("/v1/locks", &json!({"directory": "/tmp"})).status, 200);
}

#[test]
fn the_daemon_proves_itself_and_outlives_its_own_death() {
    let house = House::furnished();
    let mut daemon = house.daemon(&[]);
    let tab = Tab::signed_in(&house, &[]);
    let nonce = "5a".repeat(32);
    let proof = |tab: &Tab| {
        let stranger = Tab { port: tab.port, token: None, id: String::new() };
        stranger.post("/v1/web/prove", &json!({ "id": tab.id, "nonce": nonce }))
    };
    let key = digest(&SHA256, tab.token.as_deref().unwrap().as_bytes());
    let right =
        ring::hmac::sign(&ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key.as_ref()), nonce.as_bytes());
    let right = data_encoding::HEXLOWER.encode(right.as_ref());
    assert_eq!(proof(&tab).json()["proof"], json!(right));
    let unknown = Tab { id: "0".repeat(16), token: None, port: tab.port };
    assert_eq!(proof(&unknown).status, 403);
    daemon.signal(Signal::KILL);
    daemon.wait(SOON);
    assert!(TcpStream::connect(("127.0.0.1", tab.port)).is_err());
    let _daemon = house.daemon(&[]);
    assert_eq!(tab.get("/v1/web").status, 200, "the port and the token are those of before");
    assert_eq!(proof(&tab).json()["proof"], json!(right));
}

#[test]
fn an_address_can_lead_to_one_session() {
    let house = House::furnished();
    let _daemon = house.daemon(&[]);
    let list = house.run(&["list", "-a", "--since", "all", "--json"]);
    let list: Value = serde_json::from_str(&list.stdout).unwrap();
    let (id, host) =
        (list["sessions"][0]["id"].as_str().unwrap(), list["sessions"][0]["host"].as_str().unwrap());
    let led = house.run(&["web", "--print", id]);
    let line = led.stdout.trim_end();
    let (address, to) = line.split_once("&to=").unwrap_or_else(|| panic!("{led:#?}"));
    let _ = self::address(&format!("{address}\n"));
    assert_eq!(to, format!("%2Fs%2F{host}%2F{id}"), "{line}");
    let nobody = house.run(&["web", "--print", "nobody"]);
    assert_eq!((nobody.code, nobody.stdout.as_str()), (Some(3), ""), "{nobody:#?}");
    assert_eq!(house.run(&["web", "--print", "--cwd", "/w"]).code, Some(2));
}

/// Somebody else has the port now and hears what the old tab sends there. He cannot have it proved, nor use it, here.
#[test]
fn a_port_that_somebody_else_has_taken_ends_its_tokens() {
    let house = House::furnished();
    let mut daemon = house.daemon(&[]);
    let tab = Tab::signed_in(&house, &[]);
    daemon.signal(Signal::KILL);
    daemon.wait(SOON);
    let stranger = until(SOON, "the port is free", || TcpListener::bind(("127.0.0.1", tab.port)).ok());
    let _daemon = house.daemon(&[]);
    let (port, _) = asked(&house, &[]);
    assert_ne!(port, tab.port);
    let relayed = Tab { port, ..tab };
    let nonce = "5a".repeat(32);
    assert_eq!(relayed.post("/v1/web/prove", &json!({ "id": relayed.id, "nonce": nonce })).status, 403);
    assert_eq!(relayed.get("/v1/sessions").status, 401);
    drop(stranger);
}

#[test]
fn a_tab_that_may_only_read_changes_nothing() {
    let house = House::furnished();
    let _daemon = house.daemon(&[]);
    let tab = Tab::signed_in(&house, &["--read-only"]);
    assert_eq!(tab.get("/v1/web").json()["readOnly"], json!(true));
    let document = tab.get("/openapi.json").json();
    let mut refused = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        let writes = operations
            .as_object()
            .unwrap()
            .keys()
            .filter(|method| ["post", "put", "delete", "patch"].contains(&method.as_str()));
        for method in writes {
            if ["/v1/web/sign-in", "/v1/web/prove", "/v1/web/sign-out"].contains(&path.as_str()) {
                continue;
            }
            let line = format!("{} {}", method.to_uppercase(), path.replace("{id}", "x"));
            let headers = [&*tab.host(), "Content-Type: application/json", "X-Agentctl: 1"];
            assert_eq!(tab.request(&line, &headers, "{}").unwrap().status, 403, "{line}");
            refused += 1;
        }
    }
    assert!(refused > 15, "{refused} writes were tried");
    let writer = Tab::signed_in(&house, &[]);
    assert_eq!(writer.post("/v1/web", &json!({})).status, 403, "a tab opens no other");
    assert_eq!(writer.post("/v1/web/off", &json!({})).status, 403);
}

#[test]
fn signing_out_cuts_the_streams_of_that_tab_and_off_cuts_all() {
    let house = House::furnished();
    let _daemon = house.daemon(&[]);
    let (one, other) = (Tab::signed_in(&house, &[]), Tab::signed_in(&house, &[]));
    let (cut, goes_on) = (one.stream(), other.stream());
    assert_eq!(one.post("/v1/web/sign-out", &json!({})).json()["signedOut"], json!(true));
    is_cut(cut);
    assert_eq!(one.get("/v1/sessions").status, 401);
    assert_eq!(other.get("/v1/sessions").status, 200);
    let ended = house.run(&["web", "--off"]);
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(0), "the page is closed, and every tab signed out\n")
    );
    is_cut(goes_on);
    until(SOON, "the port is closed", || {
        TcpStream::connect(("127.0.0.1", other.port)).is_err().then_some(())
    });
    let again = Tab::signed_in(&house, &[]);
    let old = Tab { port: again.port, ..other };
    assert_eq!(old.get("/v1/sessions").status, 401, "every token has ended");
}

#[test]
fn a_browser_is_led_by_a_file_of_this_user_that_goes_after_the_sign_in() {
    let house = House::furnished();
    let _daemon = house.daemon(&[]);
    let seen = house.home.path().join("seen");
    let browser = house.home.path().join("browser");
    // Notes what it was started with, reads the file like a browser, and signs in.
    let script = format!(
        "#!/usr/bin/env python3\nimport json,os,re,stat,sys,urllib.request\n\
         text=open(sys.argv[1]).read()\n\
         page,code=re.search(r'url=(http://127.0.0.1:\\d+/)#code=([0-9a-f]+)',text).groups()\n\
         mode=stat.S_IMODE(os.stat(sys.argv[1]).st_mode)\n\
         asked=urllib.request.Request(page+'v1/web/sign-in',json.dumps({{'code':code}}).encode(),\
         {{'Content-Type':'application/json','X-Agentctl':'1'}})\n\
         urllib.request.urlopen(asked).read()\n\
         json.dump({{'argv':sys.argv,'mode':mode,'code':code}},open({seen:?}+'.new','w'))\n\
         os.rename({seen:?}+'.new',{seen:?})\n"
    );
    fs::write(&browser, script).unwrap();
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o700)).unwrap();
    let mut command = house.home.agentctl_command(&["web"]);
    command.env_remove("AGENTCTL_NO_DAEMON").env("BROWSER", &browser);
    let ended = house.home.run(command);
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(0), "the page is open in your browser\n"),
        "{ended:#?}"
    );
    let seen = until(SOON, "the browser's note", || fs::read_to_string(&seen).ok());
    let seen: Value = serde_json::from_str(&seen).unwrap();
    assert_eq!(seen["mode"], json!(0o600));
    let argv: Vec<&str> =
        seen["argv"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    assert!(!argv.join(" ").contains(seen["code"].as_str().unwrap()), "no code in an argument: {argv:?}");
    assert!(argv[1].starts_with(house.home.agentctl_home().to_str().unwrap()), "{argv:?}");
    assert!(!std::path::Path::new(argv[1]).exists());
    // A browser that does nothing: the address is printed.
    let mut command = house.home.agentctl_command(&["web"]);
    command.env_remove("AGENTCTL_NO_DAEMON").env("BROWSER", "/nowhere/browser");
    let ended = house.home.run(command);
    address(&ended.stdout);
}
