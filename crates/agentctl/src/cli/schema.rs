//! `agentctl schema`: the JSON Schema of everything that `--json` prints, the API returns and webhooks send.

use agentctl_daemon::{EventMessage, FuseList, Messages, ProblemObject, WebInvitation};
use agentctl_fleet::act::recover::{Dismissed, Recovered};
use agentctl_fleet::act::steer::{AnswerReceipt, InterruptReceipt, SendReceipt};
use agentctl_fleet::act::stop::StopAnswer;
use agentctl_fleet::keep::locks::LockList;
use agentctl_fleet::keep::outbox::Payload;
use agentctl_fleet::read::groups::{GroupDiff, GroupLaunch, GroupList, GroupView};
use agentctl_fleet::read::inbox::Inbox;
use agentctl_fleet::read::recover::Recovery;
use agentctl_fleet::worktree::{Changes, Cleaned, NewTree, Trees};
use agentctl_fleet::{AdapterEntry, Explanation, ListAnswer, SearchEnd, UsageAnswer};
use agentctl_model::search::Hit;
use agentctl_model::timeline::Timeline;
use agentctl_model::{DirectoryHolder, Fuse, HostList};
use agentctl_model::{Entry, Session};
use clap::builder::PossibleValuesParser;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

use super::attach::Way;
use super::config::{Checked, Shown};
use super::daemon::DaemonState;
use super::doctor::Report;
use super::fuses::HostFuses;
use super::hosts::HostCheck;
use super::inbox::Done;
use super::launch::DryRun;
use super::notify::NotifyTest;
use super::prune;
use super::snapshot::Taken;
use super::wait::Waited;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::render::json;

/// An object and its schema.
struct Named {
    name: &'static str,
    alone: fn(SchemaGenerator) -> Schema,
    among_others: fn(&mut SchemaGenerator) -> Schema,
}

const fn named<T: JsonSchema>(name: &'static str) -> Named {
    Named {
        name,
        alone: SchemaGenerator::into_root_schema_for::<T>,
        among_others: SchemaGenerator::subschema_for::<T>,
    }
}

const ALL: [Named; 48] = [
    named::<Session>("session"),
    named::<ListAnswer<'_>>("list"),
    named::<Explanation<'_>>("explain"),
    named::<Changes>("changes"),
    named::<WebInvitation>("web"),
    named::<Entry>("entry"),
    named::<Messages>("messages"),
    named::<DryRun<'_>>("launch-dry-run"),
    named::<GroupLaunch>("group-launch"),
    named::<StopAnswer>("stop"),
    named::<SendReceipt>("accepted"),
    named::<AnswerReceipt>("answered"),
    named::<InterruptReceipt>("interrupted"),
    named::<Way>("attach"),
    named::<Waited<'_>>("wait"),
    named::<Inbox>("inbox"),
    named::<Done>("inbox-done"),
    named::<Recovery>("recover"),
    named::<Recovered>("recover-yes"),
    named::<Dismissed>("recover-dismiss"),
    named::<Taken>("snapshot"),
    named::<Hit>("hit"),
    named::<SearchEnd>("search-end"),
    named::<UsageAnswer>("usage"),
    named::<Timeline>("timeline"),
    named::<NotifyTest>("notify-test"),
    named::<DirectoryHolder>("lock"),
    named::<LockList>("locks"),
    named::<Fuse>("fuse"),
    named::<FuseList>("fuses"),
    named::<HostFuses>("fuses-of-hosts"),
    named::<Trees>("worktree-list"),
    named::<NewTree>("worktree-create"),
    named::<Cleaned>("worktree-clean"),
    named::<GroupList>("group-list"),
    named::<GroupView>("group-show"),
    named::<GroupDiff>("group-diff"),
    named::<EventMessage>("event"),
    named::<Payload<'_>>("webhook"),
    named::<ProblemObject>("problem"),
    named::<HostList>("hosts"),
    named::<HostCheck>("hosts-check"),
    named::<Vec<AdapterEntry>>("adapters"),
    named::<Report>("doctor"),
    named::<prune::Answer>("prune"),
    named::<Shown>("config-show"),
    named::<Checked>("config-check"),
    named::<DaemonState>("daemon-status"),
];

/// Print the JSON Schema of what --json prints, the API answers and webhooks say
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    agentctl schema > agentctl.schema.json\n  \
    agentctl schema event\n\n\
    Without a name the schema is that of `list --json`, and $defs has all of them\n\
    under their names: agentctl.schema.json#/$defs/event.")]
pub(crate) struct Args {
    /// One of them, by itself; without a name all, in $defs
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(ALL.map(|one| one.name)))]
    name: Option<String>,
}

pub(crate) fn run(args: &Args, out: &mut Output) -> Result<Exit, Failure> {
    match &args.name {
        Some(name) => json::answer(out, &schema(name))?,
        None => json::answer(out, &everything())?,
    }
    Ok(Exit::Done)
}

fn schema(name: &str) -> Option<Schema> {
    ALL.iter().find(|one| one.name == name).map(|one| (one.alone)(generator()))
}

/// One schema: that of a list, with every other object under its name.
fn everything() -> Value {
    let mut generator = generator();
    let named = ALL.map(|one| (one.name.to_owned(), (one.among_others)(&mut generator).to_value()));
    let mut all = generator.take_definitions(true);
    all.extend(named);
    json!({
        "$schema": generator.settings().meta_schema,
        "title": "agentctl",
        "description": "What `agentctl list --json` prints. $defs has what the other commands print, by name.",
        "$ref": "#/$defs/list",
        "$defs": all,
    })
}

/// Schemas describe what is written, not what is read: all keys are always present, so all are required.
fn generator() -> SchemaGenerator {
    SchemaSettings::draft2020_12().for_serialize().into_generator()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_a_session_is_required_and_may_be_null() {
        let schema = schema("session").unwrap().to_value();
        let required: Vec<&str> =
            schema["required"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let properties = schema["properties"].as_object().unwrap();
        assert!(properties.keys().all(|key| required.contains(&key.as_str())), "{schema:#}");
        assert!(properties["name"]["type"].as_array().unwrap().contains(&"null".into()));
        assert!(properties.contains_key("statusDetail"));
    }

    #[test]
    fn fuses_problems_webhooks_and_dry_runs_are_described() {
        for (name, keys) in [
            (
                "fuse",
                &["id", "directory", "sessionId", "expiresAt", "maxTokens", "per", "stage", "spent"][..],
            ),
            ("fuses", &["fuses"]),
            ("problem", &["type", "title", "status", "detail", "code", "hint"]),
            ("webhook", &["hook_type", "session_id", "exit_status", "summary", "timestamp", "session"]),
            ("launch-dry-run", &["group", "launches", "failed"]),
            ("messages", &["entries"]),
        ] {
            let schema = schema(name).unwrap().to_value();
            let required = schema["required"].as_array().unwrap();
            assert!(keys.iter().all(|key| required.contains(&(*key).into())), "{name}: {schema:#}");
        }
    }

    #[test]
    fn every_name_has_its_own_schema_and_is_in_the_whole() {
        let alone = ALL.map(|one| (one.alone)(generator()).to_value().to_string());
        assert_eq!(alone.into_iter().collect::<std::collections::HashSet<_>>().len(), ALL.len());
        let everything = everything();
        assert_eq!(everything["$ref"], "#/$defs/list");
        for one in ALL {
            assert!(everything["$defs"][one.name].is_object(), "{}", one.name);
        }
    }
}
