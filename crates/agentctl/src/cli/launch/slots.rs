//! Which launches one command makes: the agents, their models, and what each is called.

use agentctl_fleet::launches::LaunchOrder;

use crate::exit_codes::Exit;
use crate::failure::Failure;

/// An agent and a model, as they were asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) adapter: String,
    pub(super) model: Option<String>,
    pub(super) branch: Option<String>,
}

/// One launch of several.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) name: String,
    pub(super) adapter: String,
    pub(super) model: Option<String>,
    pub(super) branch: Option<String>,
    pub(super) order: Result<LaunchOrder, Unfit>,
}

/// Everything that is to be launched.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) slots: Vec<Slot>,
    pub(super) words: String,
    /// Several side by side.
    pub(super) group: Option<String>,
}

impl Plan {
    pub(super) fn is_group(&self) -> bool {
        self.group.is_some()
    }
}

/// Why a slot has no order. It fails that slot and no other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unfit {
    pub(super) message: String,
    exit: Exit,
    hint: Option<&'static str>,
}

impl Unfit {
    pub(super) fn unknown(adapter: &str) -> Self {
        let hint = "`agentctl adapters` lists the agents; one may be switched off in config.toml";
        Self { message: format!("there is no agent `{adapter}`"), exit: Exit::Usage, hint: Some(hint) }
    }

    pub(super) fn failed(message: String) -> Self {
        Self { message, exit: Exit::Failed, hint: None }
    }

    pub(super) fn no_gateway() -> Self {
        let message = "there is no gateway that could be told".to_owned();
        let hint =
            "set OPENCLAW_GATEWAY_URL, or name one in config.toml as `gateways` of [adapters.openclaw]";
        Self { message, exit: Exit::Refused, hint: Some(hint) }
    }
}

impl From<Unfit> for Failure {
    fn from(unfit: Unfit) -> Self {
        let failure = Self::new(unfit.exit, unfit.message);
        match unfit.hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

/// Gives every choice a name of its own: the agent, its model where that tells them apart, and a number where nothing does.
pub(super) fn named(choices: &[Choice]) -> Vec<Slot> {
    let mut names: Vec<String> = Vec::new();
    for choice in choices {
        let model = choice.model.as_deref().map(|model| format!("-{}", safe(model))).unwrap_or_default();
        let base = format!("{}{model}", choice.adapter);
        let taken = |name: &String| names.contains(name);
        let numbered = (2..).map(|number| format!("{base}-{number}"));
        let name = std::iter::once(base.clone()).chain(numbered).find(|name| !taken(name));
        names.push(name.unwrap_or(base));
    }
    let slot = |(choice, name): (&Choice, String)| Slot {
        order: Err(Unfit::unknown(&choice.adapter)),
        name,
        adapter: choice.adapter.clone(),
        model: choice.model.clone(),
        branch: choice.branch.clone(),
    };
    choices.iter().zip(names).map(slot).collect()
}

/// A model's name as a part of a branch.
fn safe(model: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') { c } else { '-' };
    let text: String = model.chars().map(plain).collect();
    text.trim_matches(['-', '.']).replace("..", ".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(adapter: &str, model: Option<&str>) -> Choice {
        Choice { adapter: adapter.to_owned(), model: model.map(str::to_owned), branch: None }
    }

    #[test]
    fn slots_have_names_of_their_own_that_fit_into_a_branch() {
        let choices = [
            choice("codex", None),
            choice("codex", None),
            choice("opencode", Some("maker/model 5..x")),
            choice("opencode", Some("maker/model 5..x")),
        ];
        let names: Vec<String> = named(&choices).into_iter().map(|slot| slot.name).collect();
        assert_eq!(names, ["codex", "codex-2", "opencode-maker-model-5.x", "opencode-maker-model-5.x-2"]);
    }
}
