use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};

use agentctl_model::ErrorKind;

use super::*;

/// The server's own refusal; no answer would be a different error.
fn no<T>(said: Result<T, Error>) -> Error {
    match said {
        Err(error) if error.kind == ErrorKind::Refused => error,
        Err(error) => panic!("not heard: {error}"),
        Ok(_) => panic!("it said yes"),
    }
}

/// A server that knows a few paths, and the requests it received.
fn serve(pages: &'static [(&'static str, &'static str)]) -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, asked) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut heard = [0; 4096];
            let count = stream.read(&mut heard).unwrap_or(0);
            let heard = String::from_utf8_lossy(&heard[..count]).into_owned();
            let line = heard.lines().next().unwrap_or_default();
            let path = line.split([' ', '?']).nth(1).unwrap_or_default();
            let page = pages.iter().find(|(known, _)| *known == path).map(|(_, page)| *page);
            let answer = match page {
                Some("") => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
                Some(page) => format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{page}", page.len()),
                None => "HTTP/1.1 404 Not Found\r\nContent-Length: 7\r\n\r\nno such".to_owned(),
            };
            let body = heard.split("\r\n\r\n").nth(1).unwrap_or_default();
            let _ = tell.send(format!("{} {path} {body}", line.split(' ').next().unwrap_or_default()));
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (address, asked)
}

fn posted(asked: &Receiver<String>) -> Vec<String> {
    asked.try_iter().filter(|asked| asked.starts_with("POST")).collect()
}

#[test]
fn words_are_sent_where_the_session_runs() {
    let (address, asked) = serve(&[("/session/status", "{}"), ("/session/ses_1/prompt_async", "")]);
    let mut steered = Steered::reach(&[address.into()], "/w", "ses_1").unwrap();
    steered.send("more \"words\"").unwrap();
    let told = posted(&asked);
    let body: Value =
        serde_json::from_str(told[0].strip_prefix("POST /session/ses_1/prompt_async ").unwrap()).unwrap();
    assert_eq!(body, json!({"parts": [{"type": "text", "text": "more \"words\""}]}));
    steered.interrupt().unwrap();
    assert!(posted(&asked).is_empty(), "it is not at work");
    let mut other = Steered::reach(&[address.into()], "/w", "ses_2").unwrap();
    assert!(no(other.send("x")).message.ends_with("404 no such"));
    assert!(no(other.answer(&Answer::from(Decision::AllowOnce))).message.contains("waits for nothing"));
}

#[test]
fn what_waits_is_answered_by_its_own_id() {
    let (address, asked) = serve(&[
        ("/session/status", r#"{"ses_1":{"type":"busy"},"ses_child":{"type":"busy"}}"#),
        (
            "/permission",
            r#"[{"id":"per_0","sessionID":"ses_9"},{"id":"per_1","sessionID":"ses_child","permission":"bash"}]"#,
        ),
        ("/session/ses_child", r#"{"id":"ses_child","parentID":"ses_1"}"#),
        ("/question", "[]"),
        ("/permission/per_1/reply", "true"),
        ("/session/ses_1/abort", "true"),
    ]);
    let mut steered = Steered::reach(&[address.into()], "/w", "ses_1").unwrap();
    steered.answer(&Answer::from(Decision::AllowOnce)).unwrap();
    steered.answer(&Answer::from(Decision::Deny { reason: None })).unwrap();
    assert!(no(steered.answer(&Answer::from(Decision::Text("yes".into())))).hint.is_some());
    steered.interrupt().unwrap();
    assert_eq!(
        posted(&asked),
        [
            r#"POST /permission/per_1/reply {"reply":"once"}"#,
            r#"POST /permission/per_1/reply {"reply":"reject"}"#,
            "POST /session/ses_1/abort {}",
        ]
    );
}

#[test]
fn a_question_gets_one_answer_each() {
    let (address, asked) = serve(&[
        ("/session/status", r#"{"ses_1":{"type":"busy"}}"#),
        ("/permission", "[]"),
        (
            "/question",
            r#"[{"id":"que_1","sessionID":"ses_1","questions":[{"question":"a?"},{"question":"b?"}]}]"#,
        ),
        ("/question/que_1/reply", "true"),
        ("/question/que_1/reject", "true"),
    ]);
    let mut steered = Steered::reach(&[address.into()], "/w", "ses_1").unwrap();
    assert!(steered.answer(&Answer::from(Decision::Text("one line".into()))).is_err());
    assert!(steered.answer(&Answer::from(Decision::AllowOnce)).is_err());
    steered.answer(&Answer::from(Decision::Text("Red\nmy own".into()))).unwrap();
    steered.answer(&Answer::from(Decision::Deny { reason: None })).unwrap();
    assert_eq!(
        posted(&asked),
        [r#"POST /question/que_1/reply {"answers":[["Red"],["my own"]]}"#, "POST /question/que_1/reject {}"]
    );
}

#[test]
fn somebody_elses_server_is_not_spoken_to() {
    let (address, asked) = serve(&[]);
    assert!(Steered::reach(&[address.into()], "/w", "ses_1").is_err());
    assert!(posted(&asked).is_empty());
}

#[test]
fn an_answer_goes_to_the_request_that_it_names() {
    let pages = &[
        ("/session/status", r#"{"ses_1":{"type":"busy"}}"#),
        (
            "/permission",
            r#"[{"id":"per_0","sessionID":"ses_1","tool":{"messageID":"msg_0","callID":"c0"}},
                {"id":"per_1","sessionID":"ses_1"},{"id":"per_2","sessionID":"ses_1"}]"#,
        ),
        // The turn of this call was aborted.
        (
            "/session/ses_1/message/msg_0",
            r#"{"parts":[{"callID":"c0","tool":"bash","state":{"status":"error"}}]}"#,
        ),
        ("/question", "[]"),
        ("/session/ses_1", "{}"),
        ("/permission/per_2/reply", "true"),
    ];
    let (address, asked) = serve(pages);
    let answer = |request: &str, decision| Answer { request: Some(request.to_owned()), decision };
    let reach =
        || Steered::reach(&[Door::with_password(address, "opencode", "secret")], "/w", "ses_1").unwrap();
    let reason = Decision::Deny { reason: Some("not now".to_owned()) };
    assert_eq!(
        reach().answer(&answer("per_2", reason)).unwrap(),
        ReasonLeft::Nothing,
        "the reason goes with it"
    );
    let told = posted(&asked);
    assert_eq!(told, [r#"POST /permission/per_2/reply {"reply":"reject","message":"not now"}"#]);
    for gone in ["per_0", "per_9"] {
        let refusal = no(reach().answer(&answer(gone, Decision::AllowOnce)));
        assert!(refusal.message.contains("any more"), "{refusal}");
    }
    let always = answer("per_2", Decision::AllowAlways);
    assert!(no(reach().answer(&always)).message.contains("every session"));
    reach().private(true).answer(&always).unwrap();
    assert_eq!(posted(&asked), [r#"POST /permission/per_2/reply {"reply":"always"}"#]);
}
