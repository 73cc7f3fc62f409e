//! One request of the bus, answered by the same router as those of the socket.

use agentctl_hosts::nats::message::{self, AnswerHead, PART, PartHead, RequestHead, VERSION};
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::ConnectInfo;
use axum::http::{HeaderValue, Method, Request, header};
use axum::response::Response;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;

use super::Room;
use super::answers::Rest;
use crate::serve::problem::Problem;
use crate::serve::server::{BusRights, Peer};

/// No answer is larger.
const LARGEST: usize = 256 << 20;

impl Room {
    /// The answer to a request, or its first part.
    pub(super) async fn request(&self, head: RequestHead, body: &[u8], rights: BusRights) -> Vec<u8> {
        if head.road != VERSION {
            let words = format!("this machine speaks version {VERSION} of the road, not {}", head.road);
            return self.problem(400, "usage", &words);
        }
        if head.instance.as_ref().is_some_and(|meant| *meant != self.instance) {
            return self.problem(409, "refused", "another machine answers by this name now");
        }
        let Some(request) = request(head, body, rights) else {
            return self.problem(400, "usage", "a request that cannot be read");
        };
        // Nobody closes this semaphore.
        let _working = self.work.acquire().await;
        let response = match TowerToHyperService::new(self.router.clone()).call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        self.respond(response).await
    }

    async fn respond(&self, response: Response) -> Vec<u8> {
        let status = response.status().as_u16();
        let is_stream = response
            .headers()
            .get(header::CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        let body = response.into_body();
        if is_stream {
            let rest = Rest::Stream(Box::pin(body.into_data_stream()), Bytes::new());
            return self.first(status, &[], Some(rest));
        }
        match to_bytes(body, LARGEST).await {
            Ok(mut whole) => {
                let first = whole.split_to(whole.len().min(PART));
                let rest = (!whole.is_empty()).then_some(Rest::Whole(whole));
                self.first(status, &first, rest)
            }
            Err(error) => self.problem(500, "failed", &format!("the answer broke off: {error}")),
        }
    }

    /// The first part of an answer.
    fn first(&self, status: u16, body: &[u8], rest: Option<Rest>) -> Vec<u8> {
        let more = match rest.map(|rest| self.answers.keep(rest)) {
            Some(None) => return self.problem(500, "failed", "no random id for the answer"),
            Some(more) => more,
            None => None,
        };
        message::encode(&self.head(status, 0, body.len(), more), body)
    }

    /// A further part.
    pub(super) async fn part(&self, payload: &[u8]) -> Vec<u8> {
        let Ok((PartHead { road: VERSION, answer, part }, _)) = message::decode::<PartHead>(payload) else {
            return self.problem(400, "usage", "a request that cannot be read");
        };
        match self.answers.part(&answer, part).await {
            Some((bytes, more)) => {
                message::encode(&self.head(200, part, bytes.len(), more.then_some(answer)), &bytes)
            }
            None => self.problem(404, "not-found", "this answer is no longer kept"),
        }
    }

    pub(super) fn whole(&self, status: u16, body: &[u8]) -> Vec<u8> {
        self.first(status, body, None)
    }

    pub(super) fn problem(&self, status: u16, code: &'static str, words: &str) -> Vec<u8> {
        let status = axum::http::StatusCode::from_u16(status).unwrap_or_default();
        let problem = Problem::new(status, code, words);
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        self.whole(status.as_u16(), &body)
    }

    fn head(&self, status: u16, part: u32, bytes: usize, more: Option<String>) -> AnswerHead {
        let (version, instance) = (self.shared.version.clone(), self.instance.clone());
        AnswerHead { road: VERSION, status, version, instance, part, bytes, more }
    }
}

/// The request as the router takes it. Of the headers of a caller only those pass that mean the same from everywhere.
fn request(head: RequestHead, body: &[u8], rights: BusRights) -> Option<Request<Body>> {
    if !head.target.starts_with('/') {
        return None;
    }
    let method = Method::from_bytes(head.method.as_bytes()).ok()?;
    let mut request = Request::builder()
        .method(method)
        .uri(head.target)
        .header(header::ACCEPT, HeaderValue::from_str(&head.accept).ok()?)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::CONTENT_LENGTH, body.len());
    if let Some(cursor) = head.cursor {
        request = request.header("last-event-id", HeaderValue::from_str(&cursor).ok()?);
    }
    let mut request = request.body(Body::from(body.to_vec())).ok()?;
    request.extensions_mut().insert(ConnectInfo(Peer::Nats(rights)));
    Some(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(target: &str) -> RequestHead {
        RequestHead {
            road: VERSION,
            method: "GET".into(),
            target: target.into(),
            accept: "application/json".into(),
            cursor: None,
            instance: None,
            asker: None,
            nonce: None,
        }
    }

    #[test]
    fn a_request_brings_no_headers_of_its_own() {
        let rights = BusRights { acts: false, allows_bypass: false };
        let made = request(head("/v1/sessions?all=true"), b"", rights).unwrap();
        let names: Vec<&str> = made.headers().keys().map(header::HeaderName::as_str).collect();
        assert_eq!(names, ["accept", "content-type", "content-length"]);
        for bad in ["http://evil/", "", "v1", "/a b"] {
            assert!(request(head(bad), b"", rights).is_none(), "{bad}");
        }
        let split = RequestHead { accept: "a\r\nx-agentctl-caller: {}".into(), ..head("/") };
        assert!(request(split, b"", rights).is_none());
    }
}
