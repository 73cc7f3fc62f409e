//! Every route: where, what for, with which parameters and types, and who answers.

use agentctl_fleet::groups::{GroupDiff, GroupLaunch, GroupList, GroupView};
use agentctl_fleet::inbox::{Inbox, PutAwayReport};
use agentctl_fleet::locks::LockList;
use agentctl_fleet::speak::Taken;
use agentctl_fleet::stop::StopAnswer;
use agentctl_fleet::worktree::{Cleaned, NewTree, Trees};
use agentctl_fleet::{AdapterEntry, DirectoryHolder, Explanation, ListAnswer};
use agentctl_model::Session;
use axum::routing::{MethodRouter, delete, get, post};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::{
    App, DaemonStatus, daemon, events, fuses, groups, inbox, launch, locks, messages, openapi, sessions,
    small, steer, worktrees,
};
use crate::events::Event;
use crate::fuses::{Extension, Fuse, FuseList, FuseSpec};
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

/// A write about one session, which the query may narrow.
const fn steers(summary: &'static str, body: SchemaOf, answer: SchemaOf) -> Operation {
    Operation { method: "post", summary, query: &[TARGET], body: Some(body), answers: Answers::Json(answer) }
}

pub(crate) const ROUTES: &[Route] = &[
    Route {
        path: "/v1/sessions",
        operations: &[
            reads(
                "Sessions, as `agentctl list --json` gives them",
                &[LIST],
                Answers::Json(of::<ListAnswer<'static>>),
            ),
            writes(
                "post",
                "Launch an agent; the answer comes with its session's own id, once its turn is seen",
                Some(of::<launch::LaunchBody>),
                of::<Session>,
            ),
        ],
        handler: || get(sessions::list).post(launch::launch),
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
        path: "/v1/sessions/{id}/stop",
        operations: &[steers(
            "End a session with all its processes, the clean way first",
            of::<steer::StopBody>,
            of::<StopAnswer>,
        )],
        handler: || post(steer::stop),
    },
    Route {
        path: "/v1/sessions/{id}/resume",
        operations: &[steers(
            "Say something further to a session that is not running",
            of::<launch::ResumeBody>,
            of::<Session>,
        )],
        handler: || post(launch::resume),
    },
    Route {
        path: "/v1/sessions/{id}/send",
        operations: &[steers(
            "Say something to a live session, where its agent offers a way in",
            of::<steer::SendBody>,
            of::<Taken>,
        )],
        handler: || post(steer::send),
    },
    Route {
        path: "/v1/sessions/{id}/answer",
        operations: &[steers(
            "Approve, deny or answer what a session waits for, where its agent offers a way in",
            of::<steer::AnswerBody>,
            of::<Taken>,
        )],
        handler: || post(steer::give),
    },
    Route {
        path: "/v1/inbox",
        operations: &[reads(
            "What waits for a person, longest first",
            &[inbox::QUERY],
            Answers::Json(of::<Inbox>),
        )],
        handler: || get(inbox::list),
    },
    Route {
        path: "/v1/inbox/{id}/done",
        operations: &[Operation {
            method: "post",
            summary: "Put the failure of a session away until its next turn",
            query: &[TARGET],
            body: None,
            answers: Answers::Json(of::<PutAwayReport>),
        }],
        handler: || post(inbox::done),
    },
    Route {
        path: "/v1/groups",
        operations: &[
            reads("Sessions that were launched together", &[], Answers::Json(of::<GroupList>)),
            writes(
                "post",
                "Launch several agents side by side; one that fails does not fail the others",
                Some(of::<launch::GroupBody>),
                of::<GroupLaunch>,
            ),
        ],
        handler: || get(groups::list).post(launch::group),
    },
    Route {
        path: "/v1/groups/{id}",
        operations: &[reads(
            "One group side by side: status, time, tokens, cost, changes",
            &[],
            Answers::Json(of::<GroupView>),
        )],
        handler: || get(groups::show),
    },
    Route {
        path: "/v1/groups/{id}/diff",
        operations: &[reads(
            "What each slot of a group has done in its working tree, committed or not",
            &[groups::DIFF],
            Answers::Json(of::<GroupDiff>),
        )],
        handler: || get(groups::diff),
    },
    Route {
        path: "/v1/groups/{id}/stop",
        operations: &[writes(
            "post",
            "End every session of a group that lives, and take back what is only starting",
            Some(of::<steer::StopBody>),
            of::<StopAnswer>,
        )],
        handler: || post(groups::stop),
    },
    Route {
        path: "/v1/locks",
        operations: &[
            reads("Who holds which directory", &[], Answers::Json(of::<LockList>)),
            writes(
                "post",
                "Lock a directory and what is below it",
                Some(of::<locks::LockBody>),
                of::<DirectoryHolder>,
            ),
            Operation {
                method: "delete",
                summary: "Unlock a directory, whoever locked it by hand",
                query: &[locks::DIRECTORY],
                body: None,
                answers: Answers::Json(of::<DirectoryHolder>),
            },
        ],
        handler: || get(locks::list).post(locks::lock).delete(locks::unlock),
    },
    Route {
        path: "/v1/worktrees",
        operations: &[
            reads(
                "The working trees of a repository, and who is in them",
                &[worktrees::REPOSITORY],
                Answers::Json(of::<Trees>),
            ),
            writes(
                "post",
                "Make a working tree beside its repository",
                Some(of::<worktrees::CreateBody>),
                of::<NewTree>,
            ),
        ],
        handler: || get(worktrees::list).post(worktrees::create),
    },
    Route {
        path: "/v1/worktrees/clean",
        operations: &[writes(
            "post",
            "Remove working trees, unless something would be lost or somebody is there; says of each what became of it",
            Some(of::<worktrees::CleanBody>),
            of::<Cleaned>,
        )],
        handler: || post(worktrees::clean),
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
            reads("Fuses that are set", &[], Answers::Json(of::<FuseList>)),
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
