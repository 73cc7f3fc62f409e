//! `[notify]`: when a person is told that a session needs them, and by which ways.

use std::path::{Path, PathBuf};

use agentctl_daemon::presets::{Ntfy, Slack, Telegram};
use agentctl_model::notice::QuietHours;
use agentctl_model::{Outcome, Status};
use serde::Deserialize;

use super::webhook::Address;
use super::{Setting, known};
use crate::render::path;

/// The address of Telegram's Bot API; a server of one's own has another.
const TELEGRAM: &str = "https://api.telegram.org";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notify {
    /// The statuses and outcomes that are announced.
    pub(crate) on: Setting<Vec<String>>,
    /// When nothing is announced.
    pub(crate) quiet: Setting<Option<QuietHours>>,
    pub(crate) command: Setting<Option<String>>,
    pub(crate) desktop: Setting<bool>,
    /// Commands that watch tell their own terminal.
    pub(crate) terminal: Setting<bool>,
    pub(crate) ntfy: Setting<Option<Ntfy>>,
    pub(crate) slack: Setting<Option<Slack>>,
    pub(crate) telegram: Setting<Option<Telegram>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NotifyForm {
    on: Option<Vec<Change>>,
    quiet: Option<Hours>,
    command: Option<String>,
    desktop: Option<bool>,
    terminal: Option<bool>,
    ntfy: Option<NtfyForm>,
    slack: Option<SlackForm>,
    telegram: Option<TelegramForm>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct NtfyForm {
    url: Topic,
    token_file: Option<PathBuf>,
    #[serde(default)]
    text: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct SlackForm {
    url_file: PathBuf,
    #[serde(default)]
    text: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct TelegramForm {
    chat: Chat,
    token_file: PathBuf,
    url: Option<Address>,
    #[serde(default)]
    text: bool,
}

impl NotifyForm {
    pub(super) fn settle(self, home: Option<&Path>) -> Notify {
        let on = self.on.map(|changes| changes.into_iter().map(|change| change.0).collect());
        let expand = |file: PathBuf| path::expand(&file, home);
        let ntfy = self.ntfy.map(|form| Ntfy {
            url: form.url.0,
            token_file: form.token_file.map(expand),
            text: form.text,
        });
        let slack = self.slack.map(|form| Slack { url_file: expand(form.url_file), text: form.text });
        let telegram = self.telegram.map(|form| Telegram {
            chat: form.chat.0,
            token_file: expand(form.token_file),
            url: form.url.map_or_else(|| TELEGRAM.to_owned(), |url| url.0),
            text: form.text,
        });
        Notify {
            on: Setting::layered(vec!["waiting".to_owned(), "failed".to_owned()], on),
            quiet: Setting::optional(self.quiet.map(|hours| hours.0)),
            command: Setting::optional(self.command),
            desktop: Setting::layered(false, self.desktop),
            terminal: Setting::layered(false, self.terminal),
            ntfy: Setting::optional(ntfy),
            slack: Setting::optional(slack),
            telegram: Setting::optional(telegram),
        }
    }
}

/// The address of a topic: a server and the name of the topic behind it.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct Topic(String);

impl TryFrom<String> for Topic {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let Address(url) = Address::try_from(text)?;
        let behind = url.split_once("://").and_then(|(_, rest)| rest.trim_end_matches('/').split_once('/'));
        match behind {
            Some((_, topic)) if !topic.is_empty() && !topic.contains(['?', '#']) => Ok(Self(url)),
            _ => Err(format!("`{url}` names no topic, expected such as https://ntfy.sh/TOPIC")),
        }
    }
}

/// A chat has a number, or a name that begins with @.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum ChatForm {
    Number(i64),
    Name(String),
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "ChatForm")]
struct Chat(String);

impl TryFrom<ChatForm> for Chat {
    type Error = String;

    fn try_from(chat: ChatForm) -> Result<Self, String> {
        match chat {
            ChatForm::Number(number) => Ok(Self(number.to_string())),
            ChatForm::Name(name) if name.parse::<i64>().is_ok() || name.starts_with('@') => Ok(Self(name)),
            ChatForm::Name(name) => Err(format!("`{name}` is no chat, expected its number or @NAME")),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct Hours(QuietHours);

impl TryFrom<String> for Hours {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        QuietHours::parse(&text).map(Self)
    }
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct Change(String);

impl TryFrom<String> for Change {
    type Error = String;

    fn try_from(word: String) -> Result<Self, String> {
        let statuses = Status::ALL.into_iter().map(Status::as_str);
        known(word, "status or outcome", statuses.chain(Outcome::ALL.into_iter().map(Outcome::as_str)))
            .map(Self)
    }
}
