//! Answers that did not fit into one message: what is left of them, until it is asked for or nobody wants it any more.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use agentctl_files::kernel;
use agentctl_hosts::nats::direct::QUIET;
use agentctl_hosts::nats::message::PART;
use axum::body::{BodyDataStream, Bytes};
use data_encoding::HEXLOWER;
use futures_util::{FutureExt, StreamExt};

/// How long the rest of an answer is kept for its asker.
const KEPT: Duration = Duration::from_secs(60);
/// How many answers are kept, and how many bytes of them; the one that was asked for longest ago goes first.
const MOST: usize = 256;
const MOST_BYTES: usize = 128 << 20;

#[derive(Default)]
pub(super) struct Answers {
    kept: Mutex<BTreeMap<String, Kept>>,
}

struct Kept {
    rest: Rest,
    /// The part that comes next.
    part: u32,
    asked: Instant,
}

pub(super) enum Rest {
    Whole(Bytes),
    /// A stream, and what of it was read and not sent.
    Stream(Pin<Box<BodyDataStream>>, Bytes),
}

impl Rest {
    fn bytes(&self) -> usize {
        match self {
            Self::Whole(bytes) | Self::Stream(_, bytes) => bytes.len(),
        }
    }

    /// The next part, and whether there is more. A stream without anything to tell for a while gives an empty part.
    async fn next(&mut self) -> (Bytes, bool) {
        match self {
            Self::Whole(bytes) => {
                let part = bytes.split_to(bytes.len().min(PART));
                (part, !bytes.is_empty())
            }
            Self::Stream(stream, left) => {
                let mut part = left.split_to(left.len().min(PART)).to_vec();
                if part.is_empty() {
                    match tokio::time::timeout(QUIET, stream.next()).await {
                        Err(_) => return (Bytes::new(), true),
                        Ok(Some(Ok(bytes))) => *left = bytes,
                        Ok(None | Some(Err(_))) => return (Bytes::new(), false),
                    }
                }
                loop {
                    let taken = left.split_to(left.len().min(PART - part.len()));
                    part.extend_from_slice(&taken);
                    if part.len() == PART {
                        return (part.into(), true);
                    }
                    match stream.next().now_or_never() {
                        None => return (part.into(), true),
                        Some(Some(Ok(bytes))) => *left = bytes,
                        Some(None | Some(Err(_))) => return (part.into(), false),
                    }
                }
            }
        }
    }
}

impl Answers {
    fn kept(&self) -> MutexGuard<'_, BTreeMap<String, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the rest of an answer and returns its id, which nobody can guess.
    pub(super) fn keep(&self, rest: Rest) -> Option<String> {
        let id = HEXLOWER.encode(&kernel::random::<16>().ok()?);
        self.put(id.clone(), Kept { rest, part: 1, asked: Instant::now() });
        Some(id)
    }

    fn put(&self, id: String, new: Kept) {
        let mut kept = self.kept();
        kept.insert(id, new);
        let bytes =
            |kept: &BTreeMap<String, Kept>| kept.values().map(|each| each.rest.bytes()).sum::<usize>();
        while kept.len() > MOST || (kept.len() > 1 && bytes(&kept) > MOST_BYTES) {
            let oldest = kept.iter().min_by_key(|(_, each)| each.asked).map(|(id, _)| id.clone());
            let Some(oldest) = oldest else { break };
            kept.remove(&oldest);
        }
    }

    /// The part of this number and whether there is more; `None` for an answer that is not kept, or another part than the
    /// next.
    pub(super) async fn part(&self, id: &str, part: u32) -> Option<(Bytes, bool)> {
        // Nobody else can ask for the same answer meanwhile.
        let mut kept = self.kept().remove(id).filter(|kept| kept.part == part)?;
        let (bytes, more) = kept.rest.next().await;
        if more {
            self.put(id.to_owned(), Kept { part: part + 1, asked: Instant::now(), ..kept });
        }
        Some((bytes, more))
    }

    pub(super) fn sweep(&self) {
        self.kept().retain(|_, each| each.asked.elapsed() < KEPT);
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[tokio::test]
    async fn an_answer_comes_in_its_parts_and_each_once() {
        let answers = Answers::default();
        let whole: Bytes = (0..3 * PART + 7).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let id = answers.keep(Rest::Whole(whole.clone())).unwrap();
        let mut got = Vec::new();
        for part in 1.. {
            let (bytes, more) = answers.part(&id, part).await.unwrap();
            assert!(bytes.len() <= PART);
            got.extend_from_slice(&bytes);
            if !more {
                break;
            }
        }
        assert_eq!(got, whole);
        assert!(answers.part(&id, 5).await.is_none(), "it is not kept after its end");
        let id = answers.keep(Rest::Whole(whole)).unwrap();
        assert!(answers.part(&id, 2).await.is_none(), "the next part and no other");
    }

    #[tokio::test]
    async fn a_stream_gives_what_it_has_and_then_its_end() {
        let pieces = [vec![b'a'; 10], vec![b'b'; 2 * PART], vec![b'c'; 1]];
        let stream = futures_util::stream::iter(
            pieces.clone().map(|piece| Ok::<_, std::io::Error>(Bytes::from(piece))),
        );
        let answers = Answers::default();
        let stream = Box::pin(Body::from_stream(stream).into_data_stream());
        let id = answers.keep(Rest::Stream(stream, Bytes::new())).unwrap();
        let (mut got, mut part, mut more) = (Vec::new(), 0, true);
        while more {
            part += 1;
            let next = answers.part(&id, part).await.unwrap();
            got.extend_from_slice(&next.0);
            more = next.1;
        }
        assert_eq!(got, pieces.concat());
    }

    #[tokio::test]
    async fn what_nobody_asks_for_makes_room() {
        let answers = Answers::default();
        let first = answers.keep(Rest::Whole(vec![0; MOST_BYTES].into())).unwrap();
        let second = answers.keep(Rest::Whole(vec![0; PART].into())).unwrap();
        assert!(answers.part(&first, 1).await.is_none());
        assert!(answers.part(&second, 1).await.is_some());
    }
}
