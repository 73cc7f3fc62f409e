//! The machine against recordings of real agents and against a scripted one that behaves badly.

mod hostile;
mod opening;
mod preferences;
mod recorded;
mod requests;
mod sends;

use serde_json::{Value, json};

use super::agent::{self, Agent};
use super::{Acp, Opening, Start};
use crate::hold::{Acceptance, Decision, Protocol, Said, Step, Ticket, TurnEnd, Verb};

const SESSION: &str = "s-1";

fn opening() -> Opening {
    Opening {
        cwd: "/home/dev/work".into(),
        start: Start::New,
        modes: &[],
        model: None,
        launch: "launch-1".into(),
    }
}

/// The machine and a scripted agent that says whatever a test wants.
struct Scene {
    acp: Acp,
    tickets: u64,
}

impl Scene {
    /// A line on which nothing was said yet but `initialize`.
    fn started(agent: Agent, opening: Opening) -> Self {
        let mut acp = Acp::new(agent, opening);
        let frames = frames(&acp.open());
        assert_eq!(frames[0]["method"], "initialize");
        Self { acp, tickets: 0 }
    }

    /// A line with an open session.
    fn open(agent: Agent) -> Self {
        let mut scene = Self::started(agent, opening());
        scene.greets(&json!({"protocolVersion": 1}));
        let step = scene.hears(&json!({"id": 2, "result": {"sessionId": SESSION}}));
        assert_eq!(step.said, [Said::Ready { session: SESSION.into() }]);
        scene
    }

    /// A line with a turn that the agent has taken, under the id 3.
    fn working(agent: Agent) -> Self {
        let mut scene = Self::open(agent);
        scene.sends("go");
        let step = scene.chunk();
        assert_eq!(step.said, [accepted(1, Acceptance::Now)]);
        scene
    }

    fn greets(&mut self, result: &Value) -> Step {
        self.hears(&json!({"jsonrpc": "2.0", "id": 1, "result": result}))
    }

    fn hears(&mut self, message: &Value) -> Step {
        self.acp.hear(format!("{message}\n").as_bytes())
    }

    fn updates(&mut self, update: &Value) -> Step {
        self.hears(&json!({"method": "session/update", "params": {"sessionId": SESSION, "update": update}}))
    }

    fn chunk(&mut self) -> Step {
        self.updates(
            &json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}}),
        )
    }

    fn asks(&mut self, id: u64, call: &Value, options: &Value) -> Step {
        let params = json!({"sessionId": SESSION, "toolCall": call, "options": options});
        self.hears(&json!({"id": id, "method": "session/request_permission", "params": params}))
    }

    fn tells(&mut self, verb: Verb) -> Step {
        self.tickets += 1;
        self.acp.tell(Ticket(self.tickets), verb)
    }

    fn sends(&mut self, words: &str) -> Step {
        self.tells(Verb::Send { words: words.into(), as_command: false })
    }

    fn answers(&mut self, request: &str, decision: Decision) -> Step {
        self.tells(Verb::Answer { request: request.into(), decision })
    }

    fn pending(&self) -> Vec<String> {
        self.acp.state().pending.into_iter().map(|request| request.id).collect()
    }
}

fn frames(step: &Step) -> Vec<Value> {
    let text = std::str::from_utf8(&step.write).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn accepted(ticket: u64, how: Acceptance) -> Said {
    Said::Accepted { ticket: Ticket(ticket), how }
}

fn gone(request: &str) -> Said {
    Said::Gone { request: request.into() }
}

fn ended() -> Said {
    Said::TurnEnded(TurnEnd::Ended)
}

/// The reason of the only thing that was said.
fn refusal(step: &Step) -> &str {
    match &step.said[..] {
        [Said::Refused { reason, .. }] => reason,
        other => panic!("not refused alone: {other:?}"),
    }
}

fn lost(step: &Step) -> &str {
    match step.said.last() {
        Some(Said::Lost { why }) => why,
        other => panic!("not lost: {other:?}"),
    }
}

fn unknown() -> Agent {
    agent::UNKNOWN
}
