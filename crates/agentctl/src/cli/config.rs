//! `agentctl config`: shows the effective settings, and checks the config file.

use std::io::Write;

use agentctl_hosts::HostName;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::render::style::Tone;
use crate::render::table::{Cell, Column, Table};
use crate::render::{json as writer, time};
use crate::settings::{Invalidates, Mistake, NatsSection, Origin, Settings};
use crate::surroundings::{SettingsError, Surroundings};

/// Show the settings in force, or check the config file
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Every setting, its value and where that came from
    Show {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Say whether the config file is sound; every mistake is named with its line
    Check {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

impl Args {
    /// Whether the command warns of mistakes in the file like every other; `config check` reports them
    /// itself.
    pub(crate) fn follows_settings(&self) -> bool {
        matches!(self.command, Command::Show { .. })
    }
}

/// What `config show --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Shown {
    /// The config file, whether it exists or not.
    path: Option<String>,
    exists: bool,
    settings: Vec<Line>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Line {
    key: String,
    value: Value,
    /// default, config.toml, or the variable as $NAME.
    origin: String,
}

/// What `config check --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Checked {
    path: Option<String>,
    exists: bool,
    valid: bool,
    /// The first of `errors`.
    error: Option<Fault>,
    /// Everything that is wrong with it.
    errors: Vec<Fault>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Fault {
    line: Option<usize>,
    column: Option<usize>,
    /// As in `adapters.codex.roots`; `null` where the file as a whole is meant.
    key: Option<String>,
    message: String,
    /// The key means nothing, so nothing is missing either; otherwise its value is not used.
    unknown_key: bool,
}

impl From<&Mistake> for Fault {
    fn from(mistake: &Mistake) -> Self {
        Self {
            line: mistake.line,
            column: mistake.column,
            key: mistake.key.clone(),
            message: mistake.message.clone(),
            unknown_key: mistake.invalidates == Invalidates::Nothing,
        }
    }
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    match args.command {
        Command::Show { json } => show(json, surroundings, out),
        Command::Check { json } => check(json, surroundings, out),
    }
}

fn show(as_json: bool, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let settings = surroundings.settings()?;
    let (path, exists) = file(surroundings);
    let shown = Shown { path, exists, settings: lines(&settings, surroundings) };
    if as_json {
        writer::answer(out, &shown)?;
        return Ok(Exit::Done);
    }
    let path = shown.path.as_deref().unwrap_or("nowhere: HOME is not set");
    let missing = if shown.exists { "" } else { " (not there; defaults are used)" };
    writeln!(out, "{} {path}{missing}", out.paint.dim("file"))?;
    let mut table = Table::new(vec![
        Column::whole("SETTING"),
        Column::flexible("VALUE", 16).keep_end(),
        Column::whole("FROM").expendable(1),
    ]);
    for line in &shown.settings {
        let value = match &line.value {
            Value::Null => "-".to_owned(),
            Value::String(text) => text.clone(),
            Value::Array(items) if items.is_empty() => "-".to_owned(),
            Value::Array(items) => {
                items.iter().map(|item| item.as_str().unwrap_or_default()).collect::<Vec<_>>().join(", ")
            }
            other => other.to_string(),
        };
        table.row(vec![
            Cell::plain(agentctl_model::text::one_line(&line.key)),
            Cell::plain(agentctl_model::text::one_line(&value)),
            Cell::new(line.origin.clone(), Tone::Dim),
        ]);
    }
    for line in table.lines(out.width(), out.paint) {
        writeln!(out, "{line}")?;
    }
    Ok(Exit::Done)
}

/// What is known of the bus. Keys and certificates are named by their files.
fn bus(nats: &NatsSection) -> Vec<(&'static str, Value)> {
    let names = |names: &[HostName]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    vec![
        ("url", json!(nats.url)),
        ("creds", json!(nats.creds)),
        ("nkey", json!(nats.nkey)),
        ("tls.ca", json!(nats.tls.ca)),
        ("tls.cert", json!(nats.tls.cert)),
        ("tls.key", json!(nats.tls.key)),
        ("name", json!(nats.name.as_ref().map(HostName::as_str))),
        ("asker", json!(nats.asker.as_ref().map(HostName::as_str))),
        ("timeout", json!(time::exact(nats.timeout))),
        ("hosts", json!(nats.hosts.as_deref().map(names))),
        ("history", json!(nats.history.map(time::exact))),
        ("serve", json!(nats.serve.as_str())),
        ("allow", json!(if nats.allows_bypass { &["bypass"][..] } else { &[] })),
    ]
}

fn lines(settings: &Settings, surroundings: &Surroundings) -> Vec<Line> {
    let line = |key: String, value: Value, origin: &Origin| Line { key, value, origin: origin.to_string() };
    let mut lines = Vec::new();
    if let Some((folder, origin)) = surroundings.own_folder() {
        lines.push(line("home".into(), json!(folder.to_string_lossy()), &origin));
    }
    lines.push(line("adapter".into(), json!(settings.adapter.value), &settings.adapter.origin));
    lines.push(line("model".into(), json!(settings.model.value), &settings.model.origin));
    lines.push(line("host".into(), json!(settings.host.value), &settings.host.origin));
    for (name, host) in &settings.hosts {
        let key = |part: &str| format!("hosts.{name}.{part}");
        lines.push(line(key("ssh"), json!(host.destination), &Origin::File));
        lines.push(line(key("program"), json!(host.program), &Origin::File));
        lines.push(line(key("timeout"), json!(time::exact(host.timeout)), &Origin::File));
    }
    if let Some(nats) = &settings.nats {
        for (name, value) in bus(nats) {
            lines.push(line(format!("nats.{name}"), value, &Origin::File));
        }
    }
    lines.push(line("http".into(), json!(settings.http.value), &settings.http.origin));
    for adapter in agentctl_adapters::registry() {
        let chosen = settings.adapter(adapter.card().name);
        let key = |name: &str| format!("adapters.{}.{name}", adapter.card().name);
        let own = adapter.root(&surroundings.environ);
        let own = own.map(|root| root.path.to_string_lossy().into_owned());
        lines.push(line(key("enabled"), json!(chosen.enabled.value), &chosen.enabled.origin));
        lines.push(line(key("root"), json!(own), &surroundings.root_origin(adapter)));
        lines.push(line(key("roots"), json!(chosen.roots.value), &chosen.roots.origin));
        lines.push(line(key("binary"), json!(chosen.binary.value), &chosen.binary.origin));
        let timeout = time::exact(chosen.timeout.value);
        lines.push(line(key("timeout"), json!(timeout), &chosen.timeout.origin));
        // Only addresses are shown, never keys.
        let gateways: Vec<&str> = chosen.gateways.value.iter().map(|gateway| gateway.url.as_str()).collect();
        if !gateways.is_empty() {
            lines.push(line(key("gateways"), json!(gateways), &chosen.gateways.origin));
        }
        if let Some(approvals) = chosen.approvals.value {
            lines.push(line(key("approvals"), json!(approvals), &chosen.approvals.origin));
        }
    }
    for (name, chosen) in &settings.acp {
        let key = |part: &str| format!("acp.{name}.{part}");
        lines.push(line(key("command"), json!(chosen.command.value), &chosen.command.origin));
        // A value may be a secret.
        let env: Vec<&String> = chosen.env.keys().collect();
        if !env.is_empty() {
            lines.push(line(key("env"), json!(env), &Origin::File));
        }
        let timeout = time::exact(chosen.timeout.value);
        lines.push(line(key("timeout"), json!(timeout), &chosen.timeout.origin));
    }
    let (webhook, notify) = (&settings.webhook, &settings.notify);
    let secret = webhook.secret.value.as_ref().map(|_| "(hidden)");
    lines.push(line("webhook.url".into(), json!(webhook.url.value), &webhook.url.origin));
    lines.push(line("webhook.secret".into(), json!(secret), &webhook.secret.origin));
    lines.push(line("webhook.events".into(), json!(webhook.events.value), &webhook.events.origin));
    lines.push(line("notify.command".into(), json!(notify.command.value), &notify.command.origin));
    lines.push(line("notify.on".into(), json!(notify.on.value), &notify.on.origin));
    let quiet = notify.quiet.value.map(|quiet| quiet.to_string());
    lines.push(line("notify.quiet".into(), json!(quiet), &notify.quiet.origin));
    lines.push(line("notify.desktop".into(), json!(notify.desktop.value), &notify.desktop.origin));
    lines.push(line("notify.terminal".into(), json!(notify.terminal.value), &notify.terminal.origin));
    // Files are named, and what they hold is never read here.
    let ntfy = notify.ntfy.value.as_ref();
    let ntfy = ntfy.map(|ntfy| json!({"url": ntfy.url, "tokenFile": ntfy.token_file, "text": ntfy.text}));
    lines.push(line("notify.ntfy".into(), json!(ntfy), &notify.ntfy.origin));
    let slack = notify.slack.value.as_ref();
    let slack = slack.map(|slack| json!({"urlFile": slack.url_file, "text": slack.text}));
    lines.push(line("notify.slack".into(), json!(slack), &notify.slack.origin));
    let telegram = notify.telegram.value.as_ref();
    let telegram = telegram.map(|telegram| {
        json!({"chat": telegram.chat, "tokenFile": telegram.token_file, "url": telegram.url, "text": telegram.text})
    });
    lines.push(line("notify.telegram".into(), json!(telegram), &notify.telegram.origin));
    let kept = &settings.launches_kept;
    lines.push(line("retention.launches".into(), json!(time::exact(kept.value)), &kept.origin));
    for (model, price) in &settings.prices {
        let parts = [
            ("in", price.input),
            ("out", price.output),
            ("cacheRead", price.cache_read),
            ("cacheWrite", price.cache_write),
        ];
        for (part, dollars) in parts {
            if let Some(dollars) = dollars {
                lines.push(line(format!("prices.\"{model}\".{part}"), json!(dollars), &Origin::File));
            }
        }
    }
    lines
}

fn check(as_json: bool, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let (path, exists) = file(surroundings);
    let errors: Vec<Fault> = match surroundings.settings() {
        Ok(settings) => settings.mistakes.iter().map(Fault::from).collect(),
        Err(error) => {
            let error = match error {
                SettingsError::Home(error) => error.to_string(),
                SettingsError::Unreadable { error, .. } => error.to_string(),
            };
            vec![Fault { line: None, column: None, key: None, message: error, unknown_key: false }]
        }
    };
    let exit = if errors.is_empty() { Exit::Done } else { Exit::Failed };
    if as_json {
        writer::answer(
            out,
            &Checked { path, exists, valid: errors.is_empty(), error: errors.first().cloned(), errors },
        )?;
        return Ok(exit);
    }
    if !errors.is_empty() {
        for mistake in surroundings.settings()?.mistakes {
            out.error(&surroundings.describe(&mistake));
        }
        return Ok(exit);
    }
    match path {
        Some(path) if exists => writeln!(out, "{path} is sound")?,
        Some(path) => writeln!(out, "there is no {path}; defaults are used")?,
        None => writeln!(out, "HOME is not set, so there is no config file; defaults are used")?,
    }
    Ok(Exit::Done)
}

fn file(surroundings: &Surroundings) -> (Option<String>, bool) {
    let path = surroundings.config_path();
    let exists = path.as_ref().is_some_and(|path| path.exists());
    (path.map(|path| path.to_string_lossy().into_owned()), exists)
}
