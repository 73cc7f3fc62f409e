//! The two eras of the protocol. Until 2025-11-25 a connection begins with `initialize`; since 2026-07-28 every request
//! says for itself which version it means, and there is no handshake. A client may use both on one connection. Pure.

use serde_json::{Value, json};

use crate::rpc::Fault;

/// The versions that begin with `initialize`, newest last.
const GREETED: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// The versions without a handshake.
const SELF_CONTAINED: [&str; 1] = ["2026-07-28"];

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT: &str = "io.modelcontextprotocol/clientInfo";
const SERVER: &str = "io.modelcontextprotocol/serverInfo";

/// The tools are the same for as long as the process lives.
const FRESH_MS: u64 = 3_600_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    Greeted,
    SelfContained,
}

/// How a request is meant, and by whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Manner {
    pub(super) era: Era,
    /// The name and version of the client.
    pub(super) client: Option<String>,
}

impl Era {
    /// The result as its era wants it.
    pub(super) fn complete(self, mut result: Value) -> Value {
        if let (Self::SelfContained, Value::Object(object)) = (self, &mut result) {
            object.insert("resultType".into(), "complete".into());
        }
        result
    }

    /// A list that a client may keep.
    pub(super) fn cacheable(self, mut result: Value) -> Value {
        if let (Self::SelfContained, Value::Object(object)) = (self, &mut result) {
            object.insert("ttlMs".into(), FRESH_MS.into());
            object.insert("cacheScope".into(), "private".into());
        }
        result
    }
}

/// The answer to `initialize`: the version that was asked for, or the newest that has this handshake.
pub(super) fn greet(params: &Value, instructions: &str) -> Result<(Manner, Value), Fault> {
    let Some(asked) = params.get("protocolVersion").and_then(Value::as_str) else {
        return Err(Fault::invalid_params("`initialize` names a `protocolVersion`"));
    };
    let version = GREETED.iter().find(|known| **known == asked).or(GREETED.last()).copied();
    let manner = Manner { era: Era::Greeted, client: client(params.get("clientInfo")) };
    let answer = json!({
        "protocolVersion": version,
        "capabilities": capabilities(),
        "serverInfo": server(),
        "instructions": instructions,
    });
    Ok((manner, answer))
}

/// The answer to `server/discover`.
pub(super) fn discovered(instructions: &str) -> Value {
    let versions: Vec<&str> = GREETED.into_iter().chain(SELF_CONTAINED).collect();
    json!({
        "resultType": "complete",
        "supportedVersions": versions,
        "capabilities": capabilities(),
        "instructions": instructions,
        "ttlMs": FRESH_MS,
        "cacheScope": "private",
        "_meta": {SERVER: server()},
    })
}

/// How a request is meant: by what it says itself, or else by the handshake.
pub(super) fn manner(method: &str, params: &Value, greeted: Option<&Manner>) -> Result<Manner, Fault> {
    let meta = params.get("_meta");
    let said = |key: &str| meta.and_then(|meta| meta.get(key)).filter(|value| !value.is_null());
    match said(VERSION).map(Value::as_str) {
        Some(Some(version)) if SELF_CONTAINED.contains(&version) => {
            if !said(CAPABILITIES).is_some_and(Value::is_object) {
                return Err(Fault::invalid_params(format!(
                    "the `_meta` of the request lacks {CAPABILITIES}"
                )));
            }
            Ok(Manner { era: Era::SelfContained, client: client(said(CLIENT)) })
        }
        Some(Some(version)) if GREETED.contains(&version) => {
            let client = client(said(CLIENT)).or_else(|| greeted.and_then(|known| known.client.clone()));
            Ok(Manner { era: Era::Greeted, client })
        }
        Some(version) => {
            let supported: Vec<&str> = GREETED.into_iter().chain(SELF_CONTAINED).collect();
            let data = json!({"requested": version, "supported": supported});
            Err(Fault::new(-32022, "Unsupported protocol version").with(data))
        }
        None => match greeted {
            Some(known) => Ok(known.clone()),
            // Whether somebody is there may be asked at any time.
            None if method == "ping" => Ok(Manner { era: Era::Greeted, client: None }),
            None => Err(Fault::invalid_params(format!(
                "say `initialize` first, or give each request its `_meta` with {VERSION} and {CAPABILITIES}"
            ))),
        },
    }
}

fn capabilities() -> Value {
    json!({"tools": {"listChanged": false}})
}

fn server() -> Value {
    json!({"name": "agentctl", "title": "agentctl", "version": env!("CARGO_PKG_VERSION")})
}

/// A client's words about itself end up in events, so they are short and on one line.
fn client(info: Option<&Value>) -> Option<String> {
    let said = |key: &str| info.and_then(|info| info.get(key)).and_then(Value::as_str);
    let name = said("name")?;
    let whole = said("version").map_or_else(|| name.to_owned(), |version| format!("{name} {version}"));
    Some(agentctl_model::text::one_line(&whole).chars().take(100).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inline(version: &str) -> Value {
        json!({"_meta": {VERSION: version, CAPABILITIES: {}, CLIENT: {"name": "c", "version": "2"}}})
    }

    #[test]
    fn a_handshake_agrees_on_what_both_know() {
        for (asked, agreed) in [
            ("2024-11-05", "2024-11-05"),
            ("2025-11-25", "2025-11-25"),
            ("2026-07-28", "2025-11-25"),
            ("1999-01-01", "2025-11-25"),
        ] {
            let (manner, answer) = greet(&json!({"protocolVersion": asked}), "").unwrap();
            assert_eq!((answer["protocolVersion"].as_str(), manner.client), (Some(agreed), None));
        }
        assert_eq!(greet(&json!({}), "").unwrap_err().code, -32602);
    }

    #[test]
    fn both_eras_are_understood_on_one_connection() {
        let greeted = Manner { era: Era::Greeted, client: Some("old 1".into()) };
        let of = |params: &Value, greeted| manner("tools/list", params, greeted);
        assert_eq!(of(&json!({}), Some(&greeted)), Ok(greeted.clone()));
        let new = of(&inline("2026-07-28"), Some(&greeted)).unwrap();
        assert_eq!(new, Manner { era: Era::SelfContained, client: Some("c 2".into()) });
        assert_eq!(of(&inline("2026-07-28"), None), Ok(new));
        assert_eq!(of(&json!({}), None).unwrap_err().code, -32602);
        assert_eq!(of(&inline("2031-01-01"), None).unwrap_err().code, -32022);
        assert_eq!(of(&json!({"_meta": {VERSION: "2026-07-28"}}), None).unwrap_err().code, -32602);
        assert!(manner("ping", &Value::Null, None).is_ok());
    }

    #[test]
    fn only_the_new_era_has_the_new_fields() {
        let listed = |era: Era| era.complete(era.cacheable(json!({"tools": []})));
        assert_eq!(listed(Era::Greeted), json!({"tools": []}));
        let new = listed(Era::SelfContained);
        assert_eq!((&new["resultType"], &new["cacheScope"]), (&json!("complete"), &json!("private")));
        assert!(new["ttlMs"].is_u64());
    }
}
