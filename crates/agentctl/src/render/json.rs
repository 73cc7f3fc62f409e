//! JSON for scripts, through the writer that lets no control character pass.

use std::io::Write;

use agentctl_model::json::{write, write_indented};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::Output;

/// One answer: indented for a person at a terminal, one line for a pipe.
pub(crate) fn answer(out: &mut Output, value: &impl Serialize) -> Result<(), Failure> {
    if !out.is_terminal() {
        return line(out, value);
    }
    write_indented(&mut *out, value)?;
    out.write_all(b"\n")?;
    Ok(())
}

/// One value on a line of its own.
pub(crate) fn line(out: &mut impl Write, value: &impl Serialize) -> Result<(), Failure> {
    write(&mut *out, value)?;
    out.write_all(b"\n")?;
    Ok(())
}

/// How many elements of a long array one core makes at a time.
const PORTION: usize = 250;

/// The elements of a long array, joined by commas: made on all cores, portion by portion, in buffers that are used again.
pub(crate) fn elements<T: Serialize + Sync>(out: &mut impl Write, values: &[T]) -> Result<(), Failure> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut buffers: Vec<Vec<u8>> = vec![Vec::new(); cores];
    for (round, portions) in values.chunks(cores * PORTION).enumerate() {
        let made: serde_json::Result<Vec<()>> = std::thread::scope(|scope| {
            let work = portions.chunks(PORTION).zip(&mut buffers).enumerate();
            let threads: Vec<_> = work
                .map(|(index, (portion, buffer))| {
                    let first = round == 0 && index == 0;
                    scope.spawn(move || fill(buffer, portion, first))
                })
                .collect();
            let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
            joined.map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        made?;
        for buffer in &buffers[..portions.len().div_ceil(PORTION)] {
            out.write_all(buffer)?;
        }
    }
    Ok(())
}

/// Each element after its comma, but for the very first one.
fn fill<T: Serialize>(buffer: &mut Vec<u8>, values: &[T], first: bool) -> serde_json::Result<()> {
    buffer.clear();
    for (index, value) in values.iter().enumerate() {
        if !(first && index == 0) {
            buffer.push(b',');
        }
        write(&mut *buffer, value)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_array_made_on_all_cores_is_the_array() {
        let values: Vec<String> = (0..3000).map(|number| format!("value {number}")).collect();
        let mut bytes = Vec::new();
        elements(&mut bytes, &values).unwrap();
        let whole = format!("[{}]", String::from_utf8(bytes).unwrap());
        assert_eq!(serde_json::from_str::<Vec<String>>(&whole).unwrap(), values);
    }
}
