//! Hostile conversations and hostile pages.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use agentctl_testkit::{TestHome, until_seen};
use serde_json::json;

use crate::{PATIENCE, Stage, store};

#[test]
fn hostile_conversations_are_text() {
    let home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
    let cwd = home.work_dir("w");
    let script = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'><a href=\"javascript:window.hacked=1\">click</a>";
    let bidi = "safe \u{202e}gnp.exe\u{202c} \u{1b}[31mred\u{1b}[0m \u{1b}]8;;http://evil.example\u{7}link\u{1b}]8;;\u{7}";
    let long = "x".repeat(5 << 20);
    let id = "44444444-0000-4000-8000-000000000001";
    store(&home, id, &cwd, &[("user", script), ("assistant", bidi), ("user", &long), ("assistant", script)]);
    let Some(stage) = Stage::set(home) else { return };
    // On a busy machine a source may have no time for lines this long; the page then asks again.
    stage.browser.allow(&["503"]);
    let tab = stage.tab("one");
    tab.sees(".row", "<script>window.hacked");
    tab.click_on(".row a");
    tab.sees(".entry.agent", "<img src=x onerror");
    tab.sees(".entry", "gnp.exe");
    let shown = tab.texts(".conversation").concat();
    assert!(!shown.contains(['\u{202e}', '\u{1b}']) && shown.contains("red"), "{}", &shown[..500]);
    // The page has its own wall behind that of the daemon.
    let cleaned = tab.js("import('/app/words/text.js').then(text => text.clean('a\\u202eb \\u001b[31mred\\u001b[0m\\u0000 \\u{e0041}'))");
    assert_eq!(cleaned, "a⟨U+202E⟩b red⟨U+0000⟩ ⟨U+E0041⟩");
    assert!(shown.len() < 200_000, "a long line is cut: {}", shown.len());
    assert_eq!(
        tab.js(
            "document.querySelectorAll('#app img, #app script, #app iframe, #app a[href^=javascript]').length"
        ),
        0
    );
    assert_eq!(tab.js("typeof window.hacked"), "undefined");
    for (view, css) in [("#/timeline", ".lane a"), ("#/inbox", "h1"), ("#/usage", ".bars"), ("#/", ".row")] {
        tab.go(view);
        tab.sees(css, "");
        assert_eq!(
            tab.js("document.querySelectorAll('#app img, #app script, #app iframe').length"),
            0,
            "{view}"
        );
        assert_eq!(tab.js("typeof window.hacked"), "undefined", "{view}");
    }
    stage.browser.assert_no_trouble();
}

/// A code that somebody has read from the address of another is worth nothing any more.
#[test]
fn a_code_is_good_once() {
    let home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
    let Some(stage) = Stage::set(home) else { return };
    let address = stage.address(&[]);
    let first = stage.browser.open("first", &address);
    first.sees(".counts", "need");
    // The browser notes the refusal.
    stage.browser.allow(&["403"]);
    let thief = stage.browser.open("thief", &address);
    thief.sees(".signed-out", "agentctl web");
    thief.sees(".signed-out", "was used");
    thief.becomes("sessionStorage.length", 0);
    assert!(!thief.js("location.href").as_str().unwrap().contains("code="));
    // Without a token nothing is told.
    assert_eq!(thief.js("fetch('/v1/sessions').then(answer => answer.status)"), 401);
    stage.browser.allow(&["403", "401"]);
    first.reload();
    first.sees(".counts", "need");
    stage.browser.assert_no_trouble();
}

/// A page of another port of this machine, which is another origin, and one whose name leads here.
#[test]
fn another_origin_can_neither_read_nor_write_nor_frame() {
    let home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
    let Some(stage) = Stage::set(home) else { return };
    let tab = stage.tab("one");
    let origin = tab.js("location.origin").as_str().unwrap().to_owned();
    let token = tab.js("sessionStorage.getItem('token')").as_str().unwrap().to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let evil = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let page = "<!doctype html><title>evil</title>";
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{page}",
                page.len()
            );
        }
    });
    // Here the complaints of the browser are what is wanted.
    stage.browser.allow(&[""]);
    let other = stage.browser.open("evil", &evil);
    let tries = |what: &str| {
        other.js(&format!("fetch('{origin}{what}).then(answer => answer.text()).catch(error => 'refused')"))
    };
    assert_eq!(tries("/v1/sessions'"), "refused");
    assert_eq!(tries(&format!("/v1/sessions', {{headers: {{Authorization: 'Bearer {token}'}}}}")), "refused");
    let lock = format!(
        "/v1/locks', {{method: 'POST', body: '{{\"directory\": \"/tmp\"}}', headers: {{'Content-Type': 'application/json', 'X-Agentctl': '1', Authorization: 'Bearer {token}'}}}}"
    );
    assert_eq!(tries(&lock), "refused");
    let simple = "/v1/web/sign-out', {method: 'POST', mode: 'no-cors', body: '{}', headers: {'Content-Type': 'text/plain'}}";
    let _ = tries(simple);
    // What is framed is the browser's own page, which says that it was refused.
    other.js(&format!(
        "new Promise(done => {{ const frame = document.createElement('iframe'); frame.src = '{origin}/'; frame.onload = () => done(); document.body.append(frame); }})"
    ));
    until_seen(PATIENCE, "the refused frame", || {
        let frames = stage.browser.ask("frames", json!({"tab": "evil"})).unwrap();
        if frames == json!(["chrome-error://chromewebdata/"]) { Ok(()) } else { Err(frames.to_string()) }
    });
    // To the browser a name that leads here is its own origin, so only the daemon can refuse it.
    let port = origin.rsplit_once(':').unwrap().1;
    let rebound = stage.browser.open("rebound", &format!("http://evil.example:{port}/"));
    assert_eq!(rebound.js("location.hostname"), "evil.example");
    assert_eq!(rebound.js("document.getElementById('app')"), json!(null));
    for what in ["/'", "/app/main.js'", "/v1/web/prove'", &lock, "/healthz'"] {
        let status = rebound.js(&format!("fetch('{what}).then(answer => answer.status)"));
        assert_eq!(status, 403, "{what}");
    }
    assert!(stage.run(&["locks"]).ok().stdout.trim().lines().count() <= 1, "nothing was written");
    tab.reload();
    tab.sees(".counts", "need");
}

/// Another program has taken the port while no daemon ran, such as somebody's web server. It hears no token, and the tab is
/// as it was when it has gone.
#[test]
fn a_stranger_on_the_port_gets_no_token() {
    let home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
    let Some(mut stage) = Stage::set(home) else { return };
    stage.browser.allow(&["net::ERR_", "404"]);
    let port = {
        let tab = stage.tab("one");
        tab.js("Number(location.port)").as_u64().unwrap()
    };
    stage.kill_daemon();
    let heard = Arc::new(Mutex::new(String::new()));
    let listener = until_seen(PATIENCE, "the port", || {
        TcpListener::bind(("127.0.0.1", u16::try_from(port).unwrap())).map_err(|error| error.to_string())
    });
    let (noted, is_over) = (heard.clone(), Arc::new(AtomicBool::new(false)));
    let ends = is_over.clone();
    let stranger = std::thread::spawn(move || {
        let proof = format!("{{\"proof\": \"{}\"}}", "0".repeat(64));
        let answers =
            [("200 OK", "application/json", proof), ("404 Not Found", "text/html", "<p>no</p>".into())];
        for (stream, (status, kind, body)) in listener.incoming().zip(answers.iter().cycle()) {
            if ends.load(Ordering::SeqCst) {
                return;
            }
            let mut stream = stream.unwrap();
            let mut request = [0; 8192];
            let read = stream.read(&mut request).unwrap_or_default();
            noted.lock().unwrap().push_str(&String::from_utf8_lossy(&request[..read]));
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    {
        let tab = stage.browser.tab("one");
        tab.sees(".banner", "Something else answers on this port");
        let heard = until_seen(PATIENCE, "two answers of it", || {
            let heard = heard.lock().unwrap().clone();
            if heard.matches("POST /v1/web/prove").count() > 2 { Ok(heard) } else { Err(heard) }
        });
        tab.sees(".banner", "Something else answers on this port");
        let token = tab.js("sessionStorage.getItem('token')");
        assert!(
            !heard.contains(token.as_str().unwrap()) && !heard.to_lowercase().contains("authorization"),
            "{heard}"
        );
    }
    is_over.store(true, Ordering::SeqCst);
    stranger.join().unwrap();
    stage.start_daemon();
    stage.browser.tab("one").misses(".banner", "");
    stage.browser.assert_no_trouble();
}
