//! What the targets check, and the inputs that they begin with. The README has the table.

pub mod compressed;
pub mod homes;
#[path = "../../crates/adapters/tests/mutated/invented.rs"]
mod invented;
pub mod lines;
pub mod machines;
pub mod searched;
pub mod seeds;
pub mod snapshots;
pub mod streams;
pub mod written;

/// A target: what is checked of each input, and the inputs to begin with.
///
/// With `AGENTCTL_FUZZ_SEEDS` a target only writes its seeds into that folder.
#[macro_export]
macro_rules! target {
    ($check:expr, $seeds:expr) => {
        libfuzzer_sys::fuzz_target!(init: $crate::seeds::write(|| $seeds), |bytes: &[u8]| {
            $check(bytes);
        });
    };
}

/// The bytes as text, if they are text.
pub fn text(bytes: &[u8], check: impl FnOnce(&str)) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        check(text);
    }
}

/// The first bytes as a list of sizes, and the rest. The first byte says how many there are.
pub fn sizes(bytes: &[u8]) -> (&[u8], &[u8]) {
    let Some((count, rest)) = bytes.split_first() else { return (&[], &[]) };
    rest.split_at(usize::from(count % 8).min(rest.len()))
}
