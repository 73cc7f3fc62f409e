//! Chooses a gateway: the one that the caller named, else the first reachable one.

use std::path::Path;

use agentctl_adapters::gateway::Addressee;
use agentctl_model::{Error, ErrorKind};

use crate::act::launch::{no_gateway, unknown_agent};
use crate::keep::launches::{CallbackOrder, LaunchOrder};
use crate::{Fleet, Source};

impl Fleet {
    /// Returns the known gateways in their order: the one of the agent's own settings first, then the configured ones.
    pub fn gateways(&self) -> impl Iterator<Item = &Source> {
        self.sources.iter().filter(|source| {
            source.adapter.gateway().is_some_and(|gateway| gateway.is_reachable(&source.root))
        })
    }

    /// Returns the source in which a new session of this agent would live. Of several gateways this is the one that was
    /// named, else the first.
    pub fn place_to_launch(&self, adapter: &str, gateway: Option<&str>) -> Result<&Source, Error> {
        let reader = self.acp_agent(adapter).and_then(|agent| agent.native).unwrap_or(adapter);
        let mut of_adapter = self.sources.iter().filter(|source| source.name() == reader);
        let first = of_adapter.next().ok_or_else(|| unknown_agent(adapter))?;
        if first.adapter.gateway().is_none() {
            return Ok(first);
        }
        let mut gateways = self.gateways().filter(|source| source.name() == adapter);
        match gateway {
            Some(said) => self.gateway_named(said, Some(adapter)),
            // Without a gateway, the refusal names the file in which one would be configured.
            None => Ok(gateways.next().unwrap_or(first)),
        }
    }

    /// Whether a new session of this agent would work on another machine, whose directories we cannot see.
    pub fn works_elsewhere(&self, adapter: &str, gateway: Option<&str>) -> Result<bool, Error> {
        self.place_to_launch(adapter, gateway).map(is_elsewhere)
    }

    /// The same for an existing order.
    pub fn goes_elsewhere(&self, order: &LaunchOrder) -> bool {
        self.server_named(&order.adapter, &order.root).is_some_and(|server| is_elsewhere(server.source))
    }

    /// Returns the recipient of a callback in the gateway that was named, else in the first.
    pub(crate) fn callback_to(&self, to: Addressee, gateway: Option<&str>) -> Result<CallbackOrder, Error> {
        let source = match gateway {
            Some(said) => self.gateway_named(said, None)?,
            None => self.gateways().next().ok_or_else(no_gateway)?,
        };
        Ok(CallbackOrder { adapter: source.name().to_owned(), root: shown(&source.root.path), to })
    }

    /// If two configured gateways have the same name, this refuses instead of choosing one.
    fn gateway_named(&self, said: &str, adapter: Option<&str>) -> Result<&Source, Error> {
        let known = || self.gateways().filter(|source| adapter.is_none_or(|name| source.name() == name));
        let is_meant = |source: &&Source| {
            source.adapter.gateway().is_some_and(|gateway| gateway.is_meant(&source.root, said))
        };
        let fits: Vec<&Source> = known().filter(is_meant).collect();
        let list =
            |sources: &[&Source]| sources.iter().map(|source| shown(&source.root.path)).collect::<Vec<_>>();
        match fits.as_slice() {
            [one] => Ok(one),
            [] => {
                let all: Vec<&Source> = known().collect();
                if all.is_empty() {
                    return Err(no_gateway());
                }
                Err(Error::new(ErrorKind::NotFound, format!("no gateway `{said}` is known"))
                    .hint(format!("these are: {}", list(&all).join(", "))))
            }
            several => {
                let message = format!("`{said}` fits {} gateways", several.len());
                Err(Error::new(ErrorKind::Ambiguous, message)
                    .hint(format!("say which: {}", list(several).join(", "))))
            }
        }
    }
}

fn is_elsewhere(source: &Source) -> bool {
    let gateway = source.adapter.gateway();
    gateway.is_some_and(|gateway| gateway.is_reachable(&source.root) && !gateway.is_here(&source.root))
}

fn shown(root: &Path) -> String {
    root.to_string_lossy().into_owned()
}
