//! `agentctl schema`: the JSON Schema of everything that `--json` prints, the API answers and webhooks say.

use agentctl_daemon::{Event, Fuse, FuseList, Messages, ProblemObject};
use agentctl_fleet::groups::{GroupDiff, GroupLaunch, GroupList, GroupView};
use agentctl_fleet::inbox::Inbox;
use agentctl_fleet::locks::LockList;
use agentctl_fleet::outbox::Payload;
use agentctl_fleet::speak::Taken;
use agentctl_fleet::stop::StopAnswer;
use agentctl_fleet::worktree::{Cleaned, NewTree, Trees};
use agentctl_fleet::{AdapterEntry, DirectoryHolder, Explanation, ListAnswer};
use agentctl_model::{Entry, Session};
use clap::builder::PossibleValuesParser;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value};

use super::attach::Way;
use super::config::{Checked, Shown};
use super::daemon::Standing;
use super::doctor::Report;
use super::inbox::Done;
use super::launch::DryRun;
use super::prune;
use super::wait::Waited;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::render::json;

const NAMES: [&str; 32] = [
    "session",
    "list",
    "explain",
    "entry",
    "messages",
    "launch-dry-run",
    "group-launch",
    "stop",
    "accepted",
    "attach",
    "wait",
    "inbox",
    "inbox-done",
    "lock",
    "locks",
    "fuse",
    "fuses",
    "worktree-list",
    "worktree-create",
    "worktree-clean",
    "group-list",
    "group-show",
    "group-diff",
    "event",
    "webhook",
    "problem",
    "adapters",
    "doctor",
    "prune",
    "config-show",
    "config-check",
    "daemon-status",
];

/// Print the JSON Schema of what --json prints, the API answers and webhooks say
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
        "list" => of::<ListAnswer<'_>>(),
        "explain" => of::<Explanation<'_>>(),
        "entry" => of::<Entry>(),
        "messages" => of::<Messages>(),
        "launch-dry-run" => of::<DryRun<'_>>(),
        "group-launch" => of::<GroupLaunch>(),
        "stop" => of::<StopAnswer>(),
        "accepted" => of::<Taken>(),
        "wait" => of::<Waited<'_>>(),
        "inbox" => of::<Inbox>(),
        "inbox-done" => of::<Done>(),
        "attach" => of::<Way>(),
        "lock" => of::<DirectoryHolder>(),
        "locks" => of::<LockList>(),
        "fuse" => of::<Fuse>(),
        "fuses" => of::<FuseList>(),
        "worktree-list" => of::<Trees>(),
        "worktree-create" => of::<NewTree>(),
        "worktree-clean" => of::<Cleaned>(),
        "group-list" => of::<GroupList>(),
        "group-show" => of::<GroupView>(),
        "group-diff" => of::<GroupDiff>(),
        "prune" => of::<prune::Answer>(),
        "event" => of::<Event>(),
        "webhook" => of::<Payload<'_>>(),
        "problem" => of::<ProblemObject>(),
        "daemon-status" => of::<Standing>(),
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
    fn fuses_problems_webhooks_and_dry_runs_are_described() {
        for (name, keys) in [
            ("fuse", &["id", "directory", "sessionId", "expiresAt", "maxTokens", "stage"][..]),
            ("fuses", &["fuses"]),
            ("problem", &["type", "title", "status", "detail", "code", "hint"]),
            ("webhook", &["hook_type", "session_id", "exit_status", "summary", "timestamp", "session"]),
            ("launch-dry-run", &["group", "launches", "failed"]),
            ("messages", &["entries"]),
        ] {
            let schema = schema(name).to_value();
            let required = schema["required"].as_array().unwrap();
            assert!(keys.iter().all(|key| required.contains(&(*key).into())), "{name}: {schema:#}");
        }
    }

    #[test]
    fn every_name_has_its_own_schema() {
        let all: std::collections::HashSet<String> =
            NAMES.iter().map(|name| schema(name).to_value().to_string()).collect();
        assert_eq!(all.len(), NAMES.len());
    }
}
