use std::sync::Arc;

use agentctl_model::{
    CoverageKind, Entry, EntryKind, Evidence, HostReport, Outcome, Pending, PendingKind, Road, Role, Session,
    Status, Witness,
};
use agentctl_testkit::sessions::session;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::top::rows::{Key, Row};
use crate::top::state::{Part, Words};

const NOW: &str = "2026-11-15T12:04:31Z";

fn before(seconds: i64) -> Option<jiff::Timestamp> {
    let now: jiff::Timestamp = NOW.parse().ok()?;
    Some(now - jiff::SignedDuration::from_secs(seconds))
}

fn row(adapter: &str, folder: &str, title: &str, session: Session) -> Row {
    let key = Key {
        host: "dev1".into(),
        adapter: adapter.into(),
        root: "/r".into(),
        id: session.id.clone(),
        variant: None,
    };
    let session = Session {
        adapter: adapter.into(),
        host: "dev1".into(),
        cwd: Some(format!("/home/dev/w/{folder}")),
        name: Some(title.into()),
        ..session
    };
    Row { key, session: Arc::new(session), ahead: jiff::SignedDuration::ZERO, old: None }
}

/// The scene of the sketch.
fn scene() -> State {
    let mut state = State::new("dev1".into(), NOW.parse().unwrap());
    state.home = Some("/home/dev".into());
    let asks =
        Pending::new(PendingKind::Approval, Some("Bash: rm -rf build".into()), before(1020)).answerable(true);
    let waiting = Session {
        since: before(1020),
        pending: vec![asks],
        model: Some("claude-opus-5-5".into()),
        branch: Some("fix/login".into()),
        cost: Some(0.42),
        capabilities: vec![
            agentctl_model::Capability::Send,
            agentctl_model::Capability::Interrupt,
            agentctl_model::Capability::Stop,
        ],
        evidence: vec![
            Evidence::said(Witness::Registry, "says waiting", before(7)),
            Evidence::said(Witness::Kernel, "pid 6724 alive", None),
        ],
        ..session("5b0d7f36-1111-4111-8111-111111111111", Status::Waiting, None)
    };
    let mut works = session("b", Status::Running, None);
    (works.since, works.last_message) = (before(41), Some("Edit src/rate.rs".into()));
    let mut ready = session("c", Status::Idle, None);
    ready.since = before(480);
    let mut failed = session("d", Status::Stopped, Some(Outcome::Failed));
    (failed.updated_at, failed.status_detail) = (before(3600), Some("401 from the provider".into()));
    let rows = vec![
        row("claude-code", "site", "Fix the login form", waiting),
        row("claude-code", "api", "Make the rate limiter fair", works),
        row("pi", "docs", "Describe the API 日本語", ready),
        row("gemini", "mono", "Why is the nightly red?", failed),
    ];
    state.hear("", Part { rows, heard_at: before(0), ..Part::default() });
    let mut host = HostReport::unheard("box".into(), Road::Ssh);
    (host.coverage, host.error) = (CoverageKind::Failed, Some("connection timed out".into()));
    state.hear("box", Part { hosts: vec![host], heard_at: before(5), ..Part::default() });
    let entry = |role, kind, text: &str, tool: Option<&str>| Entry {
        at: before(60),
        role,
        kind,
        text: text.into(),
        tool: tool.map(Into::into),
    };
    state.words = Words {
        of: state.cursor.clone(),
        entries: vec![
            entry(Role::User, EntryKind::Message, "Fix the login form, it loses the session", None),
            entry(
                Role::Agent,
                EntryKind::Message,
                "I found the token check in session.ts.\u{1b}[2J\u{202e}",
                None,
            ),
            entry(
                Role::Agent,
                EntryKind::ToolCall,
                r#"{"command":"rm -rf build","description":"Make room"}"#,
                Some("Bash"),
            ),
        ],
        error: None,
        is_told: true,
    };
    state
}

fn shown(state: &State, width: u16, height: u16) -> (Vec<String>, Shown) {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let mut shown = Shown::default();
    terminal
        .draw(|frame| {
            let area = frame.area();
            shown = draw(state, Theme { colours: true }, area, frame.buffer_mut());
        })
        .unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| {
        let mut line = String::new();
        let mut x = 0;
        while x < width {
            let symbol = buffer[(x, y)].symbol();
            line.push_str(symbol);
            x += u16::try_from(crate::render::width::measure(symbol).max(1)).unwrap();
        }
        line.trim_end().to_owned()
    };
    ((0..height).map(line).collect(), shown)
}

#[test]
fn the_sketch_at_80_by_24() {
    let state = scene();
    let (lines, shown) = shown(&state, 80, 24);
    let expected = "
 agentctl · dev1         ◐ 1 needs you   ● 1   ○ 1   ✕ 1               12:04:31
>◐  17m  claude-code dev1:site  Fix the login form         Bash: rm -rf build
 ●  41s  claude-code dev1:api   Make the rate limiter fair Edit src/rate.rs
 ○   8m  pi          dev1:docs  Describe the API 日本語    ready
 ✕   1h  gemini      dev1:mono  Why is the nightly red?    401 from the provider




 ? box                     not heard: connection timed out               5s ago
────────────────────────────────────────────────────────────────────────────────
 Fix the login form   dev1/5b0d7f36 · claude-opus-5-5 · ~/w/site fix/login · $0…
 you    Fix the login form, it loses the session
 agent  I found the token check in session.ts.[2J
 tool   Bash  rm -rf build
 ◐ waits for your approval since 17m
   why: registry: says waiting (7s ago) · kernel: pid 6724 alive
   │ Bash: rm -rf build




────────────────────────────────────────────────────────────────────────────────
 y approve  n deny  a answer  s send  i interrupt  x stop  Enter open  / find  ?";
    assert_eq!(format!("\n{}", lines.join("\n")), expected, "{}", lines.join("\n"));
    assert_eq!(shown.request.unwrap().1.summary.as_deref(), Some("Bash: rm -rf build"));
}

#[test]
fn a_wide_screen_has_the_conversation_beside_the_list() {
    let (lines, _) = shown(&scene(), 200, 50);
    assert!(lines[1].starts_with(">◐  17m") && lines[1].contains("│ Fix the login form"), "{}", lines[1]);
    assert!(lines[2].contains("│ you    Fix the login form"), "{}", lines[2]);
    assert!(lines.iter().all(|line| crate::render::width::measure(line) <= 200));
}

/// A request that does not fit is not shown whole, and so cannot be approved, until its end was seen.
#[test]
fn a_long_request_is_seen_only_at_its_end() {
    let mut state = scene();
    let long = (0..60).map(|line| format!("line {line}\n")).collect::<Vec<_>>().concat();
    let row = state.selected().unwrap().clone();
    let mut session = (*row.session).clone();
    session.pending[0].summary = Some(long);
    state.hear("", Part { rows: vec![Row { session: Arc::new(session), ..row }], ..Part::default() });
    let (lines, first) = shown(&state, 80, 24);
    assert_eq!(first.request, None);
    assert!(
        lines.iter().any(|line| line.contains("more lines; y shows the whole request")),
        "{}",
        lines.join("\n")
    );
    state.open(View::Request);
    let (lines, first) = shown(&state, 80, 24);
    assert!(lines.iter().any(|line| line.contains("line 0")));
    assert_eq!(first.request, None);
    state.saw(first, std::time::Instant::now());
    state.scroll_by(1000);
    let (lines, last) = shown(&state, 80, 24);
    assert!(lines.iter().any(|line| line.contains("line 59")), "{}", lines.join("\n"));
    assert!(last.request.is_some());
}

#[test]
fn every_view_draws_at_every_size_and_shows_no_control() {
    let mut state = scene();
    let views = [
        View::List,
        View::Conversation,
        View::Request,
        View::Evidence,
        View::Groups,
        View::Hosts,
        View::Usage,
        View::Changes,
        View::Timeline,
        View::Help,
    ];
    for view in views {
        state.open(view);
        for (width, height) in
            [(1, 1), (10, 3), (40, 8), (41, 9), (80, 24), (120, 40), (139, 12), (140, 12), (200, 50)]
        {
            let (lines, _) = shown(&state, width, height);
            let hostile = |letter: char| letter.is_control() || letter == '\u{202e}';
            assert!(!lines.iter().any(|line| line.contains(hostile)), "{view:?} {width}x{height}");
        }
    }
    state.open(View::List);
    state.form = Some(crate::top::form::Form::new(vec!["codex".into()], None, "/home/dev/w"));
    let (lines, _) = shown(&state, 80, 24);
    assert!(lines.iter().any(|line| line.contains("Agent    codex")), "{}", lines.join("\n"));
    assert!(lines.iter().any(|line| line.contains("Folder   ~/w")), "{}", lines.join("\n"));
}

#[test]
fn an_empty_list_says_what_to_do_and_a_lost_daemon_is_a_banner() {
    let mut state = State::new("dev1".into(), NOW.parse().unwrap());
    assert!(shown(&state, 80, 24).0[1].contains("looking"));
    state.hear("", Part::default());
    state.daemon_lost = before(12);
    let (lines, _) = shown(&state, 80, 24);
    assert!(lines[1].contains("the daemon is not heard since 12s"), "{}", lines[1]);
    assert!(lines[2].contains("no session runs"), "{}", lines[2]);
    assert!(lines[3].contains("l launches an agent here"), "{}", lines[3]);
    // What will never be looked at again is no list that happens to stay the same.
    state.broken.push("agentctl does not look at this machine any more; start it anew (broken)".into());
    let (lines, _) = shown(&state, 80, 24);
    assert!(
        lines[2].contains("does not look at this machine any more; start it anew (broken)"),
        "{}",
        lines[2]
    );
    assert!(lines[3].contains("no session runs"), "{}", lines[3]);
}

#[test]
fn usage_that_cannot_be_counted_says_why() {
    let mut state = scene();
    state.open(View::Usage);
    assert!(shown(&state, 80, 24).0[2].contains("counting"));
    state.hear_usage(1, Err("late".into()));
    assert!(shown(&state, 80, 24).0[2].contains("counting"), "it is the answer to another question");
    state.hear_usage(0, Err("the store cannot be read".into()));
    let lines = shown(&state, 80, 24).0;
    assert!(lines[2].contains("the store cannot be read"), "{}", lines.join("\n"));
}

#[test]
fn the_help_names_every_key_of_the_contract_and_fits() {
    let state = {
        let mut state = scene();
        state.open(View::Help);
        state
    };
    let (lines, _) = shown(&state, 80, 40);
    let whole = lines.join("\n");
    for key in
        ["y", "n", "a", "s", "i", "x", "r", "l", "/", "Enter", "Esc", "e", "d", "g", "h", "t", "u", "?", "q"]
    {
        assert!(whole.contains(&format!("\n {key:<8}  ")), "{key}: {whole}");
    }
    assert!(!whole.contains('…'), "{whole}");
}
