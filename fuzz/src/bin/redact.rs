//! Redaction: what is JSON stays JSON of the same shape.

#![no_main]

use agentctl_snapshot::redact::Redactor;
use serde_json::Value;

fn shape(value: &Value) -> String {
    match value {
        Value::String(_) => "s".to_owned(),
        Value::Array(values) => format!("[{}]", values.iter().map(shape).collect::<String>()),
        Value::Object(members) => format!("{{{}}}", members.values().map(shape).collect::<String>()),
        other => other.to_string(),
    }
}

fn check(text: &str) {
    let redacted = Redactor::new([7; 32]).contents(text);
    assert_eq!(redacted.lines().count(), text.lines().count(), "{redacted}");
    for (line, redacted) in text.lines().zip(redacted.lines()) {
        if let Ok(whole @ Value::Object(_)) = serde_json::from_str::<Value>(line) {
            let after: Value = serde_json::from_str(redacted).expect("JSON stays JSON");
            // Two names may become one.
            if shape(&whole).len() == shape(&after).len() {
                assert_eq!(shape(&whole), shape(&after), "{redacted}");
            }
        }
    }
}

agentctl_fuzz::target!(
    |bytes: &[u8]| agentctl_fuzz::text(bytes, check),
    agentctl_fuzz::lines::walker_seeds()
);
