//! Tests of the table on narrow and wide screens, with ordinary and hostile sessions.

use agentctl_model::{Outcome, Status};

use super::*;
use crate::render::style::Paint;
use crate::render::width::measure;

fn session(id: &str, status: Status, outcome: Option<Outcome>) -> Session {
    Session {
        since: Some(at("2026-11-15T11:54:00Z")),
        branch: Some("feature/auth".into()),
        model: Some("claude-opus-5-5".into()),
        tokens: Some(Tokens {
            input: Some(12_345),
            output: Some(999),
            cache_read: None,
            cache_write: Some(5),
        }),
        cost: Some(1.5),
        started_at: Some(at("2026-11-15T11:50:00Z")),
        ..agentctl_testkit::sessions::session(id, status, outcome)
    }
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn lines(sessions: &[Session], width: usize, usage: bool) -> Vec<String> {
    let rows: Vec<Row<'_>> = sessions.iter().map(|session| Row { session, depth: 0 }).collect();
    let view = View {
        now: at("2026-11-15T12:00:00Z"),
        hosts: &[],
        home: Some(Path::new("/home/dev")),
        usage,
        whole: false,
        columns: None,
    };
    table(&rows, &view).lines(width, Paint::new(false))
}

fn sample() -> Vec<Session> {
    let waiting = Session {
        status_detail: Some("permission prompt".into()),
        ..session("5f0c1111-1111-4111-8111-111111111111", Status::Waiting, None)
    };
    let wide = Session {
        name: Some("日本語のとても長い名前がここにある、本当に長いのです".into()),
        ..session("5f0c2222-1111-4111-8111-111111111111", Status::Stopped, Some(Outcome::Interrupted))
    };
    let hostile = Session {
        prompt: Some("evil\u{1b}[2J\u{1b}]0;x\u{7}\r\nsecond\u{202e}line".into()),
        cwd: Some("/tmp/\u{1b}[31m".into()),
        model: Some("m\u{9b}31m".into()),
        branch: Some("b\u{7}".into()),
        status_detail: Some("\u{1b}c".into()),
        ..session("x\u{1b}[1m", Status::Running, None)
    };
    vec![waiting, wide, hostile]
}

#[test]
fn eighty_columns_hold_what_matters() {
    let headers = |lines: &[String], wanted: &[&str]| {
        let shown: Vec<&str> = lines[0].split_whitespace().collect();
        assert_eq!(shown, wanted, "{lines:#?}");
        assert!(lines.iter().all(|line| measure(line) <= 80), "{lines:#?}");
    };
    let waiting = lines(&sample(), 80, false);
    headers(&waiting, &["ID", "STATUS", "AGENT", "NAME/PROMPT", "DETAIL"]);
    assert!(waiting[1].contains("◐ waiting 6m"), "{waiting:#?}");
    assert!(waiting[1].contains("permission prompt"), "it is worth more than the age: {waiting:#?}");
    let quiet = lines(&sample()[1..], 80, false);
    headers(&quiet, &["ID", "STATUS", "AGENT", "NAME/PROMPT", "CWD", "AGE"]);
    assert!(quiet[1].ends_with("10m"), "since it began: {quiet:#?}");
}

#[test]
fn two_hundred_columns_hold_everything() {
    let lines = lines(&sample(), 200, true);
    for header in ["DETAIL", "MODEL", "BRANCH", "TOKENS", "COST", "ACTIVITY"] {
        assert!(lines[0].contains(header), "{header}: {lines:#?}");
    }
    assert!(lines[1].contains("permission prompt") && lines[1].contains("12.3k/999"), "{lines:#?}");
    assert!(lines[1].contains("~/work/mono/services/auth"), "{lines:#?}");
    assert!(lines.iter().all(|line| measure(line) <= 200), "{lines:#?}");
}

#[test]
fn nothing_hostile_is_printed_at_any_width() {
    for width in 1..240 {
        for line in lines(&sample(), width, true) {
            assert!(measure(&line) <= width, "{width}: {line:?}");
            assert!(
                !line.chars().any(|c| c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c)),
                "{line:?}"
            );
        }
    }
}

#[test]
fn ids_are_as_short_as_they_can_be_told_apart() {
    let ids = ["aaaaaaaa-1", "aaaaaaaa-2", "bbbbbbbbbbbbbbbbbbbb", "short", "aaaaaaaa-2"];
    assert_eq!(short_ids(ids.into_iter()), ["aaaaaaaa-1", "aaaaaaaa-2", "bbbbbbbb", "short", "aaaaaaaa-2"]);
    let prefix_of_other = ["abcdefgh", "abcdefgh-and-many-more-letters"];
    assert_eq!(short_ids(prefix_of_other.into_iter()), ["abcdefgh", "abcdefgh-"]);
    let time_ordered = ["019a8b3c-1234-7abc-8def-0123456789ab", "ses_e21ea66fdffeFNtGz2kRmfzFJY"];
    assert_eq!(short_ids(time_ordered.into_iter()), ["019a8b3c-1234", "ses_e21ea66fd"]);
    let named = ["agent:main:dashboard:46810f9b-a12d-489e-842c-e1489b97d5e7", "agent:main:main"];
    assert_eq!(short_ids(named.into_iter()), ["agent:main:dashboard:46810f9b", "agent:main:main"]);
    assert_eq!(short_ids(["ééééééééééééé"].into_iter()), ["éééé"]);
}

#[test]
fn amounts_are_short() {
    let shown: Vec<String> = [0, 999, 1_000, 12_345, 999_999, 1_500_000, 123_456_789_000].map(amount).into();
    assert_eq!(shown, ["0", "999", "1.0k", "12.3k", "999k", "1.5M", "123G"]);
    assert_eq!(super::tokens(&Tokens::default()), "?/?");
}

#[test]
fn why_somebody_failed_is_worth_more_than_the_model() {
    let failed = Session {
        status_detail: Some("the model is overloaded".into()),
        ..session("5f0c3333-1111-4111-8111-111111111111", Status::Stopped, Some(Outcome::Failed))
    };
    let header = |session: Session| lines(&[session], 80, false)[0].clone();
    assert!(header(failed.clone()).contains("DETAIL"));
    assert!(!header(Session { outcome: Some(Outcome::Completed), ..failed }).contains("DETAIL"));
}
