//! `launch --gateway URL`: chooses between several gateways.

use std::ffi::OsStr;

use agentctl_fleet::Fleet;
use agentctl_fleet::keep::launches::LaunchOrder;
use clap_complete::engine::CompletionCandidate;

use crate::surroundings::Surroundings;

/// Describes where the session will live; `None` for a process on this machine. It mentions that there was a
/// choice if the user made none, and that a folder on another machine was not checked.
pub(super) fn words(order: &LaunchOrder, chosen: bool, fleet: &Fleet) -> Option<String> {
    let of_adapter = || fleet.gateways().filter(|source| source.name() == order.adapter);
    of_adapter().find(|source| source.root.path.as_os_str() == order.root.as_str())?;
    let count = of_adapter().count();
    let choice = if count > 1 && !chosen {
        format!(", the first of {count} gateways (--gateway names another)")
    } else {
        String::new()
    };
    let folder = if order.cwd_is_chosen && fleet.goes_elsewhere(order) {
        "; its folders are not ours, so no lock was looked for"
    } else {
        ""
    };
    Some(format!("at {}{choice}{folder}", order.root))
}

/// The shell completions for `--gateway`.
pub(super) fn known(typed: &OsStr) -> Vec<CompletionCandidate> {
    let Some(typed) = typed.to_str() else { return Vec::new() };
    let Ok(fleet) = Surroundings::gather().fleet() else { return Vec::new() };
    let addresses = fleet.gateways().map(|source| source.root.path.to_string_lossy().into_owned());
    addresses.filter(|address| address.starts_with(typed)).map(CompletionCandidate::new).collect()
}
