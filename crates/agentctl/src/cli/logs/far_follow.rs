//! Follows a conversation on another machine.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use agentctl_model::Surveyed;

use crate::cli::peek::Reader;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::link::hosts::{FarEntries, FarNews, RosterHost};
use crate::output::Output;

/// How soon Ctrl-C or a reader that left is noticed.
const READ_TIMEOUT: Duration = Duration::from_millis(200);

pub(super) fn follow(
    far: &Arc<RosterHost>,
    session: &Surveyed,
    backlog: usize,
    reader: &mut Reader<'_>,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let interrupt = Interrupt::listen();
    let mut news = FarEntries::open(far, session, backlog)?;
    loop {
        match news.next(READ_TIMEOUT)? {
            Some(FarNews::Entries { entries, some_are_missing }) => {
                if some_are_missing {
                    out.warn("entries may be missing here: more came than are read again");
                }
                entries.iter().try_for_each(|entry| reader.print(entry, out))?;
                io::Write::flush(out)?;
            }
            Some(FarNews::Lost(why)) => {
                out.warn(&format!("{} is not heard any more: {why}; it is asked again", far.name));
            }
            Some(FarNews::Back) => out.warn(&format!("{} is heard again", far.name)),
            Some(FarNews::End) => return Ok(Exit::Done),
            None if out.reader_leaves_within(Duration::ZERO)? => return Ok(Exit::Done),
            None => {}
        }
        if interrupt.came() {
            return Ok(Exit::Interrupted);
        }
    }
}
