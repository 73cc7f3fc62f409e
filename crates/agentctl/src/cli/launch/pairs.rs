//! `launch [ADAPTER] [--adapter A [--model M]]...`: the order of the arguments assigns models to agents.

use agentctl_fleet::act::launch::{Choice, Defaults};
use agentctl_model::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};

use crate::failure::Failure;

/// The agents and models in the order in which they were typed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Pairs {
    args: Vec<PairArg>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PairArg {
    Adapter(String),
    Model(String),
}

impl Pairs {
    /// Every agent with each model that follows it; the settings supply what is missing.
    pub(super) fn slots(&self, defaults: &Defaults) -> Result<Vec<Choice>, Failure> {
        let choice = |(adapter, model)| defaults.choice(adapter, model).ok_or_else(unnamed);
        self.unsettled().into_iter().map(choice).collect()
    }

    /// The same as they were typed.
    pub(super) fn unsettled(&self) -> Vec<(Option<String>, Option<String>)> {
        let mut agents: Vec<(Option<String>, Vec<String>)> = Vec::new();
        for arg in &self.args {
            match (arg, agents.last_mut()) {
                (PairArg::Adapter(name), _) => agents.push((Some(name.clone()), Vec::new())),
                (PairArg::Model(model), Some((_, models))) => models.push(model.clone()),
                (PairArg::Model(model), None) => agents.push((None, vec![model.clone()])),
            }
        }
        if agents.is_empty() {
            agents.push((None, Vec::new()));
        }
        let slots = agents.into_iter().flat_map(|(adapter, models)| {
            let models: Vec<Option<String>> =
                if models.is_empty() { vec![None] } else { models.into_iter().map(Some).collect() };
            models.into_iter().map(move |model| (adapter.clone(), model))
        });
        slots.collect()
    }
}

fn unnamed() -> Failure {
    Failure::new(ErrorKind::Usage, "no agent was named")
        .hint("name one, as in `agentctl launch claude-code -p ...`, or set `adapter` in config.toml")
}

impl clap::Args for Pairs {
    fn augment_args(command: Command) -> Command {
        let agents = || super::super::adapter_names();
        command
            .arg(
                Arg::new("agent")
                    .value_name("ADAPTER")
                    .help("The agent [default: `adapter` in config.toml]")
                    .value_parser(agents()),
            )
            .arg(
                Arg::new("adapter")
                    .long("adapter")
                    .value_name("NAME")
                    .action(ArgAction::Append)
                    .help("An agent; several are launched side by side")
                    .value_parser(clap::builder::NonEmptyStringValueParser::new()),
            )
            .arg(
                Arg::new("model")
                    .long("model")
                    .value_name("NAME")
                    .action(ArgAction::Append)
                    .help("The model of the agent before it; several are launched side by side")
                    .value_parser(clap::builder::NonEmptyStringValueParser::new()),
            )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Pairs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut pairs = Self::default();
        pairs.update_from_arg_matches(matches)?;
        Ok(pairs)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let placed = |name: &str| {
            let places = matches.indices_of(name).into_iter().flatten();
            let values = matches.get_many::<String>(name).into_iter().flatten().cloned();
            places.zip(values).collect::<Vec<_>>()
        };
        let mut args: Vec<(usize, PairArg)> = Vec::new();
        // The positional agent comes first, wherever it was typed.
        args.extend(placed("agent").into_iter().map(|(_, name)| (0, PairArg::Adapter(name))));
        args.extend(placed("adapter").into_iter().map(|(place, name)| (place, PairArg::Adapter(name))));
        args.extend(placed("model").into_iter().map(|(place, name)| (place, PairArg::Model(name))));
        args.sort_by_key(|(place, _)| *place);
        self.args = args.into_iter().map(|(_, arg)| arg).collect();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;
    use agentctl_model::Environ;

    fn slots(args: &[&str], config: &str) -> Vec<(String, Option<String>)> {
        let command = <Pairs as clap::Args>::augment_args(Command::new("launch"));
        let matches = command.try_get_matches_from(["launch"].iter().chain(args)).unwrap();
        let settings = Settings::parse(config, &Environ::default());
        let slots = Pairs::from_arg_matches(&matches).unwrap().slots(&settings.launch_defaults()).unwrap();
        slots.into_iter().map(|slot| (slot.adapter, slot.model)).collect()
    }

    fn slot(adapter: &str, model: Option<&str>) -> (String, Option<String>) {
        (adapter.to_owned(), model.map(str::to_owned))
    }

    #[test]
    fn a_model_belongs_to_the_agent_before_it() {
        assert_eq!(slots(&["codex"], ""), [slot("codex", None)]);
        assert_eq!(slots(&["--model", "m", "codex"], ""), [slot("codex", Some("m"))]);
        assert_eq!(
            slots(&["--adapter", "codex", "--model", "a", "--model", "b", "--adapter", "pi"], ""),
            [slot("codex", Some("a")), slot("codex", Some("b")), slot("pi", None)]
        );
        let config = "adapter = \"codex\"\nmodel = \"usual\"\n";
        assert_eq!(slots(&[], config), [slot("codex", Some("usual"))]);
        assert_eq!(slots(&["--model", "m"], config), [slot("codex", Some("m"))]);
        assert_eq!(slots(&["pi"], config), [slot("pi", None)], "a model of another agent");
    }
}
