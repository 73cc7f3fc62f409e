//! The form of `l`: what is launched. Pure.

use super::input::Line;

/// What the fields hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) agents: Vec<String>,
    pub(crate) agent: usize,
    pub(crate) prompt: Line,
    pub(crate) folder: Line,
    pub(crate) hold: bool,
    pub(crate) field: Field,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    Agent,
    Prompt,
    Folder,
    Hold,
}

impl Field {
    pub(crate) const ALL: [Self; 4] = [Self::Agent, Self::Prompt, Self::Folder, Self::Hold];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Agent => "Agent",
            Self::Prompt => "Prompt",
            Self::Folder => "Folder",
            Self::Hold => "Hold",
        }
    }
}

/// What is to be launched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) agent: String,
    pub(crate) prompt: String,
    pub(crate) folder: String,
    pub(crate) hold: bool,
}

impl Form {
    /// Begins with the agent and the folder of the row under the cursor.
    pub(crate) fn new(agents: Vec<String>, agent: Option<&str>, folder: &str) -> Self {
        let chosen = agent.and_then(|agent| agents.iter().position(|one| one == agent)).unwrap_or(0);
        Self {
            agents,
            agent: chosen,
            prompt: Line::default(),
            folder: Line { typed: folder.to_owned() },
            hold: true,
            field: Field::Prompt,
        }
    }

    pub(crate) fn next(&mut self, back: bool) {
        let all = Field::ALL;
        let at = all.iter().position(|field| *field == self.field).unwrap_or(0);
        let step = if back { all.len() - 1 } else { 1 };
        self.field = all[(at + step) % all.len()];
    }

    /// Chooses the next agent, or turns hold on and off.
    pub(crate) fn change(&mut self, back: bool) {
        match self.field {
            Field::Agent if !self.agents.is_empty() => {
                let step = if back { self.agents.len() - 1 } else { 1 };
                self.agent = (self.agent + step) % self.agents.len();
            }
            Field::Hold => self.hold = !self.hold,
            _ => {}
        }
    }

    pub(crate) fn line(&mut self) -> Option<&mut Line> {
        match self.field {
            Field::Prompt => Some(&mut self.prompt),
            Field::Folder => Some(&mut self.folder),
            Field::Agent | Field::Hold => None,
        }
    }

    /// What is launched, or what is missing.
    pub(crate) fn order(&self) -> Result<Order, &'static str> {
        let agent = self.agents.get(self.agent).ok_or("no agent is known; `agentctl doctor` says why")?;
        if self.prompt.typed.trim().is_empty() {
            return Err("the prompt is empty");
        }
        if self.folder.typed.trim().is_empty() {
            return Err("the folder is empty");
        }
        Ok(Order {
            agent: agent.clone(),
            prompt: self.prompt.typed.clone(),
            folder: self.folder.typed.trim().to_owned(),
            hold: self.hold,
        })
    }

    /// The command line that does the same.
    pub(crate) fn command(&self) -> String {
        let agent = self.agents.get(self.agent).map_or("", String::as_str);
        let word = agentctl_model::text::shell_word;
        let hold = if self.hold { " --hold" } else { "" };
        format!(
            "agentctl launch {agent} -p {} --cwd {}{hold}",
            word(&self.prompt.typed),
            word(&self.folder.typed)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_goes_around_and_says_what_is_missing() {
        let mut form = Form::new(vec!["a".into(), "b".into()], Some("b"), "/w");
        assert_eq!((form.agent, form.field), (1, Field::Prompt));
        assert_eq!(form.order(), Err("the prompt is empty"));
        form.line().unwrap().push('x');
        form.next(true);
        form.change(false);
        let order = form.order().unwrap();
        assert_eq!((order.agent.as_str(), order.prompt.as_str(), order.folder.as_str()), ("a", "x", "/w"));
        assert_eq!(form.command(), "agentctl launch a -p x --cwd /w --hold");
        for _ in 0..4 {
            form.next(false);
        }
        assert_eq!(form.field, Field::Agent);
    }
}
