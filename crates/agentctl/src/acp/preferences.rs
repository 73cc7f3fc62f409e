//! The modes and models of a session, where its agent has them and agentctl holds it.

use agentctl_adapters::hold::{About, Offered, Preference};
use agentctl_fleet::act::asker::Asker;
use agentctl_fleet::act::steer::SteerOptions;
use agentctl_model::event::ActionVerb;
use agentctl_model::{Error, ErrorKind, text};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Office;
use crate::link::hosts::Located;

/// The name of the option that chooses the model.
const MODEL: &str = "model";

/// `session/set_mode`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SetMode {
    pub(super) session_id: String,
    pub(super) mode_id: String,
}

/// `session/set_config_option`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SetOption {
    pub(super) session_id: String,
    pub(super) config_id: String,
    pub(super) value: String,
}

/// What can be chosen, as the answer to opening a session tells it. What is chosen now must be known to be told.
pub(super) fn shown(about: &About) -> (Option<Value>, Vec<Value>) {
    let words = |words: &str| text::one_line(words);
    let name = |offered: &Offered| words(offered.name.as_deref().unwrap_or(&offered.id));
    let modes = about.mode.as_ref().filter(|_| !about.modes.is_empty()).map(|current| {
        let all = about.modes.iter().map(|one| json!({"id": one.id, "name": name(one)}));
        json!({"currentModeId": current, "availableModes": all.collect::<Vec<_>>()})
    });
    let option = about.model.as_ref().filter(|_| !about.models.is_empty()).map(|current| {
        let all = about.models.iter().map(|one| json!({"value": one.id, "name": name(one)}));
        json!({
            "id": MODEL, "name": "Model", "category": MODEL, "type": "select", "currentValue": current,
            "options": all.collect::<Vec<_>>(),
        })
    });
    (modes, option.into_iter().collect())
}

/// What can be chosen of this session now.
pub(super) fn of(office: &Office, found: &Located) -> Option<About> {
    // What another machine holds is chosen there.
    if found.far.is_some() {
        return None;
    }
    office.fleet().ok()?.about(&found.found)
}

pub(super) fn choose_mode(office: &Office, found: &Located, mode: &str) -> Result<(), Error> {
    choose(office, found, Preference::Mode, mode)
}

/// Chooses, and says what holds then.
pub(super) fn choose_option(
    office: &Office,
    found: &Located,
    option: &str,
    value: &str,
) -> Result<Vec<Value>, Error> {
    if option != MODEL {
        return Err(
            Error::usage("there is no such option").hint("`configOptions` names those that there are")
        );
    }
    choose(office, found, Preference::Model, value)?;
    Ok(of(office, found).map(|about| shown(&about).1).unwrap_or_default())
}

fn choose(office: &Office, found: &Located, what: Preference, id: &str) -> Result<(), Error> {
    let options = SteerOptions { asker: Asker::this_process(false), ..SteerOptions::default() };
    let chosen = match &found.far {
        Some(far) => {
            let words = format!("the session is on {}, and its mode and model are chosen there", far.name);
            Err(Error::new(ErrorKind::Unsupported, words))
        }
        None => office.fleet().and_then(|fleet| fleet.choose(&found.found, (what, id), options)),
    };
    let named = (&*found.found.key.adapter, &*found.id());
    office.asked().tell(ActionVerb::Choose, Some(named), &chosen, &office.surroundings());
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_known_is_offered() {
        let offered = |id: &str| Offered { id: id.to_owned(), name: None };
        let mut about =
            About { modes: vec![offered("plan")], models: vec![offered("m1")], ..About::default() };
        assert_eq!(shown(&about), (None, Vec::new()), "what is chosen now is not known");
        about.mode = Some("plan".to_owned());
        about.model = Some("m1".to_owned());
        let (modes, options) = shown(&about);
        assert_eq!(modes.unwrap()["availableModes"], json!([{"id": "plan", "name": "plan"}]));
        assert_eq!(
            (&options[0]["currentValue"], &options[0]["options"][0]["value"]),
            (&json!("m1"), &json!("m1"))
        );
    }
}
