use super::*;
use crate::control::scene::{process, session};

/// The output of `codex exec --json` when its model provider rejected the key.
const REFUSED: &str = concat!(
    r#"{"type":"thread.started","thread_id":"01a1df23-c2e6-74c2-b105-b50ea5667356"}"#,
    "\n",
    r#"{"type":"item.completed","item":{"id":"item_0","type":"error","message":"Model metadata not found."}}"#,
    "\n",
    r#"{"type":"turn.started"}"#,
    "\n",
    r#"{"type":"error","message":"Reconnecting... 1/1"}"#,
    "\n",
    r#"{"type":"turn.failed","error":{"message":"unexpected status 401 Unauthorized: no such key"}}"#,
    "\n",
);

fn said(stdout: &str) -> FirstWords<'_> {
    FirstWords { stdout, stderr: "" }
}

#[test]
fn the_id_comes_from_a_whole_line_wherever_the_output_was_cut() {
    let whole = REFUSED.find('\n').unwrap() + 1;
    for cut in 0..=REFUSED.len() {
        let id = Codex.learn_id(said(&REFUSED[..cut]));
        let wanted = (cut >= whole).then(|| "01a1df23-c2e6-74c2-b105-b50ea5667356".to_owned());
        assert_eq!(id, wanted, "cut at {cut}");
    }
    assert_eq!(Codex.learn_id(said("{\"type\":\"thread.started\",\"thread_id\":\"../x\"}\n")), None);
}

#[test]
fn a_failed_turn_says_why_and_a_warning_is_no_complaint() {
    let words = Codex.complaint(said(REFUSED));
    assert_eq!(words.as_deref(), Some("unexpected status 401 Unauthorized: no such key"));
    let before = &REFUSED[..REFUSED.find("turn.failed").unwrap()];
    assert_eq!(Codex.complaint(said(before)).as_deref(), Some("Reconnecting... 1/1"));
    assert_eq!(Codex.complaint(said(&REFUSED[..REFUSED.find("\"error\",\"message\":\"Rec").unwrap()])), None);
}

fn intent(words: String, conversation: Conversation) -> Intent {
    Intent {
        conversation,
        words,
        cwd: "/w".into(),
        model: None,
        permission: None,
        system_prompt: None,
        fresh_id: String::new(),
        more: Vec::new(),
        store: None,
    }
}

#[test]
fn what_the_agent_cannot_take_is_refused_before_anything_starts() {
    let plan = |words: String| Codex.plan(&intent(words, Conversation::New));
    assert!(plan("日".repeat(MOST_WORDS)).is_ok(), "characters count, not bytes");
    assert!(plan("x".repeat(MOST_WORDS + 1)).unwrap_err().message.contains("1048577"));
    let long = Intent { system_prompt: Some("y".repeat(200_000)), ..intent("x".into(), Conversation::New) };
    assert!(Codex.plan(&long).is_err());
    let name = Conversation::Stored { id: "my thread".into(), place: "/p".into() };
    assert!(Codex.plan(&intent("x".into(), name)).unwrap_err().message.contains("my thread"));
}

#[test]
fn instructions_are_written_as_toml() {
    assert_eq!(toml("a \"b\"\\\n\t\u{1}\u{7f}ü"), "\"a \\\"b\\\"\\\\\\n\\t\\u0001\\u007fü\"");
}

#[test]
fn what_was_put_away_or_never_begun_is_not_taken_up() {
    let id = "01a1df23-c2e6-74c2-b105-b50ea5667356";
    let rollout = |folder: &str| format!("/h/{folder}/rollout-2026-11-15T12-00-00-{id}.jsonl");
    assert!(Codex.can_resume(Path::new(&rollout("sessions/2026/11/15"))).is_ok());
    let archived = Codex.can_resume(Path::new(&rollout("archived_sessions"))).unwrap_err();
    assert!(archived.hint.unwrap().contains(&format!("codex unarchive {id}")));
    assert!(Codex.can_resume(Path::new(&format!("/h/thread-writer-locks/{id}.lock"))).is_err());
}

#[test]
fn each_owner_has_its_own_clean_end() {
    let way = |argv: &[&str]| Codex.stop_way(&session("codex", "x", None), &process(argv));
    assert_eq!(way(&["codex", "exec", "--json", "-"]), StopWay::Signal(CleanSignal::Interrupt));
    assert_eq!(way(&["codex", "--no-daemon"]), StopWay::Signal(CleanSignal::Terminate));
    assert_eq!(way(&["codex", "app-server"]), StopWay::Signal(CleanSignal::Terminate));
    assert_eq!(way(&["codex", "app-server", "--listen", "unix://"]), StopWay::Ask);
}
