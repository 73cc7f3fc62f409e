use std::os::unix::net::UnixListener;
use std::sync::mpsc::{Receiver, channel};

use tungstenite::Message;

use agentctl_model::ErrorKind;

use super::*;

/// Expects a refusal by the server itself, as opposed to a missing answer.
fn no<T>(said: Result<T, Error>) -> Error {
    match said {
        Err(error) if error.kind == ErrorKind::Refused => error,
        Err(error) => panic!("not heard: {error}"),
        Ok(_) => panic!("it said yes"),
    }
}

/// An app-server that answers from a script and records what it received.
struct Scripted {
    folder: tempfile::TempDir,
    heard: Receiver<Value>,
}

impl Scripted {
    /// `script` returns what the server sends in answer to each message, in order.
    fn start(script: impl Fn(&Value) -> Vec<Value> + Send + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("s")).unwrap();
        let (tell, heard) = channel();
        std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut client = tungstenite::accept(stream).unwrap();
            while let Ok(Message::Text(text)) = client.read() {
                let message = serde_json::from_str(&text).unwrap();
                let answers = script(&message);
                let _ = tell.send(message);
                for answer in answers {
                    // The client may have finished and disconnected.
                    let _ = client.send(Message::text(answer.to_string()));
                }
            }
        });
        Self { folder, heard }
    }

    fn reach(&self) -> Steered<'static> {
        Steered::reach(&self.folder.path().join("s"), "t").unwrap()
    }

    /// The requests that the server received, without the handshake.
    fn told(self) -> Vec<Value> {
        self.heard.iter().filter(|message| message["method"] != "initialize").skip(1).collect()
    }
}

fn result(message: &Value, result: &Value) -> Value {
    json!({"id": message["id"], "result": result})
}

fn refused(message: &Value, words: &str) -> Value {
    json!({"id": message["id"], "error": {"code": -32600, "message": words}})
}

fn status(message: &Value, kind: &str, flags: &[&str]) -> Value {
    result(message, &json!({"thread": {"id": "t", "status": {"type": kind, "activeFlags": flags}}}))
}

fn open_turn(message: &Value) -> Value {
    result(message, &json!({"data": [{"id": "turn-1", "status": "inProgress"}]}))
}

/// The handshake with which every script begins.
fn greeting(message: &Value) -> Vec<Value> {
    // The server's notifications may come at any time, and its requests may have any number as id.
    let note = json!({"method": "remoteControl/status/changed", "params": {}});
    let request = json!({"method": "currentTime/read", "id": message["id"], "params": {}});
    vec![note, request, result(message, &json!({"userAgent": "x"}))]
}

#[test]
fn words_start_a_turn_or_join_the_running_one() {
    let server = Scripted::start(|message| match message["method"].as_str() {
        Some("initialize") => greeting(message),
        Some("thread/read") => vec![status(message, "idle", &[])],
        Some("turn/start") => vec![result(message, &json!({"turn": {"id": "turn-2"}}))],
        _ => vec![],
    });
    server.reach().send("hello").unwrap();
    let told = server.told();
    assert_eq!(told.last().unwrap()["params"]["input"][0]["text"], "hello");

    let server = Scripted::start(|message| match message["method"].as_str() {
        Some("initialize") => greeting(message),
        Some("thread/read") => vec![status(message, "active", &[])],
        Some("thread/turns/list") => vec![open_turn(message)],
        Some("turn/steer") => vec![result(message, &json!({"turnId": "turn-1"}))],
        _ => vec![],
    });
    server.reach().send("more").unwrap();
    let told = server.told();
    let last = told.last().unwrap();
    assert_eq!(
        (&last["method"], &last["params"]["expectedTurnId"]),
        (&json!("turn/steer"), &json!("turn-1"))
    );
}

#[test]
fn a_turn_that_ends_meanwhile_does_not_lose_the_words() {
    let server = Scripted::start(|message| match message["method"].as_str() {
        Some("initialize") => greeting(message),
        Some("thread/read") => vec![status(message, "active", &[])],
        Some("thread/turns/list") => vec![open_turn(message)],
        Some("turn/steer") => vec![refused(message, "no active turn to steer")],
        Some("turn/start") => vec![refused(message, "thread not found")],
        _ => vec![],
    });
    let refusal = no(server.reach().send("more"));
    assert_eq!(refusal.message, "the app-server refused turn/start: thread not found");
}

#[test]
fn only_an_open_turn_is_interrupted() {
    let script = |kind: &'static str| {
        move |message: &Value| match message["method"].as_str() {
            Some("initialize") => greeting(message),
            Some("thread/read") => vec![status(message, kind, &[])],
            Some("thread/turns/list") => vec![open_turn(message)],
            Some("turn/interrupt") => vec![result(message, &json!({}))],
            Some("thread/backgroundTerminals/clean") => vec![refused(message, "unknown method")],
            Some("thread/queue/list") => vec![result(message, &json!({"data": [{"id": "q"}]}))],
            _ => vec![],
        }
    };
    let methods = |server: Scripted| -> Vec<String> {
        server.told().iter().filter_map(|told| Some(told["method"].as_str()?.to_owned())).collect()
    };
    let idle = Scripted::start(script("idle"));
    let done = idle.reach().interrupt().unwrap();
    assert_eq!(done, Acceptance::Interrupted { was_open: false, still_queued: 1 });
    assert_eq!(methods(idle), ["thread/read", "thread/backgroundTerminals/clean", "thread/queue/list"]);
    let active = Scripted::start(script("active"));
    active.reach().interrupt().unwrap();
    let wanted = [
        "thread/read",
        "thread/turns/list",
        "turn/interrupt",
        "thread/backgroundTerminals/clean",
        "thread/queue/list",
    ];
    assert_eq!(methods(active), wanted);
    let nobody = Steered::reach(Path::new("/none/s"), "t").err();
    assert_eq!(
        nobody.map(|error| error.kind),
        Some(ErrorKind::NoAnswer),
        "a server that is away is no refusal"
    );
    let gone = Scripted::start(script("notLoaded"));
    assert_eq!(no(gone.reach().interrupt()).message, "the app-server has let go of t");
}

#[test]
fn an_answer_counts_when_the_server_says_that_it_is_resolved() {
    let approval = json!({"method": "item/commandExecution/requestApproval", "id": 0,
        "params": {"threadId": "t", "command": "touch x"}});
    let server = Scripted::start(move |message| match message["method"].as_str() {
        Some("initialize") => greeting(message),
        Some("thread/read") => vec![status(message, "active", &["waitingOnApproval"])],
        Some("thread/resume") => {
            let other = json!({"method": "item/commandExecution/requestApproval", "id": 9,
                "params": {"threadId": "another"}});
            vec![result(message, &json!({"thread": {}})), other, approval.clone()]
        }
        None if message["id"] == 0 => {
            vec![json!({"method": "serverRequest/resolved", "params": {"threadId": "t", "requestId": 0}})]
        }
        _ => vec![],
    });
    server.reach().answer(&Answer::from(Decision::AllowOnce)).unwrap();
    assert_eq!(server.told().last().unwrap(), &json!({"id": 0, "result": {"decision": "accept"}}));

    let idle = Scripted::start(|message| match message["method"].as_str() {
        Some("initialize") => greeting(message),
        Some("thread/read") => vec![status(message, "active", &[])],
        _ => vec![],
    });
    assert_eq!(
        no(idle.reach().answer(&Answer::from(Decision::Deny { reason: None }))).message,
        "t waits for nothing"
    );
}

#[test]
fn the_reason_of_a_denial_reaches_the_turn_while_it_still_waits() {
    let script = |takes: bool| {
        move |message: &Value| match message["method"].as_str() {
            Some("initialize") => greeting(message),
            Some("thread/read") => vec![status(message, "active", &["waitingOnApproval"])],
            Some("thread/resume") => {
                let approval = json!({"method": "item/commandExecution/requestApproval", "id": 0,
                    "params": {"threadId": "t", "turnId": "turn-1", "command": "touch x"}});
                vec![result(message, &json!({"thread": {}})), approval]
            }
            Some("turn/steer") if takes => vec![result(message, &json!({"turnId": "turn-1"}))],
            Some("turn/steer") => vec![refused(message, "it cannot be added to")],
            None if message["id"] == 0 => {
                vec![json!({"method": "serverRequest/resolved", "params": {"threadId": "t", "requestId": 0}})]
            }
            _ => vec![],
        }
    };
    let denial = Answer::from(Decision::Deny { reason: Some("not now".into()) });
    let server = Scripted::start(script(true));
    assert_eq!(server.reach().answer(&denial).unwrap(), ReasonLeft::Sent);
    let told = server.told();
    let [.., steered, answered] = &told[..] else { panic!("{told:#?}") };
    assert_eq!(
        (&steered["params"]["expectedTurnId"], &steered["params"]["input"][0]["text"]),
        (&json!("turn-1"), &json!("not now"))
    );
    assert_eq!(answered, &json!({"id": 0, "result": {"decision": "decline"}}));

    let server = Scripted::start(script(false));
    assert_eq!(server.reach().answer(&denial).unwrap(), ReasonLeft::Unsent("not now".into()));
}

#[test]
fn each_request_gets_an_answer_of_its_own_form() {
    let request =
        |method: &str, params: Value| Asked::of(json!({"method": method, "id": 1, "params": params}));
    let command = request("item/commandExecution/requestApproval", json!({}));
    let change = request("item/fileChange/requestApproval", json!({}));
    let rights =
        request("item/permissions/requestApproval", json!({"permissions": {"network": {"enabled": true}}}));
    let question = request("item/tool/requestUserInput", json!({"questions": [{"id": "a"}, {"id": "b"}]}));
    let text = |text: &str| Answer::from(Decision::Text(text.to_owned()));

    assert_eq!(reply(&command, &Answer::from(Decision::AllowOnce)).unwrap(), json!({"decision": "accept"}));
    assert_eq!(
        reply(&change, &Answer::from(Decision::Deny { reason: None })).unwrap(),
        json!({"decision": "decline"})
    );
    let granted = reply(&rights, &Answer::from(Decision::AllowOnce)).unwrap();
    assert_eq!(granted, json!({"permissions": {"network": {"enabled": true}}}));
    assert_eq!(
        reply(&rights, &Answer::from(Decision::Deny { reason: None })).unwrap(),
        json!({"permissions": {}})
    );
    let both = json!({"answers": {"a": {"answers": ["Red"]}, "b": {"answers": ["two"]}}});
    assert_eq!(reply(&question, &text("Red\ntwo")).unwrap(), both);

    for (request, answer) in [
        (&question, text("one line")),
        (&question, Answer::from(Decision::AllowOnce)),
        (&command, text("yes please")),
    ] {
        assert!(reply(request, &answer).unwrap_err().hint.is_some());
    }
    let other = request("mcpServer/elicitation/request", json!({}));
    assert!(reply(&other, &Answer::from(Decision::AllowOnce)).unwrap_err().message.contains("where it runs"));
}
