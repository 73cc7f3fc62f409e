//! The options of every launch, over HTTP.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use agentctl_adapters::gateway::Addressee;
use agentctl_fleet::act::launch::{Attachments, Issue, LaunchOptions, Launcher, MAX_FILE, Stay};
use agentctl_model::Permission;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::serve::api::body::{AbsolutePath, Length, absolute, check_variables, duration};
use crate::serve::problem::Problem;
use crate::serve::server::Peer;

/// What every launch may say.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct OptionsBody {
    /// A specification to work by, appended to the prompt: an absolute path. On the unix socket alone, as all that is read.
    #[schemars(with = "Option<AbsolutePath>")]
    spec: Option<PathBuf>,
    /// Files to append to the prompt: absolute paths.
    #[serde(default)]
    #[schemars(with = "Vec<AbsolutePath>")]
    files: Vec<PathBuf>,
    /// The largest of them in bytes; without it 262144.
    max_file_size: Option<u64>,
    /// The number of an issue to append to the prompt, fetched with the `gh` CLI.
    issue: Option<u64>,
    /// The repository of the issue, as OWNER/NAME; without it the one of `cwd`.
    repo: Option<String>,
    permission_mode: Option<Permission>,
    /// Instructions to append to the agent's own system prompt.
    system_prompt_append: Option<String>,
    group: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    /// A command that runs once the session's id is known.
    on_create: Option<String>,
    /// A command that runs once the agent has ended.
    on_complete: Option<String>,
    /// The gateway that is meant, by its address or host: for a session that lives in one, and for whoever is told. Without
    /// it the first that is known.
    pub(super) gateway: Option<String>,
    /// The session of an OpenClaw gateway that is told when the agent has ended.
    callback_session: Option<String>,
    /// The agent of an OpenClaw gateway that is told when the agent has ended.
    callback_agent: Option<String>,
    /// Arguments for the agent's program, as they are. On the unix socket alone.
    #[serde(default)]
    pub(super) args: Vec<String>,
    /// Launch even where a lock or a live session holds the directory.
    #[serde(default)]
    force: bool,
    /// Run the hooks and filters that the repository of a working tree has; remembered until they change. On the unix
    /// socket alone.
    #[serde(default)]
    pub(super) trust: bool,
    /// Variables for the agent, beside all others.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// All variables of the caller, which the agent and its config root follow; without it the daemon's own. On the unix
    /// socket alone.
    pub(super) environment: Option<BTreeMap<String, String>>,
}

impl OptionsBody {
    /// Returns the prompt with its attachments. A caller over TCP chooses neither files that are read here
    /// nor arguments of the agent's program.
    pub(super) fn words(
        &self,
        prompt: Option<String>,
        cwd: &Path,
        peer: &Peer,
        launcher: &Launcher,
    ) -> Result<String, Problem> {
        self.check(peer)?;
        if self.repo.is_some() && self.issue.is_none() {
            return Err(Problem::usage("`repo` is the repository of an `issue`, and there is none"));
        }
        let attachments = Attachments {
            issue: self.issue.map(|number| Issue { number, repo: self.repo.clone() }),
            spec: self.spec.as_deref().map(|spec| absolute("spec", spec)).transpose()?,
            files: self.files.iter().map(|file| absolute("files", file)).collect::<Result<_, _>>()?,
            most: self.max_file_size.unwrap_or(MAX_FILE),
        };
        // A session in a gateway may have no local folder in which a repository could be found.
        let cwd = if agentctl_files::is_folder_within(cwd) == Ok(true) { cwd } else { Path::new("/") };
        Ok(attachments.behind(prompt, &launcher.caller, cwd)?)
    }

    /// Refuses what is not this caller's to choose.
    pub(super) fn check(&self, peer: &Peer) -> Result<(), Problem> {
        peer.check_chosen(&[
            ("env", !self.env.is_empty()),
            ("onCreate", self.on_create.is_some()),
            ("onComplete", self.on_complete.is_some()),
            ("callbackSession", self.callback_session.is_some()),
            ("callbackAgent", self.callback_agent.is_some()),
        ])?;
        peer.check_permission(self.permission_mode)?;
        if matches!(peer, Peer::Unix { .. }) {
            return Ok(());
        }
        if self.spec.is_some() || !self.files.is_empty() || self.issue.is_some() {
            return Err(Problem::forbidden("`spec`, `files` and `issue` are read on the unix socket alone")
                .hint("put their text into `prompt`"));
        }
        if !self.args.is_empty() {
            return Err(Problem::forbidden("`args` are taken on the unix socket alone"));
        }
        Ok(())
    }

    pub(super) fn options(self, stay: &StayBody) -> Result<LaunchOptions, Problem> {
        check_variables("env", &self.env)?;
        if self.args.iter().any(|arg| arg.contains('\0')) {
            return Err(Problem::usage("`args` holds a NUL, which no program can be given"));
        }
        for (name, value) in [
            ("group", &self.group),
            ("systemPromptAppend", &self.system_prompt_append),
            ("onCreate", &self.on_create),
            ("onComplete", &self.on_complete),
            ("gateway", &self.gateway),
            ("callbackSession", &self.callback_session),
            ("callbackAgent", &self.callback_agent),
        ] {
            if value.as_ref().is_some_and(|value| value.trim().is_empty()) {
                return Err(Problem::usage(format!("`{name}` is empty; leave it out instead")));
            }
        }
        Ok(LaunchOptions {
            group: self.group,
            permission: self.permission_mode,
            system_prompt: self.system_prompt_append,
            env: self.env,
            labels: self.labels,
            spec: self.spec,
            files: self.files,
            on_create: self.on_create,
            on_complete: self.on_complete,
            gateway: self.gateway,
            callback: Addressee { session: self.callback_session, agent: self.callback_agent },
            stay: stay.stay()?,
            args: self.args,
            force: self.force,
        })
    }
}

/// How long a session stays: the same for a launch, a group and a resume.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct StayBody {
    /// Stop it after this time: 30m, 2h. With `hold` it is the time of a turn, which is then interrupted.
    #[schemars(with = "Option<Length>")]
    timeout: Option<String>,
    /// Keep the session after its turn, so that it can be spoken with.
    #[serde(default)]
    hold: bool,
    /// End a held session that nobody talked to for this long: 30m, 2h.
    #[schemars(with = "Option<Length>")]
    idle_timeout: Option<String>,
    /// Start the agent's own screen in a detached tmux session, for a person to open.
    #[serde(default)]
    terminal: bool,
}

impl StayBody {
    pub(super) fn stay(&self) -> Result<Stay, Problem> {
        if self.idle_timeout.is_some() && !self.hold {
            return Err(Problem::usage("`idleTimeout` is for a session that is held; add `hold`"));
        }
        if self.hold && self.terminal {
            return Err(Problem::usage("a session is held or has its own screen: give `hold` or `terminal`"));
        }
        Ok(Stay {
            timeout: duration("timeout", self.timeout.as_deref())?,
            hold: self.hold,
            idle_timeout: duration("idleTimeout", self.idle_timeout.as_deref())?,
            terminal: self.terminal,
        })
    }
}
