//! Real agents, held by their pipes and spoken with through the machines.
#![allow(clippy::disallowed_methods, reason = "tests write what is read")]

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use agentctl_adapters::agents::{claude_code, pi};
use agentctl_adapters::hold::{Acceptance, Decision, Protocol, Request, Said, Step, Ticket, TurnEnd, Verb};
use agentctl_model::PendingKind;
use agentctl_testkit::{Claude, FakeModel, Pi, Skip, TestHome, agents, new_uuid, skip, until};

const DEADLINE: Duration = Duration::from_mins(3);

/// An agent that is held, and what it said that was not looked at yet.
struct Held {
    machine: Box<dyn Protocol>,
    child: Child,
    stdin: Option<ChildStdin>,
    heard: Receiver<Vec<u8>>,
    said: Vec<Said>,
    tickets: u64,
}

impl Held {
    fn start(mut command: Command, machine: Box<dyn Protocol>) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("start the agent");
        let mut stdout = child.stdout.take().expect("its stdout");
        let (speaks, heard) = mpsc::channel();
        thread::spawn(move || {
            let mut bytes = vec![0; 4096];
            while let Ok(count @ 1..) = stdout.read(&mut bytes) {
                if speaks.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        let stdin = child.stdin.take();
        let mut held = Self { machine, child, stdin, heard, said: Vec::new(), tickets: 0 };
        let step = held.machine.open();
        held.took(step);
        held
    }

    fn took(&mut self, step: Step) {
        self.write(&step.write);
        self.said.extend(step.said);
    }

    fn write(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().expect("an open line").write_all(bytes).expect("write to the agent");
    }

    fn tell(&mut self, verb: Verb) -> Ticket {
        self.tickets += 1;
        let step = self.machine.tell(Ticket(self.tickets), verb);
        self.took(step);
        Ticket(self.tickets)
    }

    fn send(&mut self, words: &str) -> Acceptance {
        let ticket = self.tell(Verb::Send { words: words.to_owned(), as_command: false });
        self.accepted(ticket)
    }

    fn answer(&mut self, request: &Request, decision: Decision) {
        let ticket = self.tell(Verb::Answer { request: request.id.clone(), decision });
        assert_eq!(self.accepted(ticket), Acceptance::Answered);
        self.next("the end of the request", |said| {
            matches!(said, Said::Gone { request: id } if *id == request.id).then_some(())
        });
    }

    fn interrupt(&mut self) -> (bool, usize) {
        let ticket = self.tell(Verb::Interrupt);
        match self.accepted(ticket) {
            Acceptance::Interrupted { was_open, still_queued } => (was_open, still_queued),
            other => panic!("{other:?}"),
        }
    }

    /// Takes the first thing said that is wanted, and leaves the others for later.
    fn next<T>(&mut self, what: &str, is_wanted: impl Fn(&Said) -> Option<T>) -> T {
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Some((index, found)) =
                self.said.iter().enumerate().find_map(|(index, said)| Some((index, is_wanted(said)?)))
            {
                self.said.remove(index);
                return found;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(bytes) = self.heard.recv_timeout(left) else {
                panic!("waited for {what}; said: {:#?}, state: {:#?}", self.said, self.machine.state());
            };
            let step = self.machine.hear(&bytes);
            self.took(step);
        }
    }

    fn accepted(&mut self, ticket: Ticket) -> Acceptance {
        self.next("an acceptance", |said| match said {
            Said::Accepted { ticket: of, how } if *of == ticket => Some(*how),
            Said::Refused { ticket: of, reason } if *of == ticket => panic!("refused: {reason}"),
            _ => None,
        })
    }

    fn ready(&mut self) -> String {
        self.next("the session", |said| match said {
            Said::Ready { session } => Some(session.clone()),
            _ => None,
        })
    }

    fn asked(&mut self) -> Request {
        self.next("a request", |said| match said {
            Said::Asked(request) => Some(request.clone()),
            _ => None,
        })
    }

    /// Waits for the end of a turn. Its beginning must have been told.
    fn ended(&mut self) -> TurnEnd {
        let end = self.next("the end of the turn", |said| match said {
            Said::TurnEnded(end) => Some(end.clone()),
            _ => None,
        });
        self.next("the beginning of the turn", |said| matches!(said, Said::TurnOpened).then_some(()));
        end
    }

    fn close(mut self) {
        let last = self.machine.close();
        self.write(&last);
        self.stdin = None;
        let child = &mut self.child;
        let status = until(DEADLINE, "the agent's exit", || child.try_wait().expect("look at the agent"));
        assert!(status.success(), "{status}");
        assert!(self.said.is_empty(), "not expected: {:#?}", self.said);
    }
}

fn bodies(model: &FakeModel) -> Vec<String> {
    model.requests().iter().map(|seen| seen.body.to_string()).collect()
}

struct Stage {
    home: TestHome,
    model: FakeModel,
    cwd: PathBuf,
}

impl Stage {
    fn new() -> Self {
        let home = TestHome::new();
        let cwd = home.work_dir("work");
        Self { home, model: FakeModel::start(), cwd }
    }
}

#[test]
fn claude_code_is_spoken_with() {
    let mut stage = Stage::new();
    let claude = match Claude::settle(&mut stage.home, &stage.model.url()) {
        Ok(claude) => claude,
        Err(reason) => return skip(reason),
    };
    let Stage { home, model, cwd } = &stage;
    let session = new_uuid();
    let mut command = home.command(claude.executable());
    command.args(["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]);
    command.args(["--permission-prompt-tool", "stdio", "--replay-user-messages"]);
    command.args(["--session-id", &session, "--permission-mode", "manual"]);
    command.env("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS", "1").current_dir(cwd);
    let machine = claude_code::protocol::StreamJson::new(&session, new_uuid());
    let mut held = Held::start(command, Box::new(machine));
    // The first message need not wait for the agent's start.
    assert_eq!(held.send("[[text:one]]"), Acceptance::Now);
    assert_eq!(held.ready(), session);
    assert_eq!(held.ended(), TurnEnd::Ended);

    held.send("[[bash:touch allowed]] [[text:two]]");
    let request = held.asked();
    assert_eq!(
        (request.kind, request.summary.as_deref()),
        (PendingKind::Approval, Some("Bash: touch allowed"))
    );
    held.answer(&request, Decision::AllowOnce);
    assert_eq!(held.ended(), TurnEnd::Ended);
    assert!(cwd.join("allowed").exists());

    held.send("[[bash:touch denied]] [[text:three]]");
    let request = held.asked();
    held.answer(&request, Decision::Deny { reason: Some("not on a Tuesday".to_owned()) });
    assert_eq!(held.ended(), TurnEnd::Ended);
    assert!(!cwd.join("denied").exists());
    assert!(bodies(model).iter().any(|body| body.contains("not on a Tuesday")), "the model hears the reason");

    // Allowed for the session: the second call is not asked about, and no file of settings is written.
    held.send("[[bash:touch often]] [[bash:touch often]] [[text:four]]");
    let request = held.asked();
    held.answer(&request, Decision::AllowAlways);
    assert_eq!(held.ended(), TurnEnd::Ended);
    assert!(!cwd.join(".claude").exists());

    let question = r#"{"questions": [ {"question": "Which colour?", "header": "Colour", "multiSelect": false,
        "options": [ {"label": "Red", "description": "r"}, {"label": "Blue", "description": "b"} ] } ] }"#;
    held.send(&format!("[[tool:AskUserQuestion|{question}]] [[text:five]]"));
    let request = held.asked();
    assert_eq!(
        (request.kind, request.summary.as_deref()),
        (PendingKind::Question, Some("Which colour?\n- Red: r\n- Blue: b"))
    );
    held.answer(&request, Decision::Text("rather green".to_owned()));
    assert_eq!(held.ended(), TurnEnd::Ended);
    assert!(bodies(model).iter().any(|body| body.contains(r#"\"Which colour?\"=\"rather green"#)));

    // An interrupt of a stream leaves what is queued, and that runs next.
    assert_eq!(held.send("[[hang:stream]] first"), Acceptance::Now);
    model.wait_turn("[[hang:stream]] first", 0);
    assert_eq!(held.send("[[text:six]] second"), Acceptance::Queued);
    assert_eq!(held.machine.state().queued, 1);
    assert_eq!(held.interrupt(), (true, 1));
    assert_eq!(held.ended(), TurnEnd::Interrupted);
    assert_eq!(held.ended(), TurnEnd::Ended);
    assert_eq!(held.machine.state().queued, 0);
    model.wait_turn("[[text:six]] second", 0);

    // An interrupt of a request withdraws it.
    held.send("[[bash:touch withdrawn]]");
    let request = held.asked();
    assert_eq!(held.interrupt(), (true, 0));
    held.next("the withdrawal", |said| matches!(said, Said::Gone { .. }).then_some(()));
    assert_eq!(held.ended(), TurnEnd::Interrupted);
    let late =
        held.machine.tell(Ticket(1000), Verb::Answer { request: request.id, decision: Decision::AllowOnce });
    assert!(matches!(late.said[..], [Said::Refused { .. }]), "{late:?}");
    assert_eq!(held.interrupt(), (false, 0));

    // A message in the middle of a tool call reaches the model with its result. One that looks like a command is taken
    // after the turn, and as words.
    held.send("[[bash:touch began; until [ -e go ]; do sleep 0.1; done]] [[text:seven]]");
    let request = held.asked();
    held.answer(&request, Decision::AllowOnce);
    until(DEADLINE, "the tool", || cwd.join("began").exists().then_some(()));
    assert_eq!(held.send("a note in between"), Acceptance::Queued);
    assert_eq!(held.send("/cost of a note"), Acceptance::Queued);
    fs::write(cwd.join("go"), "").unwrap();
    assert_eq!(held.ended(), TurnEnd::Ended);
    assert!(bodies(model).iter().any(|body| body.contains("a note in between")));
    assert_eq!(held.ended(), TurnEnd::Ended);
    assert!(bodies(model).iter().any(|body| body.contains(" /cost of a note")));

    // An interrupt of a tool.
    held.send("[[bash:touch started; until [ -e never ]; do sleep 0.1; done]]");
    let request = held.asked();
    held.answer(&request, Decision::AllowOnce);
    until(DEADLINE, "the tool", || cwd.join("started").exists().then_some(()));
    assert_eq!(held.interrupt(), (true, 0));
    assert_eq!(held.ended(), TurnEnd::Interrupted);

    held.send("[[err:400|for good]]");
    match held.ended() {
        TurnEnd::Failed { words } => assert!(words.contains("for good"), "{words}"),
        other => panic!("{other:?}"),
    }
    claude_code_takes_commands(&mut held, model, &session);
    held.close();
}

fn claude_code_takes_commands(held: &mut Held, model: &FakeModel, session: &str) {
    // What looks like a command reaches the model as words, and only what is meant as one does not.
    held.send("/cost is a word");
    assert_eq!(held.ended(), TurnEnd::Ended);
    assert!(bodies(model).iter().any(|body| body.contains(" /cost is a word")));
    let ticket = held.tell(Verb::Send { words: "/cost as meant".to_owned(), as_command: true });
    assert_eq!(held.accepted(ticket), Acceptance::Now);
    assert_eq!(held.ended(), TurnEnd::Ended);
    assert!(bodies(model).iter().all(|body| !body.contains("/cost as meant")));

    // A command may go on under another id.
    let ticket = held.tell(Verb::Send { words: "/clear".to_owned(), as_command: true });
    assert_eq!(held.accepted(ticket), Acceptance::Now);
    assert_ne!(held.ready(), session);
    assert_eq!(held.ended(), TurnEnd::Ended);
    assert_eq!(held.send("[[text:anew]]"), Acceptance::Now);
    assert_eq!(held.ended(), TurnEnd::Ended);
}

#[test]
fn pi_is_spoken_with() {
    let mut stage = Stage::new();
    let pi = match Pi::settle(&mut stage.home, &stage.model.url()) {
        Ok(pi) => pi,
        Err(reason) => return skip(reason),
    };
    let Stage { home, model, cwd } = &stage;
    let session = new_uuid();
    let command = pi.command(home, cwd, &["--mode", "rpc", "--session-id", &session]);
    let mut held = Held::start(command, Box::new(pi::protocol::Rpc::new()));
    // The first message need not wait for the agent's start.
    assert_eq!(held.send("[[bash:touch one]] [[text:one]]"), Acceptance::Now);
    assert_eq!(held.ready(), session);
    assert_eq!(held.ended(), TurnEnd::Ended);
    assert!(cwd.join("one").exists());

    // A message in the middle of a tool call is taken after it.
    held.send("[[bash:touch began; until [ -e go ]; do sleep 0.1; done]] [[text:two]]");
    until(DEADLINE, "the tool", || cwd.join("began").exists().then_some(()));
    assert_eq!(held.send("/a note in between"), Acceptance::Queued);
    fs::write(cwd.join("go"), "").unwrap();
    assert_eq!(held.ended(), TurnEnd::Ended);
    assert!(bodies(model).iter().any(|body| body.contains(" /a note in between")));
    assert_eq!(held.machine.state().queued, 0);

    // An interrupt of a tool.
    held.send("[[bash:touch started; until [ -e never ]; do sleep 0.1; done]]");
    until(DEADLINE, "the tool", || cwd.join("started").exists().then_some(()));
    assert_eq!(held.interrupt(), (true, 0));
    assert_eq!(held.ended(), TurnEnd::Interrupted);
    assert_eq!(held.interrupt(), (false, 0));

    // An interrupt of a stream leaves what is queued for the next turn.
    held.send("[[hang:stream]] first");
    model.wait_turn("[[hang:stream]] first", 0);
    assert_eq!(held.send("[[text:three]] second"), Acceptance::Queued);
    assert_eq!(held.interrupt(), (true, 1));
    assert_eq!(held.ended(), TurnEnd::Interrupted);
    assert_eq!(held.send("[[text:four]] third"), Acceptance::Now);
    assert_eq!(held.ended(), TurnEnd::Ended);
    assert_eq!(held.machine.state().queued, 0);
    model.wait_turn("second", 0);

    held.send("[[err:400|for good]]");
    match held.ended() {
        TurnEnd::Failed { words } => assert!(words.contains("for good"), "{words}"),
        other => panic!("{other:?}"),
    }

    held.send("/nothing of Pi's");
    assert_eq!(held.ended(), TurnEnd::Ended);
    assert!(bodies(model).iter().any(|body| body.contains(" /nothing of Pi's")));
    held.close();
}

/// Stock Pi never asks; an extension does.
const GATE: &str = r#"export default function (pi) {
  pi.on("tool_call", async (event, ctx) => {
    const command = event.input.command ?? "";
    if (command.includes("chosen")) {
      const choice = await ctx.ui.select("Allow?", ["Allow", "Always", "Block"]);
      return choice === "Allow" ? undefined : { block: true, reason: "chosen: " + choice };
    }
    if (command.includes("confirmed")) {
      const yes = await ctx.ui.confirm("Sure?", command);
      return yes ? undefined : { block: true, reason: "not confirmed" };
    }
    if (command.includes("worded")) {
      return { block: true, reason: "words: " + (await ctx.ui.input("Why?")) };
    }
    if (command.includes("timed")) {
      return { block: true, reason: "late: " + (await ctx.ui.confirm("Quick?", command, { timeout: 300 })) };
    }
  });
}
"#;

/// Pi's script in a tree of links in which it finds the package that loads extensions. The bundle is pinned without that
/// package, and the old Pi has it.
fn beside_its_loader(home: &TestHome) -> Result<PathBuf, Skip> {
    let script = agents::pi()?;
    let package = script.ancestors().find(|path| path.ends_with("pi-coding-agent")).expect("Pi's package");
    let old = agents::pi_old()?;
    let modules = old.ancestors().find(|path| path.ends_with("node_modules")).expect("its packages");
    let tree = home.path().join("tree/node_modules");
    fs::create_dir_all(&tree).expect("make the tree");
    symlink(modules.join("jiti"), tree.join("jiti")).expect("link the loader");
    symlink(package, tree.join("pi")).expect("link Pi");
    Ok(tree.join("pi").join(script.strip_prefix(package).expect("a path in the package")))
}

#[test]
fn dialogs_of_pi_are_answered() {
    let mut stage = Stage::new();
    if let Err(reason) = Pi::settle(&mut stage.home, &stage.model.url()) {
        return skip(reason);
    }
    let Stage { home, model, cwd } = &stage;
    let script = match beside_its_loader(home) {
        Ok(script) => script,
        Err(reason) => return skip(reason),
    };
    let gate = home.path().join("gate.js");
    fs::write(&gate, GATE).unwrap();
    let mut command = home.command("node");
    command.args(["--preserve-symlinks", "--preserve-symlinks-main"]).arg(script).current_dir(cwd);
    command.args(["--model", agents::pi::MODEL, "--mode", "rpc", "-e"]).arg(gate);
    let mut held = Held::start(command, Box::new(pi::protocol::Rpc::new()));
    held.ready();

    held.send("[[bash:touch chosen1]] [[bash:touch chosen2]] [[text:one]]");
    let request = held.asked();
    assert_eq!(request.kind, PendingKind::Approval);
    held.answer(&request, Decision::AllowOnce);
    let request = held.asked();
    held.answer(&request, Decision::Deny { reason: None });
    assert_eq!(held.ended(), TurnEnd::Ended);
    assert!(cwd.join("chosen1").exists() && !cwd.join("chosen2").exists());
    assert!(bodies(model).iter().any(|body| body.contains("chosen: Block")));

    held.send("[[bash:touch confirmed]] [[bash:touch worded]] [[text:two]]");
    let request = held.asked();
    held.answer(&request, Decision::AllowOnce);
    let request = held.asked();
    assert_eq!(request.kind, PendingKind::Question);
    held.answer(&request, Decision::Text("so be it".to_owned()));
    assert_eq!(held.ended(), TurnEnd::Ended);
    assert!(cwd.join("confirmed").exists());
    assert!(bodies(model).iter().any(|body| body.contains("words: so be it")));

    // Pi closes this one by itself.
    held.send("[[bash:touch timed]] [[text:three]]");
    held.asked();
    held.next("its end", |said| matches!(said, Said::Gone { .. }).then_some(()));
    assert_eq!(held.ended(), TurnEnd::Ended);
    assert!(bodies(model).iter().any(|body| body.contains("late: false")));

    held.send("[[bash:touch confirmed-never]] [[text:four]]");
    held.asked();
    assert_eq!(held.interrupt(), (true, 0));
    held.next("its end", |said| matches!(said, Said::Gone { .. }).then_some(()));
    assert_eq!(held.ended(), TurnEnd::Interrupted);
    assert!(!cwd.join("confirmed-never").exists());
    held.close();
}
