//! Writes a list as JSON. A long one is written on all cores, because that is a good part of its cost.

use std::io::{self, Write};
use std::sync::mpsc::sync_channel;

use agentctl_model::Session;
use agentctl_model::text::json;

use super::Listing;

/// A list with at least this many sessions is written on all cores.
const LONG: usize = 500;
/// How many sessions one core writes at a time.
const PORTION: usize = 100;

impl<S: AsRef<Session> + Send + Sync> Listing<S> {
    /// Writes the answer on one line.
    pub fn write(&self, host: &str, out: &mut impl Write) -> io::Result<()> {
        let Some((before, after)) = self.frame(host)? else {
            return Ok(json::write(out, &self.answer(host))?);
        };
        out.write_all(&before)?;
        elements(self.sessions.chunks(PORTION), |portion| out.write_all(&portion))?;
        out.write_all(&after)
    }

    /// The same as bytes. The sessions are freed where and when they were written: freeing ten thousand of them one
    /// after another takes a while too, and the answer is as large as they are.
    pub fn into_written(mut self, host: &str) -> io::Result<Vec<u8>> {
        let Some((before, after)) = self.frame(host)? else {
            let mut written = Vec::new();
            json::write(&mut written, &self.answer(host))?;
            return Ok(written);
        };
        let (mut written, mut rest) = (before, std::mem::take(&mut self.sessions).into_iter());
        let count = rest.len().div_ceil(PORTION);
        let portions: Vec<Vec<S>> = (0..count).map(|_| rest.by_ref().take(PORTION).collect()).collect();
        elements(portions.into_iter(), |portion| {
            if written.capacity() < 2 * portion.len() {
                // Portions are of about the same size.
                written.reserve_exact((portion.len() + portion.len() / 8) * count);
            }
            written.extend_from_slice(&portion);
            Ok(())
        })?;
        written.extend_from_slice(&after);
        Ok(written)
    }

    /// What stands before and after the sessions of a long list.
    fn frame(&self, host: &str) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
        const OPEN: &[u8] = b"\"sessions\":[";
        if self.sessions.len() < LONG {
            return Ok(None);
        }
        let mut frame = Vec::new();
        let empty: Listing<S> = Listing {
            as_of: self.as_of,
            sessions: Vec::new(),
            left_out: self.left_out,
            sources: self.sources.clone(),
            hosts: self.hosts.clone(),
            strays: self.strays,
        };
        json::write(&mut frame, &empty.answer(host))?;
        let at = frame.windows(OPEN.len()).position(|bytes| bytes == OPEN);
        Ok(at.map(|at| {
            let after = frame.split_off(at + OPEN.len());
            (frame, after)
        }))
    }
}

/// Gives the written portions to `take` in their order, with commas between all elements. Each core writes every so
/// many portions, one ahead of what was taken.
fn elements<P, S>(
    portions: impl ExactSizeIterator<Item = P>,
    mut take: impl FnMut(Vec<u8>) -> io::Result<()>,
) -> io::Result<()>
where
    P: AsRef<[S]> + Send,
    S: AsRef<Session>,
{
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let count = portions.len();
    let mut lanes: Vec<Vec<(usize, P)>> = (0..cores).map(|_| Vec::new()).collect();
    for (index, portion) in portions.enumerate() {
        lanes[index % cores].push((index, portion));
    }
    std::thread::scope(|scope| {
        let lane = |portions: Vec<(usize, P)>| {
            let (hand_over, made) = sync_channel(1);
            scope.spawn(move || {
                for (index, portion) in portions {
                    // The receiver is gone when writing failed.
                    if hand_over.send(written(portion.as_ref(), index == 0)).is_err() {
                        return;
                    }
                }
            });
            made
        };
        let lanes: Vec<_> = lanes.into_iter().map(lane).collect();
        for lane in lanes.iter().cycle().take(count) {
            // A lane ends early only by a panic, which the scope passes on.
            let Ok(portion) = lane.recv() else { break };
            take(portion?)?;
        }
        Ok(())
    })
}

/// Each session after its comma, except for the very first one.
fn written<S: AsRef<Session>>(sessions: &[S], is_first: bool) -> io::Result<Vec<u8>> {
    let mut buffer = Vec::with_capacity(sessions.len() << 11);
    for (index, session) in sessions.iter().enumerate() {
        if !(is_first && index == 0) {
            buffer.push(b',');
        }
        json::write(&mut buffer, session.as_ref())?;
    }
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use agentctl_model::{Status, Surveyed};
    use agentctl_testkit::sessions::{session, surveyed};
    use jiff::Timestamp;

    use super::*;

    fn listing(count: usize) -> Listing<Surveyed> {
        let session = |number| surveyed(session(&format!("{number}"), Status::Stopped, None));
        Listing {
            as_of: Timestamp::UNIX_EPOCH,
            sessions: (0..count).map(session).collect(),
            left_out: 0,
            sources: Vec::new(),
            hosts: Vec::new(),
            strays: 0,
        }
    }

    #[test]
    fn a_list_written_on_all_cores_is_the_list() {
        for count in [0, 1, LONG - 1, LONG, LONG + 1, 10 * PORTION, 10 * PORTION + 1] {
            let listing = listing(count);
            let mut at_once = Vec::new();
            json::write(&mut at_once, &listing.answer("box")).unwrap();
            let mut written = Vec::new();
            listing.write("box", &mut written).unwrap();
            assert!(written == at_once, "{count} sessions");
            assert!(listing.into_written("box").unwrap() == at_once, "{count} sessions");
        }
    }

    #[test]
    fn a_reader_that_is_gone_ends_it() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let error = listing(10 * PORTION).write("box", &mut Gone).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
