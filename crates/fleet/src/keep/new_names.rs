//! New random ids.

use std::io;

use agentctl_files::kernel;
use data_encoding::HEXLOWER;

/// A random UUID, for agents that let the caller choose a session's id.
pub fn uuid() -> io::Result<String> {
    let mut bytes = kernel::random::<16>()?;
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let text = HEXLOWER.encode(&bytes);
    Ok([&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-"))
}

/// The id of a launch.
pub fn launch_id() -> io::Result<String> {
    Ok(format!("l-{}", HEXLOWER.encode(&kernel::random::<8>()?)))
}

/// The id of a group of launches.
pub fn group_id() -> io::Result<String> {
    Ok(format!("g-{}", HEXLOWER.encode(&kernel::random::<3>()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_one_of_the_fourth_kind() {
        let (one, other) = (uuid().unwrap(), uuid().unwrap());
        assert_ne!(one, other);
        assert_eq!(one.len(), 36);
        assert_eq!(one.as_bytes()[14], b'4');
        assert!(b"89ab".contains(&one.as_bytes()[19]), "{one}");
        assert_eq!(group_id().unwrap().len(), "g-xxxxxx".len());
    }
}
