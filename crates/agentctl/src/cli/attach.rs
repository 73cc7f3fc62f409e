//! `agentctl attach ID`: goes to the terminal in which a session runs, or prints the agent's own command to
//! open it.

use std::io::Write;
use std::path::{Path, PathBuf};

use agentctl_fleet::{Fleet, Offer, Purpose, gone_folder};
use agentctl_model::{ErrorKind, Surveyed, text};
use agentctl_process::tmux::{self, Pane};
use schemars::JsonSchema;
use serde::Serialize;

use super::target::Target;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::hosts::RosterHost;
use crate::output::Output;
use crate::render::{json, shell};
use crate::surroundings::Surroundings;

/// Go to the tmux pane where a session runs, or print the agent's own command to open it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    agentctl attach 5f0c\n  \
    agentctl attach 5f0c --print\n  \
    eval \"$(agentctl attach 5f0c --print)\"")]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// Only print the command that leads there
    #[arg(long)]
    print: bool,
    /// How to get there, as JSON: tmux, cwd, variables, argv, shell
    #[arg(long)]
    json: bool,
}

/// What `attach --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Way {
    session_id: String,
    /// The pane where it runs; `null` when it runs in none, or not at all.
    tmux: Option<TmuxPane>,
    /// The folder to be in.
    cwd: Option<String>,
    /// Variables to set.
    variables: std::collections::BTreeMap<String, String>,
    argv: Vec<String>,
    /// All of it as a line for a shell; `null` when its words cannot be shown.
    shell: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct TmuxPane {
    socket: String,
    /// tmux's own name of the pane, such as `%3`.
    id: String,
    /// Session, window and pane.
    place: String,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let fleet = surroundings.fleet()?;
    let located = args.target.find(Purpose::Act, &fleet, surroundings, out)?;
    if let Some(far) = &located.far {
        return there(args, far, &located.found, out);
    }
    let found = located.found;
    let pane = pane_of(&found, &fleet, surroundings);
    let way = match &pane {
        Some(pane) => Way::to_pane(&found, pane, surroundings),
        None => Way::to_agent(&found, &fleet, surroundings)?,
    };
    if args.json {
        json::answer(out, &way)?;
        return Ok(Exit::Done);
    }
    let at_home = pane.as_ref().is_some_and(|pane| is_reachable(pane, surroundings));
    if at_home && !args.print && out.is_terminal() {
        out.flush()?;
        let error = tmux::become_program(&way.argv);
        return Err(Failure::new(ErrorKind::Failed, format!("cannot run tmux: {error}")));
    }
    let unprintable = || {
        Failure::new(ErrorKind::Failed, "the folder or id has characters that cannot be printed (see --json)")
    };
    writeln!(out, "{}", way.shell.as_deref().ok_or_else(unprintable)?)?;
    if pane.is_some() && !at_home {
        out.hint("it is in another tmux server: leave this one first");
    }
    if let (None, Some(pid)) = (&pane, found.session.pid) {
        out.warn(&format!(
            "it lives in process {pid}, in no tmux pane; opened a second time it has two owners"
        ));
        out.hint(&text::clean(&fleet.instead_of(&[Offer::Attach, Offer::Open], &found)));
    }
    Ok(Exit::Done)
}

/// Opens it on another machine: in a terminal the way leads there, else it is printed.
fn there(args: &Args, far: &RosterHost, found: &Surveyed, out: &mut Output) -> Result<Exit, Failure> {
    let narrow = ["--adapter", &found.key.adapter, "--root", &found.key.root];
    let words = ["attach", &found.key.id].into_iter().chain(narrow).map(str::to_owned).collect::<Vec<_>>();
    let Some(command) = far.road.terminal(&words) else {
        let message = format!("no terminal can be opened on {}", far.name);
        let hint = format!("`agentctl attach {}` on that machine does it", text::shell_word(&found.key.id));
        return Err(Failure::new(ErrorKind::Unsupported, message).hint(hint));
    };
    let way = Way {
        session_id: found.session.id.clone(),
        tmux: None,
        cwd: None,
        variables: std::collections::BTreeMap::new(),
        shell: shell::command(&command),
        argv: command,
    };
    if args.json {
        json::answer(out, &way)?;
        return Ok(Exit::Done);
    }
    if !args.print && out.is_terminal() {
        out.flush()?;
        let error = tmux::become_program(&way.argv);
        return Err(Failure::new(ErrorKind::Failed, format!("cannot run ssh: {error}")));
    }
    let unprintable =
        || Failure::new(ErrorKind::Failed, "its id has characters that cannot be printed (see --json)");
    writeln!(out, "{}", way.shell.as_deref().ok_or_else(unprintable)?)?;
    Ok(Exit::Done)
}

impl Way {
    fn to_pane(found: &Surveyed, pane: &Pane, surroundings: &Surroundings) -> Self {
        let argv = pane.way(server(surroundings).as_deref() == Some(&pane.socket));
        Self {
            session_id: found.session.id.clone(),
            tmux: Some(TmuxPane {
                socket: pane.socket.to_string_lossy().into_owned(),
                id: pane.id.clone(),
                place: pane.place.clone(),
            }),
            cwd: None,
            variables: std::collections::BTreeMap::new(),
            shell: shell::command(&argv),
            argv,
        }
    }

    fn to_agent(found: &Surveyed, fleet: &Fleet, surroundings: &Surroundings) -> Result<Self, Failure> {
        let session = &found.session;
        if let (true, Some(parent)) = (session.is_subagent(), &session.parent_id) {
            let failure = Failure::new(ErrorKind::Refused, "a sub-agent cannot be opened by itself");
            return Err(
                failure.hint(format!("its parent can: `agentctl attach {}`", text::shell_word(parent)))
            );
        }
        let no_way = || {
            let message =
                format!("{} has no command that opens this session", text::one_line(&session.adapter));
            let hint = fleet.instead_of(&[Offer::Attach, Offer::Open], found);
            Failure::new(ErrorKind::Refused, message).hint(text::clean(&hint))
        };
        let opening = fleet.opening(found, &surroundings.environ).ok_or_else(no_way)?;
        // A command that starts in a folder that no longer exists cannot work.
        if let Some(folder) = gone_folder(session).filter(|_| session.pid.is_none()) {
            let message = format!("its folder {} is gone, and it is opened there", text::one_line(folder));
            let hint = fleet.instead_of(&[Offer::Attach, Offer::Open], found);
            return Err(Failure::new(ErrorKind::Refused, message).hint(text::clean(&hint)));
        }
        let variable =
            opening.root_variable.map(|(name, root)| (name.to_owned(), root.to_string_lossy().into_owned()));
        let mut way = Self {
            session_id: session.id.clone(),
            tmux: None,
            cwd: session.cwd.clone(),
            variables: variable.into_iter().collect(),
            argv: opening.argv,
            shell: None,
        };
        way.shell = way.line(surroundings);
        Ok(way)
    }

    /// `cd DIR && VARIABLE=… program …`, without the parts that already hold.
    fn line(&self, surroundings: &Surroundings) -> Option<String> {
        let elsewhere = |cwd: &&str| surroundings.cwd.as_deref() != Some(Path::new(cwd));
        let mut parts = Vec::new();
        if let Some(cwd) = self.cwd.as_deref().filter(elsewhere) {
            parts.push(format!("cd {} &&", shell::quoted(cwd)?));
        }
        for (name, value) in &self.variables {
            parts.push(format!("{name}={}", shell::quoted(value)?));
        }
        parts.push(shell::command(&self.argv)?);
        Some(parts.join(" "))
    }
}

/// The tmux pane in which the session's processes run.
fn pane_of(found: &Surveyed, fleet: &Fleet, surroundings: &Surroundings) -> Option<Pane> {
    found.session.pid?;
    let user = rustix::process::geteuid().as_raw();
    let folder = surroundings.environ.path("TMUX_TMPDIR").unwrap_or_else(|| PathBuf::from("/tmp"));
    let mut sockets = tmux::sockets(&folder.join(format!("tmux-{user}")), user);
    sockets.extend(server(surroundings).filter(|socket| !sockets.contains(socket)));
    sockets.extend(fleet.screen_of(found).filter(|socket| !sockets.contains(socket)));
    let panes: Vec<Pane> = sockets.iter().flat_map(|socket| tmux::panes(socket)).collect();
    if panes.is_empty() {
        return None;
    }
    let heads = agentctl_process::system().heads();
    let heads = heads.seen()?;
    let mut processes = found.session.processes.iter();
    processes.find_map(|process| tmux::pane_of(&panes, heads, process.pid)).cloned()
}

/// The socket of the tmux server whose pane we are in: `$TMUX` holds its socket, its pid and a session.
fn server(surroundings: &Surroundings) -> Option<PathBuf> {
    let inside = surroundings.environ.text("TMUX")?;
    inside.split(',').next().filter(|socket| !socket.is_empty()).map(PathBuf::from)
}

/// tmux cannot switch to a pane of another server.
fn is_reachable(pane: &Pane, surroundings: &Surroundings) -> bool {
    server(surroundings).is_none_or(|socket| socket == pane.socket)
}
