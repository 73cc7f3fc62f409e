//! Asks an agent what it is and which sessions it has, without opening one.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::greeting::{Greeting, short};
use super::wire::{self, Initialized, Listed, Message, NO_METHOD, RpcError};
use super::{LONGEST_ID, initialize_params};
use crate::hold::lines::{Line, Lines};

/// More sessions, and more pages of them, are not asked for.
const MOST_SESSIONS: usize = 10_000;
const MOST_PAGES: usize = 1_000;

/// One session that the agent lists. It says nothing about who runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub id: String,
    pub cwd: Option<String>,
    pub title: Option<String>,
    pub updated_at: Option<Timestamp>,
}

/// The agent's own list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    pub rows: Vec<Row>,
    /// What was left out, and why.
    pub warnings: Vec<String>,
}

/// What the agent has said so far.
#[derive(Debug)]
pub enum Progress {
    /// Bytes for the agent, which may be none.
    More(Vec<u8>),
    Done,
    /// Why the agent cannot be asked, in words.
    Failed(String),
}

/// The client's side of one line that opens no session. A pure machine, like [`super::Acp`].
#[derive(Debug, Default)]
pub struct Inquiry {
    lines: Lines,
    /// The sessions are wanted, and not only who the agent is.
    wants_sessions: bool,
    last_id: u64,
    pages: usize,
    pub greeting: Option<Greeting>,
    pub inventory: Inventory,
}

impl Inquiry {
    /// The inquiry, and the first bytes for the agent.
    pub fn open(wants_sessions: bool) -> (Self, Vec<u8>) {
        let bytes = wire::request(1, "initialize", &initialize_params());
        (Self { wants_sessions, last_id: 1, ..Self::default() }, bytes)
    }

    /// Takes the next bytes that the agent wrote, cut anywhere.
    pub fn hear(&mut self, bytes: &[u8]) -> Progress {
        let mut write = Vec::new();
        for line in self.lines.take(bytes) {
            let Line::Whole(line) = line else { continue };
            let Ok(message) = serde_json::from_slice::<Message>(&line) else { continue };
            match (message.method.as_deref(), message.id()) {
                (Some(_), Some(id)) => write.extend(wire::error(&id, NO_METHOD, "the method is not offered")),
                (None, Some(id)) if id.as_u64() == Some(self.last_id) => {
                    match self.answered(message.result, message.error) {
                        Progress::More(bytes) => write.extend(bytes),
                        end => return end,
                    }
                }
                _ => {}
            }
        }
        Progress::More(write)
    }

    fn answered(
        &mut self,
        result: Option<&serde_json::value::RawValue>,
        error: Option<RpcError>,
    ) -> Progress {
        let failed =
            |what: &str, error: RpcError| Progress::Failed(format!("{what}: {}", short(&error.words())));
        if self.greeting.is_some() {
            return match error {
                Some(error) => failed("the agent does not list its sessions", error),
                None => self.listed(wire::read(result).unwrap_or_default()),
            };
        }
        if let Some(error) = error {
            return failed("the agent did not open the line", error);
        }
        let said: Initialized = wire::read(result).unwrap_or_default();
        let greeting = match Greeting::take(said) {
            Ok(greeting) => greeting,
            Err(why) => return Progress::Failed(why),
        };
        let can_list = greeting.capabilities.list;
        self.greeting = Some(greeting);
        match (self.wants_sessions, can_list) {
            (false, _) => Progress::Done,
            (true, true) => self.ask(&json!({})),
            (true, false) => Progress::Failed("the agent does not offer `session/list`".to_owned()),
        }
    }

    fn ask(&mut self, params: &Value) -> Progress {
        self.last_id += 1;
        self.pages += 1;
        Progress::More(wire::request(self.last_id, "session/list", params))
    }

    fn listed(&mut self, listed: Listed) -> Progress {
        for row in listed.sessions.unwrap_or_default() {
            let Some(id) = row.session_id.filter(|id| is_usable(id)) else {
                let warning = "a session without a usable id was left out";
                if self.inventory.warnings.is_empty() {
                    self.inventory.warnings.push(warning.to_owned());
                }
                continue;
            };
            let is_known = self.inventory.rows.iter().rev().take(100).any(|known| known.id == id);
            if !is_known {
                self.inventory.rows.push(Row {
                    id,
                    cwd: row.cwd.filter(|cwd| cwd.len() < 4096),
                    title: row.title.as_deref().map(short),
                    updated_at: row.updated_at.and_then(|at| at.parse().ok()),
                });
            }
        }
        match listed.next_cursor {
            Some(_) if self.pages >= MOST_PAGES || self.inventory.rows.len() >= MOST_SESSIONS => {
                self.inventory.warnings.push("the agent lists more sessions than are read".to_owned());
                Progress::Done
            }
            Some(cursor) if cursor.len() < 4096 => self.ask(&json!({"cursor": cursor})),
            _ => Progress::Done,
        }
    }
}

fn is_usable(id: &str) -> bool {
    !id.is_empty() && id.len() <= LONGEST_ID && !id.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inquiry(lines: &[&str]) -> (Inquiry, Progress) {
        let (mut inquiry, _) = Inquiry::open(true);
        let mut last = Progress::More(Vec::new());
        for line in lines {
            last = inquiry.hear(format!("{line}\n").as_bytes());
        }
        (inquiry, last)
    }

    const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentInfo":{"name":"a","version":"2"},
        "agentCapabilities":{"sessionCapabilities":{"list":{}}}}}"#;

    #[test]
    fn a_list_has_pages_and_an_end() {
        let hello = HELLO.replace('\n', "");
        let first = r#"{"id":2,"result":{"sessions":[{"sessionId":"a","cwd":"/x","title":"t","updatedAt":"2026-11-16T10:00:00Z"},{"sessionId":""}],"nextCursor":"c"}}"#;
        let (inquiry, progress) =
            inquiry(&[&hello, first, r#"{"id":3,"result":{"sessions":[{"sessionId":"b"}]}}"#]);
        assert!(matches!(progress, Progress::Done), "{progress:?}");
        let ids: Vec<&str> = inquiry.inventory.rows.iter().map(|row| row.id.as_str()).collect();
        assert_eq!((ids, inquiry.inventory.warnings.len()), (vec!["a", "b"], 1));
        assert_eq!(inquiry.inventory.rows[0].updated_at, "2026-11-16T10:00:00Z".parse().ok());
    }

    #[test]
    fn an_endless_list_is_cut() {
        let hello = HELLO.replace('\n', "");
        let (mut inquiry, _) = inquiry(&[&hello]);
        for _ in 0..=MOST_PAGES {
            let line =
                format!(r#"{{"id":{},"result":{{"sessions":[],"nextCursor":"again"}}}}"#, inquiry.last_id);
            if let Progress::Done = inquiry.hear(format!("{line}\n").as_bytes()) {
                return;
            }
        }
        panic!("it asks for ever");
    }

    #[test]
    fn what_cannot_be_asked_says_why() {
        let no_list = r#"{"id":1,"result":{"protocolVersion":1}}"#;
        for (lines, words) in [
            (&[no_list][..], "session/list"),
            (&[r#"{"id":1,"result":{"protocolVersion":2}}"#], "version 2"),
            (&[r#"{"id":1,"error":{"code":1,"message":"no"}}"#], "no"),
        ] {
            let (_, progress) = inquiry(lines);
            assert!(matches!(&progress, Progress::Failed(why) if why.contains(words)), "{progress:?}");
        }
        let (_, progress) = inquiry(&["garbage", r#"{"id":9,"method":"fs/read","params":{}}"#]);
        assert!(matches!(&progress, Progress::More(bytes) if !bytes.is_empty()), "{progress:?}");
    }
}
