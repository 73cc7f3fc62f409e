//! The name of an adapter on the command line: one of the registry, or `acp:NAME`.

use std::ffi::OsStr;

use agentctl_adapters::agents::acp;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::surroundings::Surroundings;

/// Takes the names of the registry, of the agents that are known over ACP, and of those that the settings name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AdapterNames;

fn known() -> Vec<PossibleValue> {
    let registry = agentctl_adapters::registry().into_iter().map(|adapter| {
        let card = adapter.card();
        PossibleValue::new(card.name).help(card.title)
    });
    let over_acp = acp::built_in_names().map(|(name, title)| PossibleValue::new(name).help(title));
    registry.chain(over_acp).collect()
}

/// Whether the settings name this agent. One that they name in a wrong way is left to the command, which says what is
/// wrong; the same is true of settings that cannot be read.
fn is_configured(name: &str) -> bool {
    let Ok(settings) = Surroundings::gather().settings() else { return true };
    let section = name.replacen(':', ".", 1);
    settings.acp_agents().iter().any(|agent| agent.name == name) || settings.invalid(&[&section]).is_some()
}

impl TypedValueParser for AdapterNames {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        match value.to_str() {
            Some(name) if acp::is_name(name) && is_configured(name) => Ok(name.to_owned()),
            Some(name) if acp::is_name(name) => {
                let mut error = clap::Error::new(ErrorKind::InvalidValue).with_cmd(command);
                let argument = argument.map(ToString::to_string).unwrap_or_default();
                error.insert(ContextKind::InvalidArg, ContextValue::String(argument));
                error.insert(ContextKind::InvalidValue, ContextValue::String(name.to_owned()));
                let names = acp::built_in_names().map(|(name, _)| name.to_owned()).collect();
                error.insert(ContextKind::ValidValue, ContextValue::Strings(names));
                let section = name.replacen(':', ".", 1);
                let hint = format!("config.toml has no section [{section}] with its command").into();
                error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint]));
                Err(error)
            }
            _ => PossibleValuesParser::new(known()).parse_ref(command, argument, value),
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(known().into_iter()))
    }
}
