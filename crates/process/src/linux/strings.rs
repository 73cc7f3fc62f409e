//! Lists of NUL-terminated strings: the arguments and the variables of a process. Pure.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use agentctl_model::Environ;

/// Empty strings at the end are dropped: a program that writes a title over its arguments pads them with NULs, which look
/// the same as empty arguments.
pub(super) fn argv(cmdline: &[u8]) -> Vec<String> {
    let Some(last) = cmdline.iter().rposition(|byte| *byte != 0) else { return Vec::new() };
    cmdline[..=last].split(|byte| *byte == 0).map(|arg| String::from_utf8_lossy(arg).into_owned()).collect()
}

/// Of two variables with one name the first one counts, as in `getenv`. A string without `=` is not a variable.
pub(super) fn environ(bytes: &[u8]) -> Environ {
    let pairs = bytes.split(|byte| *byte == 0).filter_map(|pair| {
        let end = pair.iter().position(|byte| *byte == b'=').filter(|end| *end > 0)?;
        Some((OsStr::from_bytes(&pair[..end]), OsStr::from_bytes(&pair[end + 1..])))
    });
    // `collect` keeps the last pair of one name, so the order is reversed.
    pairs.collect::<Vec<_>>().into_iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_keep_their_spaces_lines_and_empty_places() {
        assert_eq!(argv(b"claude\0-p\0\0fix\nit now\0"), ["claude", "-p", "", "fix\nit now"]);
        assert_eq!(argv(b"no terminator"), ["no terminator"]);
        assert_eq!(argv(b"\xff\0"), ["\u{fffd}"]);
    }

    #[test]
    fn a_padded_title_is_one_argument_and_nothing_is_none() {
        assert_eq!(argv(b"openclaw-gateway\0\0\0\0\0"), ["openclaw-gateway"]);
        assert_eq!(argv(b""), [""; 0]);
        assert_eq!(argv(b"\0\0"), [""; 0]);
    }

    #[test]
    fn variables_are_cut_at_their_first_equals_sign() {
        let environ = environ(b"A=1=2\0EMPTY=\0junk\0=odd\0A=later\0");
        assert_eq!(environ.text("A"), Some("1=2"));
        assert_eq!(environ.text("EMPTY"), None);
        assert_eq!(environ.text("junk"), None);
    }
}
