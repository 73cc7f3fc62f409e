//! What the agent asks for, in the words of the protocol, and the answers to it.

use agentctl_model::{OptionKind, OptionScope, PendingKind, PendingOption};
use serde_json::{Map, Value, json};

use super::agent::Meaning;
use super::form::Form;
use super::wire::{CallMeta, Elicitation, PermissionOption, Question, RequestPermission, ToolCall};
use crate::hold::{Decision, Request};

/// One request that waits for a person.
#[derive(Debug)]
pub(super) struct Asked {
    /// The id under which it is answered, as it came.
    pub(super) rpc: Value,
    /// The tool call that it is about.
    pub(super) call: Option<String>,
    pub(super) request: Request,
    shape: Shape,
}

/// What its answer looks like.
#[derive(Debug)]
enum Shape {
    /// One of the options.
    Options,
    /// An answer to each of that many questions, under the option that submits them.
    Questions {
        count: usize,
        options: Vec<PendingOption>,
    },
    Form(Form),
}

impl Asked {
    /// A request for a permission, which some agents use for questions too.
    pub(super) fn permission(rpc: Value, id: String, asked: RequestPermission, known: &[Meaning]) -> Self {
        let call = asked.tool_call.unwrap_or_default();
        let offered = asked.options.unwrap_or_default();
        let options: Vec<_> =
            offered.into_iter().filter_map(|option| pending_option(option, known)).collect();
        let meta =
            call.meta.as_ref().unwrap_or(&CallMeta { qwen_interaction_kind: None, qwen_questions: None });
        let is_question = meta.qwen_interaction_kind.as_deref() == Some("user_question");
        let questions = meta.qwen_questions.as_deref().filter(|list| is_question && !list.is_empty());
        let (kind, summary, options, shape) = match questions {
            Some(list) => {
                let shape = Shape::Questions { count: list.len(), options };
                (PendingKind::Question, question_words(list), only_choices(list), shape)
            }
            None => (PendingKind::Approval, call_words(&call), options, Shape::Options),
        };
        let summary = (!summary.is_empty()).then_some(summary);
        let request = Request { id, kind, summary, options };
        Self { rpc, call: call.id, request, shape }
    }

    /// A form to be filled in.
    pub(super) fn elicitation(rpc: Value, id: String, asked: Elicitation) -> Self {
        let form = Form::new(asked.requested_schema.as_ref());
        let mut words = asked.message.into_iter().chain(asked.url).collect::<Vec<_>>();
        words.extend(form.words());
        // Without a field it asks for consent alone.
        let (kind, options) = if form.is_empty() {
            let accept = once("accept", "Accept", OptionKind::AllowOnce);
            (PendingKind::Approval, vec![accept, once("decline", "Decline", OptionKind::Deny)])
        } else {
            (PendingKind::Question, form.only_choices().into_iter().map(choice).collect())
        };
        let summary = (!words.is_empty()).then(|| words.join("\n"));
        let request = Request { id, kind, summary, options };
        Self { rpc, call: asked.tool_call_id, request, shape: Shape::Form(form) }
    }

    /// The result that says the decision, or why it cannot be said.
    pub(super) fn answer(&self, decision: &Decision) -> Result<Value, String> {
        match (&self.shape, decision) {
            (Shape::Form(_), Decision::Deny { .. }) => Ok(json!({"action": "decline"})),
            (Shape::Form(form), Decision::AllowOnce) if form.is_empty() => {
                Ok(json!({"action": "accept", "content": {}}))
            }
            (Shape::Form(form), Decision::Text(text)) if !form.is_empty() => {
                Ok(json!({"action": "accept", "content": form.fill(text)?}))
            }
            (_, Decision::Deny { .. }) => match self.chosen(OptionKind::Deny)? {
                Some(option) => Ok(selected(&option.id)),
                None => Ok(cancelled()),
            },
            (Shape::Questions { count, .. }, Decision::Text(text)) => {
                let answers = answers(text, *count)?;
                let submit =
                    self.chosen(OptionKind::AllowOnce)?.ok_or_else(|| self.not_offered("answer it"))?;
                let mut answer = selected(&submit.id);
                answer["answers"] = Value::Object(answers);
                Ok(answer)
            }
            (Shape::Options, Decision::AllowOnce) => match self.chosen(OptionKind::AllowOnce)? {
                Some(option) => Ok(selected(&option.id)),
                None => Err(self.not_offered("allow it once")),
            },
            (Shape::Options, Decision::AllowAlways) => match self.chosen(OptionKind::AllowAlways)? {
                Some(option) if option.scope <= OptionScope::Session => Ok(selected(&option.id)),
                Some(option) => Err(format!(
                    "the agent offers \"{}\", which {}: allow it once, or change the agent's own settings",
                    option.label,
                    reach(option.scope)
                )),
                None => Err(self.not_offered("allow it for the session")),
            },
            (_, Decision::Text(_)) => Err("it asks for a permission: allow it or deny it".to_owned()),
            (Shape::Form(form), _) if form.is_empty() => Err(self.not_offered("allow it for the session")),
            (Shape::Questions { .. } | Shape::Form(_), _) => {
                Err("it asks a question: answer it with words".to_owned())
            }
        }
    }

    /// The answer that takes the request back without a decision.
    pub(super) fn cancelled(&self) -> Value {
        match self.shape {
            Shape::Form(_) => json!({"action": "cancel"}),
            Shape::Options | Shape::Questions { .. } => cancelled(),
        }
    }

    /// The option of this kind with the narrowest scope. Of several equal ones none is chosen, because one is not the
    /// other.
    fn chosen(&self, kind: OptionKind) -> Result<Option<&PendingOption>, String> {
        let offered = match &self.shape {
            Shape::Questions { options, .. } => options,
            Shape::Options | Shape::Form(_) => &self.request.options,
        };
        let of_kind = || offered.iter().filter(|option| option.kind == kind);
        let Some(narrowest) = of_kind().map(|option| option.scope).min() else { return Ok(None) };
        let equal = of_kind().filter(|option| option.scope == narrowest).collect::<Vec<_>>();
        match equal[..] {
            [one] => Ok(Some(one)),
            _ => Err(format!(
                "the agent offers several ways to do that, and it cannot be told which is meant: {}",
                labels(equal)
            )),
        }
    }

    fn not_offered(&self, what: &str) -> String {
        if self.request.options.is_empty() {
            return format!("the agent does not offer to {what}");
        }
        format!("the agent does not offer to {what}, only: {}", labels(&self.request.options))
    }
}

/// The answer to a request for a permission that nobody decides.
pub(super) fn cancelled() -> Value {
    json!({"outcome": {"outcome": "cancelled"}})
}

fn selected(option: &str) -> Value {
    json!({"outcome": {"outcome": "selected", "optionId": option}})
}

fn labels<'a>(options: impl IntoIterator<Item = &'a PendingOption>) -> String {
    options.into_iter().map(|option| option.label.as_str()).collect::<Vec<_>>().join("; ")
}

fn reach(scope: OptionScope) -> &'static str {
    match scope {
        OptionScope::Once | OptionScope::Session => "ends with the session",
        OptionScope::Project => "holds for the whole project",
        OptionScope::User => "holds for everything that the user does",
        OptionScope::Unknown => "may hold longer than the session",
    }
}

fn pending_option(option: PermissionOption, known: &[Meaning]) -> Option<PendingOption> {
    let id = option.option_id?;
    let (kind, scope) = match known.iter().find(|meaning| meaning.id == id) {
        Some(meaning) => (meaning.kind, meaning.scope),
        None => match option.kind.as_deref() {
            Some("allow_once") => (OptionKind::AllowOnce, OptionScope::Once),
            Some("allow_always") => (OptionKind::AllowAlways, OptionScope::Unknown),
            Some("reject_once") => (OptionKind::Deny, OptionScope::Once),
            Some("reject_always") => (OptionKind::DenyAlways, OptionScope::Unknown),
            _ => (OptionKind::Other, OptionScope::Unknown),
        },
    };
    let label = option.name.unwrap_or_else(|| id.clone());
    Some(PendingOption { id, label, kind, scope })
}

fn once(id: &str, label: &str, kind: OptionKind) -> PendingOption {
    PendingOption { id: id.to_owned(), label: label.to_owned(), kind, scope: OptionScope::Once }
}

/// A possible answer to a question: its words are the answer.
fn choice(label: &str) -> PendingOption {
    once(label, label, OptionKind::Other)
}

/// The possible answers, if only one thing is asked.
fn only_choices(questions: &[Question]) -> Vec<PendingOption> {
    let [only] = questions else { return Vec::new() };
    only.options.iter().flatten().filter_map(|answer| answer.label.as_deref().map(choice)).collect()
}

/// The call, whole: its title, its input, what the agent adds to it, and the files that it touches.
fn call_words(call: &ToolCall) -> String {
    let mut words: Vec<String> = call.title.clone().into_iter().collect();
    let mut add = |text: &str| {
        if !text.is_empty() && !words.iter().any(|said| said.contains(text)) {
            words.push(text.to_owned());
        }
    };
    for text in call.raw_input.iter().flat_map(input_words) {
        add(&text);
    }
    for content in call.content.iter().flatten() {
        add(content.content.as_ref().and_then(|block| block.text.as_deref()).unwrap_or_default());
        add(content.path.as_deref().unwrap_or_default());
    }
    for location in call.locations.iter().flatten() {
        add(location.path.as_deref().unwrap_or_default());
    }
    words.join("\n")
}

/// A command is shown as it is, and after it what else the input says; other input is shown as JSON.
fn input_words(input: &Value) -> Vec<String> {
    match input {
        Value::Null => Vec::new(),
        Value::String(text) => vec![text.clone()],
        Value::Object(fields) => {
            let command = fields.get("command").filter(|command| command.is_string());
            // Copilot says the command twice.
            let says_it = |value: &Value| {
                Some(value) == command || command.is_some_and(|command| *value == json!([command]))
            };
            let rest: Map<_, _> = fields
                .iter()
                .filter(|(_, value)| !says_it(value))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            let command = command.and_then(Value::as_str).map(str::to_owned);
            let rest = (!rest.is_empty()).then(|| Value::Object(rest).to_string());
            command.into_iter().chain(rest).collect()
        }
        other => vec![other.to_string()],
    }
}

fn question_words(questions: &[Question]) -> String {
    let mut words = Vec::new();
    for question in questions {
        words.extend(question.question.clone());
        for answer in question.options.iter().flatten() {
            let Some(label) = &answer.label else { continue };
            words.push(match answer.description.as_deref().filter(|text| !text.is_empty()) {
                Some(description) => format!("- {label}: {description}"),
                None => format!("- {label}"),
            });
        }
    }
    words.join("\n")
}

/// One question takes the whole text, and several take one line each.
pub(super) fn split(text: &str, count: usize) -> Result<Vec<&str>, String> {
    if count == 1 {
        return Ok(vec![text]);
    }
    let lines = text.trim_end_matches(['\n', '\r']).lines().collect::<Vec<_>>();
    if lines.len() == count {
        return Ok(lines);
    }
    Err(format!(
        "it asks {count} questions: answer with {count} lines, one for each; these are {}",
        lines.len()
    ))
}

fn answers(text: &str, count: usize) -> Result<Map<String, Value>, String> {
    let texts = split(text, count)?.into_iter().enumerate();
    Ok(texts.map(|(index, answer)| (index.to_string(), Value::from(answer))).collect())
}
