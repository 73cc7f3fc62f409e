//! The four protocols that agents speak. Each is three pure functions: read a request, write a streamed answer, write a
//! whole answer. Timing, gates and cut connections are the same for all protocols, and are frames in this module.

mod anthropic;
mod chat;
mod gemini;
mod limits;
mod responses;

use std::time::Duration;

use serde_json::{Value, json};

use super::ask::{Ask, Speaker, Tool};
use super::script::{Act, Reply, Usage};

/// A protocol, recognised by the path of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    Anthropic,
    Responses,
    Chat,
    Gemini,
}

/// What is sent over the connection, in order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Frame {
    Bytes(String),
    Pause(Duration),
    /// Silence until the gate of this name is open.
    Hold(String),
    /// The connection is cut here.
    Cut,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rendered {
    pub(crate) status: u16,
    /// Beside the usual ones.
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) is_event_stream: bool,
    pub(crate) frames: Vec<Frame>,
}

/// One answer with everything that a protocol needs to write it.
pub(crate) struct Answer {
    /// Unique over all servers, because agents count tokens once per message id.
    pub(crate) id: String,
    pub(crate) model: String,
    pub(crate) content: Content,
    pub(crate) usage: Usage,
}

pub(crate) enum Content {
    Text(Vec<String>),
    Tool { name: String, input: Value },
}

/// A streamed answer. Pauses and gates are inserted between its pieces.
pub(crate) struct Pieces {
    pub(crate) open: String,
    pub(crate) parts: Vec<String>,
    pub(crate) close: String,
}

impl Wire {
    /// The protocol of a `POST` to `path`; `None` when it is not a model request.
    pub fn of_path(path: &str) -> Option<Self> {
        let ends = |tail: &str| path.ends_with(tail);
        match () {
            () if ends("/messages") => Some(Self::Anthropic),
            () if ends("/responses") => Some(Self::Responses),
            () if ends("/chat/completions") => Some(Self::Chat),
            () if ends(":generateContent") || ends(":streamGenerateContent") => Some(Self::Gemini),
            () => None,
        }
    }

    pub fn read(self, path: &str, body: &Value) -> Ask {
        match self {
            Self::Anthropic => anthropic::read(body),
            Self::Responses => responses::read(body),
            Self::Chat => chat::read(body),
            Self::Gemini => gemini::read(path, body),
        }
    }

    pub(crate) fn render(self, ask: &Ask, reply: &Reply, id: String) -> Rendered {
        if let Act::Status(status, message) = &reply.act {
            let body = self.error(*status, message).to_string();
            let (headers, frames) = (Vec::new(), vec![Frame::Bytes(body)]);
            return Rendered { status: *status, headers, is_event_stream: false, frames };
        }
        if let Act::Limit(resets_in) = &reply.act {
            let (headers, body) = limits::refusal(self, *resets_in);
            let frames = vec![Frame::Bytes(body.to_string())];
            return Rendered { status: 429, headers, is_event_stream: false, frames };
        }
        let (content, gap, before) = self.staging(ask, &reply.act);
        let answer = Answer { id, model: ask.model.clone(), content, usage: reply.usage };
        let frames = if ask.stream {
            let pieces = self.stream(&answer);
            let mut frames = vec![Frame::Bytes(pieces.open)];
            frames.extend(before);
            for part in pieces.parts {
                frames.push(Frame::Bytes(part));
                frames.extend(gap.map(Frame::Pause));
            }
            frames.push(Frame::Bytes(pieces.close));
            frames
        } else {
            let pauses = match &answer.content {
                Content::Text(parts) => u32::try_from(parts.len()).unwrap_or(u32::MAX),
                Content::Tool { .. } => 1,
            };
            let mut frames: Vec<Frame> =
                before.into_iter().chain(gap.map(|gap| Frame::Pause(gap * pauses))).collect();
            frames.push(Frame::Bytes(self.whole(&answer).to_string()));
            frames
        };
        Rendered { status: 200, headers: Vec::new(), is_event_stream: ask.stream, frames }
    }

    /// The content of an act, the pause after each part, and the frame between the opening and the first part.
    fn staging(self, ask: &Ask, act: &Act) -> (Content, Option<Duration>, Option<Frame>) {
        let text = |text: &str| Content::Text(vec![text.to_owned()]);
        match act {
            Act::Text(said) => (text(said), None, None),
            Act::SlowText { parts, gap } => (Content::Text(parts.clone()), Some(*gap), None),
            Act::Tool { name, input } => {
                (Content::Tool { name: name.clone(), input: input.clone() }, None, None)
            }
            Act::Shell(command) => {
                let (name, input) = ask.shell_call(command, self.usual_shell());
                (Content::Tool { name, input }, None, None)
            }
            Act::Hang(gate) => (text("released"), None, Some(Frame::Hold(gate.clone()))),
            Act::Drop => (text("never sent"), None, Some(Frame::Cut)),
            Act::Status(_, message) => (text(message), None, None),
            Act::Limit(_) => (text("a limit"), None, None),
        }
    }

    fn usual_shell(self) -> &'static str {
        match self {
            Self::Anthropic => "Bash",
            Self::Responses => "exec_command",
            Self::Chat => "bash",
            Self::Gemini => "run_shell_command",
        }
    }

    fn stream(self, answer: &Answer) -> Pieces {
        match self {
            Self::Anthropic => anthropic::stream(answer),
            Self::Responses => responses::stream(answer),
            Self::Chat => chat::stream(answer),
            Self::Gemini => gemini::stream(answer),
        }
    }

    fn whole(self, answer: &Answer) -> Value {
        match self {
            Self::Anthropic => anthropic::whole(answer),
            Self::Responses => responses::whole(answer),
            Self::Chat => chat::whole(answer),
            Self::Gemini => gemini::whole(answer),
        }
    }

    fn error(self, status: u16, message: &str) -> Value {
        match self {
            Self::Anthropic => json!({"type": "error", "error": {"type": "api_error", "message": message}}),
            Self::Responses | Self::Chat => {
                json!({"error": {"message": message, "type": "scripted_error", "code": "scripted_error"}})
            }
            Self::Gemini => {
                json!({"error": {"code": status, "message": message, "status": "SCRIPTED_ERROR"}})
            }
        }
    }
}

/// One server-sent event without a name.
fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

/// One server-sent event named by its own `type`.
fn event(value: &Value) -> String {
    format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap_or_default())
}

/// The texts of a message: the content itself, or the `text` of its blocks. Tool results contribute none.
fn texts(content: &Value) -> Vec<&str> {
    match content {
        Value::String(text) => vec![text],
        Value::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect(),
        _ => Vec::new(),
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A tool from its name and schema; `None` without a name, as for built-in server tools.
fn tool(name: &Value, schema: &Value) -> Option<Tool> {
    Some(Tool { name: name.as_str()?.to_owned(), schema: schema.clone() })
}

/// Counts messages of the shape `{role, content}`, which two protocols share.
fn add_messages(ask: &mut Ask, messages: &Value) {
    for message in list(messages) {
        match message["role"].as_str() {
            Some("assistant") => ask.add_message(Speaker::Model, &[]),
            Some("user") => ask.add_message(Speaker::User, &texts(&message["content"])),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
