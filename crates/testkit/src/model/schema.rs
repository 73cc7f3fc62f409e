//! Makes values that satisfy a JSON schema, as far as agents' own schemas need it. Pure.

use serde_json::{Map, Value, json};

/// The input of a shell tool with this schema: `command`, and the other properties that the schema requires.
pub(crate) fn shell_input(schema: &Value, command: &str) -> Value {
    let properties = &schema["properties"];
    let key = if properties.get("cmd").is_some() { "cmd" } else { "command" };
    let mut input = if schema.get("required").is_some() { members(schema) } else { Map::new() };
    let is_list = properties[key]["type"] == "array";
    input.insert(key.to_owned(), if is_list { json!(["bash", "-lc", command]) } else { json!(command) });
    // Codex returns a command that runs longer than this to the model as unfinished, but scripts expect its end.
    if properties.get("yield_time_ms").is_some() {
        input.insert("yield_time_ms".to_owned(), json!(60_000));
    }
    Value::Object(input)
}

/// The smallest value that satisfies `schema`. It has all properties when the schema requires none.
pub(crate) fn instance(schema: &Value) -> Value {
    if let Some(first) = schema["enum"].as_array().and_then(|choices| choices.first()) {
        return first.clone();
    }
    if let Some(fixed) = schema.get("const") {
        return fixed.clone();
    }
    for either in ["anyOf", "oneOf"] {
        if let Some(first) = schema[either].as_array().and_then(|choices| choices.first()) {
            return instance(first);
        }
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str()).unwrap_or_default();
    match kind.to_ascii_lowercase().as_str() {
        "object" => Value::Object(members(schema)),
        "array" => json!([]),
        "boolean" => json!(false),
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or(json!(1)),
        "null" => Value::Null,
        _ => json!("side answer"),
    }
}

/// The required properties, or all of them when the schema requires none.
fn members(schema: &Value) -> Map<String, Value> {
    let Some(properties) = schema["properties"].as_object() else { return Map::new() };
    let names = schema["required"].as_array();
    let is_wanted = |name: &String| names.is_none_or(|names| names.iter().any(|n| n == name));
    properties
        .iter()
        .filter(|(name, _)| is_wanted(name))
        .map(|(name, of)| (name.clone(), instance(of)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_properties_are_filled() {
        let schema = json!({"type": "object", "required": ["command", "is_background"], "properties": {
            "command": {"type": "string"}, "is_background": {"type": "boolean"}, "timeout": {"type": "number"}}});
        assert_eq!(shell_input(&schema, "ls"), json!({"command": "ls", "is_background": false}));
    }

    #[test]
    fn each_shape_of_a_shell_tool_gets_its_own() {
        let codex =
            json!({"properties": {"cmd": {"type": "string"}, "yield_time_ms": {}}, "required": ["cmd"]});
        assert_eq!(shell_input(&codex, "ls"), json!({"cmd": "ls", "yield_time_ms": 60_000}));
        let list = json!({"properties": {"command": {"type": "array"}}, "required": ["command"]});
        assert_eq!(shell_input(&list, "ls"), json!({"command": ["bash", "-lc", "ls"]}));
    }

    #[test]
    fn an_instance_follows_types_and_choices() {
        let schema = json!({"type": "OBJECT", "properties": {
            "score": {"type": "integer", "minimum": 3}, "pick": {"enum": ["a", "b"]}, "why": {"type": ["string", "null"]}}});
        assert_eq!(instance(&schema), json!({"score": 3, "pick": "a", "why": "side answer"}));
    }
}
