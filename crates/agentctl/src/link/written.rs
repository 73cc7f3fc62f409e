//! A list as the daemon wrote it.

use agentctl_model::SourceReport;
use serde::Deserialize;

/// The list as JSON. A long one need not be parsed and serialized again.
pub(crate) struct Written {
    pub(crate) body: Vec<u8>,
    pub(crate) sources: Vec<SourceReport>,
}

#[derive(Deserialize)]
struct Health {
    sources: Vec<SourceReport>,
}

impl Written {
    /// `None` if it is not a list.
    pub(crate) fn of(body: Vec<u8>) -> Option<Self> {
        let Health { sources } = last_members(&body).or_else(|| serde_json::from_slice(&body).ok())?;
        Some(Self { body, sources })
    }
}

/// The members after the sessions, without a look at ten thousand of those. What follows the last such key and closes
/// the answer is its own: inside a text the quotes of the key would be escaped, and no later object has this key.
fn last_members(body: &[u8]) -> Option<Health> {
    const END_OF_SESSIONS: &[u8] = b"],\"sources\":";
    let at = memchr::memmem::rfind(body, END_OF_SESSIONS)?;
    let rest = &body[at + 2..];
    let mut members = Vec::with_capacity(rest.len() + 1);
    members.push(b'{');
    members.extend_from_slice(rest);
    serde_json::from_slice(&members).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"{"adapter":"codex","root":"/r","host":"h","coverage":"partial","error":null,"warnings":["],\"sources\":["],"sessions":1,"tookMs":2}"#;

    fn adapters(body: &str) -> Option<Vec<String>> {
        let written = Written::of(body.as_bytes().to_vec())?;
        assert_eq!(written.body, body.as_bytes());
        Some(written.sources.into_iter().map(|source| source.adapter).collect())
    }

    #[test]
    fn the_sources_are_those_of_the_answer_and_not_of_a_session() {
        let hostile = r#"{"id":"a","meta":{"x":[1],"sources":[]},"prompt":"],\"sources\":[]}"}"#;
        let body = format!(r#"{{"asOf":"x","sessions":[{hostile}],"sources":[{SOURCE}],"hosts":[]}}"#);
        assert_eq!(adapters(&body).unwrap(), ["codex"]);
        assert!(last_members(body.as_bytes()).is_some(), "the sessions need not be read");
    }

    #[test]
    fn another_order_of_the_members_is_read_slowly() {
        let body = format!(r#"{{"sources":[{SOURCE}],"hosts":[],"sessions":[{{"a":[1],"sources":2}}]}}"#);
        assert_eq!(adapters(&body).unwrap(), ["codex"]);
        assert!(adapters(r#"{"sessions":[],"sources":["#).is_none());
        assert!(adapters("").is_none());
    }
}
