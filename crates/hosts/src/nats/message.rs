//! The form of what is sent: one line of JSON, and behind it the body as it is. Pure.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// No message is larger, whatever the server would carry.
pub const LARGEST_MESSAGE: usize = 256 << 10;
/// How much of an answer stands in one message beside its head.
pub const PART: usize = 192 << 10;
/// The version of the road, not of the program.
pub const VERSION: u32 = 1;
/// No head is longer.
const LONGEST_HEAD: usize = 48 << 10;
/// The length of a nonce in hexadecimal digits: 128 bits.
const NONCE: usize = 32;

/// A request. To one host its body follows; to all hosts it says where the answer is heard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestHead {
    pub road: u32,
    pub method: String,
    /// Path and query.
    pub target: String,
    pub accept: String,
    /// Go on behind this event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Only this instance is meant: another one of the same name refuses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// Of a request to all hosts: who asks, and his nonce for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asker: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<String>,
}

/// Asks for a further part of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartHead {
    pub road: u32,
    /// The id of the answer, which nobody but its asker knows.
    pub answer: String,
    pub part: u32,
}

/// One part of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AnswerHead {
    pub road: u32,
    pub status: u16,
    /// Of agentctl there.
    pub version: String,
    pub instance: String,
    pub part: u32,
    /// The length of this part, by which one that was cut is known.
    pub bytes: usize,
    /// The id of the answer, if there are further parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more: Option<String>,
}

/// What a host writes into the roster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RosterEntry {
    pub version: String,
    pub serve: String,
}

pub fn encode(head: &impl Serialize, body: &[u8]) -> Vec<u8> {
    // A struct of plain values always becomes JSON, and JSON in one line has no line break.
    let mut bytes = serde_json::to_vec(head).unwrap_or_default();
    bytes.push(b'\n');
    bytes.extend_from_slice(body);
    bytes
}

/// The head and the body of a message.
pub fn decode<H: DeserializeOwned>(bytes: &[u8]) -> Result<(H, &[u8]), String> {
    let end = memchr::memchr(b'\n', &bytes[..bytes.len().min(LONGEST_HEAD)]);
    let end = end.ok_or("a message without a head")?;
    let head = serde_json::from_slice(&bytes[..end]).map_err(|_| "a message whose head cannot be read")?;
    Ok((head, &bytes[end + 1..]))
}

/// One part of an answer, whole.
pub fn decode_answer(bytes: &[u8]) -> Result<(AnswerHead, &[u8]), String> {
    let (head, body) = decode::<AnswerHead>(bytes)?;
    if head.road != VERSION {
        return Err(format!("it speaks version {} of the road, not {VERSION}", head.road));
    }
    if head.bytes != body.len() {
        return Err("an answer that was cut".to_owned());
    }
    Ok((head, body))
}

/// Whether this can stand in a subject as a nonce.
pub fn is_nonce(text: &str) -> bool {
    text.len() == NONCE && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(bytes: usize) -> AnswerHead {
        AnswerHead {
            road: VERSION,
            status: 200,
            version: "0.1.0".into(),
            instance: "i".into(),
            part: 0,
            bytes,
            more: None,
        }
    }

    #[test]
    fn what_was_written_is_read_and_what_was_cut_is_not() {
        let body = b"{\"a\":\n1}";
        let message = encode(&answer(body.len()), body);
        assert_eq!(decode_answer(&message), Ok((answer(body.len()), &body[..])));
        for cut in 0..message.len() {
            assert!(decode_answer(&message[..cut]).is_err(), "{cut}");
        }
        let newer = AnswerHead { road: 2, ..answer(0) };
        assert!(decode_answer(&encode(&newer, b"")).unwrap_err().contains("version 2"));
        assert!(decode_answer(&vec![b'x'; 1 << 20]).is_err());
        assert!(LONGEST_HEAD + PART < LARGEST_MESSAGE);
    }

    #[test]
    fn a_nonce_adds_no_words_to_a_subject() {
        assert!(is_nonce(&"0f".repeat(16)));
        for bad in ["", "0f", &"*".repeat(32), &"a.".repeat(16), &"0f".repeat(17)] {
            assert!(!is_nonce(bad), "{bad}");
        }
    }
}
