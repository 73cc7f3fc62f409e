//! JSON for scripts. The writer itself drops control characters, keys and extras included, so that no answer
//! can carry them whatever an adapter let through.

use std::io::{self, Write};
use std::sync::mpsc::sync_channel;

use agentctl_model::text;
use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter, PrettyFormatter, Serializer};

use crate::failure::Failure;
use crate::output::Output;

/// One answer: indented for a person at a terminal, one line for a pipe.
pub(crate) fn answer(out: &mut Output, value: &impl Serialize) -> Result<(), Failure> {
    if !out.is_terminal() {
        return line(out, value);
    }
    write(&mut *out, value, PrettyFormatter::new())?;
    out.write_all(b"\n")?;
    Ok(())
}

/// One value on a line of its own.
pub(crate) fn line(out: &mut impl Write, value: &impl Serialize) -> Result<(), Failure> {
    write(&mut *out, value, CompactFormatter)?;
    out.write_all(b"\n")?;
    Ok(())
}

/// How many elements of a long array one core makes at a time.
const PORTION: usize = 100;

/// The elements of a long array, joined by commas: made on all cores, portion by portion, and written in their order
/// while the next ones are made.
pub(crate) fn elements<T: Serialize + Sync>(out: &mut impl Write, values: &[T]) -> Result<(), Failure> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let lane = |first: usize| {
            let (hand_over, made) = sync_channel(1);
            let portions = values.chunks(PORTION).enumerate().skip(first).step_by(cores);
            scope.spawn(move || {
                for (index, portion) in portions {
                    // Nobody takes it where writing failed.
                    if hand_over.send(render(portion, index == 0)).is_err() {
                        return;
                    }
                }
            });
            made
        };
        let lanes: Vec<_> = (0..cores).map(lane).collect();
        for lane in lanes.iter().cycle().take(values.len().div_ceil(PORTION)) {
            // A lane ends early by a panic alone, which the scope passes on.
            let Ok(portion) = lane.recv() else { break };
            out.write_all(&portion?)?;
        }
        Ok(())
    })
}

/// Each element after its comma, but for the very first one.
fn render<T: Serialize>(values: &[T], first: bool) -> serde_json::Result<Vec<u8>> {
    let mut buffer = Vec::with_capacity(PORTION << 11);
    for (index, value) in values.iter().enumerate() {
        if !(first && index == 0) {
            buffer.push(b',');
        }
        write(&mut buffer, value, CompactFormatter)?;
    }
    Ok(buffer)
}

fn write(out: impl Write, value: &impl Serialize, inner: impl Formatter) -> serde_json::Result<()> {
    value.serialize(&mut Serializer::with_formatter(out, Harmless(inner)))
}

/// A formatter that leaves out what must never reach a terminal.
struct Harmless<F>(F);

impl<F: Formatter> Formatter for Harmless<F> {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        if fragment.is_ascii() && !fragment.contains('\u{7f}') {
            return out.write_all(fragment.as_bytes());
        }
        out.write_all(text::clean(fragment).as_bytes())
    }

    fn write_char_escape<W: ?Sized + Write>(&mut self, out: &mut W, escape: CharEscape) -> io::Result<()> {
        match escape {
            CharEscape::Quote
            | CharEscape::ReverseSolidus
            | CharEscape::Solidus
            | CharEscape::LineFeed
            | CharEscape::Tab => self.0.write_char_escape(out, escape),
            CharEscape::Backspace
            | CharEscape::FormFeed
            | CharEscape::CarriageReturn
            | CharEscape::AsciiControl(_) => Ok(()),
        }
    }

    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_array(out)
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array(out)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(out, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array_value(out)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object(out)
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object(out)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object_value(out)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object_value(out)
    }
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

    #[test]
    fn control_characters_are_gone_from_values_and_keys() {
        let value = serde_json::json!({"k\u{1b}ey": ["a\u{1b}[31m\r\nb\t\"\\", "\u{9b}2J\u{202e}é\u{7f}"]});
        let mut bytes = Vec::new();
        line(&mut bytes, &value).unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), "{\"key\":[\"a[31m\\nb\\t\\\"\\\\\",\"2Jé\"]}\n");
    }
}
