//! A home with Claude Code in it, a model to talk to, and `agentctl` to ask.

use std::path::{Path, PathBuf};
use std::time::Duration;

use agentctl_testkit::{Background, Claude, FakeModel, TestHome, skip, until_seen};
use serde_json::Value;

/// Longer than anything takes on a busy machine: a wait that reaches this has failed.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(2);

/// Lets the agent use its tools without asking.
pub(crate) const TRUSTING: [&str; 2] = ["--permission-mode", "bypassPermissions"];

pub(crate) struct Scene {
    // The processes must be gone before the model they talk to: fields are dropped in this order.
    pub(crate) home: TestHome,
    pub(crate) model: FakeModel,
    pub(crate) claude: Claude,
}

impl Scene {
    /// `None`, with a printed reason, where the agent is not available.
    pub(crate) fn open() -> Option<Self> {
        let model = FakeModel::start();
        let mut home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
        match Claude::settle(&mut home, &model.url()) {
            Ok(claude) => Some(Self { home, model, claude }),
            Err(reason) => {
                skip(reason);
                None
            }
        }
    }

    /// A headless run that need not ask for permission.
    pub(crate) fn run(&self, cwd: &Path, id: &str, prompt: &str) -> Background {
        self.claude.headless(&self.home, cwd, id, prompt, &TRUSTING)
    }

    /// A headless run on an existing session: `["--resume", id]` and further arguments.
    pub(crate) fn run_again(&self, cwd: &Path, arguments: &[&str], prompt: &str) -> Background {
        let mut command = self.home.command(self.claude.executable());
        command.args(["-p", "--output-format", "stream-json", "--verbose"]).args(TRUSTING);
        command.args(arguments).current_dir(cwd);
        Background::spawn_with_input(&self.home, command, prompt)
    }

    /// The answer of a command that must succeed.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Value {
        self.home.agentctl(arguments).ok().json()
    }

    /// The rows of a list that omitted nothing.
    #[track_caller]
    pub(crate) fn rows(&self, arguments: &[&str]) -> Vec<Value> {
        let mut answer = self.ask(&[&["list", "--json"], arguments].concat());
        // A note whose writing takes longer than any reader waits is named in a warning, and allowed here.
        let excused =
            |warning: &Value| warning.as_str().is_some_and(|text| text.contains("/.claude/sessions/"));
        for source in answer["sources"].as_array().unwrap() {
            let warnings = source["warnings"].as_array().unwrap();
            let heard = matches!(source["coverage"].as_str(), Some("complete" | "not-installed"));
            assert!(heard || warnings.iter().all(excused), "{answer:#}");
        }
        let Value::Array(rows) = answer["sessions"].take() else { panic!("no sessions in {answer}") };
        rows
    }

    /// The row of one session among everything stored; `None` if there is none, and never two.
    pub(crate) fn row(&self, id: &str) -> Option<Value> {
        let mut rows = self.rows(&["--since", "all", "--all-agents"]);
        rows.retain(|row| row["id"] == id);
        assert!(rows.len() <= 1, "two rows for {id}: {rows:#?}");
        rows.pop()
    }

    /// Waits until the session has this status and outcome (`"running"`, `"stopped/died"`).
    #[track_caller]
    pub(crate) fn wait_verdict(&self, id: &str, wanted: &str) -> Value {
        until_seen(TIMEOUT, &format!("{id} {wanted}"), || match self.row(id) {
            Some(row) if verdict(&row) == wanted => Ok(row),
            other => Err(format!("{other:#?}")),
        })
    }

    /// The session's verdict right now, the same from a list and from `status`.
    #[track_caller]
    pub(crate) fn verdict(&self, id: &str) -> String {
        let row = self.row(id).unwrap_or_else(|| panic!("{id} is not listed"));
        let status = self.status(id);
        assert_eq!(verdict(&row), verdict(&status), "list and status disagree: {row:#} {status:#}");
        verdict(&row)
    }

    pub(crate) fn status(&self, id: &str) -> Value {
        self.ask(&["status", id, "--json"])
    }

    /// The agent's own note about this process, as soon as it exists.
    pub(crate) fn wait_registry(&self, pid: u32) -> Value {
        until_seen(TIMEOUT, &format!("a registry entry of {pid}"), || {
            Claude::registry(&self.home, pid).ok_or("none")
        })
    }

    pub(crate) fn registry_file(&self, pid: u32) -> PathBuf {
        self.home.path().join(format!(".claude/sessions/{pid}.json"))
    }
}

/// `running`, `idle/completed`, `stopped/died`.
pub(crate) fn verdict(session: &Value) -> String {
    let words = [&session["status"], &session["outcome"]];
    words.iter().filter_map(|word| word.as_str()).collect::<Vec<_>>().join("/")
}

/// Tokens as input, output, cache read, cache write.
pub(crate) fn tokens(session: &Value) -> [Option<u64>; 4] {
    ["in", "out", "cacheRead", "cacheWrite"].map(|part| session["tokens"][part].as_u64())
}

/// Waits for a file that a tool creates, and returns the number in it.
pub(crate) fn wait_number(path: &Path) -> u32 {
    until_seen(TIMEOUT, &format!("a number in {}", path.display()), || {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.trim().parse().map_err(|_| text)
    })
}

/// Whether a process can still act: it exists, is no zombie, and the kernel is not ending it already.
pub(crate) fn is_alive(pid: u32) -> bool {
    const ENDING: u64 = 0x4;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let (Some(state), Some(flags)) = (fields.first(), fields.get(6)) else { return false };
    !matches!(*state, "Z" | "X") && flags.parse::<u64>().is_ok_and(|flags| flags & ENDING == 0)
}
