use std::net::SocketAddr;

use agentctl_model::Observed;

use super::*;
use crate::control::scene::{process, session};

/// Version 1.18: everything up to the creation of a sub-agent, one line each.
const LOG: &str = concat!(
    "timestamp=2026-11-15T12:20:23.100Z level=INFO run=1a33efda message=opencode args=\"[\\\"run\\\"]\"\n",
    "timestamp=2026-11-15T12:20:24.081Z level=INFO run=1a33efda message=created id=ses_e20d9346effevuRj3mmsKVSEuk ",
    "slug=nimble-wolf version=1.18.33 directory=/w path=\"\" parentID=undefined title=\"New session\"\n",
    "timestamp=2026-11-15T12:20:29.000Z level=INFO run=1a33efda message=created id=ses_child slug=x version=1.18.33\n",
);

/// Version 1.1.65.
const OLD_LOG: &str = concat!(
    "INFO  2026-11-15T12:20:30 +1ms service=project directory=/w fromDirectory\n",
    "INFO  2026-11-15T12:20:30 +3ms service=session id=ses_e20d91a83ffeGKtg8qCFne3DX6 slug=calm-knight ",
    "version=1.1.65 directory=/w title=New session - now time={\"created\":1} created\n",
    "INFO  2026-11-15T12:20:30 +0ms service=bus type=session.created publishing\n",
);

#[test]
fn the_id_comes_from_a_whole_line_of_the_log_wherever_it_was_cut() {
    for (log, id) in [(LOG, "ses_e20d9346effevuRj3mmsKVSEuk"), (OLD_LOG, "ses_e20d91a83ffeGKtg8qCFne3DX6")] {
        let whole = log.match_indices('\n').nth(1).unwrap().0 + 1;
        for cut in 0..=log.len() {
            let learned = OpenCode.learn_id(FirstWords { stdout: "", stderr: &log[..cut] });
            assert_eq!(learned.as_deref(), (cut >= whole).then_some(id), "cut at {cut}");
        }
    }
}

#[test]
fn without_a_log_the_first_event_names_the_session() {
    let event = "{\"type\":\"step_start\",\"timestamp\":1,\"sessionID\":\"ses_1\"}\n";
    for cut in 0..=event.len() {
        let learned = OpenCode.learn_id(FirstWords { stdout: &event[..cut], stderr: "" });
        assert_eq!(learned.is_some(), cut == event.len());
    }
}

#[test]
fn words_that_look_like_the_log_name_nothing() {
    for line in [
        "please grep for message=created id=ses_x\n",
        "INFO  2026 +1ms service=session id=ses_x slug=y removed\n",
        "timestamp=2026 level=INFO message=created id=prj_1\n",
    ] {
        assert_eq!(OpenCode.learn_id(FirstWords { stdout: "", stderr: line }), None, "{line}");
    }
}

#[test]
fn errors_are_told_with_their_reason() {
    let refused = "{\"type\":\"error\",\"sessionID\":\"ses_1\",\"error\":{\"name\":\"APIError\",\"data\":{\"message\":\"no such key\",\"statusCode\":401}}}\n";
    let words = OpenCode.complaint(FirstWords { stdout: refused, stderr: "" });
    assert_eq!(words.as_deref(), Some("no such key"));

    // This error only says where to look.
    let blank = "{\"type\":\"error\",\"error\":{\"name\":\"UnknownError\",\"data\":{\"message\":\"Unexpected server error. Check server logs for details.\",\"ref\":\"err_183e4bc2\"}}}\n";
    let log = "timestamp=2026 level=ERROR run=41c49823 message=failed ref=err_183e4bc2 error=\"ProviderModelNotFoundError: Model not found: nope/none.\" cause=\"x\"\n";
    let words = OpenCode.complaint(FirstWords { stdout: blank, stderr: log });
    assert_eq!(words.as_deref(), Some("ProviderModelNotFoundError: Model not found: nope/none."));
    let words = OpenCode.complaint(FirstWords { stdout: blank, stderr: &log[..90] });
    assert_eq!(words.as_deref(), Some("Unexpected server error. Check server logs for details."));
    assert_eq!(OpenCode.complaint(FirstWords { stdout: "", stderr: log }), None);

    let early = format!("{log}\u{1b}[91m\u{1b}[1mError: \u{1b}[0mConfig file is not valid:\n{{bad\n{log}");
    let words = OpenCode.complaint(FirstWords { stdout: "", stderr: &early });
    assert_eq!(words.as_deref(), Some("Error: Config file is not valid:\n{bad"));
}

#[test]
fn a_model_needs_its_provider() {
    assert!(full_name("maker/model-5").is_ok() && full_name("router/maker/model").is_ok());
    for model in ["model-5", "/model", "maker/", ""] {
        assert!(full_name(model).unwrap_err().message.contains("provider/model"), "{model}");
    }
}

#[test]
fn bypass_overrules_every_rule_of_the_user() {
    let plan = OpenCode
        .plan(&Intent {
            conversation: Conversation::New,
            words: "x".into(),
            cwd: "/w".into(),
            model: Some("maker/model-5".into()),
            permission: Some(Permission::Bypass),
            system_prompt: None,
            fresh_id: String::new(),
            more: Vec::new(),
            store: None,
        })
        .unwrap();
    assert_eq!(plan.args.last().map(String::as_str), Some("--model=maker/model-5"));
    // The star comes first: rules after it win.
    assert!(plan.env[RULES].starts_with(r#"{"*":"allow","bash":"allow","#), "{plan:?}");
}

#[test]
fn who_serves_others_is_asked_and_who_works_alone_is_signalled() {
    let way = |argv: &[&str], listening: &[SocketAddr]| {
        let process = Process { listening: Observed::Seen(listening.to_vec()), ..process(argv) };
        OpenCode.stop_way(&session("opencode", "ses_1", None), &process)
    };
    let port = ["127.0.0.1:4096".parse().unwrap()];
    assert_eq!(way(&["opencode", "run"], &[]), StopWay::Signal(CleanSignal::Terminate));
    assert_eq!(way(&["opencode"], &[]), StopWay::Signal(CleanSignal::Terminate));
    assert_eq!(way(&["opencode", "--port", "4096"], &port), StopWay::Ask);
    assert_eq!(way(&["opencode", "serve"], &port), StopWay::Ask);
    assert_eq!(way(&["opencode", "acp"], &[]), StopWay::Ask);
}
