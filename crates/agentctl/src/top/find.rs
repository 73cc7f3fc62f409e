//! What `/` finds: every word must fit, fuzzily, or exactly in the part of a row that it names. Pure.

use agentctl_model::{Session, text};
use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};

/// The rows that a person asked for.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Find {
    pub(crate) typed: String,
}

impl Find {
    pub(crate) fn is_empty(&self) -> bool {
        self.typed.trim().is_empty()
    }

    /// Whether a session fits. `agent:`, `folder:`, `host:`, `group:` and `status:` name a part; other words fit anywhere.
    pub(crate) fn fits(&self, session: &Session, matcher: &mut Matcher) -> bool {
        let own = |text: &Option<String>| text.clone().unwrap_or_default();
        let folder = own(&session.cwd);
        let parts = [
            session.adapter.clone(),
            session.host.clone(),
            folder.clone(),
            own(&session.branch),
            own(&session.group),
            own(&session.name),
            own(&session.prompt),
            session.status.as_str().to_owned(),
            session.id.clone(),
        ];
        let outcome = session.outcome.map(agentctl_model::Outcome::as_str).unwrap_or_default();
        self.typed.split_whitespace().all(|word| {
            let part = word.split_once(':').and_then(|(name, wanted)| {
                let part = match name {
                    "agent" => session.adapter.clone(),
                    "folder" => folder.clone(),
                    "host" => session.host.clone(),
                    "group" => own(&session.group),
                    "status" => format!("{} {outcome}", session.status.as_str()),
                    _ => return None,
                };
                Some((part, wanted))
            });
            match part {
                Some((part, wanted)) => part.to_lowercase().contains(&wanted.to_lowercase()),
                None => parts.iter().any(|part| is_like(part, word, matcher)),
            }
        })
    }
}

/// Whether the letters of a word stand in this order in the text, the way people shorten what they look for.
fn is_like(part: &str, word: &str, matcher: &mut Matcher) -> bool {
    let pattern = Pattern::parse(word, CaseMatching::Ignore, Normalization::Smart);
    let mut letters = Vec::new();
    let part = text::one_line(part);
    let length = word.chars().count();
    // Letters that are strewn over a whole sentence are no find.
    let least = u32::try_from(length * 14).unwrap_or(u32::MAX);
    pattern.score(Utf32Str::new(&part, &mut letters), matcher).is_some_and(|score| score >= least)
}

pub(crate) fn matcher() -> Matcher {
    Matcher::new(Config::DEFAULT)
}

#[cfg(test)]
mod tests {
    use agentctl_model::Status;
    use agentctl_testkit::sessions::session;

    use super::*;

    #[test]
    fn words_fit_fuzzily_and_parts_exactly() {
        let mut one = session("5b0d7f36", Status::Waiting, None);
        one.name = Some("Fix the login form".to_owned());
        one.cwd = Some("/home/dev/w/site".to_owned());
        let mut matcher = matcher();
        let mut fits = |typed: &str| Find { typed: typed.to_owned() }.fits(&one, &mut matcher);
        for typed in [
            "",
            "login",
            "LOGIN",
            "lgin",
            "claude site",
            "agent:claude",
            "folder:SITE",
            "status:wait",
            "5b0d",
        ] {
            assert!(fits(typed), "{typed}");
        }
        for typed in ["codex", "agent:codex", "folder:api", "login codex", "host:box", "group:g", "fxlfmsite"]
        {
            assert!(!fits(typed), "{typed}");
        }
    }
}
