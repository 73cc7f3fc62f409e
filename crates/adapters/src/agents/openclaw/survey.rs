//! Asks a gateway for its sessions. A gateway that cannot be reached gives no verdict about any session.

use agentctl_model::text::clean_cut;
use agentctl_model::{Coverage, Found, Harvest};
use serde_json::json;

use super::client::connection::Connection;
use super::client::error::GatewayError;
use super::client::gateway_client::GatewayClient;
use super::client::paging::record_progress;
use super::client::rows::{History, Row};
use super::conversation::fold::{Fold, Summary};
use super::settings::discovery;
use super::{list, natives};
use crate::{Progress, Reach, Root, Scope};

/// The most that `chat.history` returns at once.
const PAGE: usize = 1000;
/// A conversation longer than this is not summed up.
const MOST_PAGES: usize = 50;
/// The same limit in bytes, which a gateway may put into few pages.
const LARGEST_CONVERSATION: usize = 64 << 20;

pub(super) fn survey(root: &Root, scope: &Scope<'_>) -> Harvest {
    let failed = |error: String| Harvest::nothing(Coverage::Failed { error });
    let Some(gateway) = GatewayClient::of(root) else {
        let text = root.path.to_string_lossy();
        if text.contains("://") {
            return failed(format!(
                "{} is no address of a gateway, expected ws://HOST:PORT",
                clean_cut(&text, Some(200))
            ));
        }
        return discovery::error(&root.path).map_or_else(|| Harvest::nothing(Coverage::NotInstalled), failed);
    };
    ask(&gateway, root, scope).unwrap_or_else(|error| failed(error.to_string()))
}

fn ask(gateway: &GatewayClient, root: &Root, scope: &Scope<'_>) -> Result<Harvest, GatewayError> {
    let (mut connection, mut listing) = list::read(gateway, &scope.reach, &scope.progress)?;
    if let Some(state) = &root.store {
        let live = matches!(scope.reach, Reach::Live(_));
        let is_wanted = |row: &&Row| scope.reach.names(&row.key) && !(live && row.is_idle());
        let rows = listing.snapshot.rows.iter().filter(is_wanted);
        listing.snapshot.natives = natives::read(state, rows, &mut listing.warnings);
    }
    let mut harvest = Harvest::complete(Vec::new());
    listing.left_out.into_iter().for_each(|words| harvest.left_out(words));
    harvest.warnings.extend(listing.warnings);
    // Only the conversation contains whole texts and totals.
    let reads_conversation = scope.usage || scope.text_limit.is_none();
    for (mut found, remote) in listing.snapshot.sessions(&root.path) {
        if !scope.reach.names(&found.id) {
            continue;
        }
        if reads_conversation {
            match summary(&mut connection, &found.id, &scope.progress) {
                Ok((summary, missing)) => {
                    fill(&mut found, summary, scope);
                    harvest.warnings.extend(missing.map(|words| format!("{}: {words}", found.id)));
                }
                Err(error @ GatewayError::Refused { .. }) => {
                    harvest.warnings.push(format!("{}: {error}", found.id));
                    // The tokens of the last run are not a total.
                    found.facts.tokens = None;
                }
                Err(error) => return Err(error),
            }
        } else {
            // The row has the figures of the last run, which are not a total.
            found.facts.tokens = None;
        }
        harvest.found.push(found);
        harvest.remote.push(remote);
    }
    Ok(harvest)
}

fn fill(found: &mut Found, summary: Summary, scope: &Scope<'_>) {
    let cut = |text: Option<String>| text.map(|text| clean_cut(&text, scope.text_limit));
    found.facts.prompt = cut(summary.prompt);
    found.facts.last_message = cut(summary.last_message);
    if summary.has_messages {
        found.facts.tokens = summary.tokens;
        found.facts.cost = summary.cost;
        found.facts.calls = Some(summary.calls.into()).filter(|_| scope.calls);
    }
}

/// A conversation from its last page to its first, and a warning when it could not be read that far.
fn summary(
    connection: &mut Connection,
    key: &str,
    progress: &Progress,
) -> Result<(Summary, Option<&'static str>), GatewayError> {
    let mut fold = Fold::default();
    let (mut offset, received_before, mut limit) = (0, connection.received(), PAGE);
    for _ in 0..MOST_PAGES {
        let params = json!({"sessionKey": key, "limit": limit, "offset": offset});
        let page: History = match connection.ask("chat.history", &params) {
            // The messages are long: fewer of them may fit.
            Err(GatewayError::TooHeavy { .. }) if limit > 1 => {
                limit = (limit / 10).max(1);
                continue;
            }
            Err(GatewayError::TooHeavy { .. }) => break,
            other => other?,
        };
        record_progress(progress)?;
        fold.add(&page);
        if !page.has_more {
            return Ok((fold.whole(), None));
        }
        let enough = connection.received() - received_before > LARGEST_CONVERSATION;
        match page.next_offset.filter(|next| *next > offset && !enough) {
            Some(next) => offset = next,
            None => break,
        }
    }
    Ok((fold.cut_short(), Some("the conversation is too long to be read whole, so it has no totals")))
}
