//! What the tools find and count is what the command line tells.

use serde_json::{Value, json};

use crate::machine::{Machine, TOOLS};
use crate::wire::Client;

/// The text without the marks of this answer's fence.
fn bare(answer: &Value, value: &Value) -> Value {
    let fence = &answer["structuredContent"]["fence"];
    let (open, close) = (fence["open"].as_str().unwrap(), fence["close"].as_str().unwrap());
    let text = value.to_string().replace(open, "").replace(close, "");
    serde_json::from_str(&text).unwrap()
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_search_finds_what_the_command_line_finds_page_by_page() {
    let machine = Machine::furnished();
    let mut client = Client::greeted(&machine, &[]);
    let expected = lines(&machine.run(&["search", "a", "--json", "-n", "200", "-C", "1"]).out);
    assert!(expected.len() > 7, "there is something to page: {}", expected.len());
    let mut found = Vec::new();
    loop {
        let asked = json!({"words": "a", "limit": 3, "before": found.len(), "context": 1});
        let told = client.call("search", asked);
        let data = &told["structuredContent"];
        let Value::Array(hits) = bare(&told, &data["hits"]) else { panic!("{told:#}") };
        assert!(hits.len() <= 3, "{told:#}");
        found.extend(hits);
        if data["more"] == false {
            break;
        }
    }
    assert_eq!(found, expected);
    // What narrows the one narrows the other.
    let narrow = client.call("search", json!({"words": ["a"], "role": ["user"], "limit": 200}));
    let narrow = bare(&narrow, &narrow["structuredContent"]["hits"]);
    let typed = lines(&machine.run(&["search", "a", "--role", "user", "--json", "-n", "200"]).out);
    assert!(!typed.is_empty() && typed.len() < expected.len());
    assert_eq!(narrow, Value::Array(typed));
    // Nothing found is an answer, and what cannot be searched is an error with a kind.
    let nothing = client.call("search", json!({"words": "no-such-word-anywhere"}));
    assert_eq!((&nothing["isError"], &nothing["structuredContent"]["hits"]), (&json!(false), &json!([])));
    for wrong in
        [json!({"words": "(", "regex": true}), json!({"words": []}), json!({"words": "a", "since": "?"})]
    {
        let told = client.call("search", wrong);
        assert_eq!(told["_meta"]["agentctl/error"]["code"], "usage", "{told:#}");
    }
    // A hit names the session that other tools take.
    let id = found.iter().map(|hit| hit["sessionId"].as_str().unwrap()).find(|id| *id == TOOLS).unwrap();
    assert_eq!(client.call("session_status", json!({"id": id}))["isError"], false);
}

#[test]
fn usage_counts_what_the_command_line_counts() {
    let machine = Machine::furnished();
    let mut client = Client::greeted(&machine, &[]);
    for by in ["day", "week", "month", "model", "adapter", "cwd", "session"] {
        let typed = machine.json(&["usage", "--by", by, "--tz", "UTC", "--json"]);
        let told = client.call("usage", json!({"by": by, "tz": "UTC", "limit": 200}));
        let data = &told["structuredContent"];
        assert_eq!(bare(&told, &data["rows"]), typed["rows"], "{by}");
        assert_eq!((&data["total"], &data["leftOut"]), (&typed["total"], &json!(0)), "{by}");
        assert!(typed["total"]["tokens"]["out"].as_u64().unwrap() > 0, "{typed:#}");
    }
    let all = client.call("usage", json!({"by": "session", "limit": 200}));
    let all = bare(&all, &all["structuredContent"]["rows"]);
    let all = all.as_array().unwrap();
    assert!(all.len() > 3, "there is something to page: {}", all.len());
    let page = client.call("usage", json!({"by": "session", "limit": 2, "before": 1}));
    assert_eq!(bare(&page, &page["structuredContent"]["rows"]), json!(all[1..3]));
    assert_eq!(page["structuredContent"]["leftOut"], all.len() - 3);
    for wrong in [json!({"by": "moon"}), json!({"tz": "Nowhere/Never"}), json!({"until": "?"})] {
        let told = client.call("usage", wrong);
        assert_eq!(told["_meta"]["agentctl/error"]["code"], "usage", "{told:#}");
    }
}
