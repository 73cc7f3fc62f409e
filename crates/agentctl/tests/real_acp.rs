//! Real Gemini CLI, Qwen Code, Copilot and Kimi Code, held over their pipes with the Agent Client Protocol.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "the test plays the part of the runner")]

use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use agentctl_adapters::hold::acp::agent::{self, Agent};
use agentctl_adapters::hold::acp::{Acp, Opening, Start};
use agentctl_adapters::hold::{Acceptance, Decision, Protocol, Request, Said, Step, Ticket, TurnEnd, Verb};
use agentctl_testkit::{FakeModel, NodeAgent, Skip, TestHome, skip, until, until_seen};

const PATIENCE: Duration = Duration::from_mins(3);

type Settle = fn(&mut TestHome, &str) -> Result<NodeAgent, Skip>;

/// One agent on its line.
struct Held {
    acp: Acp,
    child: Child,
    stdin: Option<ChildStdin>,
    heard: Receiver<Vec<u8>>,
    /// Everything that was said, and how much of it was looked at.
    said: Vec<Said>,
    seen: usize,
    tickets: u64,
    cwd: PathBuf,
    model: FakeModel,
    // Ends whatever is left when it is dropped, so it is dropped last.
    home: TestHome,
}

impl Held {
    fn start(program: &str, agent: Agent, settle: Settle) -> Option<Self> {
        let model = FakeModel::start();
        let mut home = TestHome::new();
        if let Err(reason) = settle(&mut home, &model.url()) {
            skip(reason);
            return None;
        }
        let cwd = home.git_repo("held");
        let mut command = home.command(program);
        command.arg(if program == "kimi" { "acp" } else { "--acp" }).current_dir(&cwd);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let (sender, heard) = channel();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = stdout.read(&mut buffer) {
                if sender.send(buffer[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        let opening = Opening {
            cwd: cwd.to_str().unwrap().to_owned(),
            start: Start::New,
            modes: &[],
            model: None,
            launch: "test".to_owned(),
        };
        let stdin = child.stdin.take();
        let acp = Acp::new(agent, opening);
        let (said, seen, tickets) = (Vec::new(), 0, 0);
        let mut held = Self { acp, child, stdin, heard, said, seen, tickets, cwd, model, home };
        let step = held.acp.open();
        held.took(step);
        Some(held)
    }

    fn took(&mut self, step: Step) {
        self.stdin.as_mut().unwrap().write_all(&step.write).unwrap();
        self.said.extend(step.said);
    }

    fn tell(&mut self, verb: Verb) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let step = self.acp.tell(ticket, verb);
        self.took(step);
        ticket
    }

    fn send(&mut self, words: &str) -> Ticket {
        self.tell(Verb::Send { words: words.to_owned(), as_command: false })
    }

    fn answer(&mut self, request: &Request, decision: Decision) -> Ticket {
        self.tell(Verb::Answer { request: request.id.clone(), decision })
    }

    /// Listens until something fits that was said since the last time.
    #[track_caller]
    fn until<T>(&mut self, what: &str, fits: impl Fn(&Said) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            while let Some(said) = self.said.get(self.seen) {
                self.seen += 1;
                if let Some(found) = fits(said) {
                    return found;
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(bytes) = self.heard.recv_timeout(left) else {
                panic!("no {what}; the agent: {:?}; said: {:#?}", self.child.try_wait(), self.said);
            };
            let step = self.acp.hear(&bytes);
            self.took(step);
        }
    }

    #[track_caller]
    fn until_accepted(&mut self, of: Ticket) -> Acceptance {
        self.until("acceptance", |said| match said {
            Said::Accepted { ticket, how } if *ticket == of => Some(*how),
            Said::Refused { ticket, reason } if *ticket == of => panic!("refused: {reason}"),
            _ => None,
        })
    }

    #[track_caller]
    fn until_asked(&mut self) -> Request {
        self.until("request", |said| match said {
            Said::Asked(request) => Some(request.clone()),
            Said::TurnEnded(end) => panic!("the turn ended: {end:?}"),
            _ => None,
        })
    }

    /// The end of the open turn. No request may be made before it.
    #[track_caller]
    fn until_end(&mut self) -> TurnEnd {
        self.until("end of the turn", |said| match said {
            Said::TurnEnded(end) => Some(end.clone()),
            Said::Asked(request) => panic!("it asks again: {request:?}"),
            _ => None,
        })
    }

    /// A prompt whose tool is asked for, and the request.
    #[track_caller]
    fn send_tool(&mut self, command: &str, after: &str) -> Request {
        let ticket = self.send(&format!("[[bash:{command}]] {after}"));
        assert_eq!(self.until_accepted(ticket), Acceptance::Now);
        let request = self.acp.state().pending.first().cloned();
        let request = request.unwrap_or_else(|| self.until_asked());
        assert!(request.summary.as_ref().is_some_and(|words| words.contains(command)), "{request:?}");
        request
    }

    fn exists(&self, file: &str) -> bool {
        self.cwd.join(file).exists()
    }

    /// What every agent must do: a turn, a permission allowed, one denied, and an interrupt.
    #[track_caller]
    fn does_the_rounds(&mut self) {
        let first = self.send("[[text:First answer.]] hello");
        let session = self.until("session", |said| match said {
            Said::Ready { session } => Some(session.clone()),
            Said::Lost { why } => panic!("{why}"),
            _ => None,
        });
        assert_eq!(self.acp.state().session, Some(session));
        assert!(
            self.acp.greeting().is_some_and(|greeting| greeting.name.is_some() && greeting.version.is_some())
        );
        assert_eq!(self.until_accepted(first), Acceptance::Now);
        assert_eq!(self.until_end(), TurnEnd::Ended);

        let request = self.send_tool("touch allowed.txt", "[[text:It ran.]]");
        assert!(!self.exists("allowed.txt"));
        let answer = self.answer(&request, Decision::AllowOnce);
        assert_eq!(self.until_accepted(answer), Acceptance::Answered);
        assert_eq!(self.until_end(), TurnEnd::Ended);
        assert!(self.exists("allowed.txt"));

        let request = self.send_tool("touch denied.txt", "[[text:It did not run.]]");
        let answer = self.answer(&request, Decision::Deny { reason: None });
        assert_eq!(self.until_accepted(answer), Acceptance::Answered);
        self.until_end();
        assert!(!self.exists("denied.txt"));

        // The answer is taken while the tool still runs, and the turn is then interrupted in the tool.
        let request = self.send_tool("touch running.txt && tail -f /dev/null", "[[text:Never.]]");
        let answer = self.answer(&request, Decision::AllowOnce);
        assert_eq!(self.until_accepted(answer), Acceptance::Answered);
        until(PATIENCE, "the running tool", || self.exists("running.txt").then_some(()));
        let interrupt = self.tell(Verb::Interrupt);
        let done = Acceptance::Interrupted { was_open: true, still_queued: 0 };
        assert_eq!(self.until_end(), TurnEnd::Interrupted);
        assert_eq!(self.until_accepted(interrupt), done);

        // A request that waits is gone with the turn.
        let request = self.send_tool("touch late.txt", "[[text:Never.]]");
        let interrupt = self.tell(Verb::Interrupt);
        assert_eq!(self.acp.state().pending, []);
        assert_eq!(self.until_accepted(interrupt), done);
        let late = self.answer(&request, Decision::AllowOnce);
        assert_eq!(
            self.said.last(),
            Some(&Said::Refused { ticket: late, reason: "the request no longer waits".into() })
        );

        let after = self.send("[[text:Still here.]] after all that");
        assert_eq!(self.until_accepted(after), Acceptance::Now);
        assert_eq!(self.until_end(), TurnEnd::Ended);
        assert!(!self.exists("late.txt"));
    }

    /// Allowing it for the session means that it does not ask again.
    #[track_caller]
    fn is_allowed_for_the_session(&mut self) {
        let command = "echo again >> always.txt";
        let request = self.send_tool(command, "[[text:Once.]]");
        let answer = self.answer(&request, Decision::AllowAlways);
        assert_eq!(self.until_accepted(answer), Acceptance::Answered);
        assert_eq!(self.until_end(), TurnEnd::Ended);
        self.send(&format!("[[bash:{command}]] [[text:Twice.]]"));
        assert_eq!(self.until_end(), TurnEnd::Ended);
        assert_eq!(fs::read_to_string(self.cwd.join("always.txt")).unwrap(), "again\nagain\n");
    }

    /// A message in the middle of a turn comes after it.
    #[track_caller]
    fn is_spoken_to_in_mid_turn(&mut self) {
        self.send("[[hang:gate]] first");
        self.model.wait_turn("[[hang:gate]] first", 0);
        let second = self.send("[[text:Second.]] second");
        self.model.open("gate");
        assert_eq!(self.until_end(), TurnEnd::Ended);
        assert_eq!(self.until_accepted(second), Acceptance::Now);
        assert_eq!(self.until_end(), TurnEnd::Ended);
        self.model.wait_turn("[[text:Second.]] second", 0);
    }

    /// What begins like a command of another agent reaches the model as text.
    #[track_caller]
    fn takes_as_text(&mut self, beginnings: &[&str]) {
        for beginning in beginnings {
            let words = format!("{beginning} [[text:Plain.]]");
            let ticket = self.send(&words);
            assert_eq!(self.until_accepted(ticket), Acceptance::Now);
            assert_eq!(self.until_end(), TurnEnd::Ended);
            self.model.wait_turn(&words, 0);
        }
    }

    /// Ends the line in the clean way.
    fn close(mut self) {
        let bytes = self.acp.close();
        self.stdin.as_mut().unwrap().write_all(&bytes).unwrap();
        drop(self.stdin.take());
        until_seen(PATIENCE, "the end of the agent", || {
            self.child.try_wait().unwrap().ok_or_else(|| format!("{:?}", self.home.processes()))
        });
    }
}

#[test]
fn gemini_is_held() {
    let Some(mut held) = Held::start("gemini", agent::GEMINI, NodeAgent::gemini) else { return };
    held.does_the_rounds();
    held.is_spoken_to_in_mid_turn();
    held.is_allowed_for_the_session();
    held.takes_as_text(&["!echo", "#1", "@README"]);
    held.close();
}

#[test]
fn kimi_is_held() {
    let Some(mut held) = Held::start("kimi", agent::KIMI, NodeAgent::kimi) else { return };
    held.does_the_rounds();
    held.is_spoken_to_in_mid_turn();
    held.takes_as_text(&["/help", "!echo", "#1", "@README"]);
    held.is_allowed_for_the_session();
    held.close();
}

#[test]
fn copilot_is_held() {
    let Some(mut held) = Held::start("copilot", agent::COPILOT, NodeAgent::copilot) else { return };
    held.does_the_rounds();
    held.is_spoken_to_in_mid_turn();
    held.takes_as_text(&["!echo", "#1", "@README"]);
    held.close();
}

#[test]
fn qwen_is_held() {
    let Some(mut held) = Held::start("qwen", agent::QWEN, NodeAgent::qwen) else { return };
    held.does_the_rounds();
    held.is_spoken_to_in_mid_turn();
    held.takes_as_text(&["/help", "!echo", "#1", "@README"]);
    // It asks for messages after each tool.
    let request = held.send_tool("touch steered.txt", "[[text:Not reached.]]");
    let steer = held.send("[[text:Steered.]] another way");
    let answer = held.answer(&request, Decision::AllowOnce);
    assert_eq!(held.until_accepted(answer), Acceptance::Answered);
    assert_eq!(held.until_accepted(steer), Acceptance::Now);
    assert_eq!(held.until_end(), TurnEnd::Ended);
    assert!(!held.acp.state().turn_open, "it was taken into the turn");
    held.model.wait_request("the message in the turn", |seen| seen.body.to_string().contains("another way"));
    held.close();
}
