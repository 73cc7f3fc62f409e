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
/// Hardly any session is longer, so that the bytes of a list need not be moved while they grow.
const MOST_USUAL: usize = 1536;

impl<S: AsRef<Session> + Sync> Listing<S> {
    /// Writes the answer on one line.
    pub fn write(&self, host: &str, out: &mut impl Write) -> io::Result<()> {
        let Some((before, after)) = self.frame(host)? else {
            return Ok(json::write(out, &self.answer(host))?);
        };
        out.write_all(&before)?;
        elements(&self.sessions, out)?;
        out.write_all(&after)
    }

    /// The same as bytes.
    pub fn written(&self, host: &str) -> io::Result<Vec<u8>> {
        let mut written = Vec::with_capacity(self.sessions.len() * MOST_USUAL);
        self.write(host, &mut written)?;
        Ok(written)
    }

    /// What stands before and after the sessions of a long list.
    fn frame(&self, host: &str) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
        const OPEN: &[u8] = b"\"sessions\":[";
        if self.sessions.len() < LONG {
            return Ok(None);
        }
        let (mut frame, mut answer) = (Vec::new(), self.answer(host));
        answer.sessions.clear();
        json::write(&mut frame, &answer)?;
        let at = frame.windows(OPEN.len()).position(|bytes| bytes == OPEN);
        Ok(at.map(|at| {
            let after = frame.split_off(at + OPEN.len());
            (frame, after)
        }))
    }
}

/// Writes the sessions with commas between them. Each core makes every so many portions, one ahead of what is written.
fn elements<S: AsRef<Session> + Sync>(sessions: &[S], out: &mut impl Write) -> io::Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let lane = |first: usize| {
            let (hand_over, made) = sync_channel(1);
            let portions = sessions.chunks(PORTION).enumerate().skip(first).step_by(cores);
            scope.spawn(move || {
                for (index, portion) in portions {
                    // The receiver is gone when writing failed.
                    if hand_over.send(written(portion, index == 0)).is_err() {
                        return;
                    }
                }
            });
            made
        };
        let lanes: Vec<_> = (0..cores).map(lane).collect();
        for lane in lanes.iter().cycle().take(sessions.len().div_ceil(PORTION)) {
            // A lane ends early only by a panic, which the scope passes on.
            let Ok(portion) = lane.recv() else { break };
            out.write_all(&portion?)?;
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
        json::append(&mut buffer, session.as_ref())?;
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
            assert!(listing.written("box").unwrap() == at_once, "{count} sessions");
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
