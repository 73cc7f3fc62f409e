//! `OpenAI` Chat Completions.

use serde_json::{Value, json};

use super::{Answer, Content, Pieces, add_messages, data, list, tool};
use crate::model::ask::Ask;

pub(super) fn read(body: &Value) -> Ask {
    let offered = |t: &Value| tool(&t["function"]["name"], &t["function"]["parameters"]);
    let format = &body["response_format"];
    let wants_json = format["type"].as_str().is_some_and(|kind| kind.starts_with("json"));
    let schema = format.pointer("/json_schema/schema").cloned().unwrap_or_else(|| json!({"type": "object"}));
    let mut ask = Ask {
        model: body["model"].as_str().unwrap_or_default().to_owned(),
        stream: body["stream"] == true,
        tools: list(&body["tools"]).filter_map(offered).collect(),
        answer_schema: wants_json.then_some(schema),
        ..Ask::default()
    };
    add_messages(&mut ask, &body["messages"]);
    ask
}

pub(super) fn stream(answer: &Answer) -> Pieces {
    let open = chunk(answer, &json!({"role": "assistant", "content": ""}), None);
    let parts = match &answer.content {
        Content::Text(parts) => {
            parts.iter().map(|text| chunk(answer, &json!({"content": text}), None)).collect()
        }
        Content::Tool { .. } => vec![chunk(answer, &json!({"tool_calls": [call(answer)]}), None)],
    };
    let mut last = envelope(answer, "chat.completion.chunk");
    last["choices"] = json!([]);
    last["usage"] = usage(answer);
    let close = chunk(answer, &json!({}), Some(finish_reason(answer))) + &data(&last) + "data: [DONE]\n\n";
    Pieces { open, parts, close }
}

pub(super) fn whole(answer: &Answer) -> Value {
    let message = match &answer.content {
        Content::Text(parts) => json!({"role": "assistant", "content": parts.concat()}),
        Content::Tool { .. } => json!({"role": "assistant", "content": null, "tool_calls": [call(answer)]}),
    };
    let mut completion = envelope(answer, "chat.completion");
    completion["choices"] = json!([{"index": 0, "message": message, "finish_reason": finish_reason(answer)}]);
    completion["usage"] = usage(answer);
    completion
}

fn envelope(answer: &Answer, object: &str) -> Value {
    json!({"id": format!("chatcmpl-{}", answer.id), "object": object, "created": 1, "model": answer.model})
}

fn chunk(answer: &Answer, delta: &Value, finish: Option<&str>) -> String {
    let mut chunk = envelope(answer, "chat.completion.chunk");
    chunk["choices"] = json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
    data(&chunk)
}

fn call(answer: &Answer) -> Value {
    let Content::Tool { name, input } = &answer.content else { return Value::Null };
    json!({
        "index": 0, "id": format!("call_{}", answer.id), "type": "function",
        "function": {"name": name, "arguments": input.to_string()},
    })
}

fn finish_reason(answer: &Answer) -> &'static str {
    match answer.content {
        Content::Text(_) => "stop",
        Content::Tool { .. } => "tool_calls",
    }
}

/// This protocol counts cached tokens as part of the prompt and does not report cache writes.
fn usage(answer: &Answer) -> Value {
    let prompt = answer.usage.prompt_total();
    json!({
        "prompt_tokens": prompt, "prompt_tokens_details": {"cached_tokens": answer.usage.cache_read},
        "completion_tokens": answer.usage.output, "total_tokens": prompt + answer.usage.output,
    })
}
