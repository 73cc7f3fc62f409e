//! Requests of agents as the editor is asked them, and its choice as an answer. Pure.

use agentctl_adapters::hold::Decision;
use agentctl_model::{OptionKind, OptionScope, Pending, PendingKind, PendingOption, text};
use serde_json::{Value, json};

const TITLE: usize = 120;

/// One way to answer, and what it means.
struct Choice {
    id: String,
    name: String,
    kind: &'static str,
    decision: Decision,
}

/// Whether an editor can be asked this: it needs something to choose from.
pub(super) fn can_be_asked(pending: &Pending) -> bool {
    pending.answerable && pending.id.is_some() && !choices(pending).is_empty()
}

/// The parameters of `session/request_permission`. What is decided about is shown whole.
pub(super) fn question(session_id: &str, pending: &Pending) -> Value {
    let words = text::visible(pending.summary.as_deref().unwrap_or("the agent asks for approval"));
    let title: String = text::one_line(&words).chars().take(TITLE).collect();
    let options = choices(pending)
        .into_iter()
        .map(|choice| json!({"optionId": choice.id, "name": choice.name, "kind": choice.kind}));
    json!({
        "sessionId": session_id,
        "toolCall": {
            "toolCallId": pending.id, "title": title, "kind": "other", "status": "pending",
            "content": [{"type": "content", "content": {"type": "text", "text": words}}],
        },
        "options": options.collect::<Vec<_>>(),
    })
}

/// What the editor chose; `None` if it chose nothing.
pub(super) fn decision(pending: &Pending, answer: &Value) -> Option<Decision> {
    let outcome = answer.get("outcome")?;
    let chosen = outcome.get("optionId").and_then(Value::as_str)?;
    if outcome.get("outcome").and_then(Value::as_str) != Some("selected") {
        return None;
    }
    choices(pending).into_iter().find(|choice| choice.id == chosen).map(|choice| choice.decision)
}

/// The agent's own options, without those that would reach further than the session: nobody may choose them here.
fn choices(pending: &Pending) -> Vec<Choice> {
    let offered: Vec<Choice> =
        pending.options.iter().filter_map(|option| choice(pending.kind, option)).collect();
    if !offered.is_empty() || pending.kind != PendingKind::Approval {
        return offered;
    }
    let usual =
        |id: &str, name: &str, kind, decision| Choice { id: id.into(), name: name.into(), kind, decision };
    vec![
        usual("allow-once", "Allow once", "allow_once", Decision::AllowOnce),
        usual("deny", "Deny", "reject_once", Decision::Deny { reason: None }),
    ]
}

fn choice(asked: PendingKind, option: &PendingOption) -> Option<Choice> {
    let (kind, decision) = match (asked, option.kind) {
        (PendingKind::Approval, OptionKind::AllowOnce) => ("allow_once", Decision::AllowOnce),
        (PendingKind::Approval, OptionKind::AllowAlways) if option.scope <= OptionScope::Session => {
            ("allow_always", Decision::AllowAlways)
        }
        (PendingKind::Approval, OptionKind::Deny) => ("reject_once", Decision::Deny { reason: None }),
        // A question is answered in the words of the option.
        (PendingKind::Question, _) => ("allow_once", Decision::Text(option.label.clone())),
        _ => return None,
    };
    Some(Choice { id: option.id.clone(), name: text::one_line(&option.label), kind, decision })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(id: &str, kind: OptionKind, scope: OptionScope) -> PendingOption {
        PendingOption { id: id.into(), label: format!("the {id}"), kind, scope }
    }

    fn pending(kind: PendingKind, options: Vec<PendingOption>) -> Pending {
        let mut pending =
            Pending::new(kind, Some("Bash: rm\u{202e} -rf build".into()), None).answerable(true);
        pending.id = Some("r1".into());
        pending.options = options;
        pending
    }

    #[test]
    fn the_agents_own_options_are_offered_but_none_that_outlives_the_session() {
        let asked = pending(
            PendingKind::Approval,
            vec![
                option("yes", OptionKind::AllowOnce, OptionScope::Once),
                option("session", OptionKind::AllowAlways, OptionScope::Session),
                option("forever", OptionKind::AllowAlways, OptionScope::User),
                option("no", OptionKind::Deny, OptionScope::Once),
            ],
        );
        let question = question("s", &asked);
        let ids: Vec<&str> =
            question["options"].as_array().unwrap().iter().filter_map(|o| o["optionId"].as_str()).collect();
        assert_eq!(ids, ["yes", "session", "no"]);
        assert!(question["toolCall"]["content"].to_string().contains("⟨U+202E⟩"), "nothing is hidden");
        let chosen =
            |id: &str| decision(&asked, &json!({"outcome": {"outcome": "selected", "optionId": id}}));
        assert_eq!(chosen("yes"), Some(Decision::AllowOnce));
        assert_eq!(chosen("no"), Some(Decision::Deny { reason: None }));
        assert_eq!(chosen("forever"), None);
        assert_eq!(decision(&asked, &json!({"outcome": {"outcome": "cancelled"}})), None);
    }

    #[test]
    fn a_question_is_answered_in_the_words_of_its_option() {
        let asked =
            pending(PendingKind::Question, vec![option("blue", OptionKind::Other, OptionScope::Once)]);
        let answer = json!({"outcome": {"outcome": "selected", "optionId": "blue"}});
        assert_eq!(decision(&asked, &answer), Some(Decision::Text("the blue".into())));
        assert!(!can_be_asked(&pending(PendingKind::Question, vec![])), "there is nothing to choose");
        assert!(can_be_asked(&pending(PendingKind::Approval, vec![])));
    }
}
