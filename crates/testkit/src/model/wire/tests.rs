use serde_json::{Value, json};

use super::*;

/// The same conversation in each protocol: an old turn, then a prompt after injected context, then one tool round.
fn conversation(wire: Wire) -> (&'static str, Value) {
    let prompt = "[[bash:ls]] [[text:done]]";
    match wire {
        Wire::Anthropic => (
            "/v1/messages",
            json!({"model": "m", "stream": true,
            "tools": [{"name": "Bash", "input_schema": {"required": ["command"], "properties": {"command": {}}}}],
            "messages": [
                {"role": "user", "content": "[[text:old]]"},
                {"role": "assistant", "content": [{"type": "text", "text": "old"}]},
                {"role": "user", "content": [{"type": "text", "text": "<r>x</r>"}, {"type": "text", "text": prompt}]},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "out"}]}]},
            ]}),
        ),
        Wire::Responses => (
            "/v1/responses",
            json!({"model": "m", "stream": true,
            "tools": [{"type": "function", "name": "exec_command", "parameters": {"properties": {"cmd": {}}}}, {"type": "web_search"}],
            "input": [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "[[text:old]]"}]},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "old"}]},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": prompt}]},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<env>x</env>"}]},
                {"type": "reasoning", "summary": []},
                {"type": "function_call", "name": "exec_command", "arguments": "{}", "call_id": "c"},
                {"type": "function_call_output", "call_id": "c", "output": "out"},
            ]}),
        ),
        Wire::Chat => (
            "/v1/chat/completions",
            json!({"model": "m", "stream": true,
            "tools": [{"type": "function", "function": {"name": "bash", "parameters": {"properties": {"command": {}}}}}],
            "messages": [
                {"role": "system", "content": "[[text:system]]"},
                {"role": "user", "content": prompt},
                {"role": "assistant", "content": null, "tool_calls": [{"id": "c"}]},
                {"role": "tool", "tool_call_id": "c", "content": "out"},
            ]}),
        ),
        Wire::Gemini => (
            "/v1beta/models/m:streamGenerateContent",
            json!({
            "tools": [{"functionDeclarations": [{"name": "run_shell_command", "parametersJsonSchema": {}}]}],
            "contents": [
                {"role": "user", "parts": [{"text": "<session_context>x</session_context>"}]},
                {"role": "user", "parts": [{"text": prompt}]},
                {"role": "model", "parts": [{"functionCall": {"name": "run_shell_command"}}]},
                {"role": "user", "parts": [{"functionResponse": {"name": "run_shell_command"}}]},
            ]}),
        ),
    }
}

const ALL: [Wire; 4] = [Wire::Anthropic, Wire::Responses, Wire::Chat, Wire::Gemini];

fn read(wire: Wire) -> Ask {
    let (path, body) = conversation(wire);
    assert_eq!(Wire::of_path(path), Some(wire));
    wire.read(path, &body)
}

fn bytes(rendered: &Rendered) -> String {
    let text = |frame: &Frame| if let Frame::Bytes(text) = frame { text.clone() } else { String::new() };
    rendered.frames.iter().map(text).collect()
}

#[test]
fn each_protocol_is_read_the_same() {
    for wire in ALL {
        let ask = read(wire);
        assert_eq!((ask.prompt.as_str(), ask.replies), ("[[bash:ls]] [[text:done]]", 1), "{wire:?}");
        assert!(ask.stream && ask.model == "m" && !ask.is_side_request(), "{wire:?}");
    }
}

#[test]
fn the_shell_tool_has_each_protocols_own_shape() {
    let expected = [
        (Wire::Anthropic, r#"{\"command\":\"ls\"}"#, "Bash"),
        (Wire::Responses, r#"{\"cmd\":\"ls\"}"#, "exec_command"),
        (Wire::Chat, r#"{\"command\":\"ls\"}"#, "bash"),
        (Wire::Gemini, r#"{"command":"ls"}"#, "run_shell_command"),
    ];
    for (wire, input, name) in expected {
        let text = bytes(&wire.render(&read(wire), &Reply::shell("ls"), "1".into()));
        assert!(text.contains(input) && text.contains(&format!(r#""name":"{name}""#)), "{wire:?}: {text}");
    }
}

#[test]
fn streams_hold_pause_and_break_where_the_script_says() {
    for wire in ALL {
        let frames = |reply: Reply| wire.render(&read(wire), &reply, "1".into()).frames;
        assert_eq!(frames(Reply::hang("door"))[1], Frame::Hold("door".into()), "{wire:?}");
        assert_eq!(frames(Reply::cut())[1], Frame::Cut, "{wire:?}");
        let gap = Duration::from_millis(5);
        let pauses = frames(Reply::slow(3, gap)).iter().filter(|f| **f == Frame::Pause(gap)).count();
        assert_eq!(pauses, 3, "{wire:?}");
    }
}

#[test]
fn every_stream_is_made_of_events_with_json() {
    for wire in ALL {
        let text = bytes(&wire.render(&read(wire), &Reply::text("a\nb"), "1".into()));
        for line in
            text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|line| *line != "[DONE]")
        {
            serde_json::from_str::<Value>(line).unwrap_or_else(|e| panic!("{wire:?}: {e}: {line}"));
        }
        assert!(text.contains(r"a\nb"), "{wire:?}: {text}");
    }
}

#[test]
fn usage_is_exact_in_each_protocols_own_terms() {
    let usage = Usage { input: 1, output: 2, cache_read: 30, cache_write: 400 };
    let expected = [
        (
            Wire::Anthropic,
            r#""input_tokens":1,"output_tokens":2,"cache_read_input_tokens":30,"cache_creation_input_tokens":400"#,
        ),
        (
            Wire::Responses,
            r#""input_tokens":431,"input_tokens_details":{"cached_tokens":30},"output_tokens":2"#,
        ),
        (
            Wire::Chat,
            r#""prompt_tokens":431,"prompt_tokens_details":{"cached_tokens":30},"completion_tokens":2"#,
        ),
        (Wire::Gemini, r#""promptTokenCount":431,"cachedContentTokenCount":30,"candidatesTokenCount":2"#),
    ];
    for (wire, numbers) in expected {
        let mut ask = read(wire);
        for stream in [true, false] {
            ask.stream = stream;
            let text = bytes(&wire.render(&ask, &Reply::text("x").usage(usage), "1".into()));
            assert!(text.contains(numbers), "{wire:?}: {text}");
        }
    }
}

#[test]
fn an_error_is_a_status_with_the_message() {
    for wire in ALL {
        let rendered = wire.render(&read(wire), &Reply::status(529, "too much"), "1".into());
        assert_eq!((rendered.status, rendered.is_event_stream), (529, false));
        assert!(bytes(&rendered).contains("too much"));
    }
}
