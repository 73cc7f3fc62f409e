//! Costs: the agent's own figure, else the settings, else the table; and what has no price is named.

use serde_json::{Value, json};

use crate::machine::Machine;
use crate::{ONE, TWO, by_session, prompt, reply, transcript};

const AT: &str = "2026-11-10T10:00:00.000Z";

fn near(value: &Value, dollars: f64) -> bool {
    value.as_f64().is_some_and(|value| (value - dollars).abs() < 1e-9)
}

fn session(machine: &Machine, id: &str, model: &str, more: &str) {
    let text = [prompt(id, AT), reply(id, id, AT, &json!({})), more.to_owned()].concat();
    machine.write(&transcript(id), &text.replace("claude-opus-5-5", model));
}

#[test]
fn the_agents_figure_stands_above_the_settings_and_those_above_the_table() {
    let machine = Machine::empty();
    session(&machine, ONE, "claude-opus-5-5", "");
    let report = by_session(&machine);
    // 100 in at 4, 10 out at 20 dollars a million.
    assert!(near(&report["total"]["cost"], 0.000_6), "{report:#}");
    assert_eq!(report["total"]["costBasis"], "table");
    machine.write(".agentctl/config.toml", "[prices.\"claude-opus-5-5\"]\nin = 10\nout = 100\n");
    let report = by_session(&machine);
    assert!(near(&report["total"]["cost"], 0.002), "{report:#}");
    assert_eq!(report["total"]["costBasis"], "config");
    let own = format!("{}\n", json!({"type": "cost-state", "sessionId": ONE, "totalCostUSD": 0.25}));
    session(&machine, ONE, "claude-opus-5-5", &own);
    let report = by_session(&machine);
    assert!(near(&report["total"]["cost"], 0.25), "{report:#}");
    assert_eq!(report["total"]["costBasis"], "agent");
}

#[test]
fn what_has_no_price_is_counted_and_named_and_never_free() {
    let machine = Machine::empty();
    session(&machine, ONE, "claude-opus-5-5", "");
    session(&machine, TWO, "model-of-tomorrow", "");
    let report = machine.json(&["usage", "--by", "model", "--json"]);
    assert_eq!(report["unpriced"], json!(["model-of-tomorrow"]));
    assert_eq!(report["total"]["tokens"]["in"], 200);
    assert!(near(&report["total"]["cost"], 0.000_6), "the sum of what has a price: {report:#}");
    let rows = report["rows"].as_array().unwrap();
    let unpriced = rows.iter().find(|row| row["key"] == "model-of-tomorrow").unwrap();
    assert_eq!((&unpriced["cost"], &unpriced["costBasis"]), (&Value::Null, &Value::Null));
    let words = machine.run(&["usage"]).out;
    assert!(words.contains("no price is known for: model-of-tomorrow"), "{words}");
}

#[test]
fn a_sum_over_several_bases_says_so() {
    let machine = Machine::empty();
    session(&machine, ONE, "claude-opus-5-5", "");
    session(&machine, TWO, "mine", "");
    machine.write(".agentctl/config.toml", "[prices.mine]\nin = 10\nout = 100\n");
    let report = by_session(&machine);
    assert_eq!(report["total"]["costBasis"], "mixed", "{report:#}");
    assert!(near(&report["total"]["cost"], 0.002_6), "{report:#}");
}

#[test]
fn an_agents_figure_is_shared_with_its_sub_agents_and_paid_once() {
    let machine = Machine::furnished();
    let report = by_session(&machine);
    let of = |id: &str| {
        let rows = report["rows"].as_array().unwrap();
        rows.iter().find(|row| row["key"] == id).unwrap().clone()
    };
    let (parent, child) = (of(crate::machine::PARENT), of(crate::machine::SUBAGENT));
    assert_eq!((&parent["costBasis"], &child["costBasis"]), (&json!("agent"), &json!("agent")));
    // What Claude Code wrote for both of them together.
    let both = parent["cost"].as_f64().unwrap() + child["cost"].as_f64().unwrap();
    assert!((both - 0.005_657).abs() < 1e-9, "{both}");
    assert!(parent["cost"].as_f64() > child["cost"].as_f64(), "three calls and two");
}

#[test]
fn a_recorded_cost_of_nothing_for_tokens_is_no_figure() {
    let machine = Machine::empty();
    let id = "01a1d000-0000-7000-8000-00000000000a";
    let header = json!({"type": "session", "version": 3, "id": id, "timestamp": AT, "cwd": "/w"});
    let call = |name: &str, cost: f64| {
        let usage =
            json!({"input": 100, "output": 10, "cacheRead": 0, "cacheWrite": 0, "cost": {"total": cost}});
        let message =
            json!({"role": "assistant", "content": [], "provider": "fake", "model": name, "usage": usage});
        format!("{}\n", json!({"type": "message", "id": name, "timestamp": AT, "message": message}))
    };
    let text = format!("{header}\n{}{}", call("priced", 0.5), call("unpriced", 0.0));
    machine.write(&format!(".pi/agent/sessions/--w--/2026-11-10T10-00-00-000Z_{id}.jsonl"), &text);
    let report = by_session(&machine);
    assert!(near(&report["total"]["cost"], 0.5), "{report:#}");
    assert_eq!(report["unpriced"], json!(["fake/unpriced"]));
    assert_eq!(report["total"]["tokens"]["in"], 200);
}
