//! The fake model over real connections: scripts, gates, cut streams, and the log.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::time::Duration;

use agentctl_testkit::{FakeModel, Reply};
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_mins(1);

/// Sends one request and reads until the server closes; the second value tells whether the body ended as it should.
fn post(url: &str, path: &str, body: &Value) -> (String, bool) {
    let address = url.strip_prefix("http://").expect("an http address");
    let mut stream = TcpStream::connect(address).expect("connect");
    stream.set_read_timeout(Some(TIMEOUT)).expect("set a deadline");
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).expect("send");
    let mut answer = Vec::new();
    // A cut connection may show as an error or as an early end; both leave the last chunk missing.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).expect("text");
    let is_whole = answer.ends_with("0\r\n\r\n");
    (answer, is_whole)
}

fn prompt(text: &str) -> Value {
    json!({"model": "m", "stream": true, "tools": [{"name": "Bash"}], "messages": [{"role": "user", "content": text}]})
}

#[test]
fn a_script_is_answered_and_logged() {
    let model = FakeModel::start();
    let (answer, is_whole) = post(&model.url(), "/v1/messages?beta=true", &prompt("[[text:hello]]"));
    assert!(
        is_whole && answer.starts_with("HTTP/1.1 200") && answer.contains(r#""text":"hello""#),
        "{answer}"
    );
    assert_eq!(model.wait_turn("hello", 0).path, "/v1/messages");
    assert!(post(&model.url(), "/v1/messages", &prompt("plain")).0.contains(r#""text":"ok""#));
}

#[test]
fn a_rule_answers_prompts_without_a_script() {
    let model = FakeModel::with_rule(|ask| Reply::text(format!("you said {}", ask.prompt)));
    assert!(post(&model.url(), "/v1/messages", &prompt("moo")).0.contains("you said moo"));
}

#[test]
fn a_cut_stream_lacks_its_end() {
    let model = FakeModel::start();
    let (answer, is_whole) = post(&model.url(), "/v1/messages", &prompt("[[drop]]"));
    assert!(answer.contains("message_start") && !is_whole, "{answer}");
}

#[test]
fn an_error_asks_for_no_retry() {
    let model = FakeModel::start();
    let (answer, _) = post(&model.url(), "/v1/messages", &prompt("[[err:529|busy]]"));
    assert!(answer.starts_with("HTTP/1.1 529") && answer.contains("x-should-retry: false"), "{answer}");
}

#[test]
fn a_hanging_stream_ends_only_when_its_gate_opens() {
    let model = FakeModel::start();
    let url = model.url();
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || send.send(post(&url, "/v1/messages", &prompt("[[hang:door]]"))));
    model.wait_turn("hang:door", 0);
    model.open("another door");
    assert!(receive.try_recv().is_err(), "the stream ended although its gate is shut");
    model.open("door");
    let (answer, is_whole) = receive.recv_timeout(TIMEOUT).expect("the end of the stream");
    assert!(is_whole && answer.contains("released"), "{answer}");
}

#[test]
fn dropping_the_server_cuts_hanging_streams() {
    let model = FakeModel::start();
    let url = model.url();
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || send.send(post(&url, "/v1/messages", &prompt("[[hang]]"))));
    model.wait_turn("hang", 0);
    drop(model);
    let (_, is_whole) = receive.recv_timeout(TIMEOUT).expect("the end of the stream");
    assert!(!is_whole);
}

#[test]
fn other_paths_are_harmless() {
    let model = FakeModel::start();
    let answer = |path: &str| post(&model.url(), path, &Value::Null).0;
    assert!(answer("/v1/messages/count_tokens").contains("input_tokens"));
    assert!(answer("/v1/models").starts_with("HTTP/1.1 200"));
    assert!(answer("/api/telemetry").starts_with("HTTP/1.1 404"));
}
