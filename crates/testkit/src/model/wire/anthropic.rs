//! Anthropic Messages.

use serde_json::{Value, json};

use super::{Answer, Content, Pieces, add_messages, event, list, tool};
use crate::model::ask::Ask;

pub(super) fn read(body: &Value) -> Ask {
    let mut ask = Ask {
        model: body["model"].as_str().unwrap_or_default().to_owned(),
        stream: body["stream"] == true,
        tools: list(&body["tools"]).filter_map(|t| tool(&t["name"], &t["input_schema"])).collect(),
        answer_schema: body.pointer("/output_config/format/schema").cloned(),
        ..Ask::default()
    };
    add_messages(&mut ask, &body["messages"]);
    ask
}

pub(super) fn stream(answer: &Answer) -> Pieces {
    let mut message = envelope(answer);
    // The real service reports the input tokens first and the output tokens at the end.
    message["usage"]["output_tokens"] = json!(1);
    let (block, deltas) = match &answer.content {
        Content::Text(parts) => {
            let deltas = parts.iter().map(|text| json!({"type": "text_delta", "text": text})).collect();
            (json!({"type": "text", "text": ""}), deltas)
        }
        Content::Tool { name, input } => {
            let delta = json!({"type": "input_json_delta", "partial_json": input.to_string()});
            (json!({"type": "tool_use", "id": tool_id(answer), "name": name, "input": {}}), vec![delta])
        }
    };
    let open = event(&json!({"type": "message_start", "message": message}))
        + &event(&json!({"type": "content_block_start", "index": 0, "content_block": block}));
    let parts = deltas
        .iter()
        .map(|delta: &Value| event(&json!({"type": "content_block_delta", "index": 0, "delta": delta})))
        .collect();
    let stop = json!({"stop_reason": stop_reason(answer), "stop_sequence": null});
    let close = event(&json!({"type": "content_block_stop", "index": 0}))
        + &event(&json!({"type": "message_delta", "delta": stop, "usage": usage(answer)}))
        + &event(&json!({"type": "message_stop"}));
    Pieces { open, parts, close }
}

pub(super) fn whole(answer: &Answer) -> Value {
    let mut message = envelope(answer);
    message["stop_reason"] = json!(stop_reason(answer));
    message["content"] = match &answer.content {
        Content::Text(parts) => json!([{"type": "text", "text": parts.concat()}]),
        Content::Tool { name, input } => {
            json!([{"type": "tool_use", "id": tool_id(answer), "name": name, "input": input}])
        }
    };
    message
}

fn envelope(answer: &Answer) -> Value {
    json!({
        "id": format!("msg_{}", answer.id), "type": "message", "role": "assistant", "model": answer.model,
        "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage(answer),
    })
}

fn usage(answer: &Answer) -> Value {
    json!({
        "input_tokens": answer.usage.input, "output_tokens": answer.usage.output,
        "cache_read_input_tokens": answer.usage.cache_read, "cache_creation_input_tokens": answer.usage.cache_write,
    })
}

fn stop_reason(answer: &Answer) -> &'static str {
    match answer.content {
        Content::Text(_) => "end_turn",
        Content::Tool { .. } => "tool_use",
    }
}

fn tool_id(answer: &Answer) -> String {
    format!("toolu_{}", answer.id)
}
