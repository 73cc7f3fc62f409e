//! Notifies a recipient in a gateway how a session ended. If the gateway does not answer, this retries for a while. The
//! progress is in `callback.json`, so that a failure is not only in a log. Nothing about the session depends on it.

use std::io;
use std::time::{Duration, Instant};

use agentctl_model::{Error, ErrorKind, Outcome, Surveyed, text};
use jiff::Timestamp;

use super::Runner;
use crate::keep::launches::{Callback, CallbackOrder, Exit};

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// After this time there are no more retries: by then the recipient will have asked.
const RETRY_LIMIT: Duration = Duration::from_mins(30);
/// How much of the session's last message is sent.
const MESSAGE_LIMIT: usize = 2000;

impl Runner<'_> {
    pub(super) fn deliver_callback(&self, session: Option<&Surveyed>, exit: &Exit) -> io::Result<()> {
        let Some(order) = &self.record.order.callback else { return Ok(()) };
        let words = words(&self.record.order.adapter, self.record.session_id.as_deref(), session, exit);
        let began = Instant::now();
        let mut pause = FIRST_PAUSE;
        // This is written before the first attempt. If this runner dies, it shows that the callback was not delivered.
        self.folder.write_callback(&Callback { delivered_at: None, error: None, given_up: false })?;
        loop {
            let (error, may_come) = match self.try_callback(order, &words) {
                Ok(()) => {
                    let done = Callback { delivered_at: Some(now()), error: None, given_up: false };
                    return self.folder.write_callback(&done);
                }
                Err(error) => {
                    let may_come = error.kind == ErrorKind::NoAnswer && began.elapsed() < RETRY_LIMIT;
                    (error.message, may_come)
                }
            };
            let state = Callback { delivered_at: None, error: Some(error), given_up: !may_come };
            self.folder.write_callback(&state)?;
            if !may_come {
                return Ok(());
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Sends under the id of this launch, so that repeated attempts are delivered once.
    fn try_callback(&self, order: &CallbackOrder, words: &str) -> Result<(), Error> {
        let server = self.fleet.server_named(&order.adapter, &order.root);
        let server = server.ok_or_else(|| {
            Error::no_answer(format!("no gateway at {} is configured any more", order.root))
        })?;
        server.tell(&order.to, words, &format!("agentctl-{}", self.record.id))
    }
}

/// The text of the notification: which session, how it ended, and its last message.
fn words(adapter: &str, id: Option<&str>, session: Option<&Surveyed>, exit: &Exit) -> String {
    let object = session.map(|surveyed| &surveyed.session);
    let outcome = object.and_then(|session| session.outcome).map_or("ended", Outcome::as_str);
    let exit = match (exit.timed_out, exit.exit_code, exit.exit_signal) {
        (true, ..) => ", its time was up".to_owned(),
        (_, Some(code), _) => format!(", exit code {code}"),
        (_, _, Some(signal)) => format!(", signal {signal}"),
        _ => String::new(),
    };
    let id = id.unwrap_or("without an id");
    let mut lines = vec![format!("agentctl: {adapter} session {id} {outcome}{exit}.")];
    if let Some(cwd) = object.and_then(|session| session.cwd.as_deref()) {
        lines.push(format!("It worked in {}.", text::one_line(cwd)));
    }
    if let Some(last) = object.and_then(|session| session.last_message.as_deref()) {
        lines.push(format!("Its last words: {}", text::clean_cut(last, Some(MESSAGE_LIMIT))));
    }
    lines.join("\n")
}

fn now() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "when it was delivered is what is written down")]
    Timestamp::now()
}

#[cfg(test)]
mod tests {
    use agentctl_model::Status;

    use super::*;
    use agentctl_testkit::sessions::{session, surveyed};

    #[test]
    fn what_is_told_names_the_session_and_its_end() {
        let mut done = session("s-1", Status::Stopped, Some(Outcome::Completed));
        done.cwd = Some("/work".into());
        done.last_message = Some("All green.".into());
        let exit = Exit {
            exit_code: Some(0),
            exit_signal: None,
            exited_at: None,
            timed_out: false,
            asked: false,
            ended_by: None,
            found_gone_at: None,
        };
        let told = words("codex", Some("s-1"), Some(&surveyed(done)), &exit);
        assert_eq!(
            told,
            "agentctl: codex session s-1 completed, exit code 0.\nIt worked in /work.\nIts last words: All green."
        );
        let killed = Exit { exit_code: None, exit_signal: Some(9), ..exit };
        assert_eq!(
            words("codex", Some("s-1"), None, &killed),
            "agentctl: codex session s-1 ended, signal 9."
        );
    }
}
