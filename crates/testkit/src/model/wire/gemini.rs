//! Gemini `generateContent` and `streamGenerateContent`.

use serde_json::{Value, json};

use super::{Answer, Content, Pieces, data, list, texts, tool};
use crate::model::ask::{Ask, Speaker, Tool};

pub(super) fn read(path: &str, body: &Value) -> Ask {
    let (model, method) = path.rsplit('/').next().and_then(|tail| tail.split_once(':')).unwrap_or_default();
    let config = &body["generationConfig"];
    let schema = ["responseJsonSchema", "responseSchema"].iter().find_map(|key| config.get(key)).cloned();
    let wants_json = config["responseMimeType"] == "application/json";
    let mut ask = Ask {
        model: model.to_owned(),
        stream: method == "streamGenerateContent",
        tools: list(&body["tools"])
            .flat_map(|group| list(&group["functionDeclarations"]))
            .filter_map(offered)
            .collect(),
        answer_schema: schema.or_else(|| wants_json.then(|| json!({"type": "object"}))),
        ..Ask::default()
    };
    for content in list(&body["contents"]) {
        match content["role"].as_str() {
            Some("model") => ask.add_message(Speaker::Model, &[]),
            _ => ask.add_message(Speaker::User, &texts(&content["parts"])),
        }
    }
    ask
}

fn offered(declaration: &Value) -> Option<Tool> {
    let schema = declaration.get("parametersJsonSchema").unwrap_or(&declaration["parameters"]);
    tool(&declaration["name"], schema)
}

pub(super) fn stream(answer: &Answer) -> Pieces {
    // Nothing is sent before the first part, because the protocol has no opening event.
    let parts = match &answer.content {
        Content::Text(parts) => parts.iter().map(|text| data(&candidate(&json!([{"text": text}])))).collect(),
        Content::Tool { name, input } => vec![data(&candidate(&call(name, input)))],
    };
    Pieces { open: String::new(), parts, close: data(&last(answer, &json!([{"text": ""}]))) }
}

pub(super) fn whole(answer: &Answer) -> Value {
    let parts = match &answer.content {
        Content::Text(parts) => json!([{"text": parts.concat()}]),
        Content::Tool { name, input } => call(name, input),
    };
    last(answer, &parts)
}

fn call(name: &str, input: &Value) -> Value {
    json!([{"functionCall": {"name": name, "args": input}}])
}

fn candidate(parts: &Value) -> Value {
    json!({"candidates": [{"index": 0, "content": {"role": "model", "parts": parts}}]})
}

/// The last chunk, which contains the token counts. Cached tokens are part of the prompt in this protocol.
fn last(answer: &Answer, parts: &Value) -> Value {
    let prompt = answer.usage.prompt_total();
    let mut chunk = candidate(parts);
    chunk["candidates"][0]["finishReason"] = json!("STOP");
    chunk["responseId"] = json!(answer.id);
    chunk["modelVersion"] = json!(answer.model);
    chunk["usageMetadata"] = json!({
        "promptTokenCount": prompt, "cachedContentTokenCount": answer.usage.cache_read,
        "candidatesTokenCount": answer.usage.output, "totalTokenCount": prompt + answer.usage.output,
    });
    chunk
}
