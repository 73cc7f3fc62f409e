//! One line of JSON-RPC: what it is, or why it is nothing. Pure.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The id of a request: a number or a text.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub(crate) struct Id(Value);

impl Id {
    pub(crate) fn of(value: &Value) -> Option<Self> {
        matches!(value, Value::Number(_) | Value::String(_)).then(|| Self(value.clone()))
    }

    /// The same id has the same key, and a number never the key of a text.
    pub(super) fn key(&self) -> String {
        self.0.to_string()
    }
}

impl From<u64> for Id {
    fn from(number: u64) -> Self {
        Self(number.into())
    }
}

/// Why a request was not answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Fault {
    pub(crate) code: i64,
    #[serde(default)]
    pub(crate) message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<Value>,
}

impl Fault {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub(crate) fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(-32600, message)
    }

    pub(crate) fn no_such_method(method: &str) -> Self {
        let method: String = agentctl_model::text::one_line(method).chars().take(100).collect();
        Self::new(-32601, format!("there is no method {method}"))
    }

    pub(crate) fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(-32603, message)
    }

    pub(crate) fn busy(message: impl Into<String>) -> Self {
        Self::new(-32000, message)
    }

    pub(crate) fn with(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
    }
}

/// One line.
#[derive(Debug, PartialEq)]
pub(crate) enum Incoming {
    Request {
        id: Id,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    Response {
        id: Id,
        outcome: Result<Value, Fault>,
    },
    /// It is answered with an error, under its id where it has one.
    Nonsense {
        id: Option<Id>,
        fault: Fault,
    },
}

pub(crate) fn parse(line: &[u8]) -> Incoming {
    let nonsense = |id, fault| Incoming::Nonsense { id, fault };
    let mut object = match serde_json::from_slice(line) {
        Ok(Value::Object(object)) => object,
        Ok(Value::Array(_)) => {
            return nonsense(None, Fault::invalid_request("each message stands on a line of its own"));
        }
        Ok(_) => return nonsense(None, Fault::invalid_request("a message is a JSON object")),
        Err(error) => {
            let (column, words) = (error.column(), "this line is not JSON");
            return nonsense(None, Fault::new(-32700, format!("{words} (column {column})")));
        }
    };
    let given = object.get("id").filter(|id| !id.is_null()).cloned();
    let id = given.as_ref().and_then(Id::of);
    if given.is_some() && id.is_none() {
        return nonsense(None, Fault::invalid_request("an id is a number or a text"));
    }
    match (object.remove("method"), id) {
        (Some(Value::String(method)), id) => {
            let params = object.remove("params").unwrap_or(Value::Null);
            match id {
                Some(id) => Incoming::Request { id, method, params },
                None => Incoming::Notification { method, params },
            }
        }
        (None, Some(id)) if object.contains_key("error") => {
            let fault = object.remove("error").and_then(|error| serde_json::from_value(error).ok());
            let fault = fault.unwrap_or_else(|| Fault::internal("an error without words"));
            Incoming::Response { id, outcome: Err(fault) }
        }
        (None, Some(id)) if object.contains_key("result") => {
            Incoming::Response { id, outcome: Ok(object.remove("result").unwrap_or_default()) }
        }
        (_, id) => nonsense(id, Fault::invalid_request("a message has a method, a result or an error")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_kind_is_told_apart() {
        let is = |line: &str| parse(line.as_bytes());
        assert!(matches!(is(r#"{"id":1,"method":"a"}"#), Incoming::Request { params: Value::Null, .. }));
        assert!(matches!(is(r#"{"id":null,"method":"a"}"#), Incoming::Notification { .. }));
        assert!(matches!(
            is(r#"{"id":"1","result":null}"#),
            Incoming::Response { outcome: Ok(Value::Null), .. }
        ));
        assert!(matches!(
            is(r#"{"id":"1","error":{"code":-1}}"#),
            Incoming::Response { outcome: Err(_), .. }
        ));
        assert!(matches!(is(r#"{"id":1,"method":5}"#), Incoming::Nonsense { id: Some(_), .. }));
        assert_ne!(Id::of(&1.into()).unwrap().key(), Id::of(&"1".into()).unwrap().key());
    }

    proptest! {
        #[test]
        fn whatever_comes_is_something(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            parse(&line);
        }
    }
}
