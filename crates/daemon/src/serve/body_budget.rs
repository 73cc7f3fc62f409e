//! Limits how many bytes of request bodies are in memory at once, over all callers together.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode, header};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::serve::problem::Problem;

/// The largest body that contains no text of a person.
pub(crate) const SMALL: usize = 256 << 10;
/// The largest body that does: a prompt with all its attachments.
pub(crate) const WORDS: usize = 16 << 20;

/// The limit for all bodies that are being read and processed.
const TOGETHER: usize = 64 << 20;
/// The budget is counted in units of this size.
const PIECE: usize = 1 << 10;
/// How long a body waits for room.
const TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct BodyBudget {
    room: Arc<Semaphore>,
    timeout: Duration,
}

/// Room for one body, released when its request has been answered.
pub(crate) type Room = Option<OwnedSemaphorePermit>;

impl Default for BodyBudget {
    fn default() -> Self {
        Self { room: Arc::new(Semaphore::new(TOGETHER / PIECE)), timeout: TIMEOUT }
    }
}

impl BodyBudget {
    /// Reserves room for the body that these headers announce.
    pub(crate) async fn room_for(&self, headers: &HeaderMap) -> Result<Room, Problem> {
        let announced = headers.get(header::CONTENT_LENGTH);
        let length = announced.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        // A body of unknown length is counted as the largest.
        let length = length.or_else(|| headers.contains_key(header::TRANSFER_ENCODING).then_some(WORDS));
        let Some(length) = length.filter(|length| *length > 0) else { return Ok(None) };
        if length > WORDS {
            let detail = format!("the body has more than {WORDS} bytes");
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "usage", detail));
        }
        let pieces = u32::try_from(length.div_ceil(PIECE)).unwrap_or(u32::MAX);
        let room = tokio::time::timeout(self.timeout, self.room.clone().acquire_many_owned(pieces)).await;
        match room {
            Ok(Ok(room)) => Ok(Some(room)),
            _ => Err(Problem::busy("too many large bodies are being worked on")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: header::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().unwrap())])
    }

    #[tokio::test]
    async fn bodies_together_have_a_bound_and_one_that_is_answered_makes_room() {
        let bodies = BodyBudget { timeout: Duration::ZERO, ..BodyBudget::default() };
        let largest = headers(header::CONTENT_LENGTH, &WORDS.to_string());
        let mut rooms = Vec::new();
        for _ in 0..TOGETHER / WORDS {
            rooms.push(bodies.room_for(&largest).await.unwrap());
        }
        for waiting in [largest.clone(), headers(header::TRANSFER_ENCODING, "chunked")] {
            assert_eq!(bodies.room_for(&waiting).await.unwrap_err().code, "busy");
        }
        assert!(bodies.room_for(&HeaderMap::new()).await.unwrap().is_none(), "no body needs no room");
        rooms.pop();
        assert!(bodies.room_for(&largest).await.unwrap().is_some());
        let larger = headers(header::CONTENT_LENGTH, &(WORDS + 1).to_string());
        assert_eq!(bodies.room_for(&larger).await.unwrap_err().code, "usage");
    }
}
