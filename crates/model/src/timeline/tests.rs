use proptest::prelude::*;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

fn marks(steps: &[(i64, Step)]) -> Vec<Mark> {
    steps.iter().map(|(second, step)| Mark { at: at(*second), step: *step }).collect()
}

fn present(status: Status) -> Present {
    Present { status, since: None, alive_since: None, stopped_at: None }
}

fn window() -> TimeWindow {
    TimeWindow { since: None, until: at(10_000) }
}

/// The spans as `from-to status`, with seconds.
fn drawn(steps: &[(i64, Step)], present: &Present) -> Vec<String> {
    shown(&spans(marks(steps), present, window()))
}

fn shown(spans: &[Span]) -> Vec<String> {
    let second = |time: Timestamp| (time.as_second() - 1_000_000).to_string();
    let one = |span: &Span| {
        format!("{}-{} {}", second(span.from), span.to.map(second).unwrap_or_default(), span.status.as_str())
    };
    spans.iter().map(one).collect()
}

#[test]
fn a_turn_a_request_and_a_rest() {
    let steps = [
        (0, Step::Said),
        (5, Step::Work),
        (10, Step::Asked(1)),
        // Another tool answers while the request still waits.
        (15, Step::Answered(2)),
        (20, Step::Answered(1)),
        (30, Step::Ended),
        (100, Step::Said),
        (110, Step::Ended),
    ];
    let stopped = drawn(&steps, &present(Status::Stopped));
    assert_eq!(stopped, ["0-10 running", "10-20 waiting", "20-30 running", "30-100 idle", "100-110 running"]);
    let idle = drawn(&steps, &present(Status::Idle));
    assert_eq!(idle[5], "110- idle");
}

#[test]
fn what_nobody_recorded_is_unknown() {
    let steps = [(0, Step::Said), (5, Step::Work), (50, Step::Said), (60, Step::Work)];
    let stopped = drawn(&steps, &present(Status::Stopped));
    assert_eq!(stopped, ["0-5 running", "5-50 unknown", "50-60 running"]);
    // A message into a turn whose beginning and end the agent records ends nothing.
    let steps = [(0, Step::Began), (1, Step::Said), (5, Step::Work), (50, Step::Said), (60, Step::Ended)];
    assert_eq!(drawn(&steps, &present(Status::Stopped)), ["0-60 running"]);
    let steps = [(0, Step::Began), (5, Step::Work), (50, Step::Began), (60, Step::Ended)];
    assert_eq!(drawn(&steps, &present(Status::Stopped)), ["0-5 running", "5-50 unknown", "50-60 running"]);
}

#[test]
fn an_agent_that_tries_again_has_not_rested() {
    let steps = [
        (0, Step::Said),
        (5, Step::Closing),
        (9, Step::Work),
        (12, Step::Closing),
        (14, Step::Closing),
        (90, Step::Said),
        (95, Step::Work),
        (200, Step::Opened),
        (210, Step::Stopped),
    ];
    let stopped = drawn(&steps, &present(Status::Stopped));
    assert_eq!(stopped, ["0-14 running", "14-90 idle", "90-95 running", "95-200 unknown", "200-210 idle"]);
}

#[test]
fn the_last_span_is_what_is_true_now_or_ends_with_the_death() {
    let open = [(0, Step::Said), (5, Step::Work)];
    let died = Present { stopped_at: Some(at(8)), ..present(Status::Stopped) };
    assert_eq!(drawn(&open, &died), ["0-8 running"]);
    assert_eq!(drawn(&open, &present(Status::Stopped)), ["0-5 running"], "nobody says when it died");
    assert_eq!(drawn(&open, &present(Status::Waiting)), ["0-5 running", "5- waiting"]);
    let waits = Present { since: Some(at(7)), ..present(Status::Waiting) };
    assert_eq!(drawn(&open, &waits), ["0-7 running", "7- waiting"]);
    let again = Present { alive_since: Some(at(500)), ..present(Status::Idle) };
    assert_eq!(drawn(&open, &again), ["0-5 running", "5-500 unknown", "500- idle"]);
    let ended = [(0, Step::Said), (5, Step::Ended), (6, Step::Stopped)];
    assert_eq!(drawn(&ended, &again), ["0-5 running", "5-6 idle", "6-500 stopped", "500- idle"]);
    assert_eq!(drawn(&ended, &present(Status::Stopped)), ["0-5 running", "5-6 idle"]);
    let works = drawn(&ended[..2], &present(Status::Running));
    assert_eq!(works, ["0-5 running", "5-10000 unknown", "10000- running"], "nobody says since when");
}

#[test]
fn copies_and_records_of_the_future_are_not_its_times() {
    let steps = [(0, Step::Said), (9, Step::Work), (10, Step::Copied), (20, Step::Said), (30, Step::Ended)];
    let stopped = drawn(&steps, &present(Status::Stopped));
    assert_eq!(stopped, ["10-20 idle", "20-30 running"]);
    let steps = [(0, Step::Said), (9, Step::Ended), (90_000, Step::Said)];
    assert_eq!(drawn(&steps, &present(Status::Stopped)), ["0-9 running"]);
}

#[test]
fn the_window_cuts_the_first_span() {
    let steps = [(0, Step::Said), (50, Step::Ended), (100, Step::Said), (110, Step::Ended)];
    let window = TimeWindow { since: Some(at(60)), until: at(10_000) };
    let cut = spans(marks(&steps), &present(Status::Stopped), window);
    assert_eq!(shown(&cut), ["60-100 idle", "100-110 running"]);
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => Just(Step::Began),
        2 => Just(Step::Said),
        4 => Just(Step::Work),
        1 => (0..3_u64).prop_map(Step::Asked),
        1 => (0..3_u64).prop_map(Step::Answered),
        1 => Just(Step::Closing),
        2 => Just(Step::Ended),
        1 => Just(Step::Opened),
        1 => Just(Step::Stopped),
    ]
}

fn some_marks() -> impl Strategy<Value = Vec<Mark>> {
    proptest::collection::vec((0..1000_i64, step()), 0..40).prop_map(|steps| marks(&steps))
}

fn some_present() -> impl Strategy<Value = Present> {
    let time = || proptest::option::of((0..2000_i64).prop_map(at));
    let status = proptest::sample::select(&Status::ALL[..]);
    (status, time(), time(), time()).prop_map(|(status, since, alive_since, stopped_at)| Present {
        status,
        since,
        alive_since,
        stopped_at,
    })
}

proptest! {
    #[test]
    fn spans_are_ordered_and_end_with_the_records(marks in some_marks(), present in some_present(), since in proptest::option::of(0..1500_i64)) {
        let window = TimeWindow { since: since.map(at), until: at(3000) };
        let last = marks.iter().map(|mark| mark.at).max();
        let spans = spans(marks, &present, window);
        for pair in spans.windows(2) {
            // No gap: what nobody knows is a span too.
            prop_assert_eq!(pair[0].to, Some(pair[1].from));
            prop_assert!(pair[0].status != pair[1].status);
        }
        for span in &spans {
            prop_assert!(span.to.is_none_or(|to| span.from < to));
            prop_assert!(window.since.is_none_or(|since| span.from >= since));
        }
        if let Some(end) = spans.last() {
            prop_assert_eq!(end.to.is_none(), present.status != Status::Stopped);
            if present.status == Status::Stopped {
                prop_assert!(end.to <= last.max(present.stopped_at));
            } else {
                prop_assert_eq!(end.status, present.status);
            }
        }
    }

    #[test]
    fn a_longer_record_changes_no_span_that_was_over(marks in some_marks(), more in some_marks()) {
        let stopped = present(Status::Stopped);
        let mut before = spans(marks.clone(), &stopped, window());
        let later = more.into_iter().map(|mark| Mark { at: mark.at.checked_add(jiff::SignedDuration::from_secs(1000)).unwrap(), ..mark });
        let after = spans(marks.into_iter().chain(later).collect(), &stopped, window());
        // The last one may go on.
        if let Some(last) = before.pop() {
            prop_assert_eq!(after.get(before.len()).map(|span| (span.from, span.status)), Some((last.from, last.status)));
        }
        prop_assert_eq!(&after[..before.len()], &before[..]);
    }

    #[test]
    fn the_order_in_which_records_are_read_does_not_matter(marks in some_marks()) {
        let mut marks = marks;
        marks.sort_by_key(|mark| mark.at);
        marks.dedup_by_key(|mark| mark.at);
        let stopped = present(Status::Stopped);
        let forwards = spans(marks.clone(), &stopped, window());
        marks.reverse();
        prop_assert_eq!(spans(marks, &stopped, window()), forwards);
    }
}
