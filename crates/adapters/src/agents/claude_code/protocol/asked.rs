//! What Claude Code asks a person: a tool call to approve, questions to answer, or a field that an MCP server wants.

use agentctl_model::text::visible;
use agentctl_model::{OptionKind, OptionScope, PendingKind, PendingOption};
use serde_json::{Map, Value, json};

use super::field::Field;
use super::frames::Asks;
use crate::control::offer::option;
use crate::hold::json_lines::{Answered, Waits};
use crate::hold::{Decision, Request};
use crate::transcript::call;

/// A request that waits for its answer.
pub(super) struct Asked {
    /// The id under which the agent expects the response.
    pub request_id: String,
    /// The tool call that waits for it.
    pub call: Option<String>,
    pub request: Request,
    pub answered: Option<Answered>,
    wants: Wants,
}

enum Wants {
    /// Leave for a tool call, and what to allow for the rest of the session.
    Leave {
        input: Value,
        always: Vec<Value>,
    },
    Answers {
        input: Value,
        questions: Vec<String>,
    },
    Field(Result<Field, String>),
}

impl Waits for Asked {
    fn request(&self) -> &Request {
        &self.request
    }

    fn answered(&mut self) -> &mut Option<Answered> {
        &mut self.answered
    }
}

impl Asked {
    /// `None` if this is no request for a person.
    pub(super) fn read(asks: &Asks) -> Option<Self> {
        let request = &asks.request;
        match request["subtype"].as_str()? {
            "can_use_tool" => Self::tool_call(asks),
            "elicitation" => Some(Self::elicitation(asks)),
            _ => None,
        }
    }

    fn tool_call(asks: &Asks) -> Option<Self> {
        let tool = asks.request["tool_name"].as_str()?;
        let input = asks.request.get("input").cloned().unwrap_or_else(|| json!({}));
        if tool == "AskUserQuestion"
            && let Some(asked) = Self::questions(asks, &input)
        {
            return Some(asked);
        }
        let always = for_the_session(&asks.request["permission_suggestions"]);
        let mut options = vec![option("allow", "Allow once", OptionKind::AllowOnce, OptionScope::Once)];
        if !always.is_empty() {
            let label = format!("Allow for this session: {}", rules_in_words(&always));
            options.push(option("allow-session", &label, OptionKind::AllowAlways, OptionScope::Session));
        }
        options.push(denial());
        let summary = call_in_words(tool, &input);
        Some(Self::new(asks, PendingKind::Approval, summary, options, Wants::Leave { input, always }))
    }

    /// `None` if the questions have a shape that cannot be answered one by one.
    fn questions(asks: &Asks, input: &Value) -> Option<Self> {
        let listed = input["questions"].as_array().filter(|listed| !listed.is_empty())?;
        let questions: Vec<String> =
            listed.iter().map(|one| Some(one["question"].as_str()?.to_owned())).collect::<Option<_>>()?;
        let mut summary = Vec::new();
        let mut options = Vec::new();
        for one in listed {
            summary.extend(one["question"].as_str().map(visible));
            for choice in one["options"].as_array().into_iter().flatten() {
                let Some(label) = choice["label"].as_str() else { continue };
                let told = choice["description"].as_str().filter(|told| !told.is_empty());
                summary.push(format!("- {}", call::words(label, told.unwrap_or_default())));
                options.push(option(label, label, OptionKind::Other, OptionScope::Once));
            }
        }
        // With several questions a label alone does not say which one it answers.
        if listed.len() > 1 {
            options.clear();
        }
        options.push(denial());
        let wants = Wants::Answers { input: input.clone(), questions };
        Some(Self::new(asks, PendingKind::Question, summary.join("\n"), options, wants))
    }

    fn elicitation(asks: &Asks) -> Self {
        let request = &asks.request;
        let server = request["mcp_server_name"].as_str().unwrap_or("MCP server");
        let mut summary = call::words(server, request["message"].as_str().unwrap_or_default());
        if let Some(url) = request["url"].as_str() {
            summary.push('\n');
            summary.push_str(&visible(url));
        }
        let field = Field::only_one(&request["requested_schema"]);
        let mut options = Vec::new();
        if let Ok(field) = &field {
            summary.push('\n');
            summary.push_str(&visible(&field.in_words()));
            options.extend(
                field.choices().iter().map(|one| option(one, one, OptionKind::Other, OptionScope::Once)),
            );
        }
        options.push(denial());
        Self::new(asks, PendingKind::Question, summary, options, Wants::Field(field))
    }

    fn new(
        asks: &Asks,
        kind: PendingKind,
        summary: String,
        options: Vec<PendingOption>,
        wants: Wants,
    ) -> Self {
        let request_id = asks.request_id.clone();
        let call = asks.request["tool_use_id"].as_str().map(str::to_owned);
        let id = match &call {
            Some(call) => format!("{request_id}:{call}"),
            None => request_id.clone(),
        };
        let request = Request { id, kind, summary: Some(summary), options };
        Self { request_id, call, request, answered: None, wants }
    }

    /// The agent's form of this decision, or why it has none.
    pub(super) fn response(&self, decision: &Decision) -> Result<Value, String> {
        match (&self.wants, decision) {
            (Wants::Leave { input, .. }, Decision::AllowOnce) => Ok(allowed(input)),
            (Wants::Leave { always, .. }, Decision::AllowAlways) if always.is_empty() => {
                Err("the agent does not offer to allow this for the session".to_owned())
            }
            (Wants::Leave { input, always }, Decision::AllowAlways) => {
                let mut response = allowed(input);
                response["updatedPermissions"] = json!(always);
                Ok(response)
            }
            (Wants::Leave { .. }, Decision::Text(_)) => {
                Err("the agent asks for an approval, not for words: `approve` or `deny` answers it"
                    .to_owned())
            }
            (Wants::Leave { .. } | Wants::Answers { .. }, Decision::Deny { reason }) => {
                // The agent requires words here, and the model reads them.
                let message = reason.as_deref().unwrap_or("The user said no.");
                Ok(json!({"behavior": "deny", "message": message}))
            }
            (Wants::Answers { input, questions }, Decision::Text(text)) => {
                let mut input = input.clone();
                input["answers"] = Value::Object(answers(questions, text)?);
                Ok(allowed(&input))
            }
            (Wants::Field(_), Decision::Deny { .. }) => Ok(json!({"action": "decline"})),
            (Wants::Field(field), Decision::Text(text)) => {
                let content = field.as_ref().map_err(Clone::clone)?.content(text)?;
                Ok(json!({"action": "accept", "content": content}))
            }
            (Wants::Answers { .. } | Wants::Field(_), Decision::AllowOnce | Decision::AllowAlways) => {
                Err("the agent asks a question, and wants an answer in words".to_owned())
            }
        }
    }
}

fn allowed(input: &Value) -> Value {
    json!({"behavior": "allow", "updatedInput": input})
}

/// One line for each question where there are several.
fn answers(questions: &[String], text: &str) -> Result<Map<String, Value>, String> {
    let lines: Vec<&str> = match questions {
        [_] => vec![text],
        _ => text.lines().collect(),
    };
    if lines.len() != questions.len() {
        return Err(format!(
            "the agent asks {} questions, and the answer has {} lines: one line answers one question",
            questions.len(),
            lines.len()
        ));
    }
    Ok(questions.iter().cloned().zip(lines.into_iter().map(|line| json!(line))).collect())
}

/// What the agent suggests to allow from now on, kept in the memory of the session: with the destination that it suggests,
/// it would write a settings file. Rules for this call go before whatever else it suggests, which is wider.
fn for_the_session(suggestions: &Value) -> Vec<Value> {
    let suggested = suggestions.as_array().map(Vec::as_slice).unwrap_or_default();
    let is_rule = |one: &&Value| one["type"] == "addRules" && one["behavior"] == "allow";
    let is_wider = |one: &&Value| {
        one["type"] == "addDirectories" || (one["type"] == "setMode" && one["mode"] == "acceptEdits")
    };
    let mut chosen: Vec<Value> = suggested.iter().filter(is_rule).cloned().collect();
    if chosen.is_empty() {
        chosen = suggested.iter().filter(is_wider).cloned().collect();
    }
    for one in &mut chosen {
        one["destination"] = json!("session");
    }
    chosen
}

fn rules_in_words(updates: &[Value]) -> String {
    let mut words = Vec::new();
    for update in updates {
        for rule in update["rules"].as_array().into_iter().flatten() {
            let tool = rule["toolName"].as_str().unwrap_or("tool");
            words.push(match rule["ruleContent"].as_str() {
                Some(content) => format!("{tool}({content})"),
                None => tool.to_owned(),
            });
        }
        let folders = update["directories"].as_array().into_iter().flatten().filter_map(Value::as_str);
        words.extend(folders.map(|folder| format!("files in {folder}")));
        words.extend(update["mode"].as_str().map(|mode| format!("mode {mode}")));
    }
    words.join(", ")
}

/// The argument that tells most, and below it the others: a person decides by what the call really does. How long it may
/// take and how the model describes it decide nothing.
fn call_in_words(tool: &str, input: &Value) -> String {
    const TELLING: [&str; 10] = [
        "command",
        "file_path",
        "notebook_path",
        "path",
        "pattern",
        "url",
        "query",
        "plan",
        "prompt",
        "description",
    ];
    const IDLE: [&str; 2] = ["timeout", "description"];
    let main = TELLING.iter().copied().find(|key| input[key].is_string());
    let mut words = call::words(tool, main.and_then(|key| input[key].as_str()).unwrap_or_default());
    for (key, value) in input.as_object().into_iter().flatten() {
        if Some(key.as_str()) == main || IDLE.contains(&key.as_str()) {
            continue;
        }
        let told = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        words.push('\n');
        words.push_str(&call::words(key, &told));
    }
    words
}

fn denial() -> PendingOption {
    option("deny", "Deny", OptionKind::Deny, OptionScope::Once)
}
