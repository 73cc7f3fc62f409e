//! Estimates how much memory a response takes once it is parsed. Pure.
//!
//! Two bytes of JSON can become a hundred in memory: `[0,0,0…` of the largest message would be a gigabyte. A response
//! that is too heavy is refused while it is still a text.

use memchr::{memchr, memchr2};

/// A thousand sessions have some seventy values each, a thousand messages fewer.
pub(crate) const MOST_VALUES: usize = 300_000;

/// How many values a JSON text has, give or take its last ones; for a text that is not JSON, some number.
pub(crate) fn values(json: &[u8]) -> usize {
    let mut rest = json;
    let mut count = 0;
    while let Some(quote) = memchr(b'"', rest) {
        count += beginnings(&rest[..quote]);
        rest = behind_string(&rest[quote + 1..]);
    }
    count + beginnings(rest)
}

/// Every value but the first comes after one of these; so do names, which weigh no less.
fn beginnings(between_strings: &[u8]) -> usize {
    between_strings.iter().filter(|byte| matches!(byte, b',' | b':' | b'[' | b'{')).count()
}

fn behind_string(mut rest: &[u8]) -> &[u8] {
    while let Some(at) = memchr2(b'"', b'\\', rest) {
        let (escaped, behind) = (rest[at] == b'\\', &rest[at + 1..]);
        if !escaped {
            return behind;
        }
        rest = behind.get(1..).unwrap_or_default();
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_weighs_is_counted_and_text_is_not() {
        assert_eq!(values(b"7"), 0);
        assert_eq!(values(br"[0,0,0]"), 3);
        assert_eq!(values(br#"{"a":[1,{"b":null}],"c":"x"}"#), 8);
        assert_eq!(values(br#"["a,b:{[","\",[[[","\\",1]"#), 4);
        for broken in [&b"\""[..], br#""\"#, br#""a\"#, b"[[[["] {
            assert!(values(broken) <= broken.len());
        }
    }
}
