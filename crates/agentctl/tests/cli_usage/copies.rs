//! What was copied does not count again: forks, resumed copies, sub-agents, replays, artifacts.

use std::fs;

use serde_json::{Value, json};

use crate::judge::{counted, judged};
use crate::machine::Machine;
use crate::{ONE, TWO, by_session, prompt, reply, rows, transcript};

const TEN: &str = "2026-11-10T10:00:00.000Z";
const ELEVEN: &str = "2026-11-10T11:00:00.000Z";
const TWELVE: &str = "2026-11-10T12:00:00.000Z";

fn tokens_in(report: &Value) -> Vec<(&str, u64)> {
    let mut all: Vec<_> =
        rows(report).into_iter().map(|(key, tokens, _)| (key.unwrap(), tokens[0].unwrap())).collect();
    all.sort_unstable();
    all
}

#[test]
fn blocks_of_one_reply_count_once_with_the_last_figures() {
    let machine = Machine::empty();
    let first = reply(ONE, "m1", TEN, &json!({}));
    let last = first.replace("\"output_tokens\":10", "\"output_tokens\":25");
    machine.write(&transcript(ONE), &[prompt(ONE, TEN), first.clone(), first, last].concat());
    assert_eq!(rows(&by_session(&machine)), [(Some(ONE), [Some(100), Some(25), Some(0), Some(0)], 1)]);
}

#[test]
fn a_copy_of_a_conversation_under_another_id_counts_only_what_it_added() {
    let machine = Machine::empty();
    let shared = |id: &str| [prompt(id, TEN), reply(id, "m1", TEN, &json!({}))].concat();
    machine.write(&transcript(ONE), &[shared(ONE), reply(ONE, "m2", ELEVEN, &json!({}))].concat());
    machine.write(&transcript(TWO), &[shared(TWO), reply(TWO, "m3", TWELVE, &json!({}))].concat());
    let report = by_session(&machine);
    assert_eq!(report["total"]["tokens"]["in"], 300, "{report:#}");
    // One of them is the original; the other has only what is new in it.
    let mut each: Vec<u64> = tokens_in(&report).into_iter().map(|(_, tokens)| tokens).collect();
    each.sort_unstable();
    assert_eq!(each, [100, 200]);
    // Small servers give a name again: another call has another time.
    machine.write(&transcript(TWO), &[prompt(TWO, TWELVE), reply(TWO, "m1", TWELVE, &json!({}))].concat());
    assert_eq!(by_session(&machine)["total"]["tokens"]["in"], 300);
}

#[test]
fn what_a_fork_copied_never_counts_also_when_its_parent_is_gone() {
    let machine = Machine::empty();
    let marked = json!({"forkedFrom": {"sessionId": ONE, "messageUuid": "u"}});
    machine.write(&transcript(ONE), &[prompt(ONE, TEN), reply(ONE, "m1", TEN, &json!({}))].concat());
    let fork =
        [prompt(TWO, TEN), reply(TWO, "m1", TEN, &marked), reply(TWO, "m2", ELEVEN, &json!({}))].concat();
    machine.write(&transcript(TWO), &fork);
    assert_eq!(tokens_in(&by_session(&machine)), [(ONE, 100), (TWO, 100)]);
    fs::remove_file(machine.home().join(transcript(ONE))).unwrap();
    assert_eq!(tokens_in(&by_session(&machine)), [(TWO, 100)]);
}

#[test]
fn sub_agents_have_rows_of_their_own_wherever_their_records_are() {
    let machine = Machine::empty();
    let side = json!({"isSidechain": true});
    machine.write(
        &transcript(ONE),
        &[prompt(ONE, TEN), reply(ONE, "m1", TEN, &json!({})), reply(ONE, "m2", TEN, &side)].concat(),
    );
    let report = by_session(&machine);
    let inside = format!("{ONE}/sub-agents");
    assert_eq!(
        tokens_in(&report),
        [(ONE, 100), (inside.as_str(), 100)],
        "older versions write into one file"
    );
    assert_eq!(report["total"]["sessions"], 2);
    // The same reply in the sub-agent's own file is not another one.
    let own = format!(".claude/projects/-w/{ONE}/subagents/agent-abc.jsonl");
    machine.write(
        &own,
        &[prompt(ONE, TEN), reply(ONE, "m2", TEN, &side), reply(ONE, "m3", ELEVEN, &side)].concat(),
    );
    let report = by_session(&machine);
    assert_eq!(report["total"]["tokens"]["in"], 300, "{report:#}");
}

#[test]
fn one_session_in_two_folders_is_one_session() {
    let machine = Machine::empty();
    let older =
        [prompt(ONE, TEN), reply(ONE, "m1", TEN, &json!({})), reply(ONE, "m2", TEN, &json!({}))].concat();
    let newer =
        [prompt(ONE, TEN), reply(ONE, "m1", TEN, &json!({})), reply(ONE, "m3", ELEVEN, &json!({}))].concat();
    machine.write(&transcript(ONE), &older);
    machine.write(&format!(".claude/projects/-other/{ONE}.jsonl"), &newer);
    assert_eq!(tokens_in(&by_session(&machine)), [(ONE, 300)], "what only the older copy has was paid too");
}

fn counter(at: &str, total: (u64, u64), last: (u64, u64)) -> String {
    let usage = |(input, output): (u64, u64)| json!({"input_tokens": input, "cached_input_tokens": 0, "output_tokens": output});
    let info = json!({"total_token_usage": usage(total), "last_token_usage": usage(last)});
    format!(
        "{}\n",
        json!({"timestamp": at, "type": "event_msg", "payload": {"type": "token_count", "info": info}})
    )
}

fn meta(id: &str, at: &str, more: &Value) -> String {
    let mut payload =
        json!({"id": id, "timestamp": at, "cwd": "/w", "originator": "codex_exec", "source": "exec"});
    for (key, value) in more.as_object().unwrap() {
        payload[key.as_str()] = value.clone();
    }
    format!("{}\n", json!({"timestamp": at, "type": "session_meta", "payload": payload}))
}

fn turn(at: &str) -> String {
    let began =
        json!({"timestamp": at, "type": "event_msg", "payload": {"type": "task_started", "turn_id": "1"}});
    let context = json!({"timestamp": at, "type": "turn_context", "payload": {"turn_id": "1", "cwd": "/w", "model": "gpt-5"}});
    format!("{began}\n{context}\n")
}

/// ccusage#897, #950, #1349, tokscale#679: files of forked threads and sub-agents begin with the records of their
/// parent, with its first record or without. codeburn#413: each of them reaches the same total by a call of its own.
#[test]
fn a_replayed_history_of_codex_counts_in_its_own_thread_alone() {
    let machine = Machine::empty();
    let [parent, fork, child, silent] = [
        "01a1d000-0000-7000-8000-000000000001",
        "01a1d000-0000-7000-8000-000000000002",
        "01a1d000-0000-7000-8000-000000000003",
        "01a1d000-0000-7000-8000-000000000004",
    ];
    let place = |id: &str| format!(".codex/sessions/2026/11/10/rollout-2026-11-10T10-00-00-{id}.jsonl");
    let history = |at: &dyn Fn(u32) -> String| {
        let counters =
            (1..=20).map(|round| counter(&at(round), (u64::from(round) * 100, u64::from(round)), (100, 1)));
        [turn(&at(0)), counters.collect::<String>()].concat()
    };
    let own = history(&|round| format!("2026-11-10T10:{round:02}:00.000Z"));
    machine.write(&place(parent), &[meta(parent, TEN, &json!({})), own].concat());
    let replay = history(&|round| format!("2026-11-10T12:00:00.{:03}Z", 10 + round));
    let spawned = json!({"source": {"subagent": {"thread_spawn": {"parent_thread_id": parent, "depth": 1}}}});
    let embedded = meta(parent, TWELVE, &json!({}));
    for (id, more, embedded) in [
        (fork, json!({"forked_from_id": parent}), embedded.as_str()),
        (child, spawned.clone(), embedded.as_str()),
        (silent, spawned, ""),
    ] {
        let work =
            [turn("2026-11-10T12:30:00.000Z"), counter("2026-11-10T12:30:09.000Z", (2700, 25), (700, 5))];
        let text = [&meta(id, TWELVE, &more), embedded, &replay, &work.concat()];
        machine.write(&place(id), &text.concat());
    }
    let report = by_session(&machine);
    assert_eq!(tokens_in(&report), [(parent, 2000), (fork, 700), (child, 700), (silent, 700)]);
    assert_eq!(vec![counted(&report)], judged(&[&machine]), "as the slow counter has it");
    // Without the parent, too.
    fs::remove_file(machine.home().join(place(parent))).unwrap();
    assert_eq!(tokens_in(&by_session(&machine)), [(fork, 700), (child, 700), (silent, 700)]);
    // A plain list does not read the copies, and says nothing rather than what the parent spent.
    for session in
        machine.json(&["list", "--since", "all", "--all-agents", "--json"])["sessions"].as_array().unwrap()
    {
        assert_eq!(session["tokens"], Value::Null, "{session:#}");
    }
}

/// ccusage#1698: an extension of Pi lets sub-agents write sessions into the folder of their session, fresh ones and forks,
/// and copies of them beside those.
#[test]
fn sub_agents_beside_the_sessions_of_pi_count_once() {
    let machine = Machine::empty();
    let folder = ".pi/agent/sessions/--w--";
    let id = "01a1d000-0000-7000-8000-00000000000a";
    let [fresh, fork] = ["01a1d000-0000-7000-8000-00000000000b", "01a1d000-0000-7000-8000-00000000000c"];
    let header =
        |id: &str, at: &str| json!({"type": "session", "version": 3, "id": id, "timestamp": at, "cwd": "/w"});
    let call = |id: &str, at: &str| {
        let usage =
            json!({"input": 100, "output": 10, "cacheRead": 0, "cacheWrite": 0, "cost": {"total": 0.5}});
        let message =
            json!({"role": "assistant", "content": [], "provider": "fake", "model": "m", "usage": usage});
        format!("{}\n", json!({"type": "message", "id": id, "timestamp": at, "message": message}))
    };
    let session = format!("{}\n{}", header(id, TEN), call("aaaaaaaa", TEN));
    machine.write(&format!("{folder}/2026-11-10T10-00-00-000Z_{id}.jsonl"), &session);
    let artifact = json!({"version": 1, "recordType": "message", "message": {"role": "assistant", "usage": {"input": 100}}});
    let inside = format!("{folder}/2026-11-10T10-00-00-000Z_{id}");
    machine
        .write(&format!("{inside}/subagent-artifacts/r_worker_0_transcript.jsonl"), &format!("{artifact}\n"));
    machine.write(&format!("{inside}/notes.jsonl"), "no record at all\n");
    assert_eq!(tokens_in(&by_session(&machine)), [(id, 100)]);
    machine.write(
        &format!("{inside}/r1/run-0/session.jsonl"),
        &format!("{}\n{}{}", header(fresh, ELEVEN), call("b1", ELEVEN), call("b2", TWELVE)),
    );
    let mut forked = header(fork, ELEVEN);
    forked["parentSession"] = machine.home().join(format!("{inside}.jsonl")).to_str().unwrap().into();
    machine.write(
        &format!("{inside}/forks/2026-11-10T11-00-00-000Z_{fork}.jsonl"),
        &format!("{forked}\n{}{}", call("aaaaaaaa", TEN), call("c1", TWELVE)),
    );
    let report = by_session(&machine);
    assert_eq!(tokens_in(&report), [(id, 100), (fresh, 200), (fork, 100)]);
    assert_eq!(vec![counted(&report)], judged(&[&machine]), "as the slow counter has it");
    assert_eq!(report["sources"].to_string().matches("partial").count(), 0, "{report:#}");
    // They are sub-agents: a plain list has the session that started them.
    let listed = |more: &[&str]| {
        let list = machine.json(&[&["list", "--since", "all", "--json"], more].concat());
        list["sessions"].as_array().unwrap().iter().map(|row| row["parentId"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(listed(&[]), [Value::Null]);
    assert_eq!(listed(&["--all-agents"]).iter().filter(|parent| **parent == id).count(), 2);
}
