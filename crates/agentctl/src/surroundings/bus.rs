//! The bus that the settings name, for this machine.

use agentctl_hosts::nats::NatsSettings;
use agentctl_model::ErrorKind;

use super::Surroundings;
use crate::failure::Failure;
use crate::settings::Settings;

impl Surroundings {
    /// `None` where the settings name no bus. One that is named wrongly is an error: asking another one than is meant, or
    /// none, would show a fleet without its machines.
    pub(crate) fn bus(&self, settings: &Settings) -> Result<Option<NatsSettings>, Failure> {
        if let Some(mistake) = settings.invalid(&["nats"]) {
            return Err(self.because_of(mistake));
        }
        let Some(section) = settings.nats.clone() else { return Ok(None) };
        section.on(&self.host()).map(Some).map_err(|why| Failure::new(ErrorKind::Usage, why))
    }
}
