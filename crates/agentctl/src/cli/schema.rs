//! `agentctl schema`: the JSON Schema of everything that `--json` prints.

use agentctl_fleet::DirectoryHolder;
use agentctl_model::{Entry, Session};
use clap::builder::PossibleValuesParser;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value};

use super::adapters::AdapterEntry;
use super::attach::Way;
use super::config::{Checked, Shown};
use super::doctor::Report;
use super::explain::Explanation;
use super::group::{self, Diffs, Listed};
use super::inbox::Inbox;
use super::list::Answer;
use super::locks::Held;
use super::prune;
use super::send::Taken;
use super::wait::Waited;
use super::worktree::{Cleaned, NewTree, Trees};
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::render::json;

const NAMES: [&str; 21] = [
    "session",
    "list",
    "explain",
    "entry",
    "accepted",
    "attach",
    "wait",
    "inbox",
    "lock",
    "locks",
    "worktree-list",
    "worktree-create",
    "worktree-clean",
    "group-list",
    "group-show",
    "group-diff",
    "adapters",
    "doctor",
    "prune",
    "config-show",
    "config-check",
];

/// Print the JSON Schema of what --json prints
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// One of them; without a name all, as one object
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(NAMES))]
    name: Option<String>,
}

pub(crate) fn run(args: &Args, out: &mut Output) -> Result<Exit, Failure> {
    if let Some(name) = &args.name {
        json::answer(out, &schema(name))?;
    } else {
        let all = NAMES.iter().map(|name| ((*name).to_owned(), schema(name).to_value()));
        json::answer(out, &all.collect::<Map<String, Value>>())?;
    }
    Ok(Exit::Done)
}

fn schema(name: &str) -> Schema {
    match name {
        "list" => of::<Answer<'_>>(),
        "explain" => of::<Explanation<'_>>(),
        "entry" => of::<Entry>(),
        "accepted" => of::<Taken>(),
        "wait" => of::<Waited<'_>>(),
        "inbox" => of::<Inbox>(),
        "attach" => of::<Way>(),
        "lock" => of::<DirectoryHolder>(),
        "locks" => of::<Held>(),
        "worktree-list" => of::<Trees>(),
        "worktree-create" => of::<NewTree>(),
        "worktree-clean" => of::<Cleaned>(),
        "group-list" => of::<Listed>(),
        "group-show" => of::<group::Shown>(),
        "group-diff" => of::<Diffs>(),
        "prune" => of::<prune::Answer>(),
        "adapters" => of::<Vec<AdapterEntry>>(),
        "doctor" => of::<Report>(),
        "config-show" => of::<Shown>(),
        "config-check" => of::<Checked>(),
        _ => of::<Session>(),
    }
}

/// As written, not as read: keys are always there, so all of them are required.
fn of<T: JsonSchema>() -> Schema {
    SchemaSettings::default().for_serialize().into_generator().into_root_schema_for::<T>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_a_session_is_required_and_may_be_null() {
        let schema = schema("session").to_value();
        let required: Vec<&str> =
            schema["required"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let properties = schema["properties"].as_object().unwrap();
        assert!(properties.keys().all(|key| required.contains(&key.as_str())), "{schema:#}");
        assert!(properties["name"]["type"].as_array().unwrap().contains(&"null".into()));
        assert!(properties.contains_key("statusDetail"));
    }

    #[test]
    fn every_name_has_its_own_schema() {
        let all: std::collections::HashSet<String> =
            NAMES.iter().map(|name| schema(name).to_value().to_string()).collect();
        assert_eq!(all.len(), NAMES.len());
    }
}
