//! WebSocket frames, as far as the client and the server of a test need them.

use std::io::{self, Read, Write};

pub(super) const TEXT: u8 = 1;
pub(super) const CLOSE: u8 = 8;
pub(super) const PING: u8 = 9;
/// No test sends or expects a larger frame.
const LARGEST: u64 = 64 << 20;

/// The header of a frame with `length` bytes. Only clients mask, here with zeros.
pub(super) fn head(kind: u8, length: u64, masked: bool) -> Vec<u8> {
    let mask_bit = if masked { 0x80 } else { 0 };
    let mut head = vec![0x80 | kind];
    match u16::try_from(length) {
        Ok(short @ 0..126) => head.push(mask_bit | short.to_be_bytes()[1]),
        Ok(medium) => {
            head.push(mask_bit | 0x7e);
            head.extend(medium.to_be_bytes());
        }
        Err(_) => {
            head.push(mask_bit | 0x7f);
            head.extend(length.to_be_bytes());
        }
    }
    if masked {
        head.extend([0; 4]);
    }
    head
}

pub(super) fn write(to: &mut impl Write, kind: u8, payload: &[u8], masked: bool) -> io::Result<()> {
    let mut frame = head(kind, payload.len() as u64, masked);
    frame.extend_from_slice(payload);
    to.write_all(&frame)
}

/// Reads one frame: its kind and its payload. Neither side of a test splits messages.
pub(super) fn read(from: &mut impl Read) -> io::Result<(u8, Vec<u8>)> {
    let [first, second] = exactly(from)?;
    let length = match second & 0x7f {
        126 => u64::from(u16::from_be_bytes(exactly(from)?)),
        127 => u64::from_be_bytes(exactly(from)?),
        short => u64::from(short),
    };
    if length > LARGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mask: [u8; 4] = if second & 0x80 == 0 { [0; 4] } else { exactly(from)? };
    let mut payload = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    from.read_exact(&mut payload)?;
    payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
    Ok((first & 0x0f, payload))
}

/// Reads the header lines of an HTTP message, up to the empty line.
pub(super) fn read_http_head(from: &mut impl Read) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let [byte] = exactly(from)?;
        head.push(byte);
        if head.len() > 64 << 10 {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

fn exactly<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}
