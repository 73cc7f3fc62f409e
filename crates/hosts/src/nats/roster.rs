//! Who should answer: a key-value bucket of the server without expiry, one entry for each host. A host leaves it only when
//! a person says so. `JetStream` is asked with its own JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::bus::{Bus, Unanswered};
use super::message::RosterEntry;
use super::subjects::{HISTORY, ROSTER, ROSTER_STREAM, roster_entry};
use crate::failure::{RoadFailure, Step};
use crate::name::HostName;

/// No entry is larger.
const LARGEST_ENTRY: usize = 4096;
/// The most copies of the roster on servers of a cluster.
const MOST_COPIES: usize = 3;
/// No roster has more pages of names.
const MOST_PAGES: usize = 64;

/// What `JetStream` answers, as far as it is needed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Reply {
    error: Option<ReplyError>,
    state: State,
    total: usize,
    limit: usize,
    purged: u64,
}

#[derive(Debug, Deserialize)]
struct ReplyError {
    #[serde(default)]
    err_code: u32,
    #[serde(default)]
    description: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct State {
    subjects: Option<BTreeMap<String, u64>>,
}

/// There is no such stream.
const NO_STREAM: u32 = 10059;

/// The stream behind the roster.
pub fn stream(copies: usize) -> Value {
    json!({
        "name": ROSTER_STREAM,
        "subjects": [format!("$KV.{ROSTER}.>")],
        "max_msgs_per_subject": 1,
        "max_msg_size": LARGEST_ENTRY,
        "max_age": 0,
        "num_replicas": copies,
        "storage": "file",
        "discard": "new",
        "allow_rollup_hdrs": true,
        "deny_delete": true,
        "allow_direct": true,
    })
}

/// The stream that keeps events, the oldest of which go by themselves.
fn history(kept: Duration, copies: usize) -> Value {
    json!({
        "name": HISTORY,
        "subjects": ["agentctl.event.>"],
        "max_age": u64::try_from(kept.as_nanos()).unwrap_or(u64::MAX >> 1),
        "num_replicas": copies,
        "storage": "file",
        "discard": "old",
        "allow_direct": true,
    })
}

/// What a host writes into its entry, and where.
pub fn registration(host: &HostName, entry: &RosterEntry) -> (String, Vec<u8>) {
    (roster_entry(host), serde_json::to_vec(entry).unwrap_or_default())
}

impl Bus {
    /// The names of all hosts that should answer, in order.
    pub fn roster(&self) -> Result<Vec<HostName>, RoadFailure> {
        if let Some(hosts) = &self.line.settings.hosts {
            let mut hosts = hosts.clone();
            hosts.sort();
            hosts.dedup();
            return Ok(hosts);
        }
        let prefix = format!("$KV.{ROSTER}.");
        let mut names = Vec::new();
        let mut seen = 0;
        for _ in 0..MOST_PAGES {
            let ask = json!({"subjects_filter": format!("{prefix}>"), "offset": seen});
            let reply = self.jetstream(&format!("STREAM.INFO.{ROSTER_STREAM}"), &ask)?;
            let page = reply.state.subjects.unwrap_or_default();
            seen += page.len();
            let parsed =
                page.keys().filter_map(|subject| HostName::parse(subject.strip_prefix(&prefix)?).ok());
            names.extend(parsed);
            if page.is_empty() || reply.limit == 0 || seen >= reply.total {
                names.sort();
                names.dedup();
                return Ok(names);
            }
        }
        Err(RoadFailure::new(Step::Answer, "the roster has no end"))
    }

    /// Makes the roster; `false` if there was one. The user needs the rights of an administrator.
    pub fn make_roster(&self) -> Result<bool, RoadFailure> {
        self.make(ROSTER_STREAM, stream)
    }

    /// Lets the server keep the events of all hosts for so long; `false` if it does so already.
    pub fn make_history(&self, kept: Duration) -> Result<bool, RoadFailure> {
        self.make(HISTORY, |copies| history(kept, copies))
    }

    fn make(&self, name: &str, stream: impl Fn(usize) -> Value) -> Result<bool, RoadFailure> {
        let exists = self.jetstream(&format!("STREAM.INFO.{name}"), &json!({}));
        match exists {
            Ok(_) => return Ok(false),
            Err(failure) if failure.step != Step::Program => return Err(failure),
            Err(_) => {}
        }
        // A cluster that does not tell its other servers still has those that the settings name.
        let told = self.line.client.server_info().connect_urls.len();
        let named = self.line.settings.url.split(',').filter(|one| !one.trim().is_empty()).count();
        let mut copies = told.max(named).clamp(1, MOST_COPIES);
        loop {
            match self.jetstream(&format!("STREAM.CREATE.{name}"), &stream(copies)) {
                Ok(_) => return Ok(true),
                // Not every server that was named keeps streams.
                Err(failure) if copies > 1 && failure.step == Step::Answer => copies -= 1,
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Takes a host out of the roster; `false` if it was not in it.
    pub fn forget(&self, host: &HostName) -> Result<bool, RoadFailure> {
        let ask = json!({"filter": roster_entry(host)});
        Ok(self.jetstream(&format!("STREAM.PURGE.{ROSTER_STREAM}"), &ask)?.purged > 0)
    }

    fn jetstream(&self, what: &str, ask: &Value) -> Result<Reply, RoadFailure> {
        let payload = serde_json::to_vec(ask).unwrap_or_default();
        let asked = self.line.request(format!("$JS.API.{what}"), payload, self.line.settings.timeout);
        let reply = self.block_on(asked).map_err(|why| unread(&why))?;
        let reply: Reply = serde_json::from_slice(&reply).map_err(|error| {
            RoadFailure::new(
                Step::Answer,
                format!("what the server says of the roster cannot be read: {error}"),
            )
        })?;
        match &reply.error {
            None => Ok(reply),
            Some(error) if error.err_code == NO_STREAM => {
                Err(RoadFailure::new(Step::Program, "the server keeps no roster yet")
                    .hint("`agentctl hosts init` makes it, with the credentials of an administrator"))
            }
            Some(error) => {
                Err(RoadFailure::new(Step::Answer, format!("the server refuses: {}", error.description)))
            }
        }
    }
}

fn unread(why: &Unanswered) -> RoadFailure {
    let failure = |words: &str, hint: &str| RoadFailure::new(Step::Answer, words).hint(hint);
    match why {
        Unanswered::NobodyListens => failure(
            "the server has no JetStream, so it keeps no roster",
            "switch JetStream on there, or name the hosts: `hosts = [\"…\"]` in `[nats]`",
        ),
        Unanswered::Silent => failure(
            "the server does not say who is in the roster",
            "has JetStream a leader, and may this user ask it? docs/hosts.md names the rights",
        ),
        Unanswered::Forbidden(words) => failure(
            &format!("this user may not: {words}"),
            "docs/hosts.md names the rights that each user needs",
        ),
        Unanswered::Failed(words) => {
            RoadFailure::new(Step::Connect, format!("the server was lost: {words}")).hint("try again")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_roster_forgets_nobody_by_itself() {
        let stream = stream(3);
        assert_eq!((&stream["max_age"], &stream["num_replicas"]), (&json!(0), &json!(3)));
        assert_eq!(stream["subjects"][0], "$KV.agentctl_hosts.>");
    }
}
