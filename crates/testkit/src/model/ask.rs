//! One model request in a form that is the same for all protocols, and the choice of the reply to it.
//!
//! The position in the script is counted from the request itself: how many replies it already contains since the last real
//! prompt. The server does not store it, so a retry, a resumed session and two parallel sessions all get their own reply.

use serde_json::Value;

use super::schema;
use super::script::{self, Reply};

/// A tool that the agent offers to the model.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    pub name: String,
    /// The JSON schema of its input; `Null` when the request has none.
    pub schema: Value,
}

/// The content of a request, parsed from its body.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ask {
    pub model: String,
    pub stream: bool,
    /// The last message that the user really wrote; empty when there is none.
    pub prompt: String,
    /// How many model replies the request already contains after that prompt.
    pub replies: usize,
    pub tools: Vec<Tool>,
    /// The schema of a structured answer, when the request asks for one.
    pub answer_schema: Option<Value>,
}

impl Ask {
    /// Whether the request is for a title, a routing decision or a suggestion. Such requests offer no tools or ask for a
    /// structured answer, and must not run the script of the prompt that they quote.
    pub fn is_side_request(&self) -> bool {
        self.tools.is_empty() || self.answer_schema.is_some()
    }

    /// Counts one message of the conversation, oldest first.
    pub(crate) fn add_message(&mut self, speaker: Speaker, texts: &[&str]) {
        match speaker {
            Speaker::Model => self.replies += 1,
            Speaker::User => {
                if let Some(said) = texts.iter().rev().find_map(|text| spoken(text)) {
                    self.prompt = unquoted(said);
                    self.replies = 0;
                }
            }
        }
    }

    /// The name and input of the agent's shell tool for `command`. `usual` is the name when no offered tool is recognised as
    /// a shell.
    pub(crate) fn shell_call(&self, command: &str, usual: &str) -> (String, Value) {
        const KNOWN: [&str; 6] =
            ["exec_command", "bash", "run_shell_command", "shell_command", "local_shell", "shell"];
        let offered =
            KNOWN.iter().find_map(|known| self.tools.iter().find(|t| t.name.eq_ignore_ascii_case(known)));
        match offered {
            Some(tool) => (tool.name.clone(), schema::shell_input(&tool.schema, command)),
            None => (usual.to_owned(), schema::shell_input(&Value::Null, command)),
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Speaker {
    User,
    Model,
}

/// The answer to `ask`: from the script in its prompt, else from `rule`.
pub fn choose(ask: &Ask, rule: &dyn Fn(&Ask) -> Reply) -> Reply {
    if let Some(schema) = &ask.answer_schema {
        return Reply::text(schema::instance(schema).to_string());
    }
    if ask.is_side_request() {
        return Reply::text("side answer");
    }
    let mut script = script::parse(&ask.prompt);
    if script.is_empty() {
        rule(ask)
    } else if ask.replies < script.len() {
        script.swap_remove(ask.replies)
    } else {
        Reply::text("end of script")
    }
}

/// The user's own part of `text`, without the blocks in angle brackets and the notes that agents add to it; `None` when
/// nothing is left.
fn spoken(text: &str) -> Option<&str> {
    let mut rest = text.trim();
    while let Some(inside) = rest.strip_prefix('<') {
        let name = inside
            .split(|c: char| !(c.is_alphanumeric() || "_-".contains(c)))
            .next()
            .filter(|n| !n.is_empty())?;
        let closing = format!("</{name}>");
        rest = rest[rest.find(&closing)? + closing.len()..].trim_start();
    }
    let is_note = ["[Request interrupted", "# AGENTS.md"].iter().any(|note| rest.starts_with(note));
    (!rest.is_empty() && !is_note).then_some(rest)
}

/// Removes the double quotes and escapes that `OpenCode` puts around a message with spaces, because the script has none.
fn unquoted(said: &str) -> String {
    let inside = said.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inside.map_or_else(|| said.to_owned(), |text| text.replace("\\\"", "\""))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ask(prompt: &str, replies: usize) -> Ask {
        let tools = vec![Tool { name: "Bash".into(), schema: Value::Null }];
        Ask { prompt: prompt.into(), replies, tools, ..Ask::default() }
    }

    fn rule(_: &Ask) -> Reply {
        Reply::text("by rule")
    }

    #[test]
    fn the_script_goes_on_where_the_request_stands() {
        let prompt = "[[bash:ls]] [[text:done]]";
        assert_eq!(choose(&ask(prompt, 0), &rule), Reply::shell("ls"));
        assert_eq!(choose(&ask(prompt, 1), &rule), Reply::text("done"));
        assert_eq!(choose(&ask(prompt, 2), &rule), Reply::text("end of script"));
        assert_eq!(choose(&ask("hello", 0), &rule), Reply::text("by rule"));
    }

    #[test]
    fn side_requests_never_run_the_script() {
        let mut title = ask("[[bash:rm x]]", 0);
        title.tools.clear();
        assert_eq!(choose(&title, &rule), Reply::text("side answer"));
        let mut router = ask("[[bash:rm x]]", 0);
        router.answer_schema =
            Some(json!({"type": "object", "properties": {"choice": {"enum": ["flash", "pro"]}}}));
        assert_eq!(choose(&router, &rule), Reply::text(r#"{"choice":"flash"}"#));
    }

    #[test]
    fn only_the_last_real_prompt_counts() {
        let mut ask = Ask::default();
        ask.add_message(Speaker::User, &["<context>[[text:no]]</context>", "[[text:old]]"]);
        ask.add_message(Speaker::Model, &[]);
        ask.add_message(Speaker::User, &["<reminder>be kind</reminder>\n new one ", "<note>later</note>"]);
        assert_eq!((ask.prompt.as_str(), ask.replies), ("new one", 0));
        ask.add_message(Speaker::Model, &[]);
        ask.add_message(Speaker::User, &["<reminder>only this</reminder>"]);
        ask.add_message(Speaker::User, &["[Request interrupted by user]"]);
        assert_eq!((ask.prompt.as_str(), ask.replies), ("new one", 1));
    }

    #[test]
    fn quotes_around_a_whole_message_are_not_part_of_it() {
        let mut ask = Ask::default();
        ask.add_message(Speaker::User, &[r#""[[tool:X|{\"a\":1}]] b""#]);
        assert_eq!(ask.prompt, r#"[[tool:X|{"a":1}]] b"#);
        ask.add_message(Speaker::User, &[r#"say "a""#]);
        assert_eq!(ask.prompt, r#"say "a""#);
    }

    #[test]
    fn the_shell_tool_is_the_offered_one() {
        assert_eq!(ask("", 0).shell_call("ls", "x"), ("Bash".into(), json!({"command": "ls"})));
        assert_eq!(Ask::default().shell_call("ls", "x").0, "x");
    }
}
