//! JSON for scripts, written so that no control character passes.

use std::io::Write;

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
