//! ntfy, Slack and Telegram: what is sent to each, in its own shape. They get agent, folder and kind of need only, unless the
//! settings let them have the words too. A token is read from its file when something is sent, and stands in no message,
//! file or log of ours.

use std::path::{Path, PathBuf};
use std::time::Duration;

use agentctl_files::own;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use ureq::Agent;

use crate::settings::NotifySettings;
use crate::tell::webhooks::http;

/// A notice that could not be delivered for so long is dropped: nobody is helped by it any more.
const STALE: SignedDuration = SignedDuration::from_mins(15);
/// A file with a token or an address is never larger.
const SECRET: u64 = 4096;
/// How much of a provider's own words is told.
const WORDS: u64 = 4096;

/// A way over the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    Ntfy,
    Slack,
    Telegram,
}

impl Preset {
    pub const ALL: [Self; 3] = [Self::Ntfy, Self::Slack, Self::Telegram];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ntfy => "ntfy",
            Self::Slack => "slack",
            Self::Telegram => "telegram",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ntfy {
    /// The address of the topic.
    pub url: String,
    pub token_file: Option<PathBuf>,
    pub text: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slack {
    /// The file with the address of the incoming webhook, which is its key.
    pub url_file: PathBuf,
    pub text: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Telegram {
    pub chat: String,
    pub token_file: PathBuf,
    /// The address of the Bot API.
    pub url: String,
    pub text: bool,
}

/// A notice as it waits in the outbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    pub at: Timestamp,
    pub title: String,
    /// The words of the need and the command, where the provider may have them.
    pub body: Option<String>,
    pub urgent: bool,
}

impl Kept {
    fn text(&self) -> String {
        self.body.as_ref().map_or_else(|| self.title.clone(), |body| format!("{}\n{body}", self.title))
    }

    pub(crate) fn is_stale(&self, now: Timestamp) -> bool {
        now.duration_since(self.at) > STALE
    }
}

/// What is posted.
struct Request {
    url: String,
    /// The token, for those that take it in a header.
    bearer: Option<String>,
    body: Value,
    /// What must never be shown.
    secret: Option<String>,
}

/// Why a notice was not sent, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untold {
    pub message: String,
    pub hint: Option<String>,
}

impl Untold {
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: Some(hint.into()) }
    }
}

/// Sends one notice, once.
pub fn send(preset: Preset, settings: &NotifySettings, notice: &Kept) -> Result<(), Untold> {
    send_with(&http::agent(), preset, settings, notice)
}

pub(crate) fn send_with(
    agent: &Agent,
    preset: Preset,
    settings: &NotifySettings,
    notice: &Kept,
) -> Result<(), Untold> {
    let request = request(preset, settings, notice)?;
    // An address that is a key must not be shown by an error of the client.
    let hidden = |words: String| match &request.secret {
        Some(secret) => words.replace(secret, "(hidden)").replace(&request.url, "(hidden)"),
        None => words,
    };
    let mut post = agent.post(&request.url).header("Content-Type", "application/json");
    if let Some(token) = &request.bearer {
        post = post.header("Authorization", &format!("Bearer {token}"));
    }
    match post.send(request.body.to_string().as_bytes()) {
        Ok(response) if response.status().is_success() => Ok(()),
        Ok(mut response) => {
            let said = response.body_mut().with_config().limit(WORDS).read_to_string().unwrap_or_default();
            let said = agentctl_model::text::clean_cut(&agentctl_model::text::one_line(&said), Some(200));
            let message = hidden(format!("the provider answered {}: {said}", response.status()));
            Err(Untold {
                message: message.trim_end_matches([':', ' ']).to_owned(),
                hint: advice(preset, response.status().as_u16()),
            })
        }
        Err(error) => Err(Untold::new(
            hidden(error.to_string()),
            "is its address right, and can this machine reach it?",
        )),
    }
}

/// What a refusal of the provider usually means.
fn advice(preset: Preset, status: u16) -> Option<String> {
    let words = match (preset, status) {
        (Preset::Ntfy, 401 | 403) => {
            "the topic needs a token: `tokenFile` in [notify] ntfy names the file with it"
        }
        (Preset::Slack, 403 | 404 | 410) => {
            "the webhook is gone or its channel is: make a new one in Slack, and write its address into the file"
        }
        (Preset::Telegram, 401 | 404) => "the token is not one of a bot: @BotFather gives one",
        (Preset::Telegram, 400 | 403) => {
            "write to the bot once in that chat, and check `chat` in [notify] telegram"
        }
        (_, 429) => "the provider was asked too often",
        _ => return None,
    };
    Some(words.to_owned())
}

/// The request in the provider's own shape.
fn request(preset: Preset, settings: &NotifySettings, notice: &Kept) -> Result<Request, Untold> {
    let missing =
        || Untold::new(format!("[notify] has no {}", preset.as_str()), "docs/notices.md says how to set it");
    match preset {
        Preset::Ntfy => {
            let ntfy = settings.ntfy.as_ref().ok_or_else(missing)?;
            // As JSON, because a header cannot carry every letter: it goes to the server, and names the topic.
            let (server, topic) = ntfy.url.trim_end_matches('/').rsplit_once('/').ok_or_else(missing)?;
            let bearer = ntfy.token_file.as_deref().map(secret).transpose()?;
            let message = notice.body.as_deref().unwrap_or(&notice.title);
            let priority = if notice.urgent { 4 } else { 3 };
            let body = json!({"topic": topic, "title": notice.title, "message": message, "priority": priority, "tags": ["robot"]});
            Ok(Request { url: server.to_owned(), secret: bearer.clone(), bearer, body })
        }
        Preset::Slack => {
            let slack = settings.slack.as_ref().ok_or_else(missing)?;
            let url = secret(&slack.url_file)?;
            if !agentctl_fleet::keep::outbox::is_address(&url) {
                return Err(Untold::new(
                    format!("{} holds no address", slack.url_file.display()),
                    "it is to hold the address of an incoming webhook, https://hooks.slack.com/services/…",
                ));
            }
            let text = notice.text().replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            Ok(Request { secret: Some(url.clone()), url, bearer: None, body: json!({"text": text}) })
        }
        Preset::Telegram => {
            let telegram = settings.telegram.as_ref().ok_or_else(missing)?;
            let token = secret(&telegram.token_file)?;
            if !token.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, ':' | '-' | '_')) {
                return Err(Untold::new(
                    format!("{} holds no token of a bot", telegram.token_file.display()),
                    "it is to hold what @BotFather gave: 123456:ABC…",
                ));
            }
            let url = format!("{}/bot{token}/sendMessage", telegram.url.trim_end_matches('/'));
            let body = json!({
                "chat_id": telegram.chat, "text": notice.text(), "link_preview_options": {"is_disabled": true},
                "disable_notification": !notice.urgent,
            });
            Ok(Request { url, bearer: None, body, secret: Some(token) })
        }
    }
}

/// What a file holds that nobody else may write.
fn secret(path: &Path) -> Result<String, Untold> {
    let read = own::read_kept_elsewhere(path, SECRET).map_err(|error| error.to_string());
    let text = read.map(|text| text.trim().to_owned()).and_then(|text| {
        let is_line = !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic());
        if is_line { Ok(text) } else { Err("is to hold one line".to_owned()) }
    });
    text.map_err(|error| {
        Untold::new(
            format!("{}: {error}", path.display()),
            "the file must be there, belong to you, and be writable by nobody else",
        )
    })
}

/// How long one try takes at most.
pub const LONGEST: Duration = http::TIMEOUT;
