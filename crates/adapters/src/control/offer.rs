//! The words and options with which requests of an agent are shown.

use agentctl_model::text::visible;
use agentctl_model::{OptionKind, OptionScope, PendingOption};

use crate::transcript::call;

pub(crate) fn option(id: &str, label: &str, kind: OptionKind, scope: OptionScope) -> PendingOption {
    PendingOption { id: id.to_owned(), label: label.to_owned(), kind, scope }
}

/// One question with the answers that the agent suggests: pairs of a label and what it means.
pub(crate) struct Question<'q> {
    pub(crate) words: &'q str,
    pub(crate) choices: Vec<(&'q str, &'q str)>,
}

/// All questions of one request, whole, and what can be chosen.
pub(crate) fn questions(
    asked: &[Question<'_>],
    denial: Option<PendingOption>,
) -> (String, Vec<PendingOption>) {
    let mut lines = Vec::new();
    for question in asked {
        lines.push(visible(question.words));
        lines.extend(question.choices.iter().map(|(label, told)| format!("- {}", call::words(label, told))));
    }
    // With several questions a label alone does not say which one it answers.
    let labels = asked.first().filter(|_| asked.len() == 1).map(|question| question.choices.as_slice());
    let choices = labels.unwrap_or_default().iter();
    let mut options: Vec<PendingOption> =
        choices.map(|(label, _)| option(label, label, OptionKind::Other, OptionScope::Once)).collect();
    options.extend(denial);
    (lines.join("\n"), options)
}
