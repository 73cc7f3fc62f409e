//! The fuse that a caller wants to set, checked before anything is written. Pure.

use agentctl_fleet::Selector;
use agentctl_fleet::keep::outbox::is_address;
use agentctl_model::text::period;
use agentctl_model::{Fuse, OnExpire, Period, SessionKey, Stage};
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::serve::api::{AbsolutePath, AdapterName, Length};

/// The body of `POST /v1/fuses`: a directory with a time to live, a session with limits, or a directory with a budget.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("anyOf" = [{"required": ["directory", "ttl"]}, {"required": ["session"]}, {"required": ["directory", "per"]}]))]
pub(crate) struct FuseSpec {
    /// An absolute path.
    #[schemars(with = "Option<AbsolutePath>")]
    pub(crate) directory: Option<String>,
    /// How long until a directory's fuse expires: 10m, 2h.
    #[schemars(with = "Option<Length>")]
    pub(crate) ttl: Option<String>,
    /// A session: full id, unique beginning of one, or exact name.
    pub(crate) session: Option<String>,
    /// Only sessions of this agent; a budget of this agent alone.
    #[schemars(with = "Option<AdapterName>")]
    pub(crate) adapter: Option<String>,
    /// Only sessions stored under this config root.
    pub(crate) root: Option<String>,
    /// Only sessions that work in this folder.
    pub(crate) cwd: Option<String>,
    /// How long a session may go on from now.
    #[schemars(with = "Option<Length>")]
    pub(crate) max_time: Option<String>,
    pub(crate) max_tokens: Option<u64>,
    /// In US dollars.
    pub(crate) max_cost: Option<f64>,
    /// The period of a budget: what the sessions of the directory may spend in each, by the machine's time zone.
    pub(crate) per: Option<Period>,
    pub(crate) label: Option<String>,
    #[serde(default)]
    pub(crate) on_expire: OnExpire,
}

/// The body of `POST /v1/fuses/{id}/extend`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Extension {
    /// How long until it expires, from now: 10m, 2h.
    #[schemars(with = "Length")]
    pub(crate) ttl: String,
}

/// What is wrong with the request, as a sentence for the caller.
pub(crate) type SpecError = String;

impl FuseSpec {
    /// The session that the request names, if any.
    pub(crate) fn selector(&self) -> Option<Selector> {
        let text = self.session.clone()?;
        Some(Selector { text, adapter: self.adapter.clone(), root: self.root.clone(), cwd: self.cwd.clone() })
    }

    /// The requested fuse. `found` is the session that was looked up for it, if the request named one.
    pub(crate) fn fuse(
        self,
        id: String,
        found: Option<SessionKey>,
        now: Timestamp,
    ) -> Result<Fuse, SpecError> {
        let limits = self.max_time.is_some() || self.max_tokens.is_some() || self.max_cost.is_some();
        let (is_budget, is_elsewhere) = (self.per.is_some(), self.root.is_some() || self.cwd.is_some());
        let narrowed = is_elsewhere || (self.adapter.is_some() && !is_budget);
        let spends = self.max_tokens.is_some() || self.max_cost.is_some();
        match (&self.directory, &found) {
            (Some(_), None) if narrowed => return Err("adapter, root and cwd narrow a session".into()),
            (Some(_), Some(_)) => return Err("a fuse is on a directory or on a session, not on both".into()),
            (None, None) => return Err("a fuse needs a directory or a session".into()),
            (None, Some(_)) if is_budget => return Err("a budget is of a directory, not of a session".into()),
            (Some(_), None) if is_budget && (self.ttl.is_some() || self.max_time.is_some()) => {
                return Err("a budget ends with its period; it has no time of its own".into());
            }
            (Some(_), None) if is_budget && !spends => {
                return Err("a budget needs max-cost or max-tokens".into());
            }
            (Some(_), None) if limits && !is_budget => {
                return Err("a directory has a ttl, or a budget per day, week or month".into());
            }
            (Some(directory), None) if !directory.starts_with('/') => {
                return Err(format!("`{directory}` is no absolute path"));
            }
            (Some(_), None) if self.ttl.is_none() && !is_budget => {
                return Err("a directory's fuse needs a ttl".into());
            }
            (None, Some(_)) if self.ttl.is_some() => {
                return Err("a session's fuse has max-time, not a ttl".into());
            }
            (None, Some(_)) if !limits => {
                return Err("a session's fuse needs max-time, max-tokens or max-cost".into());
            }
            _ => {}
        }
        if self.max_cost.is_some_and(|cost| !cost.is_finite() || cost <= 0.0) || self.max_tokens == Some(0) {
            return Err("a limit must be more than nothing".into());
        }
        let webhook = self.on_expire.webhook.as_deref();
        if webhook.is_some_and(|url| !is_address(url)) {
            return Err("the webhook is no address, expected https://… or http://…".into());
        }
        let length = self.ttl.as_deref().or(self.max_time.as_deref());
        Ok(Fuse {
            id,
            directory: self.directory,
            adapter: found.as_ref().map(|key| key.adapter.clone()).or(self.adapter.filter(|_| is_budget)),
            config_root: found.as_ref().map(|key| key.root.clone()),
            variant: found.as_ref().and_then(|key| key.variant.clone()),
            session_id: found.map(|key| key.id),
            label: self.label,
            set_at: now,
            expires_at: length.map(|length| deadline(length, now)).transpose()?,
            max_tokens: self.max_tokens,
            max_cost: self.max_cost,
            per: self.per,
            on_expire: self.on_expire,
            stage: Stage::Set,
            stage_at: now,
            spent: None,
            resume: None,
        })
    }
}

/// The moment that lies this long after `now`.
pub fn deadline(length: &str, now: Timestamp) -> Result<Timestamp, String> {
    let length = period::parse_duration(length)?;
    if length.is_zero() {
        return Err("it must be longer than nothing".to_owned());
    }
    let far = || "that is too far away".to_owned();
    let length = SignedDuration::try_from(length).map_err(|_| far())?;
    now.checked_add(length).map_err(|_| far())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fuse(json: &str, found: bool) -> Result<Fuse, SpecError> {
        let key = SessionKey { adapter: "codex".into(), root: "/r".into(), id: "s".into(), variant: None };
        let spec: FuseSpec = serde_json::from_str(json).unwrap();
        spec.fuse("f".into(), found.then_some(key), Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn only_what_makes_sense_is_set() {
        let set = fuse(r#"{"directory":"/x","ttl":"10m","onExpire":{"event":"cleanup"}}"#, false).unwrap();
        assert_eq!(set.expires_at, Some("1970-01-01T00:10:00Z".parse().unwrap()));
        let set = fuse(r#"{"session":"s","maxTokens":5}"#, true).unwrap();
        assert_eq!((set.expires_at, set.session_id.as_deref()), (None, Some("s")));
        let set = fuse(r#"{"directory":"/x","maxCost":20,"per":"day","adapter":"pi"}"#, false).unwrap();
        assert_eq!((set.per, set.adapter.as_deref(), set.expires_at), (Some(Period::Day), Some("pi"), None));
        assert_eq!(set.session(), None);
        for (json, found) in [
            (r#"{"directory":"/x","per":"day"}"#, false),
            (r#"{"directory":"/x","per":"day","maxCost":0}"#, false),
            (r#"{"directory":"/x","per":"day","maxCost":1,"ttl":"1m"}"#, false),
            (r#"{"directory":"/x","per":"day","maxCost":1,"cwd":"/y"}"#, false),
            (r#"{"directory":"/x","maxCost":1}"#, false),
            (r#"{"session":"s","maxCost":1,"per":"day"}"#, true),
            (r#"{"ttl":"10m"}"#, false),
            (r#"{"directory":"/x"}"#, false),
            (r#"{"directory":"x","ttl":"10m"}"#, false),
            (r#"{"directory":"/x","ttl":"soon"}"#, false),
            (r#"{"directory":"/x","ttl":"0s"}"#, false),
            (r#"{"directory":"/x","ttl":"1m","adapter":"codex"}"#, false),
            (r#"{"directory":"/x","ttl":"99999999999w"}"#, false),
            (r#"{"directory":"/x","ttl":"1m","maxTokens":1}"#, false),
            (r#"{"directory":"/x","ttl":"1m","session":"s"}"#, true),
            (r#"{"directory":"/x","ttl":"1m","onExpire":{"webhook":"file:///etc"}}"#, false),
            (r#"{"session":"s"}"#, true),
            (r#"{"session":"s","ttl":"1m"}"#, true),
            (r#"{"session":"s","maxTokens":0}"#, true),
            (r#"{"session":"s","maxCost":-1}"#, true),
        ] {
            assert!(fuse(json, found).is_err(), "{json}");
        }
    }
}
