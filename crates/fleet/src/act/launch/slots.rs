//! Which launches one request makes: the agents, their models, and their slot names. Pure.

use agentctl_model::Error;

use crate::keep::launches::LaunchOrder;

/// An agent and a model, as requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    pub adapter: String,
    pub model: Option<String>,
    pub branch: Option<String>,
}

/// The limit for one request. Each launch is an agent with its own processes, worktree and cost.
pub const MOST_SLOTS: usize = 100;

/// Checks that this many may be launched at once.
pub fn check_count(slots: usize) -> Result<(), String> {
    if slots <= MOST_SLOTS {
        return Ok(());
    }
    Err(format!("{slots} launches are more than {MOST_SLOTS}, the most at once; launch them in parts"))
}

/// What is launched by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Defaults {
    pub adapter: Option<String>,
    pub model: Option<String>,
}

impl Defaults {
    /// Returns the agent and model that are meant; `None` if neither the request nor the defaults name an agent.
    pub fn choice(&self, adapter: Option<String>, model: Option<String>) -> Option<Choice> {
        let adapter = adapter.or_else(|| self.adapter.clone())?;
        // The configured model is meant for the configured agent.
        let fits = self.adapter.as_ref().is_none_or(|defaults| *defaults == adapter);
        let model = model.or_else(|| self.model.clone().filter(|_| fits));
        Some(Choice { adapter, model, branch: None })
    }
}

/// One of several launches.
#[derive(Debug)]
pub struct PlannedSlot {
    pub name: String,
    pub adapter: String,
    /// An error here fails this slot and no other.
    pub order: Result<LaunchOrder, Error>,
}

/// Everything that is to be launched.
#[derive(Debug)]
pub struct LaunchPlan {
    pub slots: Vec<PlannedSlot>,
    pub words: String,
    /// The group, if several are launched together.
    pub group: Option<String>,
}

impl LaunchPlan {
    pub fn is_group(&self) -> bool {
        self.group.is_some()
    }
}

pub(crate) fn unknown_agent(adapter: &str) -> Error {
    Error::usage(format!("there is no agent `{adapter}`"))
        .hint("`agentctl adapters` lists the agents; one may be switched off in config.toml")
}

pub(crate) fn no_gateway() -> Error {
    Error::refused("no gateway is known").hint(
        "set OPENCLAW_GATEWAY_URL, or name one in config.toml as one of `gateways` of [adapters.openclaw]",
    )
}

/// Returns a unique name for every choice: the agent, its model if that tells them apart, and a number if nothing does.
pub(super) fn names(choices: &[Choice]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for choice in choices {
        let model = choice.model.as_deref().map(|model| format!("-{}", safe(model))).unwrap_or_default();
        let base = format!("{}{model}", safe(&choice.adapter));
        let taken = |name: &String| names.contains(name);
        let numbered = (2..).map(|number| format!("{base}-{number}"));
        let name = std::iter::once(base.clone()).chain(numbered).find(|name| !taken(name));
        names.push(name.unwrap_or(base));
    }
    names
}

/// Returns the name of an agent or a model in a form that can be part of a branch.
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
        assert_eq!(
            names(&choices),
            ["codex", "codex-2", "opencode-maker-model-5.x", "opencode-maker-model-5.x-2"]
        );
    }

    #[test]
    fn a_request_has_an_end() {
        assert_eq!(check_count(MOST_SLOTS), Ok(()));
        assert!(check_count(2500).unwrap_err().starts_with("2500 launches are more than 100"));
    }

    #[test]
    fn what_is_not_said_is_the_usual_and_a_model_stays_with_its_agent() {
        let defaults = Defaults { adapter: Some("codex".into()), model: Some("m".into()) };
        assert_eq!(defaults.choice(None, None), Some(choice("codex", Some("m"))));
        assert_eq!(defaults.choice(None, Some("n".into())), Some(choice("codex", Some("n"))));
        assert_eq!(defaults.choice(Some("pi".into()), None), Some(choice("pi", None)));
        assert_eq!(Defaults::default().choice(None, Some("m".into())), None);
    }
}
