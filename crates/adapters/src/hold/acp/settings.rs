//! The mode and the model of a session: what is wished, found among what the agent offers.

use serde_json::{Value, json};

use super::agent::Choice;
use super::greeting::short;
use super::wire::{ConfigOption, ConfigValue, Named, Opened};
use crate::hold::{Offered, Preference};

/// One thing to set before the first prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Setting {
    Config { id: String, value: String },
    Mode(String),
    Model(String),
}

impl Setting {
    pub(super) fn method(&self) -> &'static str {
        match self {
            Self::Config { .. } => "session/set_config_option",
            Self::Mode(_) => "session/set_mode",
            Self::Model(_) => "session/set_model",
        }
    }

    pub(super) fn params(&self, session: &str) -> Value {
        match self {
            Self::Config { id, value } => json!({"sessionId": session, "configId": id, "value": value}),
            Self::Mode(id) => json!({"sessionId": session, "modeId": id}),
            Self::Model(id) => json!({"sessionId": session, "modelId": id}),
        }
    }

    pub(super) fn value(&self) -> &str {
        match self {
            Self::Config { value, .. } | Self::Mode(value) | Self::Model(value) => value,
        }
    }
}

/// A value that the agent offers, and how it is set.
struct Offer<'a> {
    value: &'a str,
    name: Option<&'a str>,
    is_current: bool,
    setting: Setting,
}

/// What must be set so that the wishes hold; what is so already is left out. A wish that the agent cannot fulfil is an
/// error, because a session must not run with more rights or another model than its caller asked for.
pub(super) fn wanted(
    opened: &Opened,
    choices: &[Choice],
    model: Option<&str>,
) -> Result<Vec<Setting>, String> {
    let mut settings = Vec::new();
    if !choices.is_empty() {
        let offered = mode_offers(opened);
        let permissions = config_offers(opened, "permissions");
        let found = choices.iter().find_map(|choice| match choice {
            Choice::Mode(id) => offered.iter().find(|offer| is_mode(offer.value, id)),
            Choice::Permissions { option, value } => permissions.iter().find(|offer| {
                matches!(&offer.setting, Setting::Config { id, .. } if id == option) && offer.value == *value
            }),
        });
        let found =
            found.ok_or_else(|| format!("the agent has no such permission mode; {}", listed(&offered)))?;
        settings.extend((!found.is_current).then(|| found.setting.clone()));
    }
    if let Some(model) = model {
        let offered = model_offers(opened);
        let found = match offered.iter().find(|offer| offer.value == model) {
            Some(found) => found,
            // Some ids are made of several parts, and people know only the name.
            None => match &offered.iter().filter(|offer| offer.name == Some(model)).collect::<Vec<_>>()[..] {
                [one] => one,
                _ => return Err(format!("the agent has no model {model}; {}", listed(&offered))),
            },
        };
        settings.extend((!found.is_current).then(|| found.setting.clone()));
    }
    Ok(settings)
}

/// More modes or models than this are not passed on, and no id that is longer.
const MOST: usize = 100;
const LONGEST: usize = 200;

/// The modes and models that can be chosen, and how each is set.
pub(super) fn offers(opened: &Opened) -> Vec<(Preference, Offered, Setting)> {
    let both = [(Preference::Mode, mode_offers(opened)), (Preference::Model, model_offers(opened))];
    let each = both.into_iter().flat_map(|(what, offers)| {
        let short_enough = offers.into_iter().filter(|offer| offer.value.len() <= LONGEST);
        short_enough.take(MOST).map(move |Offer { value, name, setting, .. }| {
            (what, Offered { id: value.to_owned(), name: name.map(short) }, setting)
        })
    });
    each.collect()
}

fn is_mode(id: &str, wanted: &str) -> bool {
    id == wanted || id.rsplit_once('#').is_some_and(|(_, end)| end == wanted)
}

fn listed(offered: &[Offer]) -> String {
    if offered.is_empty() {
        return "it offers no choice".to_owned();
    }
    let values = offered.iter().map(|offer| offer.value).collect::<Vec<_>>();
    format!("it offers {}", values.join(", "))
}

fn mode_offers(opened: &Opened) -> Vec<Offer<'_>> {
    let config = config_offers(opened, "mode");
    if !config.is_empty() {
        return config;
    }
    let Some(modes) = &opened.modes else { return Vec::new() };
    named_offers(modes.available_modes.as_deref(), modes.current_mode_id.as_deref(), Setting::Mode)
}

fn model_offers(opened: &Opened) -> Vec<Offer<'_>> {
    let config = config_offers(opened, "model");
    if !config.is_empty() {
        return config;
    }
    let Some(models) = &opened.models else { return Vec::new() };
    named_offers(models.available_models.as_deref(), models.current_model_id.as_deref(), Setting::Model)
}

fn named_offers<'a>(
    named: Option<&'a [Named]>,
    current: Option<&str>,
    setting: impl Fn(String) -> Setting,
) -> Vec<Offer<'a>> {
    let with_id = named.unwrap_or_default().iter().filter_map(|named| Some((named.id.as_deref()?, named)));
    with_id
        .map(|(value, named)| Offer {
            value,
            name: named.name.as_deref(),
            is_current: current == Some(value),
            setting: setting(value.to_owned()),
        })
        .collect()
}

fn config_offers<'a>(opened: &'a Opened, category: &str) -> Vec<Offer<'a>> {
    let options = opened.config_options.as_deref().unwrap_or_default().iter();
    options
        .filter(|option| option.category.as_deref() == Some(category))
        .flat_map(|option| {
            let mut values = Vec::new();
            flatten(option.options.as_deref().unwrap_or_default(), &mut values);
            values.into_iter().filter_map(|value| config_offer(option, value))
        })
        .collect()
}

fn config_offer<'a>(option: &'a ConfigOption, value: &'a ConfigValue) -> Option<Offer<'a>> {
    let chosen = value.value.as_deref()?;
    Some(Offer {
        value: chosen,
        name: value.name.as_deref(),
        is_current: option.current_value.as_ref().and_then(Value::as_str) == Some(chosen),
        setting: Setting::Config { id: option.id.clone()?, value: chosen.to_owned() },
    })
}

/// The values of all groups. The depth is bounded by the JSON reader.
fn flatten<'a>(values: &'a [ConfigValue], into: &mut Vec<&'a ConfigValue>) {
    for value in values {
        into.push(value);
        flatten(value.options.as_deref().unwrap_or_default(), into);
    }
}
