//! What a person is told of a session that needs them: once for each need. Pure.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::session::{Capability, Pending, PendingKind, Session};
use crate::status::{Outcome, Status};
use crate::text;

/// The words of a request are cut to this many characters: a notice is read at a glance, `inbox` shows it whole.
const WORDS: usize = 500;

/// One thing that a session needs, or that happened to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    pub session_id: String,
    pub adapter: String,
    /// The name of its folder, without the path to it.
    pub folder: Option<String>,
    pub need: Need,
    /// The words of the need, as its agent has them.
    pub words: Option<String>,
    /// The command that answers it.
    pub command: String,
    /// What tells this need from every other one of its session, by the agent's own records; `None` where they do not.
    pub identity: Option<String>,
}

/// What kind of need it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    Approval,
    Question,
    Limit,
    /// A status or an outcome that somebody wants to hear of.
    Word(String),
}

impl Notice {
    /// The needs of a session with this word (a status or an outcome). `id` is how the session is called in a command.
    pub fn of(session: &Session, word: &str, id: &str) -> Vec<Self> {
        // A turn that its provider refused for a quota has failed, and what to do about it is known.
        let is_failed = word == Outcome::Failed.as_str();
        let limit = session.pending.iter().find(|pending| pending.kind == PendingKind::Limit);
        if let Some(limit) = limit.filter(|_| is_failed) {
            return vec![Self::of_request(session, limit, id)];
        }
        if word != Status::Waiting.as_str() || session.pending.is_empty() {
            let need = Need::Word(word.to_owned());
            let identity = session.updated_at.map(|at| format!("{word} {at}"));
            let command = format!("agentctl peek {}", text::shell_word(id));
            return vec![Self::new(session, need, session.status_detail.as_deref(), command, identity)];
        }
        session.pending.iter().map(|pending| Self::of_request(session, pending, id)).collect()
    }

    fn of_request(session: &Session, pending: &Pending, id: &str) -> Self {
        let id = text::shell_word(id);
        let request = pending.id.as_deref().filter(|_| session.pending.len() > 1);
        let request = request.map(|id| format!(" --request {}", text::shell_word(id))).unwrap_or_default();
        let (need, command) = match pending.kind {
            PendingKind::Approval if pending.answerable => {
                (Need::Approval, format!("agentctl approve {id}{request}"))
            }
            PendingKind::Question if pending.answerable => {
                (Need::Question, format!("agentctl answer {id}{request} TEXT"))
            }
            PendingKind::Approval => (Need::Approval, format!("agentctl attach {id}")),
            PendingKind::Question => (Need::Question, format!("agentctl attach {id}")),
            PendingKind::Limit => (Need::Limit, goes_on(session, pending, &id)),
        };
        let since = pending.since.map(|since| format!("since {since}"));
        // While it waits nothing is written, so the last record names the wait where its beginning is not recorded. That
        // of the session may be the beginning of its turn, in which it can wait several times.
        let after = || session.updated_at.map(|last| format!("after {last}"));
        let identity = pending.id.as_ref().map(|id| format!("request {id}")).or(since).or_else(after);
        let words = pending.summary.as_deref().or(session.status_detail.as_deref());
        let until = pending.limited_until.map(|until| match words {
            Some(words) => format!("until {until}: {words}"),
            None => format!("until {until}"),
        });
        Self::new(session, need, until.as_deref().or(words), command, identity)
    }

    fn new(
        session: &Session,
        need: Need,
        words: Option<&str>,
        command: String,
        identity: Option<String>,
    ) -> Self {
        let folder = session.cwd.as_deref().map(|cwd| cwd.trim_end_matches('/'));
        let folder = folder.and_then(|cwd| cwd.rsplit('/').next()).filter(|name| !name.is_empty());
        let short = |text: &str, most| text::clean_cut(&text::visible_line(text), Some(most));
        Self {
            session_id: session.id.clone(),
            adapter: session.adapter.clone(),
            folder: folder.map(|name| short(name, 60)),
            need,
            words: words.map(|words| short(words, WORDS)),
            command,
            identity,
        }
    }

    /// One to show that notices arrive.
    pub fn test() -> Self {
        Self {
            session_id: "test".to_owned(),
            adapter: "agentctl".to_owned(),
            folder: None,
            need: Need::Word("test".to_owned()),
            words: Some("notices arrive here".to_owned()),
            command: "agentctl inbox".to_owned(),
            identity: None,
        }
    }

    /// Agent, folder and kind of need, and nothing else.
    pub fn title(&self) -> String {
        let folder = self.folder.as_ref().map(|folder| format!(" in {folder}")).unwrap_or_default();
        let needs = match &self.need {
            Need::Approval => "needs your approval",
            Need::Question => "asks you",
            Need::Limit => "has reached its limit",
            Need::Word(word) => match word.as_str() {
                "waiting" => "waits for you",
                "completed" => "is done",
                "idle" => "is ready",
                "running" => "works",
                "stopped" => "has stopped",
                "interrupted" => "was interrupted",
                "test" => "tests its notices",
                // failed, died
                other => other,
            },
        };
        format!("{}{folder} {needs}", self.adapter)
    }

    /// The words of the need, and below them the command that answers it.
    pub fn body(&self) -> String {
        match &self.words {
            Some(words) => format!("{words}\n{}", self.command),
            None => self.command.clone(),
        }
    }

    /// Whether a person is waited for.
    pub fn is_urgent(&self) -> bool {
        match &self.need {
            Need::Approval | Need::Question => true,
            Need::Limit => false,
            Need::Word(word) => word == Status::Waiting.as_str(),
        }
    }
}

/// The command with which a session goes on that its provider refused. Only one that nobody carries can be resumed, and
/// only where its records say when the limit ends can that be waited for.
fn goes_on(session: &Session, limit: &Pending, id: &str) -> String {
    let at = if limit.limited_until.is_some() { " --at reset" } else { "" };
    match session.status {
        Status::Stopped => format!("agentctl resume {id} MESSAGE{at}"),
        _ if session.capabilities.contains(&Capability::Send) => format!("agentctl send {id} MESSAGE"),
        _ => format!("agentctl attach {id}"),
    }
}

/// The hours in which nothing is told, by the clock on the wall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuietHours {
    from: jiff::civil::Time,
    to: jiff::civil::Time,
}

impl QuietHours {
    /// `22:00-07:00`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` are no hours, expected such as 22:00-07:00");
        let time =
            |text: &str| jiff::fmt::strtime::parse("%H:%M", text.trim()).and_then(|time| time.to_time());
        let (from, to) = text.split_once('-').ok_or_else(wrong)?;
        let (from, to) = (time(from).map_err(|_| wrong())?, time(to).map_err(|_| wrong())?);
        if from == to {
            return Err(format!("`{text}` is no time at all; leave it out to be told always"));
        }
        Ok(Self { from, to })
    }

    /// Whether this moment is among them.
    pub fn contain(self, now: Timestamp, zone: &jiff::tz::TimeZone) -> bool {
        let now = now.to_zoned(zone.clone()).time();
        if self.from < self.to {
            self.from <= now && now < self.to
        } else {
            now >= self.from || now < self.to
        }
    }
}

impl std::fmt::Display for QuietHours {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}-{}", self.from.strftime("%H:%M"), self.to.strftime("%H:%M"))
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    fn session(more: serde_json::Value) -> Session {
        let mut session = serde_json::json!({
            "id": "5f0c", "adapter": "codex", "configRoot": "/r", "status": "waiting", "outcome": null, "pending": [],
            "processes": [], "capabilities": [], "evidence": [], "meta": {}, "cwd": "/home/dev/web/",
        });
        let serde_json::Value::Object(more) = more else { panic!("an object") };
        session.as_object_mut().unwrap().extend(more);
        serde_json::from_value(session).unwrap()
    }

    #[test]
    fn a_notice_says_who_needs_what_and_how_it_is_answered() {
        let request = |id: &str, kind: &str, answerable| {
            serde_json::json!({"kind": kind, "summary": "rm -rf\u{1b}[31m build", "since": null, "answerable": answerable,
                "id": id, "options": []})
        };
        let one = session(serde_json::json!({"pending": [request("r1", "approval", true)]}));
        let notice = Notice::of(&one, "waiting", &one.id).remove(0);
        assert_eq!(notice.title(), "codex in web needs your approval");
        assert_eq!(notice.body(), "rm -rf⟨U+001B⟩[31m build\nagentctl approve 5f0c");
        assert_eq!(notice.identity.as_deref(), Some("request r1"));
        let two = [request("r 1", "approval", true), request("r2", "question", false)];
        let two = Notice::of(&session(serde_json::json!({"pending": two})), "waiting", "box/5f0c");
        assert_eq!(two[0].command, "agentctl approve box/5f0c --request 'r 1'");
        assert_eq!(
            (two[1].title().as_str(), two[1].command.as_str()),
            ("codex in web asks you", "agentctl attach box/5f0c")
        );
        let failed = session(
            serde_json::json!({"status": "idle", "statusDetail": "401", "updatedAt": "2026-11-15T07:00:00Z"}),
        );
        let failed = Notice::of(&failed, "failed", "5f0c").remove(0);
        assert_eq!(
            (failed.title().as_str(), failed.body().as_str()),
            ("codex in web failed", "401\nagentctl peek 5f0c")
        );
        assert_eq!(failed.identity.as_deref(), Some("failed 2026-11-15T07:00:00Z"));
    }

    #[test]
    fn who_was_refused_by_its_provider_is_told_with_the_command_that_goes_on() {
        let limited = |more: serde_json::Value, until: Option<&str>| {
            let limit = serde_json::json!({"kind": "limit", "summary": "usage limit reached",
                "since": "2026-11-15T07:00:00Z", "answerable": false, "id": null, "options": [], "limitedUntil": until});
            let mut session = session(more);
            session.pending = vec![serde_json::from_value(limit).unwrap()];
            session
        };
        let stopped = || serde_json::json!({"status": "stopped", "outcome": "failed", "statusDetail": "usage limit reached"});
        let until = Some("2026-11-15T12:30:00Z");
        let [told] = Notice::of(&limited(stopped(), until), "failed", "box/5f0c").try_into().unwrap();
        assert_eq!((told.title().as_str(), &told.need), ("codex in web has reached its limit", &Need::Limit));
        let words = "until 2026-11-15T12:30:00Z: usage limit reached";
        assert_eq!(told.body(), format!("{words}\nagentctl resume box/5f0c MESSAGE --at reset"));
        assert_eq!(told.identity.as_deref(), Some("since 2026-11-15T07:00:00Z"));
        assert!(!told.is_urgent(), "nobody has to do anything now");
        // Without that time there is no reset to wait for.
        let told = Notice::of(&limited(stopped(), None), "failed", "5f0c").remove(0);
        assert_eq!(told.body(), "usage limit reached\nagentctl resume 5f0c MESSAGE");
        // Who is still there cannot be resumed.
        let command = |capabilities: &[&str]| {
            let idle =
                serde_json::json!({"status": "idle", "outcome": "failed", "capabilities": capabilities});
            Notice::of(&limited(idle, until), "failed", "5f0c").remove(0).command
        };
        assert_eq!(command(&["send"]), "agentctl send 5f0c MESSAGE");
        assert_eq!(command(&[]), "agentctl attach 5f0c");
        let other = Notice::of(&limited(stopped(), until), "stopped", "5f0c").remove(0);
        assert_eq!(other.need, Need::Word("stopped".to_owned()));
    }

    #[test]
    fn quiet_hours_may_pass_midnight() {
        let at = |hour: &str| format!("2026-11-15T{hour}:00Z").parse::<Timestamp>().unwrap();
        let within =
            |hours: &str, hour: &str| QuietHours::parse(hours).unwrap().contain(at(hour), &TimeZone::UTC);
        for (hours, hour, quiet) in [
            ("22:00-07:00", "21:59", false),
            ("22:00-07:00", "22:00", true),
            ("22:00-07:00", "03:00", true),
            ("22:00-07:00", "07:00", false),
            ("12:30-13:00", "12:45", true),
            ("12:30-13:00", "13:00", false),
        ] {
            assert_eq!(within(hours, hour), quiet, "{hours} {hour}");
        }
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        assert!(
            QuietHours::parse("22:00-07:00").unwrap().contain(at("21:30"), &berlin),
            "an hour later there"
        );
        for wrong in ["22-7", "25:00-07:00", "22:00", "", "07:00-07:00", "a-b"] {
            assert!(QuietHours::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(QuietHours::parse(" 22:00 - 07:00").unwrap().to_string(), "22:00-07:00");
    }
}
