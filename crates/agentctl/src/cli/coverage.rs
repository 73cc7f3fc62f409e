//! Reports the coverage of the sources to the user on standard error.

use agentctl_fleet::Fleet;
use agentctl_model::{SourceReport, text};

use crate::exit_codes::Exit;
use crate::output::Output;
use crate::render::path;
use crate::surroundings::Surroundings;

/// Describes one source: "claude-code at ~/.claude: timed-out, no answer for 2000 ms".
pub(crate) fn words(source: &SourceReport, surroundings: &Surroundings) -> String {
    let root = path::shown(&source.root, surroundings.home.as_deref());
    let reason = source.error.as_deref().or(source.warnings.first().map(String::as_str));
    let reason = reason.map(|reason| format!(", {}", text::one_line(reason))).unwrap_or_default();
    let more = match source.warnings.len() {
        count if count > 1 && source.error.is_none() => format!(" (and {} more)", count - 1),
        _ => String::new(),
    };
    let is_here = source.host.is_empty() || source.host == agentctl_fleet::own_name();
    let host = if is_here { String::new() } else { format!("{}: ", text::one_line(&source.host)) };
    format!("{host}{} at {root}: {}{reason}{more}", text::one_line(&source.adapter), source.coverage)
}

/// Prints a line for each source that was not read completely. Nothing is claimed about the sessions that it
/// may hold.
pub(crate) fn warn(sources: &[SourceReport], surroundings: &Surroundings, out: &mut Output) {
    for source in sources.iter().filter(|source| source.is_incomplete()) {
        let words = words(source, surroundings);
        out.warn(&format!("{words}; its sessions may be missing (`agentctl doctor` says more)"));
    }
}

/// Warns of an agent that was named and that the settings disable: missing sessions are then the user's own
/// decision.
pub(crate) fn warn_unread<'a>(names: impl IntoIterator<Item = &'a String>, fleet: &Fleet, out: &mut Output) {
    for name in names {
        if !fleet.sources().iter().any(|source| source.name() == name) {
            out.warn(&format!(
                "{name} is not read: it is turned off or has no root (`agentctl config show`)"
            ));
        }
    }
}

/// The exit code for an answer from these sources. A mistake in the settings may have left a source out.
pub(crate) fn exit(sources: &[SourceReport], strict: bool, surroundings: &Surroundings) -> Exit {
    let left_out = || surroundings.settings().is_ok_and(|settings| settings.hides_sessions().is_some());
    if strict && (sources.iter().any(SourceReport::is_incomplete) || left_out()) {
        Exit::Incomplete
    } else {
        Exit::Done
    }
}
