//! Connects to gateways and acts on their sessions. Only the next survey says what is true afterwards.

use std::path::Path;

use agentctl_model::text::one_line;
use agentctl_model::{Entry, Error, ErrorKind, Permission, Session};

use super::OpenClaw;
use super::client::error::GatewayError;
use super::client::gateway_client::{Decision, GatewayClient, Launch};
use super::client::rows::Approval;
use super::conversation::follow::{Follower, read_all, read_last};
use super::settings::address::Address;
use crate::gateway::{Addressee, Begun, Request, TurnRequest};
use crate::hold::Decision as Given;
use crate::{Answer, Conversation, Follow, Keys, ReadError, Root};

impl crate::Gateway for OpenClaw {
    fn root_at(&self, address: &str, keys: Keys) -> Option<Root> {
        Address::parse(address).map(|address| Root { keys: Some(keys), ..Root::at(address.to_string()) })
    }

    fn wants_device(&self, root: &Root) -> bool {
        address(root).is_some_and(|address| !address.is_loopback())
    }

    fn read(&self, root: &Root, id: &str, limit: usize) -> Result<Vec<Entry>, ReadError> {
        read_last(root, id, limit)
    }

    fn conversation(&self, root: &Root, id: &str) -> Conversation<'_> {
        let (root, id) = (root.clone(), id.to_owned());
        Conversation::records(move |_| read_all(&root, &id))
    }

    fn follow(&self, root: &Root, id: &str, backlog: usize) -> Result<Box<dyn Follow>, ReadError> {
        Ok(Box::new(Follower::start(root, id, backlog)))
    }

    fn is_reachable(&self, root: &Root) -> bool {
        GatewayClient::of(root).is_some()
    }

    fn is_here(&self, root: &Root) -> bool {
        address(root).is_some_and(|address| address.is_loopback())
    }

    /// A host name alone is accepted too; if several gateways run on one host, the port distinguishes them.
    fn is_meant(&self, root: &Root, said: &str) -> bool {
        let Some(address) = address(root) else { return false };
        let said = said.trim();
        match Address::parse(said) {
            Some(whole) => whole == address,
            None => [&address.host, &address.authority()].iter().any(|name| said.eq_ignore_ascii_case(name)),
        }
    }

    fn request(&self, root: &Root, turn: &TurnRequest<'_>) -> Result<Request, Error> {
        gateway_of(root)?;
        let to = root.path.to_string_lossy().into_owned();
        Ok(match turn.session {
            Some(key) => Request {
                to,
                method: "sessions.send",
                params: GatewayClient::message(key, turn.words, Some(turn.once)),
            },
            None => Request { to, method: "sessions.create", params: launch(turn)?.params() },
        })
    }

    fn begin(&self, root: &Root, turn: &TurnRequest<'_>) -> Result<Begun, Error> {
        let gateway = gateway_of(root)?;
        if let Some(key) = turn.session {
            let sent =
                gateway.send(key, turn.words, Some(turn.once)).map_err(|error| server_error(&error))?;
            return Ok(Begun { id: key.to_owned(), run: sent.run_id });
        }
        let launched = gateway.launch(&launch(turn)?).map_err(|error| server_error(&error))?;
        Ok(Begun { id: launched.key, run: launched.run_id })
    }

    /// An active run can only be this one or one that it waits for; afterwards the row names the last run.
    fn shows(&self, session: &Session, begun: &Begun) -> bool {
        use agentctl_model::Status::{Running, Waiting};
        let last = session.meta.get("lastRunId").and_then(serde_json::Value::as_str);
        matches!(session.status, Running | Waiting) || (last.is_some() && last == begun.run.as_deref())
    }

    fn stop(&self, root: &Root, id: &str) -> Result<bool, Error> {
        gateway_of(root)?.stop(id).map(|stopped| stopped.aborted).map_err(|error| server_error(&error))
    }

    fn send(&self, root: &Root, id: &str, words: &str, once: &str) -> Result<(), Error> {
        gateway_of(root)?.send(id, words, Some(once)).map(drop).map_err(|error| server_error(&error))
    }

    /// A named session must exist; an agent has its main session, which its first message creates.
    fn tell(&self, root: &Root, to: &Addressee, words: &str, once: &str) -> Result<(), Error> {
        let gateway = gateway_of(root)?;
        let told = match (&to.session, &to.agent) {
            (Some(session), agent) => {
                gateway.send(&key_of(session, agent.as_deref()), words, Some(once)).map(drop)
            }
            (None, Some(agent)) => gateway.chat(&key_of("main", Some(agent)), words, once),
            (None, None) => return Err(Error::refused("nobody is named who could be told")),
        };
        told.map_err(|error| server_error(&error))
    }

    /// Answers the approval that is named, and no other in its place. It is looked up now: what a list showed before may
    /// already be answered.
    fn answer(&self, root: &Root, id: &str, answer: &Answer) -> Result<(), Error> {
        let decision = match &answer.decision {
            Given::AllowOnce => Decision::AllowOnce,
            Given::Deny { .. } => Decision::Deny,
            Given::AllowAlways => return Err(Error::refused("it can be approved once only")),
            Given::Text(_) => {
                let reason = "OpenClaw asks for approvals only, which take no text";
                return Err(Error::refused(reason).hint(format!(
                    "`agentctl approve {id}` or `agentctl deny {id}`, or `agentctl send {id} ...`"
                )));
            }
        };
        let gateway = gateway_of(root)?;
        let of_session = gateway.approvals().map_err(|error| server_error(&error))?.into_iter();
        let waiting: Vec<Approval> =
            of_session.filter(|one| one.request.session_key.as_deref() == Some(id)).collect();
        let meant = meant(&waiting, id, answer.request.as_deref())?;
        gateway.decide(&meant.id, decision).map_err(|error| server_error(&error))
    }
}

/// The approval that an answer goes to. Without a name there must be one only: nobody has decided about the others.
fn meant<'w>(waiting: &'w [Approval], id: &str, request: Option<&str>) -> Result<&'w Approval, Error> {
    let refused = |words: String| Error::refused(words).hint("`agentctl inbox` shows what waits");
    match (request, waiting) {
        (Some(request), _) => waiting.iter().find(|one| one.id == request).ok_or_else(|| {
            refused(format!("session {id} does not wait for an answer to {} any more", one_line(request)))
        }),
        (None, [only]) => Ok(only),
        (None, []) => Err(refused(format!("session {id} waits for no approval that this machine may see"))),
        (None, several) => {
            let names: Vec<String> = several.iter().map(|one| one_line(&one.id)).collect();
            let words = format!("session {id} waits for several answers: {}", names.join(", "));
            Err(Error::new(ErrorKind::Ambiguous, words).hint("name one of them with --request"))
        }
    }
}

fn address(root: &Root) -> Option<Address> {
    Address::parse(root.path.to_str()?)
}

/// The key as the gateway spells it: a complete key names its agent.
fn key_of(session: &str, agent: Option<&str>) -> String {
    match agent {
        Some(agent) if !session.starts_with("agent:") => format!("agent:{agent}:{session}"),
        _ => session.to_owned(),
    }
}

fn gateway_of(root: &Root) -> Result<GatewayClient, Error> {
    GatewayClient::of(root).ok_or_else(|| {
        Error::refused(format!("no gateway is known: {} is no address of one", root.path.display())).hint(
            "set OPENCLAW_GATEWAY_URL, or name it in config.toml as one of `gateways` of [adapters.openclaw]",
        )
    })
}

fn launch<'a>(turn: &TurnRequest<'a>) -> Result<Launch<'a>, Error> {
    let permission_mode = match turn.permission {
        None | Some(Permission::Default) => None,
        Some(Permission::Plan) => Some("read-only"),
        // It may write in its directory, and a person approves every command.
        Some(Permission::AcceptEdits) => Some("guarded"),
        Some(Permission::Bypass) => Some("full"),
    };
    let cwd = turn.cwd.map(|cwd| text(cwd)).transpose()?;
    // Without `once`: for a new session a gateway accepts it only from known devices, and this is never sent twice.
    Ok(Launch { message: turn.words, model: turn.model, cwd, permission_mode, ..Launch::default() })
}

fn text(cwd: &Path) -> Result<&str, Error> {
    cwd.to_str().ok_or_else(|| Error::refused(format!("the folder has no name in text: {}", cwd.display())))
}

/// A refusal by the gateway is final. If its answer was not received completely, the request may still have been
/// carried out.
fn server_error(error: &GatewayError) -> Error {
    match error {
        // "Not now" is not a refusal: the gateway is starting, stopping or busy.
        GatewayError::Refused { refusal, .. } if refusal.is_temporary() => {
            Error::no_answer(error.to_string())
        }
        GatewayError::Refused { .. } | GatewayError::NoScope { .. } | GatewayError::Unsafe(_) => {
            Error::refused(error.to_string())
        }
        GatewayError::Unreachable(_) => Error::no_answer(format!("the gateway is not there: {error}")),
        GatewayError::Lost { .. }
        | GatewayError::Silent { .. }
        | GatewayError::Odd { .. }
        | GatewayError::TooHeavy { .. }
        | GatewayError::Unwanted => {
            Error::no_answer(format!("{error}; whether the gateway took it is not known"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Gateway as _;
    use serde_json::json;

    fn turn(session: Option<&'static str>) -> TurnRequest<'static> {
        TurnRequest { session, words: "go", model: None, permission: None, cwd: None, once: "o-1" }
    }

    #[test]
    fn requests_say_only_what_was_asked_for() {
        let root = Root::at("ws://127.0.0.1:7");
        let params = |turn: TurnRequest<'_>| OpenClaw.request(&root, &turn).unwrap().params;
        assert_eq!(params(turn(None)), json!({"message": "go"}));
        assert_eq!(params(turn(Some("k"))), json!({"key": "k", "message": "go", "idempotencyKey": "o-1"}));
        let whole = TurnRequest { model: Some("fake/one"), cwd: Some(Path::new("/w")), ..turn(None) };
        for (permission, word) in [
            (Permission::Plan, "read-only"),
            (Permission::AcceptEdits, "guarded"),
            (Permission::Bypass, "full"),
        ] {
            let params = params(TurnRequest { permission: Some(permission), ..whole });
            assert_eq!((&params["permissionMode"], &params["cwd"]), (&json!(word), &json!("/w")));
        }
        assert!(
            params(TurnRequest { permission: Some(Permission::Default), ..whole })["permissionMode"]
                .is_null()
        );
    }

    #[test]
    fn a_session_is_named_whole_or_within_its_agent() {
        assert_eq!(key_of("agent:main:x", None), "agent:main:x");
        assert_eq!(key_of("agent:main:x", Some("other")), "agent:main:x");
        assert_eq!(key_of("x", Some("ops")), "agent:ops:x");
        assert_eq!(key_of("x", None), "x");
    }

    #[test]
    fn a_gateway_is_meant_by_its_address_or_its_host() {
        let root = Root::at("ws://box.local:18789");
        for said in ["ws://box.local:18789", "WS://Box.local", "box.local", "box.local:18789", " box.local "]
        {
            assert!(OpenClaw.is_meant(&root, said), "{said}");
        }
        for said in ["wss://box.local:18789", "box.local:1", "box", "", "ws://box.local:18789/other"] {
            assert!(!OpenClaw.is_meant(&root, said), "{said}");
        }
        assert!(!OpenClaw.is_here(&root) && OpenClaw.is_here(&Root::at("ws://[::1]:7")));
        assert!(!OpenClaw.is_meant(&Root::at("/home/dev/.openclaw"), "/home/dev/.openclaw"));
    }

    #[test]
    fn an_answer_goes_to_the_approval_that_it_names() {
        let approval = |id: &str| Approval {
            id: id.to_owned(),
            request: super::super::ApprovalRequest::default(),
            created_at_ms: None,
        };
        let both = [approval("early"), approval("late")];
        let chosen = |waiting: &[Approval], request| meant(waiting, "k", request).map(|one| one.id.clone());
        assert_eq!(chosen(&both, Some("late")).unwrap(), "late");
        assert_eq!(chosen(&both[1..], None).unwrap(), "late");
        let kind = |waiting: &[Approval], request| chosen(waiting, request).unwrap_err().kind;
        assert_eq!(kind(&both[..1], Some("late")), ErrorKind::Refused, "it is gone");
        assert_eq!(kind(&both, None), ErrorKind::Ambiguous);
        assert_eq!(kind(&[], None), ErrorKind::Refused);
    }

    #[test]
    fn a_folder_is_no_gateway() {
        let refused = OpenClaw.request(&Root::at("/home/dev/.openclaw"), &turn(None)).unwrap_err();
        assert!(refused.message.contains("/home/dev/.openclaw is no address"), "{refused:?}");
    }
}
