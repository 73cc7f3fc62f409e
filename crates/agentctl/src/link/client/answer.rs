//! One complete response of the daemon.

use std::io;

use agentctl_adapters::wire::http::{Head, Response};
use agentctl_daemon::Problem;
use agentctl_daemon::wire::VERSION;
use agentctl_model::ErrorKind;

use super::OWN_VERSION;
use super::deadline::DeadlineStream;
use crate::failure::Failure;

/// No response is larger: a list of a hundred thousand sessions is some hundred megabytes.
const LARGEST: usize = 1 << 30;

#[derive(Debug)]
pub(crate) struct Answer {
    head: Head,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(super) fn read(stream: DeadlineStream) -> io::Result<Self> {
        let mut response = Response::read(stream)?;
        // A truncated body must not pass for an answer, so each response has to announce its end.
        if !response.says_its_end() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "an answer without its length"));
        }
        let body = response.whole(LARGEST)?;
        Ok(Self { head: response.head, body })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.header(name)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.head.status == 200
    }

    /// Only a daemon of this version gives the same answers as this process.
    pub(crate) fn is_of_our_version(&self) -> bool {
        self.header(VERSION) == Some(OWN_VERSION)
    }

    /// Why the request failed, as if this process had found it out itself.
    pub(super) fn failure(&self) -> Failure {
        let Ok(problem) = serde_json::from_slice::<Problem>(&self.body) else {
            return Failure::new(ErrorKind::Failed, format!("the daemon answered {}", self.head.status));
        };
        Failure::from(&problem)
    }
}
