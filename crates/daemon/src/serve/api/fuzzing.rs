//! Queries and bodies of requests, and cursors of events, for the fuzzer alone (fuzz/README.md).

use std::sync::OnceLock;

use agentctl_model::{Event, EventKind};
use axum::body::Body as Bytes;
use axum::extract::{FromRequest, Request};
use serde::de::DeserializeOwned;

use super::body::Body;
use super::routes::ROUTES;
use super::{actions, launch, locks, steer, web, worktrees};
use crate::fuses::{Extension, FuseSpec};
use crate::serve::body_budget::WORDS;
use crate::serve::query;
use crate::tell::events::{Hub, Read};
use crate::wire::Caller;

/// A query string, as every route takes it. A list that is understood is written and understood again.
pub fn query_string(raw: &str) {
    for operation in ROUTES.iter().flat_map(|route| route.operations) {
        let _ = query::parse(Some(raw), operation.query);
    }
    if let Ok(pairs) = query::parse(Some(raw), &[query::LIST]) {
        let list = query::list_from(&pairs);
        let written = query::list_pairs(&list).expect("a list is no list of ids");
        let again = query::parse(Some(&written), &[query::LIST]).expect("what was written is understood");
        assert_eq!(query::list_from(&again), list, "{written}");
    }
}

/// A body, as every route takes it, and the header that names sources.
pub fn body(bytes: &[u8]) {
    let _ = serde_json::from_slice::<Caller>(bytes);
    taken::<launch::LaunchBody, WORDS>(bytes);
    taken::<launch::GroupBody, WORDS>(bytes);
    taken::<launch::ResumeBody, WORDS>(bytes);
    taken::<launch::PlanBody, WORDS>(bytes);
    taken::<steer::StopBody, WORDS>(bytes);
    taken::<steer::SendBody, WORDS>(bytes);
    taken::<steer::AnswerBody, WORDS>(bytes);
    taken::<steer::InterruptBody, WORDS>(bytes);
    taken::<locks::LockBody, WORDS>(bytes);
    taken::<worktrees::CreateBody, WORDS>(bytes);
    taken::<worktrees::CleanBody, WORDS>(bytes);
    taken::<actions::ActionBody, WORDS>(bytes);
    taken::<FuseSpec, WORDS>(bytes);
    taken::<Extension, WORDS>(bytes);
    taken::<web::WebBody, WORDS>(bytes);
    taken::<web::SignInBody, WORDS>(bytes);
    taken::<web::ProveBody, WORDS>(bytes);
    taken::<web::NoFields, WORDS>(bytes);
}

fn taken<T: DeserializeOwned, const MOST: usize>(bytes: &[u8]) {
    static RUNTIME: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
    });
    let request = Request::new(Bytes::from(bytes.to_vec()));
    let _ = runtime.block_on(Body::<T, MOST>::from_request(request, &()));
}

/// A cursor of events: what it resumes is what came after it, or it is refused.
pub fn cursor(text: &str) {
    static HUB: OnceLock<Hub> = OnceLock::new();
    let hub = HUB.get_or_init(|| {
        let hub = Hub::new("life".to_owned());
        for _ in 0..5 {
            hub.post(Event::new(EventKind::FuseSet));
        }
        hub
    });
    let Some(number) = hub.number(text) else { return };
    if let Read::Events(events) = hub.after(number, 64) {
        let numbers: Vec<u64> = events.iter().map(|posted| posted.number).collect();
        assert_eq!(numbers, (number + 1..=5).collect::<Vec<u64>>(), "{text}");
    }
}
