//! Every subject. The rights of a user of the server are lists of these, so what is named here is what an operator
//! grants. Pure.

use ring::digest::{SHA256, digest};

use crate::name::HostName;

/// How many groups of hosts there are for requests to all of them.
pub const BUCKETS: u8 = 64;
/// The roster: a bucket of the server's key-value store, and the stream behind it.
pub const ROSTER: &str = "agentctl_hosts";
pub const ROSTER_STREAM: &str = "KV_agentctl_hosts";
/// The stream that keeps events, where one was asked for.
pub const HISTORY: &str = "agentctl_events";

/// What a request may do: two trees, so that the server can grant one without the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tree {
    Read,
    Act,
}

impl Tree {
    fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Act => "act",
        }
    }

    /// What a host listens to.
    pub fn served(self, host: &HostName) -> String {
        format!("agentctl.{}.{host}.>", self.word())
    }

    pub fn request(self, host: &HostName) -> String {
        format!("agentctl.{}.{host}.request", self.word())
    }

    /// A further part of an answer.
    pub fn part(self, host: &HostName) -> String {
        format!("agentctl.{}.{host}.part", self.word())
    }
}

/// Who is there, and in which version.
pub fn hello(host: &HostName) -> String {
    format!("agentctl.read.{host}.hello")
}

/// What the last word of a subject of a host asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    Hello,
    Request,
    Part,
}

pub fn asked(subject: &str) -> Option<Asked> {
    match subject.split('.').collect::<Vec<_>>().as_slice() {
        ["agentctl", "read", _, "hello"] => Some(Asked::Hello),
        ["agentctl", "read" | "act", _, "request"] => Some(Asked::Request),
        ["agentctl", "read" | "act", _, "part"] => Some(Asked::Part),
        _ => None,
    }
}

/// The group of a host.
pub fn bucket(host: &HostName) -> u8 {
    digest(&SHA256, host.as_str().as_bytes()).as_ref()[0] % BUCKETS
}

/// A request to every host of a group.
pub fn fan_out(bucket: u8) -> String {
    format!("agentctl.read.all.{bucket}")
}

/// Where a host answers a request to all: the server lets this host alone publish there, and this asker alone listen.
pub fn answer(host: &HostName, asker: &HostName, nonce: &str) -> String {
    format!("agentctl.answer.{host}.{asker}.{nonce}")
}

/// The answers of all hosts to one request.
pub fn answers(asker: &HostName, nonce: &str) -> String {
    format!("agentctl.answer.*.{asker}.{nonce}")
}

/// Who answered. The server vouches for this name, and for no other in the answer.
pub fn answerer(subject: &str) -> Option<HostName> {
    let mut words = subject.split('.');
    if (words.next(), words.next()) != (Some("agentctl"), Some("answer")) {
        return None;
    }
    HostName::parse(words.next()?).ok()
}

/// Where a host tells an event of this type.
pub fn event(host: &HostName, kind: &str) -> String {
    format!("agentctl.event.{host}.{kind}")
}

/// The beginning of the subjects on which a user of the server hears answers to his own requests.
pub fn inbox(user: &HostName) -> String {
    format!("_INBOX.{user}")
}

/// The entry of a host in the roster.
pub fn roster_entry(host: &HostName) -> String {
    format!("$KV.{ROSTER}.{host}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> HostName {
        HostName::parse(text).unwrap()
    }

    #[test]
    fn subjects_are_those_that_the_documents_name() {
        let (dev, ann) = (name("dev1"), name("ann"));
        assert_eq!(Tree::Read.served(&dev), "agentctl.read.dev1.>");
        assert_eq!(Tree::Act.request(&dev), "agentctl.act.dev1.request");
        assert_eq!(fan_out(7), "agentctl.read.all.7");
        assert_eq!(answer(&dev, &ann, "0f"), "agentctl.answer.dev1.ann.0f");
        assert_eq!(answers(&ann, "0f"), "agentctl.answer.*.ann.0f");
        assert_eq!(event(&dev, "session.stopped"), "agentctl.event.dev1.session.stopped");
        assert_eq!(answerer("agentctl.answer.dev1.ann.0f"), Some(dev.clone()));
        assert_eq!(answerer("agentctl.event.dev1.ann.0f"), None);
        assert_eq!(answerer("agentctl.answer.all.ann.0f"), None);
        assert_eq!(asked(&Tree::Act.part(&dev)), Some(Asked::Part));
        assert_eq!(asked("agentctl.act.dev1.hello"), None);
        assert_eq!(asked("agentctl.read.dev1.request.more"), None);
    }

    #[test]
    fn the_bucket_is_the_first_byte_of_the_hash_of_the_name() {
        // printf dev1 | sha256sum
        assert_eq!(bucket(&name("dev1")), 0xcf % 64);
        let mut seen = [0_usize; BUCKETS as usize];
        for number in 0..6400 {
            seen[usize::from(bucket(&name(&format!("host-{number}"))))] += 1;
        }
        assert!(seen.iter().all(|count| (50..200).contains(count)), "{seen:?}");
    }
}
