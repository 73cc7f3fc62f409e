use super::*;

const OWN: &str = "01a1de03-1376-79f2-be46-f24fa6665fb0";
const PARENT: &str = "01a1de02-0fdf-70a2-8368-c4844de29a74";
/// Turns that began before and after the thread above was created, by their ids.
const OLD_TURN: &str = "01a1de02-0ffd-7713-b2ff-6ad78404e382";
const OWN_TURN: &str = "01a1de03-1441-7b43-83a6-01114463eeb2";
const CREATED: &str = "2026-11-15T07:01:46.057Z";

fn meta(id: &str, more: &str) -> String {
    format!(
        r#"{{"timestamp":"{CREATED}","type":"session_meta","payload":{{"id":"{id}","timestamp":"{CREATED}"{more}}}}}"#
    )
}

fn fork() -> String {
    meta(OWN, &format!(r#","forked_from_id":"{PARENT}""#))
}

fn turn(at: &str, id: &str) -> String {
    format!(r#"{{"timestamp":"{at}","type":"turn_context","payload":{{"turn_id":"{id}","model":"gpt-5"}}}}"#)
}

/// A counter: the thread's total, and what the last reply took of it.
fn counter(at: &str, total: (u64, u64), last: (u64, u64)) -> String {
    let usage = |(input, output): (u64, u64)| {
        format!(
            r#"{{"input_tokens":{input},"cached_input_tokens":0,"output_tokens":{output},"total_tokens":{}}}"#,
            input + output
        )
    };
    format!(
        r#"{{"timestamp":"{at}","type":"event_msg","payload":{{"type":"token_count","info":{{"total_token_usage":{},"last_token_usage":{}}}}}}}"#,
        usage(total),
        usage(last)
    )
}

/// What is counted, which must be the same for records that are spelled otherwise and therefore read part by part.
fn counted(lines: &[String]) -> Vec<(u64, u64)> {
    let counted = |spelled: fn(&String) -> String| -> Vec<(u64, u64)> {
        let mut spent = Spent::default();
        for line in lines {
            spent.line(spelled(line).as_bytes(), 0);
        }
        let both = |tokens: Tokens| (tokens.input.unwrap(), tokens.output.unwrap());
        spent.counted(false).calls.iter().map(|call| both(call.tokens)).collect()
    };
    let quickly = counted(String::clone);
    assert_eq!(quickly, counted(|line| line.replacen('{', "{ ", 1)), "{lines:#?}");
    quickly
}

const LATER: &str = "2026-11-15T07:05:00.000Z";

/// ccusage#1288: a total that is written again is no new call.
#[test]
fn counters_that_are_written_again_count_once() {
    let lines = [
        meta(OWN, ""),
        turn(LATER, OWN_TURN),
        counter(LATER, (100, 30), (100, 30)),
        counter("2026-11-15T07:05:01.000Z", (100, 30), (100, 30)),
        counter("2026-11-15T07:05:02.000Z", (250, 70), (150, 40)),
        counter("2026-11-15T07:06:02.000Z", (250, 70), (150, 40)),
    ];
    assert_eq!(counted(&lines), [(100, 30), (150, 40)]);
}

/// A part that cannot be read takes nothing of the others along, and a total that marks an overflow is none.
#[test]
fn an_odd_counter_tells_what_can_be_read_of_it() {
    let odd = counter("2026-11-15T07:05:02.000Z", (250, 70), (150, 40));
    let lines = [
        meta(OWN, ""),
        turn(LATER, OWN_TURN),
        counter(LATER, (100, 30), (100, 30)),
        odd.replace(r#""last_token_usage":{"#, r#""last_token_usage":{"input_tokens":"many","x":{"#) + "}",
        odd.replace(r#""total_token_usage":{"#, r#""total_token_usage":null,"other":{"#),
        odd.replace(r#""info":{"#, r#""info":null,"other":{"#),
        counter("2026-11-15T07:05:04.000Z", (0, 0), (0, 0))
            .replace(r#""total_tokens":0"#, r#""total_tokens":9"#),
        counter("2026-11-15T07:05:05.000Z", (260, 80), (10, 10)),
    ];
    assert_eq!(counted(&lines), [(100, 30), (150, 40), (10, 10)]);
}

/// The last reply says what a call took where the totals begin anew.
#[test]
fn totals_that_begin_anew_count_from_nothing() {
    let lines = [
        meta(OWN, ""),
        counter(LATER, (100, 30), (100, 30)),
        counter("2026-11-15T07:05:02.000Z", (20, 5), (20, 5)),
        counter("2026-11-15T07:05:03.000Z", (60, 15), (40, 10)),
    ];
    assert_eq!(counted(&lines), [(100, 30), (20, 5), (40, 10)]);
}

/// ccusage#897: the history comes along without counters, and the first own total contains the parent's.
#[test]
fn a_fork_counts_from_where_its_parent_was() {
    let lines = [
        fork(),
        turn(LATER, OWN_TURN),
        counter(LATER, (403_720_851, 1_259_565), (1_000, 50)),
        counter("2026-11-15T07:05:09.000Z", (403_722_851, 1_259_665), (2_000, 100)),
    ];
    assert_eq!(counted(&lines), [(1_000, 50), (2_000, 100)]);
    let silent = [fork(), counter(CREATED, (500, 50), (100, 10))];
    assert_eq!(counted(&silent), [], "before its first turn a fork repeats its parent's total");
}

/// ccusage#950, #1349: sub-agents and forks begin with the parent's records, all written when the thread was created.
#[test]
fn a_replay_with_new_times_is_the_parents() {
    let replay = |first: String| {
        let mut lines = vec![first, meta(PARENT, "")];
        for round in 1..=50 {
            lines.push(turn(&format!("2026-11-15T07:01:46.{:03}Z", 60 + round), "3"));
            lines.push(counter(
                &format!("2026-11-15T07:01:46.{:03}Z", 61 + round),
                (round * 100, round),
                (100, 1),
            ));
        }
        lines.push(turn(LATER, "4"));
        lines.push(counter("2026-11-15T07:05:05.000Z", (5_700, 55), (700, 5)));
        lines
    };
    assert_eq!(counted(&replay(fork())), [(700, 5)]);
    let spawned =
        format!(r#","source":{{"subagent":{{"thread_spawn":{{"parent_thread_id":"{PARENT}","depth":1}}}}}}"#);
    assert_eq!(counted(&replay(meta(OWN, &spawned))), [(700, 5)], "a sub-agent that was forked");
}

const SPAWNED: &str =
    r#","parent_thread_id":"01a1de02-0fdf-70a2-8368-c4844de29a74","thread_source":"subagent""#;

/// tokscale#679: the first record of a sub-agent names its parent and no fork, and the parent's first record is not
/// among the copies. A sibling that did the same work made a call of its own.
#[test]
fn a_sub_agent_that_replays_its_parent_without_saying_so_counts_its_own_calls() {
    let nested =
        format!(r#","source":{{"subagent":{{"thread_spawn":{{"parent_thread_id":"{PARENT}","depth":1}}}}}}"#);
    for (old, own) in [(OLD_TURN, OWN_TURN), ("3", "4")] {
        for first in [meta(OWN, SPAWNED), meta(OWN, &nested)] {
            let lines = [
                first,
                turn("2026-11-15T07:01:46.060Z", old),
                counter("2026-11-15T07:01:46.061Z", (40_002, 10), (40_002, 10)),
                counter("2026-11-15T07:01:46.062Z", (5_238_474, 90), (60_000, 20)),
                turn(LATER, own),
                counter("2026-11-15T07:05:05.000Z", (5_239_174, 95), (700, 5)),
            ];
            assert_eq!(counted(&lines), [(700, 5)], "turn {own}");
        }
    }
}

/// Most sub-agents copy nothing: all that they spend is their own, however soon the model answers.
#[test]
fn a_sub_agent_that_copied_nothing_counts_from_nothing() {
    let soon = [
        meta(OWN, SPAWNED),
        turn("2026-11-15T07:01:46.060Z", OWN_TURN),
        counter("2026-11-15T07:01:46.100Z", (1_034, 50), (1_034, 50)),
        counter("2026-11-15T07:01:46.200Z", (2_100, 90), (1_066, 40)),
    ];
    assert_eq!(counted(&soon), [(1_034, 50), (1_066, 40)], "the id of the turn tells");
    let unnamed = [
        meta(OWN, SPAWNED),
        turn("2026-11-15T07:01:46.060Z", "1"),
        r#"{"timestamp":"2026-11-15T07:01:48.000Z","type":"response_item","payload":{"type":"message"}}"#
            .to_owned(),
        counter("2026-11-15T07:01:48.001Z", (1_034, 50), (1_034, 50)),
    ];
    assert_eq!(counted(&unnamed), [(1_034, 50)], "a reply takes longer than a copy");
}

/// codeburn#413: copies that keep their times, over hours, and the work that follows at once.
#[test]
fn a_replay_with_its_old_times_is_the_parents() {
    let lines = [
        fork(),
        meta(PARENT, ""),
        turn("2026-11-14T10:00:00.000Z", OLD_TURN),
        counter("2026-11-14T10:00:09.000Z", (1_000, 10), (1_000, 10)),
        turn("2026-11-14T12:00:00.000Z", OLD_TURN),
        counter("2026-11-14T12:00:09.000Z", (3_000, 30), (2_000, 20)),
        turn("2026-11-15T07:01:46.200Z", OWN_TURN),
        counter("2026-11-15T07:01:46.400Z", (3_500, 35), (500, 5)),
    ];
    assert_eq!(counted(&lines), [(500, 5)], "the id of a turn tells whose it is, however soon it comes");
}

/// openai/codex#47003: a reply that compacts the context is recorded and left out of the total.
#[test]
fn a_reply_under_its_own_id_counts_once_also_where_the_total_leaves_it_out() {
    let reply = |at: &str, id: &str, used: (u64, u64), total: (u64, u64)| {
        let usage =
            |(input, output): (u64, u64)| format!(r#"{{"input_tokens":{input},"output_tokens":{output}}}"#);
        format!(
            r#"{{"timestamp":"{at}","type":"token_usage_record","payload":{{"turn_id":"{OWN_TURN}","response_id":"{id}","usage":{},"thread_token_usage":{}}}}}"#,
            usage(used),
            usage(total)
        )
    };
    let lines = [
        meta(OWN, ""),
        turn(LATER, OWN_TURN),
        reply(LATER, "r1", (100, 10), (100, 10)),
        counter(LATER, (100, 10), (100, 10)),
        reply(LATER, "r2", (90, 5), (100, 10)),
        counter(LATER, (100, 10), (0, 0)),
        reply(LATER, "r2", (90, 5), (100, 10)),
        reply(LATER, "r3", (50, 5), (150, 15)),
        counter(LATER, (150, 15), (50, 5)),
    ];
    assert_eq!(counted(&lines), [(100, 10), (90, 5), (50, 5)]);
}

#[test]
fn an_overflow_mark_and_half_a_line_are_no_counters() {
    let mark = counter(LATER, (0, 0), (0, 0)).replace(r#""total_tokens":0"#, r#""total_tokens":99"#);
    let whole = counter(LATER, (100, 30), (100, 30));
    let half = whole[..whole.len() - 3].to_owned();
    assert_eq!(counted(&[meta(OWN, ""), mark, half, whole]), [(100, 30)]);
}
