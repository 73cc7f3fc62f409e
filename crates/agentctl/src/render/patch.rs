//! A patch, for a person or for `git apply`.

use std::io::Write;

use agentctl_model::text;

use crate::failure::Failure;
use crate::output::Output;
use crate::render::style::Tone;

/// On a terminal the patch is coloured and without control characters; otherwise it is printed byte for byte.
pub(crate) fn print(diff: &[u8], out: &mut Output) -> Result<(), Failure> {
    if !out.is_terminal() {
        return Ok(out.write_all(diff)?);
    }
    for line in String::from_utf8_lossy(diff).lines() {
        let tone = match line.as_bytes().first() {
            _ if line.starts_with("+++ ") || line.starts_with("--- ") => Tone::Strong,
            Some(b'+') => Tone::Good,
            Some(b'-') => Tone::Bad,
            Some(b'@') => Tone::Dim,
            Some(b'd') => Tone::Strong,
            _ => Tone::Plain,
        };
        writeln!(out, "{}", out.paint.apply(tone, &text::clean(line)))?;
    }
    Ok(())
}
