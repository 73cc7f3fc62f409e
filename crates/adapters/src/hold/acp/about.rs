//! What the agent says of the session beside its turns.

use super::greeting::short;
use super::settings::Setting;
use super::usage::Context;
use super::wire::{Changed, ConfigOption, Opened, Spent};
use crate::hold::About;

impl About {
    /// The session was opened, with this mode and model.
    pub(super) fn opened(&mut self, opened: &Opened) {
        let mode = opened.modes.as_ref().and_then(|modes| modes.current_mode_id.as_deref());
        let model = opened.models.as_ref().and_then(|models| models.current_model_id.as_deref());
        (self.mode, self.model) = (mode.map(short), model.map(short));
        self.chosen(opened.config_options.as_deref());
    }

    pub(super) fn changed(&mut self, changed: Changed) {
        let Changed { title, current_mode_id, config_options } = changed;
        self.title = title.as_deref().map(short).or_else(|| self.title.take());
        self.mode = current_mode_id.as_deref().map(short).or_else(|| self.mode.take());
        self.chosen(config_options.as_deref());
    }

    /// The agent took a setting; some agents answer with all that holds now.
    pub(super) fn took(&mut self, setting: Setting, now: Changed) {
        match setting {
            Setting::Mode(mode) => self.mode = Some(short(&mode)),
            Setting::Model(model) => self.model = Some(short(&model)),
            Setting::Config { .. } => {}
        }
        self.changed(now);
    }

    pub(super) fn used(&mut self, context: Option<Context>, spent: Spent) {
        self.context = context;
        let dollars = spent.cost.filter(|cost| cost.currency.as_deref() == Some("USD"));
        // An agent that knows no price says that it cost nothing.
        let amount =
            dollars.and_then(|cost| cost.amount).filter(|amount| amount.is_finite() && *amount > 0.0);
        self.cost = amount.or(self.cost);
    }

    fn chosen(&mut self, options: Option<&[ConfigOption]>) {
        let current = |category: &str| {
            let option = options?.iter().find(|option| option.category.as_deref() == Some(category))?;
            Some(short(option.current_value.as_ref()?.as_str()?))
        };
        self.mode = current("mode").or_else(|| self.mode.take());
        self.model = current("model").or_else(|| self.model.take());
    }
}
