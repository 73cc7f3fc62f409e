//! Every route: where, what for, with which parameters and types, and who answers.

use agentctl_fleet::{AdapterEntry, Explanation, ListAnswer};
use agentctl_model::Session;
use axum::routing::{MethodRouter, delete, get, post};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::{App, DaemonStatus, daemon, events, fuses, messages, openapi, sessions, small};
use crate::events::Event;
use crate::fuses::{Extension, Fuse, FuseSpec};
use crate::query::{LIST, TARGET};

pub(crate) type Names = &'static [(&'static str, &'static str)];
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// What comes back.
pub(crate) enum Answers {
    Json(SchemaOf),
    /// Server-sent events whose data is this object.
    Events(SchemaOf),
    Text,
}

pub(crate) struct Operation {
    pub(crate) method: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) query: &'static [Names],
    pub(crate) body: Option<SchemaOf>,
    pub(crate) answers: Answers,
}

pub(crate) struct Route {
    pub(crate) path: &'static str,
    pub(crate) operations: &'static [Operation],
    pub(crate) handler: fn() -> MethodRouter<App>,
}

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

const fn reads(summary: &'static str, query: &'static [Names], answers: Answers) -> Operation {
    Operation { method: "get", summary, query, body: None, answers }
}

const fn writes(
    method: &'static str,
    summary: &'static str,
    body: Option<SchemaOf>,
    answer: SchemaOf,
) -> Operation {
    Operation { method, summary, query: &[], body, answers: Answers::Json(answer) }
}

pub(crate) const ROUTES: &[Route] = &[
    Route {
        path: "/v1/sessions",
        operations: &[reads(
            "Sessions, as `agentctl list --json` gives them",
            &[LIST],
            Answers::Json(of::<ListAnswer<'static>>),
        )],
        handler: || get(sessions::list),
    },
    Route {
        path: "/v1/sessions/{id}",
        operations: &[reads(
            "One session, by its id, the beginning of its id, or its name",
            &[TARGET],
            Answers::Json(of::<Session>),
        )],
        handler: || get(sessions::one),
    },
    Route {
        path: "/v1/sessions/{id}/explain",
        operations: &[reads(
            "Why a session has its status",
            &[TARGET],
            Answers::Json(of::<Explanation<'static>>),
        )],
        handler: || get(sessions::explain),
    },
    Route {
        path: "/v1/sessions/{id}/messages",
        operations: &[reads(
            "The last messages of a session, oldest first",
            &[TARGET, messages::PAGE],
            Answers::Json(of::<messages::Messages>),
        )],
        handler: || get(messages::page),
    },
    Route {
        path: "/v1/sessions/{id}/messages/stream",
        operations: &[reads(
            "The conversation as it goes on, until the session has stopped",
            &[TARGET, messages::BACKLOG],
            Answers::Events(of::<agentctl_model::Entry>),
        )],
        handler: || get(messages::stream),
    },
    Route {
        path: "/v1/events",
        operations: &[reads(
            "Every change as it happens; ids are cursors, Last-Event-ID or since goes on behind one",
            &[events::QUERY],
            Answers::Events(of::<Event>),
        )],
        handler: || get(events::stream),
    },
    Route {
        path: "/v1/fuses",
        operations: &[
            reads("Fuses that are set", &[], Answers::Json(of::<fuses::FuseList>)),
            writes("post", "Set a fuse on a directory or a session", Some(of::<FuseSpec>), of::<Fuse>),
        ],
        handler: || get(fuses::list).post(fuses::set),
    },
    Route {
        path: "/v1/fuses/{id}",
        operations: &[writes("delete", "Take a fuse away; nothing fires", None, of::<Fuse>)],
        handler: || delete(fuses::cancel),
    },
    Route {
        path: "/v1/fuses/{id}/extend",
        operations: &[writes("post", "Let a fuse burn longer", Some(of::<Extension>), of::<Fuse>)],
        handler: || post(fuses::extend),
    },
    Route {
        path: "/v1/adapters",
        operations: &[reads(
            "Which agents are known and what can be done with each",
            &[],
            Answers::Json(of::<Vec<AdapterEntry>>),
        )],
        handler: || get(small::adapters),
    },
    Route {
        path: "/v1/daemon",
        operations: &[reads("How the daemon is", &[], Answers::Json(of::<DaemonStatus>))],
        handler: || get(daemon::status),
    },
    Route {
        path: "/v1/daemon/stop",
        operations: &[writes("post", "End the daemon; agents go on", None, of::<daemon::Stopping>)],
        handler: || post(daemon::stop),
    },
    Route {
        path: "/metrics",
        operations: &[reads("Figures in the Prometheus text format", &[], Answers::Text)],
        handler: || get(small::metrics),
    },
    Route {
        path: "/healthz",
        operations: &[reads("Whether the daemon answers", &[], Answers::Json(of::<small::Health>))],
        handler: || get(small::health),
    },
    Route {
        path: "/openapi.json",
        operations: &[reads("This document", &[], Answers::Json(of::<serde_json::Value>))],
        handler: || get(openapi::serve),
    },
];
