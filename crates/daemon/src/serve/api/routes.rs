//! Every route: its path, purpose, parameters, types and handler.

use agentctl_fleet::act::steer::{AnswerReceipt, InterruptReceipt, SendReceipt};
use agentctl_fleet::act::stop::StopAnswer;
use agentctl_fleet::keep::locks::LockList;
use agentctl_fleet::read::groups::{GroupDiff, GroupLaunch, GroupList, GroupView};
use agentctl_fleet::read::inbox::{Inbox, PutAwayReport};
use agentctl_fleet::read::recover::Recovery;
use agentctl_fleet::worktree::{Changes, Cleaned, NewTree, Trees};
use agentctl_fleet::{AdapterEntry, Explanation, ListAnswer, UsageAnswer};
use agentctl_model::timeline::Timeline;
use agentctl_model::{DirectoryHolder, Fuse, HostList, Session};
use axum::routing::{MethodRouter, delete, get, post};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value};

use super::{
    App, DaemonStatus, actions, adapters_and_health, daemon, events, fuses, groups, hosts, inbox, launch,
    locks, messages, openapi, recover, search, sessions, steer, timeline, usage, web, worktrees,
};
use crate::fuses::{Extension, FuseList, FuseSpec};
use crate::serve::query::{DETAIL, LIST, Parameters, TARGET};
use crate::tell::events::EventMessage;

pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The kind of response.
pub(crate) enum Answers {
    Json(SchemaOf),
    /// Server-sent events whose data is this object.
    Events(SchemaOf),
    Text,
}

/// The kind of request body.
pub(crate) enum Takes {
    Nothing,
    /// An optional object; a missing body counts as an object without keys.
    Optional(SchemaOf),
    Required(SchemaOf),
}

pub(crate) struct Operation {
    pub(crate) method: &'static str,
    /// Its name in clients that are generated from the document. It never changes.
    pub(crate) id: &'static str,
    pub(crate) summary: &'static str,
    /// Further notes; may be empty.
    pub(crate) notes: &'static str,
    pub(crate) query: &'static [Parameters],
    pub(crate) header: Option<(&'static str, &'static str)>,
    pub(crate) body: Takes,
    pub(crate) answers: Answers,
    /// The statuses of the operation's own problems, without those of the checks before every route.
    pub(crate) fails: &'static [u16],
}

pub(crate) struct Route {
    pub(crate) path: &'static str,
    pub(crate) operations: &'static [Operation],
    pub(crate) handler: fn() -> MethodRouter<App>,
}

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

impl Operation {
    const fn new(method: &'static str, id: &'static str, summary: &'static str, answers: Answers) -> Self {
        Self {
            method,
            id,
            summary,
            notes: "",
            query: &[],
            header: None,
            body: Takes::Nothing,
            answers,
            fails: &[],
        }
    }

    const fn get(id: &'static str, summary: &'static str, answers: Answers) -> Self {
        Self::new("get", id, summary, answers)
    }

    const fn post(id: &'static str, summary: &'static str, answer: SchemaOf) -> Self {
        Self::new("post", id, summary, Answers::Json(answer))
    }

    const fn delete(id: &'static str, summary: &'static str, answer: SchemaOf) -> Self {
        Self::new("delete", id, summary, Answers::Json(answer))
    }

    const fn asks(mut self, query: &'static [Parameters]) -> Self {
        self.query = query;
        self
    }

    const fn takes(mut self, body: SchemaOf) -> Self {
        self.body = Takes::Required(body);
        self
    }

    const fn may_take(mut self, body: SchemaOf) -> Self {
        self.body = Takes::Optional(body);
        self
    }

    const fn header(mut self, header: &'static str, words: &'static str) -> Self {
        self.header = Some((header, words));
        self
    }

    const fn fails(mut self, statuses: &'static [u16]) -> Self {
        self.fails = statuses;
        self
    }

    const fn notes(mut self, notes: &'static str) -> Self {
        self.notes = notes;
        self
    }
}

/// The statuses when a session is looked up by name: none matches, or several do.
const LOOKED_FOR: &[u16] = &[404, 409, 500];
/// The same, when the agent of the session is then asked to do something.
const STEERED: &[u16] = &[404, 409, 422, 500, 502, 504];

pub(crate) const ROUTES: &[Route] = &[
    Route {
        path: "/v1/sessions",
        operations: &[
            Operation::get(
                "listSessions",
                "List sessions, as `agentctl list --json` does",
                Answers::Json(of::<ListAnswer<'static>>),
            )
            .asks(&[LIST])
            .fails(&[500])
            .notes(
                "Every answer is a fresh look at the agents' own records and at the kernel. Without parameters it holds \
                what lives now: sessions that run, wait, or are ready in a process of their own. `sources` says how much \
                of each agent's storage could be heard; what is missing there is unknown, not absent.",
            ),
            Operation::post("launchSession", "Launch an agent", of::<Session>)
                .takes(of::<launch::LaunchBody>)
                .fails(&[404, 409, 422, 500, 502])
                .notes(
                    "The answer comes with its session's own id, once its first turn is seen. A directory that somebody \
                    holds is refused (409) unless `force` is set. If the agent ends first, everything is undone and \
                    the problem (502) has the agent's own words. Who goes away meanwhile ends nothing.",
                ),
        ],
        handler: || get(sessions::list).post(launch::launch),
    },
    Route {
        path: "/v1/sessions/{id}",
        operations: &[Operation::get("getSession", "Show one session", Answers::Json(of::<Session>))
            .asks(&[TARGET, DETAIL])
            .fails(LOOKED_FOR)],
        handler: || get(sessions::one),
    },
    Route {
        path: "/v1/sessions/{id}/explain",
        operations: &[Operation::get(
            "explainSession",
            "Say why a session has its status",
            Answers::Json(of::<Explanation<'static>>),
        )
        .asks(&[TARGET])
        .fails(LOOKED_FOR)],
        handler: || get(sessions::explain),
    },
    Route {
        path: "/v1/sessions/{id}/changes",
        operations: &[Operation::get(
            "showChanges",
            "Show what a session has changed in its working tree, committed or not",
            Answers::Json(of::<Changes>),
        )
        .asks(&[TARGET])
        .fails(LOOKED_FOR)
        .notes(
            "Compared with where its branch began if it was launched into a working tree of its own, and with the last \
            commit otherwise. A patch of more than 4 MiB is cut.",
        )],
        handler: || get(sessions::changes),
    },
    Route {
        path: "/v1/sessions/{id}/messages",
        operations: &[Operation::get(
            "listMessages",
            "Read the last messages of a session, oldest first",
            Answers::Json(of::<messages::Messages>),
        )
        .asks(&[TARGET, messages::PAGE])
        .fails(LOOKED_FOR)],
        handler: || get(messages::page),
    },
    Route {
        path: "/v1/sessions/{id}/messages/stream",
        operations: &[Operation::get(
            "streamMessages",
            "Follow a conversation until its session has stopped",
            Answers::Events(of::<agentctl_model::Entry>),
        )
        .asks(&[TARGET, messages::BACKLOG])
        .fails(LOOKED_FOR)
        .notes(
            "Events of type `entry` carry one message each. The last event is `end` with an empty object, or `error` \
            with a problem.",
        )],
        handler: || get(messages::stream),
    },
    Route {
        path: "/v1/sessions/{id}/stop",
        operations: &[Operation::post(
            "stopSession",
            "End a session with all its processes, the clean way first",
            of::<StopAnswer>,
        )
        .asks(&[TARGET])
        .may_take(of::<steer::StopBody>)
        .fails(STEERED)],
        handler: || post(steer::stop),
    },
    Route {
        path: "/v1/sessions/{id}/resume",
        operations: &[Operation::post(
            "resumeSession",
            "Say something further to a session that is not running",
            of::<Session>,
        )
        .asks(&[TARGET])
        .takes(of::<launch::ResumeBody>)
        .fails(STEERED)],
        handler: || post(launch::resume),
    },
    Route {
        path: "/v1/sessions/{id}/resume-at",
        operations: &[Operation::post("planResume", "Plan to resume a session at a time", of::<launch::Planned>)
            .asks(&[TARGET])
            .takes(of::<launch::PlanBody>)
            .fails(STEERED)
            .notes(
                "The plan is a fuse, which `DELETE /v1/fuses/{id}` cancels. It is done at most once, and only if nobody has \
                taken the session up since. One that was not carried out stays in `/v1/fuses` and `/v1/inbox` for a day, \
                with its `problem`.",
            )],
        handler: || post(launch::plan),
    },
    Route {
        path: "/v1/sessions/{id}/send",
        operations: &[Operation::post(
            "sendToSession",
            "Say something to a live session, where its agent offers a way in",
            of::<SendReceipt>,
        )
        .asks(&[TARGET])
        .takes(of::<steer::SendBody>)
        .fails(STEERED)],
        handler: || post(steer::send),
    },
    Route {
        path: "/v1/sessions/{id}/answer",
        operations: &[Operation::post(
            "answerSession",
            "Approve, deny or answer what a session waits for, where its agent offers a way in",
            of::<AnswerReceipt>,
        )
        .asks(&[TARGET])
        .takes(of::<steer::AnswerBody>)
        .fails(STEERED)
        .notes("The body holds a `decision` or a `text`; a denial may have both, and the text is its reason.")],
        handler: || post(steer::give),
    },
    Route {
        path: "/v1/sessions/{id}/interrupt",
        operations: &[Operation::post(
            "interruptSession",
            "End the open turn of a session and keep the session, where its agent offers that",
            of::<InterruptReceipt>,
        )
        .asks(&[TARGET])
        .takes(of::<steer::InterruptBody>)
        .fails(STEERED)],
        handler: || post(steer::interrupt),
    },
    Route {
        path: "/v1/inbox",
        operations: &[Operation::get(
            "getInbox",
            "List what waits for a person, longest first",
            Answers::Json(of::<Inbox>),
        )
        .asks(&[inbox::QUERY])
        .fails(&[500])],
        handler: || get(inbox::list),
    },
    Route {
        path: "/v1/search",
        operations: &[Operation::get(
            "search",
            "Find words in every conversation, as `agentctl search --json` does",
            Answers::Events(of::<search::SearchMessage>),
        )
        .asks(&[search::QUERY])
        .notes(
            "Each `hit` is one message that fits, newest session first, as soon as it is found. The last event is `end`: \
            how many hits there were, how many conversations were searched, whether there may be more, and how much of \
            each source could be heard. `GET /v1/sessions/{id}/messages?at=HIT` opens a conversation at a hit.",
        )],
        handler: || get(search::stream),
    },
    Route {
        path: "/v1/usage",
        operations: &[Operation::get(
            "getUsage",
            "Count what sessions have spent, as `agentctl usage --json` does",
            Answers::Json(of::<UsageAnswer>),
        )
        .asks(&[usage::QUERY])
        .fails(&[500])
        .notes(
            "Every model call counts once, at its own time, in the session that made it. `cost` is the sum of what has a \
            price, `costBasis` says where it comes from, and `unpriced` names the models whose tokens have none.",
        )],
        handler: || get(usage::report),
    },
    Route {
        path: "/v1/timeline",
        operations: &[Operation::get(
            "getTimeline",
            "List who worked, waited and rested when, as `agentctl timeline --json` does",
            Answers::Json(of::<Timeline>),
        )
        .asks(&[timeline::QUERY])
        .fails(&[404, 409, 500, 503])
        .notes(
            "The spans of a lane are ordered, do not overlap, and never reach beyond the last record or the death. What \
            the records leave open is a span `unknown`. `to` is `null` only for what still lasts.",
        )],
        handler: || get(timeline::report),
    },
    Route {
        path: "/v1/recover",
        operations: &[Operation::get(
            "getRecovery",
            "List the sessions whose turn was open when the machine went down",
            Answers::Json(of::<Recovery>),
        )
        .asks(&[recover::QUERY])
        .fails(&[500])
        .notes(
            "Asking uses nothing up. `POST /v1/sessions/{id}/resume` takes one of them up; `agentctl recover --yes` on \
            that machine takes up all of them, each once.",
        )],
        handler: || get(recover::list),
    },
    Route {
        path: "/v1/inbox/{id}/done",
        operations: &[Operation::post(
            "putFailureAway",
            "Mark the failure of a session as done until its next turn",
            of::<PutAwayReport>,
        )
        .asks(&[TARGET])
        .fails(LOOKED_FOR)],
        handler: || post(inbox::done),
    },
    Route {
        path: "/v1/groups",
        operations: &[
            Operation::get(
                "listGroups",
                "List sessions that were launched together",
                Answers::Json(of::<GroupList>),
            )
            .fails(&[500]),
            Operation::post("launchGroup", "Launch several agents side by side", of::<GroupLaunch>)
                .takes(of::<launch::GroupBody>)
                .fails(&[500])
                .notes(
                    "At most 100, each in a working tree of its own. One that fails does not fail the others: it is named in \
                    the answer, with the reason.",
                ),
        ],
        handler: || get(groups::list).post(launch::group),
    },
    Route {
        path: "/v1/groups/{id}",
        operations: &[Operation::get(
            "getGroup",
            "Show one group side by side: status, time, tokens, cost, changes",
            Answers::Json(of::<GroupView>),
        )
        .fails(&[404, 500])],
        handler: || get(groups::show),
    },
    Route {
        path: "/v1/groups/{id}/diff",
        operations: &[Operation::get(
            "diffGroup",
            "Show what each slot of a group has done in its working tree, committed or not",
            Answers::Json(of::<GroupDiff>),
        )
        .asks(&[groups::DIFF])
        .fails(&[404, 500])],
        handler: || get(groups::diff),
    },
    Route {
        path: "/v1/groups/{id}/stop",
        operations: &[Operation::post(
            "stopGroup",
            "End every session of a group that lives, and take back what is only starting",
            of::<StopAnswer>,
        )
        .may_take(of::<steer::StopBody>)
        .fails(&[404, 500])],
        handler: || post(groups::stop),
    },
    Route {
        path: "/v1/locks",
        operations: &[
            Operation::get("listLocks", "List who holds which directory", Answers::Json(of::<LockList>))
                .fails(&[500]),
            Operation::post("lockDirectory", "Lock a directory and what is below it", of::<DirectoryHolder>)
                .takes(of::<locks::LockBody>)
                .fails(&[409, 500]),
            Operation::delete(
                "unlockDirectory",
                "Unlock a directory, whoever locked it by hand",
                of::<DirectoryHolder>,
            )
            .asks(&[locks::DIRECTORY])
            .fails(&[404, 500]),
        ],
        handler: || get(locks::list).post(locks::lock).delete(locks::unlock),
    },
    Route {
        path: "/v1/worktrees",
        operations: &[
            Operation::get(
                "listWorktrees",
                "List the working trees of a repository, and who is in them",
                Answers::Json(of::<Trees>),
            )
            .asks(&[worktrees::REPOSITORY])
            .fails(&[500]),
            Operation::post("createWorktree", "Make a working tree beside its repository", of::<NewTree>)
                .takes(of::<worktrees::CreateBody>)
                .fails(&[409, 500]),
        ],
        handler: || get(worktrees::list).post(worktrees::create),
    },
    Route {
        path: "/v1/worktrees/clean",
        operations: &[Operation::post(
            "cleanWorktrees",
            "Remove working trees, unless something would be lost or somebody is there",
            of::<Cleaned>,
        )
        .takes(of::<worktrees::CleanBody>)
        .fails(&[409, 500])
        .notes("The answer says of each tree what became of it, and why.")],
        handler: || post(worktrees::clean),
    },
    Route {
        path: "/v1/events",
        operations: &[Operation::get(
            "streamEvents",
            "Hear of every change as it happens",
            Answers::Events(of::<EventMessage>),
        )
        .asks(&[events::QUERY])
        .header("Last-Event-ID", "go on behind this cursor; stronger than `since`")
        .notes(
            "The id of each event is its cursor. Who comes back with one that is too old, or of a daemon that has ended \
            since, gets `reset` and a `snapshot` of the current state of everything.",
        )],
        handler: || get(events::stream),
    },
    Route {
        path: "/v1/actions",
        operations: &[Operation::post(
            "tellAction",
            "Tell what a program asked for, as an event",
            of::<actions::ActionTold>,
        )
        .takes(of::<actions::ActionBody>)
        .notes("On the unix socket alone: `agentctl mcp` and `agentctl acp` tell what they did, and on whose behalf.")],
        handler: || post(actions::tell),
    },
    Route {
        path: "/v1/fuses",
        operations: &[
            Operation::get("listFuses", "List the fuses that are set", Answers::Json(of::<FuseList>))
                .fails(&[500]),
            Operation::post("setFuse", "Set a fuse on a directory or a session, or a budget of a directory", of::<Fuse>)
                .takes(of::<FuseSpec>)
                .fails(LOOKED_FOR),
        ],
        handler: || get(fuses::list).post(fuses::set),
    },
    Route {
        path: "/v1/fuses/{id}",
        operations: &[Operation::delete("cancelFuse", "Remove a fuse without firing it", of::<Fuse>)
            .fails(&[404, 500])],
        handler: || delete(fuses::cancel),
    },
    Route {
        path: "/v1/fuses/{id}/extend",
        operations: &[Operation::post("extendFuse", "Extend a fuse", of::<Fuse>)
            .takes(of::<Extension>)
            .fails(&[404, 409, 500])],
        handler: || post(fuses::extend),
    },
    Route {
        path: "/v1/adapters",
        operations: &[Operation::get(
            "listAdapters",
            "List which agents are known and what can be done with each",
            Answers::Json(of::<Vec<AdapterEntry>>),
        )
        .fails(&[500])],
        handler: || get(adapters_and_health::adapters),
    },
    Route {
        path: "/v1/hosts",
        operations: &[Operation::get(
            "listHosts",
            "List the machines that can be asked, and how each was heard",
            Answers::Json(of::<HostList>),
        )
        .fails(&[500])],
        handler: || get(hosts::list),
    },
    Route {
        path: "/v1/daemon",
        operations: &[Operation::get(
            "getDaemon",
            "Show how the daemon is",
            Answers::Json(of::<DaemonStatus>),
        )
        .fails(&[500])],
        handler: || get(daemon::status),
    },
    Route {
        path: "/v1/daemon/stop",
        operations: &[Operation::post("stopDaemon", "End the daemon; agents go on", of::<daemon::Stopping>)],
        handler: || post(daemon::stop),
    },
    Route {
        path: "/v1/web",
        operations: &[
            Operation::get("showPage", "Say whose page this is", Answers::Json(of::<web::WebState>)),
            Operation::post("openPage", "Open the page's port, and get an address that signs in one tab", of::<web::WebInvitation>)
                .may_take(of::<web::WebBody>)
                .fails(&[500])
                .notes("On the unix socket alone."),
        ],
        handler: || get(web::state).post(web::open),
    },
    Route {
        path: "/v1/web/off",
        operations: &[Operation::post("closePage", "Close the page's port and sign out every tab", of::<web::WebClosed>)
            .may_take(of::<web::NoFields>)
            .fails(&[500])
            .notes("On the unix socket alone.")],
        handler: || post(web::off),
    },
    Route {
        path: "/v1/web/sign-in",
        operations: &[Operation::post("signIn", "Turn a code into the token of one tab", of::<web::SignIn>)
            .takes(of::<web::SignInBody>)
            .fails(&[500])],
        handler: || post(web::sign_in),
    },
    Route {
        path: "/v1/web/prove",
        operations: &[Operation::post("provePage", "Prove that this is the daemon that gave a token", of::<web::Proof>)
            .takes(of::<web::ProveBody>)
            .notes("The page asks this before it sends its token to anybody.")],
        handler: || post(web::prove),
    },
    Route {
        path: "/v1/web/sign-out",
        operations: &[Operation::post("signOut", "End the token of this tab", of::<web::SignedOut>)
            .may_take(of::<web::NoFields>)
            .fails(&[500])],
        handler: || post(web::sign_out),
    },
    Route {
        path: "/metrics",
        operations: &[Operation::get("getMetrics", "Figures in the Prometheus text format", Answers::Text)
            .fails(&[500])],
        handler: || get(adapters_and_health::metrics),
    },
    Route {
        path: "/healthz",
        operations: &[Operation::get(
            "getHealth",
            "Say whether the daemon answers",
            Answers::Json(of::<adapters_and_health::Health>),
        )],
        handler: || get(adapters_and_health::health),
    },
    Route {
        path: "/openapi.json",
        operations: &[Operation::get("getDocument", "This document", Answers::Json(of::<Map<String, Value>>))],
        handler: || get(openapi::serve),
    },
];
