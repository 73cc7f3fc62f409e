//! What can go wrong between us and a gateway, in words that say what to do.

use std::fmt;
use std::io;
use std::time::Duration;

use serde::Deserialize;

use agentctl_model::text::{clean_cut, one_line};

use crate::wire::websocket::Closed;

#[derive(Debug)]
pub enum GatewayError {
    /// No gateway is there, or it is not reachable.
    Unreachable(io::Error),
    /// The connection ended or broke.
    Lost {
        during: String,
        error: io::Error,
    },
    Silent {
        during: String,
        timeout: Duration,
    },
    /// The gateway sent something that violates the protocol.
    Odd {
        during: String,
        what: String,
    },
    /// A valid response that would take too much memory; the next one may be smaller.
    TooHeavy {
        during: String,
        values: usize,
    },
    Refused {
        during: String,
        refusal: Box<Refusal>,
    },
    /// The gateway accepted the connection but grants no right to read.
    NoScope {
        scope: &'static str,
        paired: bool,
    },
    /// We do not even try to connect.
    Unsafe(String),
    /// The caller has given up.
    Unwanted,
}

/// An error as the gateway words it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Refusal {
    pub code: String,
    pub message: String,
    pub retryable: bool,
    pub retry_after_ms: Option<u64>,
    pub details: Details,
}

/// The details, which contain the real reason.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Details {
    pub code: Option<String>,
    pub reason: Option<String>,
    pub request_id: Option<String>,
    pub expected_protocol: Option<u64>,
}

impl Refusal {
    /// Whether the same request may succeed soon.
    pub(crate) fn is_temporary(&self) -> bool {
        self.retryable || self.code == "UNAVAILABLE"
    }

    /// The most specific code of the reason.
    pub(crate) fn code(&self) -> &str {
        self.details.code.as_deref().unwrap_or(&self.code)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |text: &str| clean_cut(&one_line(text), Some(300));
        let (message, code) = (short(&self.message), short(self.code()));
        if message.is_empty() { write!(out, "{code}") } else { write!(out, "{message} ({code})") }?;
        let hint = match self.code() {
            "PAIRING_REQUIRED" => {
                let request = self.details.request_id.as_deref().map(short);
                let request = request.unwrap_or_else(|| "<request>".to_owned());
                return write!(
                    out,
                    ": on the gateway's machine run `openclaw devices approve {request}`, then try again"
                );
            }
            "AUTH_TOKEN_MISMATCH"
            | "AUTH_TOKEN_MISSING"
            | "AUTH_PASSWORD_MISMATCH"
            | "AUTH_PASSWORD_MISSING" => {
                "give its token in OPENCLAW_GATEWAY_TOKEN or in [adapters.openclaw] of config.toml"
            }
            "DEVICE_IDENTITY_REQUIRED" => "it wants a token: set OPENCLAW_GATEWAY_TOKEN",
            "PROTOCOL_MISMATCH" => {
                let wanted = self.details.expected_protocol;
                return match wanted {
                    Some(wanted) => write!(out, ": it speaks protocol {wanted}, agentctl speaks 4"),
                    None => Ok(()),
                };
            }
            "AUTH_RATE_LIMITED" => {
                let minutes = self.retry_after_ms.map_or(5, |wait| wait.div_ceil(60_000));
                return write!(out, ": too many wrong tokens, try again in {minutes} min");
            }
            _ => return Ok(()),
        };
        write!(out, ": {hint}")
    }
}

impl GatewayError {
    /// Interprets an error of the socket.
    pub(crate) fn of(error: io::Error, during: &str, timeout: Duration) -> Self {
        let during = during.to_owned();
        match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Self::Silent { during, timeout },
            io::ErrorKind::InvalidData => Self::Odd { during, what: error.to_string() },
            _ => Self::Lost { during, error },
        }
    }

    /// The code with which the gateway closed the connection, if it did.
    pub(crate) fn close_code(&self) -> Option<u16> {
        match self {
            Self::Lost { error, .. } => error.get_ref()?.downcast_ref::<Closed>()?.code,
            _ => None,
        }
    }

    pub(crate) fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused { refusal, .. } => Some(refusal),
            _ => None,
        }
    }

    pub(crate) fn into_io(self) -> io::Error {
        io::Error::other(self.to_string())
    }
}

impl fmt::Display for GatewayError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(error) => out.write_str(&plain(error)),
            Self::Lost { during, error } => match self.close_code() {
                Some(1012) => write!(out, "{during}: the gateway is restarting"),
                _ => write!(out, "{during}: {}", plain(error)),
            },
            Self::Silent { during, timeout } => {
                write!(out, "{during}: no answer for {} ms", timeout.as_millis())
            }
            Self::TooHeavy { during, values } => {
                write!(out, "{during}: an answer of {values} values is too large")
            }
            Self::Odd { during, what } => write!(out, "{during}: not understood: {what}"),
            Self::Refused { during, refusal } => write!(out, "{during}: {refusal}"),
            Self::NoScope { scope, paired: false } => write!(
                out,
                "connected, but it grants no {scope} scope: it takes this machine for a remote one, which must be paired"
            ),
            Self::NoScope { scope, paired: true } => {
                write!(out, "connected, but it grants no {scope} scope to this device")
            }
            Self::Unsafe(why) => out.write_str(why),
            Self::Unwanted => out.write_str("nobody waits for the answer any more"),
        }
    }
}

/// The text without the number that the system appends.
fn plain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            "the connection broke".to_owned()
        }
        io::ErrorKind::TimedOut if error.get_ref().is_none() => "no answer".to_owned(),
        _ => one_line(&error.to_string()),
    }
}
