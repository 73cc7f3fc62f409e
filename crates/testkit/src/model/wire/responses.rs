//! `OpenAI` Responses.

use serde_json::{Value, json};

use super::{Answer, Content, Pieces, event, list, texts, tool};
use crate::model::ask::{Ask, Speaker};

pub(super) fn read(body: &Value) -> Ask {
    let mut ask = Ask {
        model: body["model"].as_str().unwrap_or_default().to_owned(),
        stream: body["stream"] == true,
        tools: list(&body["tools"]).filter_map(|t| tool(&t["name"], &t["parameters"])).collect(),
        answer_schema: body.pointer("/text/format/schema").cloned(),
        ..Ask::default()
    };
    if let Some(text) = body["input"].as_str() {
        ask.add_message(Speaker::User, &[text]);
    }
    for item in list(&body["input"]) {
        let is_call = item["type"].as_str().is_some_and(|kind| kind.ends_with("_call"));
        match item["role"].as_str() {
            Some("user") => ask.add_message(Speaker::User, &texts(&item["content"])),
            Some("assistant") => ask.add_message(Speaker::Model, &[]),
            _ if is_call => ask.add_message(Speaker::Model, &[]),
            _ => {}
        }
    }
    ask
}

pub(super) fn stream(answer: &Answer) -> Pieces {
    let created =
        json!({"type": "response.created", "response": envelope(answer, "in_progress", &json!([]))});
    let added =
        json!({"type": "response.output_item.added", "output_index": 0, "item": item(answer, "in_progress")});
    let parts = match &answer.content {
        Content::Text(parts) => parts.iter().map(|text| delta(answer, text)).collect(),
        Content::Tool { .. } => Vec::new(),
    };
    let done = item(answer, "completed");
    let mut completed = envelope(answer, "completed", &json!([done]));
    completed["usage"] = usage(answer);
    let close = event(&json!({"type": "response.output_item.done", "output_index": 0, "item": done}))
        + &event(&json!({"type": "response.completed", "response": completed}));
    Pieces { open: event(&created) + &event(&added), parts, close }
}

pub(super) fn whole(answer: &Answer) -> Value {
    let mut response = envelope(answer, "completed", &json!([item(answer, "completed")]));
    response["usage"] = usage(answer);
    response
}

fn envelope(answer: &Answer, status: &str, output: &Value) -> Value {
    json!({
        "id": format!("resp_{}", answer.id), "object": "response", "status": status, "model": answer.model,
        "output": output,
    })
}

fn delta(answer: &Answer, text: &str) -> String {
    event(&json!({
        "type": "response.output_text.delta", "item_id": format!("msg_{}", answer.id), "output_index": 0,
        "content_index": 0, "delta": text,
    }))
}

fn item(answer: &Answer, status: &str) -> Value {
    let is_done = status == "completed";
    match &answer.content {
        Content::Text(parts) => {
            let said = json!([{"type": "output_text", "text": parts.concat(), "annotations": []}]);
            let content = if is_done { said } else { json!([]) };
            json!({
                "type": "message", "id": format!("msg_{}", answer.id), "role": "assistant", "status": status,
                "content": content,
            })
        }
        Content::Tool { name, input } => json!({
            "type": "function_call", "id": format!("fc_{}", answer.id), "call_id": format!("call_{}", answer.id),
            "name": name, "arguments": if is_done { input.to_string() } else { String::new() }, "status": status,
        }),
    }
}

/// This protocol counts cached tokens as part of the input and does not report cache writes.
fn usage(answer: &Answer) -> Value {
    let input = answer.usage.prompt_total();
    json!({
        "input_tokens": input, "input_tokens_details": {"cached_tokens": answer.usage.cache_read},
        "output_tokens": answer.usage.output, "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": input + answer.usage.output,
    })
}
