//! The dialogs that Pi's extensions open.

use agentctl_model::text::visible;
use agentctl_model::{OptionKind, OptionScope, PendingKind, PendingOption};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::control::offer::option;
use crate::hold::json_lines::{Answered, Waits};
use crate::hold::{Decision, Request};

/// A dialog that waits for its answer.
pub(super) struct Dialog {
    pub request: Request,
    /// The tool calls of which at least one waits for it. It is closed at the latest when they have all ended.
    pub calls: Vec<String>,
    /// Pi closes it by itself after a while and does not say so.
    pub closes_itself: bool,
    pub answered: Option<Answered>,
    method: Method,
}

enum Method {
    Select(Vec<String>),
    Confirm,
    /// `input` and `editor`.
    Words,
}

/// What an extension shows or asks. Only four methods wait for an answer.
#[derive(Deserialize)]
pub(super) struct Shown {
    pub id: String,
    method: String,
    title: Option<String>,
    message: Option<String>,
    placeholder: Option<String>,
    prefill: Option<String>,
    #[serde(default)]
    options: Vec<String>,
    timeout: Option<f64>,
}

impl Waits for Dialog {
    fn request(&self) -> &Request {
        &self.request
    }

    fn answered(&mut self) -> &mut Option<Answered> {
        &mut self.answered
    }
}

impl Dialog {
    /// `None` for what waits for no answer.
    pub(super) fn read(shown: Shown) -> Option<Self> {
        let told = [&shown.title, &shown.message, &shown.placeholder, &shown.prefill];
        let mut summary: Vec<String> = told.into_iter().flatten().map(|words| visible(words)).collect();
        let (kind, options, method) = match shown.method.as_str() {
            "confirm" => (PendingKind::Approval, yes_or_no(), Method::Confirm),
            "select" => {
                summary.extend(shown.options.iter().map(|label| format!("- {}", visible(label))));
                let (kind, options) = choices(&shown.options);
                (kind, options, Method::Select(shown.options))
            }
            "input" | "editor" => (PendingKind::Question, vec![cancelling()], Method::Words),
            _ => return None,
        };
        let summary = Some(summary.join("\n")).filter(|summary| !summary.is_empty());
        Some(Self {
            request: Request { id: shown.id, kind, summary, options },
            calls: Vec::new(),
            closes_itself: shown.timeout.is_some(),
            answered: None,
            method,
        })
    }

    /// The frame for this decision, or why there is none.
    pub(super) fn response(&self, decision: &Decision) -> Result<Value, String> {
        let respond = |key: &str, value: Value| {
            Ok(json!({"type": "extension_ui_response", "id": self.request.id, key: value}))
        };
        let kind = match decision {
            Decision::Text(text) => {
                return match &self.method {
                    Method::Words => respond("value", json!(text)),
                    Method::Select(labels) => match labels.iter().find(|label| *label == text) {
                        Some(label) => respond("value", json!(label)),
                        None => {
                            Err(format!("the extension takes one of these answers: {}", labels.join(", ")))
                        }
                    },
                    Method::Confirm => {
                        Err("the extension asks for yes or no, not for words: `approve` or `deny` answers it"
                            .to_owned())
                    }
                };
            }
            Decision::AllowOnce => OptionKind::AllowOnce,
            Decision::AllowAlways => OptionKind::AllowAlways,
            Decision::Deny { .. } => OptionKind::Deny,
        };
        let mut of_kind = self.request.options.iter().filter(|option| option.kind == kind);
        match (of_kind.next(), of_kind.next(), &self.method) {
            (None, ..) => Err("the extension does not offer this".to_owned()),
            (_, Some(_), _) => {
                Err("the extension offers several such answers; choose one by its words".to_owned())
            }
            (Some(_), None, Method::Confirm) => respond("confirmed", json!(kind == OptionKind::AllowOnce)),
            (Some(option), None, _) if option.id == CANCEL => respond("cancelled", json!(true)),
            (Some(option), None, _) => respond("value", json!(option.label)),
        }
    }

    pub(super) fn cancel(&self) -> Value {
        json!({"type": "extension_ui_response", "id": self.request.id, "cancelled": true})
    }
}

/// Every dialog can be closed without an answer.
const CANCEL: &str = "cancelled";

fn cancelling() -> PendingOption {
    option(CANCEL, "Cancel", OptionKind::Deny, OptionScope::Once)
}

fn yes_or_no() -> Vec<PendingOption> {
    let allow = option("confirmed", "Yes", OptionKind::AllowOnce, OptionScope::Once);
    vec![allow, option("denied", "No", OptionKind::Deny, OptionScope::Once)]
}

/// A choice is an approval only if its labels say so without doubt: one that allows and one that denies. How far "always"
/// reaches is up to the extension.
fn choices(labels: &[String]) -> (PendingKind, Vec<PendingOption>) {
    let means = |label: &str| match label {
        "Allow" | "Allow once" | "Approve" | "Yes" => (OptionKind::AllowOnce, OptionScope::Once),
        "Always" | "Always allow" | "Allow always" => (OptionKind::AllowAlways, OptionScope::Unknown),
        "Block" | "Deny" | "Reject" | "No" => (OptionKind::Deny, OptionScope::Once),
        _ => (OptionKind::Other, OptionScope::Unknown),
    };
    let has = |kind| labels.iter().any(|label| means(label).0 == kind);
    if has(OptionKind::AllowOnce) && has(OptionKind::Deny) {
        let offered = labels.iter().map(|label| {
            let (kind, scope) = means(label);
            option(label, label, kind, scope)
        });
        return (PendingKind::Approval, offered.collect());
    }
    let offered = labels.iter().map(|label| option(label, label, OptionKind::Other, OptionScope::Unknown));
    (PendingKind::Question, offered.chain([cancelling()]).collect())
}
