//! How much of what callers send may be in memory at once, whoever they are and however many.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode, header};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::serve::problem::Problem;

/// The most bytes of a body that carries no words of a person.
pub(crate) const SMALL: usize = 256 << 10;
/// The most bytes of one that does: a prompt with all that is enclosed.
pub(crate) const WORDS: usize = 16 << 20;

/// What all bodies that are being read and worked on may take together.
const TOGETHER: usize = 64 << 20;
/// Room is counted in pieces of this size.
const PIECE: usize = 1 << 10;
/// How long a body waits until there is room for it.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct Bodies {
    room: Arc<Semaphore>,
    patience: Duration,
}

/// Room for one body, given back when its request was answered.
pub(crate) type Room = Option<OwnedSemaphorePermit>;

impl Default for Bodies {
    fn default() -> Self {
        Self { room: Arc::new(Semaphore::new(TOGETHER / PIECE)), patience: PATIENCE }
    }
}

impl Bodies {
    /// Room for the body that these headers announce.
    pub(crate) async fn room_for(&self, headers: &HeaderMap) -> Result<Room, Problem> {
        let announced = headers.get(header::CONTENT_LENGTH);
        let length = announced.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        // One that does not say how long it is may become as long as any.
        let length = length.or_else(|| headers.contains_key(header::TRANSFER_ENCODING).then_some(WORDS));
        let Some(length) = length.filter(|length| *length > 0) else { return Ok(None) };
        if length > WORDS {
            let detail = format!("the body has more than {WORDS} bytes");
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "usage", detail));
        }
        let pieces = u32::try_from(length.div_ceil(PIECE)).unwrap_or(u32::MAX);
        let room = tokio::time::timeout(self.patience, self.room.clone().acquire_many_owned(pieces)).await;
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
        let bodies = Bodies { patience: Duration::ZERO, ..Bodies::default() };
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
