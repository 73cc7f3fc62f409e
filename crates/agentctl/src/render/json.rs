//! JSON for scripts, written so that no control character passes.

use std::io::Write;
use std::sync::mpsc::sync_channel;

use agentctl_model::text::json::{write, write_indented};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::Output;

/// Prints one answer: indented for a person at a terminal, on one line for a pipe.
pub(crate) fn answer(out: &mut Output, value: &impl Serialize) -> Result<(), Failure> {
    if !out.is_terminal() {
        return line(out, value);
    }
    write_indented(&mut *out, value)?;
    out.write_all(b"\n")?;
    Ok(())
}

/// Prints one value on its own line.
pub(crate) fn line(out: &mut impl Write, value: &impl Serialize) -> Result<(), Failure> {
    write(&mut *out, value)?;
    out.write_all(b"\n")?;
    Ok(())
}

/// How many elements of a long array one core serializes at a time.
const PORTION: usize = 100;

/// Prints the elements of a long array, separated by commas. All cores serialize it in portions, which are
/// written in order while the next ones are produced.
pub(crate) fn elements<T: Serialize + Sync>(out: &mut impl Write, values: &[T]) -> Result<(), Failure> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let lane = |first: usize| {
            let (hand_over, made) = sync_channel(1);
            let portions = values.chunks(PORTION).enumerate().skip(first).step_by(cores);
            scope.spawn(move || {
                for (index, portion) in portions {
                    // The receiver is gone when writing failed.
                    if hand_over.send(render(portion, index == 0)).is_err() {
                        return;
                    }
                }
            });
            made
        };
        let lanes: Vec<_> = (0..cores).map(lane).collect();
        for lane in lanes.iter().cycle().take(values.len().div_ceil(PORTION)) {
            // A lane ends early only by a panic, which the scope passes on.
            let Ok(portion) = lane.recv() else { break };
            out.write_all(&portion?)?;
        }
        Ok(())
    })
}

/// Each element after its comma, except for the very first one.
fn render<T: Serialize>(values: &[T], first: bool) -> serde_json::Result<Vec<u8>> {
    let mut buffer = Vec::with_capacity(PORTION << 11);
    for (index, value) in values.iter().enumerate() {
        if !(first && index == 0) {
            buffer.push(b',');
        }
        write(&mut buffer, value)?;
    }
    Ok(buffer)
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
