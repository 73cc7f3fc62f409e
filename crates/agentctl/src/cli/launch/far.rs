//! `launch --host NAME`: on another machine, through its API. Folders, files and working trees are those of that
//! machine, and so are the defaults of its settings. Over several machines it is a group, whose slots are spread.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use agentctl_fleet::act::launch::{Choice, check_count};
use agentctl_fleet::keep::new_names;
use agentctl_fleet::read::groups::{FailedSlot, GroupLaunch};
use agentctl_fleet::{Purpose, Selector};
use agentctl_model::{ErrorKind, Outcome, Session, Status, text};
use serde_json::{Map, Value, json};

use super::{Args, matrix, turn};
use crate::cli::wait;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::hosts::{Asked, Located, NotLocated, RosterHost, full, length, side_by_side};
use crate::output::Output;
use crate::render::table::{Cell, Column, Table};
use crate::render::width::wrap;
use crate::render::{json as writer, style};
use crate::surroundings::Surroundings;

/// What a machine is to launch.
struct Share {
    host: Arc<RosterHost>,
    slots: Vec<Slot>,
}

/// An agent that a machine is to start; without a name it is the one that the settings there name.
#[derive(Clone)]
struct Slot {
    adapter: Option<String>,
    model: Option<String>,
    branch: Option<String>,
}

pub(super) fn run(
    args: &Args,
    asked: &Asked,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let usage = |words: &str| Failure::new(ErrorKind::Usage, words);
    if args.dry_run {
        return Err(usage("--dry-run shows what this machine would start").hint("leave out --host"));
    }
    if asked.local {
        return Err(usage("a launch is spread over other machines only")
            .hint("launch here without --host, with the same --group"));
    }
    let matrix = args.matrix.as_deref().map(|path| matrix::read(&surroundings.meant(path))).transpose()?;
    let listed = matrix.as_ref();
    let prompt = args.prompt.alone(listed.and_then(|matrix| matrix.prompt.as_deref()))?;
    let cwd = args.cwd.as_deref().or(listed.and_then(|matrix| matrix.cwd.as_deref()));
    let cwd = cwd.map(folder).transpose()?;
    let slots: Vec<Slot> = match listed {
        Some(matrix) => matrix.slots().into_iter().map(Slot::from).collect(),
        None => args.pairs.unsettled().into_iter().map(Slot::from).collect(),
    };
    let body = args.body(prompt.as_deref(), cwd.as_deref())?;
    let side_by_side = matrix.is_some() || slots.len() > 1;
    let hosts = asked.each();
    if let ([host], [slot], false) = (hosts.as_slice(), slots.as_slice(), side_by_side) {
        let body = with(body, slot.pairs().chain(args.worktree_body()?));
        return one(args, host, &Value::Object(body), surroundings, out);
    }
    let base = args.base_branch.clone().or_else(|| listed.and_then(|matrix| matrix.base_branch.clone()));
    let shares = spread(&hosts, slots)?;
    several(args, &shares, body, base.as_deref(), surroundings, out)
}

/// Every slot on one machine, in turn; a single one on each.
fn spread(hosts: &[Arc<RosterHost>], slots: Vec<Slot>) -> Result<Vec<Share>, Failure> {
    let mut shares: Vec<Share> =
        hosts.iter().map(|host| Share { host: host.clone(), slots: Vec::new() }).collect();
    let slots = match slots.as_slice() {
        [one] => vec![one.clone(); hosts.len()],
        _ => slots,
    };
    check_count(slots.len()).map_err(|why| Failure::new(ErrorKind::Usage, why))?;
    if slots.len() < hosts.len() {
        let words = format!("{} agents cannot be spread over {} machines", slots.len(), hosts.len());
        return Err(Failure::new(ErrorKind::Usage, words).hint("name fewer hosts, or one agent for each"));
    }
    let count = shares.len();
    for (index, slot) in slots.into_iter().enumerate() {
        shares[index % count].slots.push(slot);
    }
    Ok(shares)
}

fn one(
    args: &Args,
    host: &Arc<RosterHost>,
    body: &Value,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<Exit, Failure> {
    out.progress(Some(&format!("starting it on {} ...", host.name)));
    let session = host.launch(body);
    out.progress(None);
    turn::tell_far(&session?, host, (args.wait, args.json), surroundings, out)
}

fn several(
    args: &Args,
    shares: &[Share],
    mut body: Map<String, Value>,
    base: Option<&str>,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<Exit, Failure> {
    if args.worktree.is_some() {
        let message = "several agents get a working tree each by themselves";
        return Err(Failure::new(ErrorKind::Usage, message)
            .hint("leave out --worktree and --branch; --cwd names the repository"));
    }
    let group = match &args.group {
        Some(group) => group.clone(),
        None => new_names::group_id().map_err(|error| Failure::new(ErrorKind::Failed, error.to_string()))?,
    };
    body.insert("group".to_owned(), Value::String(group.clone()));
    // One agent on each machine needs no tree of its own; several in one repository do.
    let alone =
        shares.iter().all(|share| share.slots.len() == 1) && args.matrix.is_none() && shares.len() > 1;
    let count: usize = shares.iter().map(|share| share.slots.len()).sum();
    out.progress(Some(&format!("starting {count} agents on {} machines ...", shares.len())));
    let launched = side_by_side(shares, |share| share.launch(&body, base, alone));
    out.progress(None);
    let mut sessions: Vec<(Arc<RosterHost>, Session)> = Vec::new();
    let mut failed = Vec::new();
    let mut exit = Exit::Done;
    for (share, launched) in shares.iter().zip(launched) {
        match launched {
            Ok(there) => {
                sessions.extend(there.sessions.into_iter().map(|session| (share.host.clone(), session)));
                let named =
                    |slot: FailedSlot| FailedSlot { slot: full(Some(&share.host), &slot.slot), ..slot };
                failed.extend(there.failed.into_iter().map(named));
            }
            Err(Failure::Said(error)) => {
                exit = exit.or_worse(error.kind.into());
                let hint = error.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
                let error = format!("{}{hint}", error.message);
                failed.push(FailedSlot { slot: share.host.name.to_string(), error });
            }
            Err(gone) => return Err(gone),
        }
    }
    if !failed.is_empty() {
        exit = exit.or_worse(Exit::Failed);
    }
    if args.wait {
        let waited = wait_for(&mut sessions, args.json, surroundings, out)?;
        exit = exit.or_worse(waited);
    }
    let went_wrong = |session: &Session| {
        session.status == Status::Stopped && session.outcome.is_some_and(|how| how != Outcome::Completed)
    };
    if sessions.iter().any(|(_, session)| went_wrong(session)) {
        exit = exit.or_worse(Exit::Failed);
    }
    if args.json {
        let sessions = sessions.into_iter().map(|(_, session)| session).collect();
        writer::answer(out, &GroupLaunch { group, sessions, failed })?;
    } else {
        tell(&group, &sessions, &failed, out)?;
    }
    Ok(exit)
}

/// Waits until every turn is over, and reads the sessions again.
fn wait_for(
    sessions: &mut [(Arc<RosterHost>, Session)],
    silent: bool,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let mut located = Vec::new();
    for (host, session) in sessions.iter() {
        located.push(locate(host, session)?);
    }
    let fleet = surroundings.fleet()?;
    let ended = wait::for_turns(located.clone(), silent, &fleet, surroundings, out)?;
    for ((_, session), before) in sessions.iter_mut().zip(&located) {
        if let Some(now) = before.again(&fleet) {
            *session = *now.session;
        }
    }
    Ok(ended)
}

/// Finds a session that was just launched there.
pub(super) fn locate(host: &Arc<RosterHost>, session: &Session) -> Result<Located, Failure> {
    let selector = Selector {
        text: session.id.clone(),
        adapter: Some(session.adapter.clone()),
        root: Some(session.config_root.clone()),
        cwd: None,
    };
    host.find(&selector, Purpose::Show).map_err(|why| match why {
        NotLocated::Road(failure) => host.unheard(&failure),
        NotLocated::Refused(failure) => failure,
        NotLocated::Not(_) => {
            let words = format!("{} was launched, and is not seen now", full(Some(host), &session.id));
            Failure::new(ErrorKind::Incomplete, words)
        }
    })
}

impl Share {
    fn launch(
        &self,
        body: &Map<String, Value>,
        base: Option<&str>,
        alone: bool,
    ) -> Result<GroupLaunch, Failure> {
        if let ([slot], true) = (self.slots.as_slice(), alone) {
            let body = Value::Object(with(body.clone(), slot.pairs()));
            let session = self.host.launch(&body)?;
            return Ok(GroupLaunch { group: String::new(), sessions: vec![session], failed: Vec::new() });
        }
        let launches: Vec<Value> =
            self.slots.iter().map(|slot| Value::Object(with(Map::new(), slot.pairs()))).collect();
        let more = [("launches", Value::Array(launches)), ("baseBranch", json!(base))];
        self.host.launch_group(&Value::Object(with(body.clone(), more.into_iter())))
    }
}

impl Slot {
    fn pairs(&self) -> impl Iterator<Item = (&'static str, Value)> {
        let all = [("adapter", &self.adapter), ("model", &self.model), ("branch", &self.branch)];
        let given: Vec<_> =
            all.into_iter().filter_map(|(name, value)| Some((name, json!(value.as_ref()?)))).collect();
        given.into_iter()
    }
}

impl From<Choice> for Slot {
    fn from(Choice { adapter, model, branch }: Choice) -> Self {
        Self { adapter: Some(adapter), model, branch }
    }
}

impl From<(Option<String>, Option<String>)> for Slot {
    fn from((adapter, model): (Option<String>, Option<String>)) -> Self {
        Self { adapter, model, branch: None }
    }
}

fn with(
    mut body: Map<String, Value>,
    more: impl Iterator<Item = (&'static str, Value)>,
) -> Map<String, Value> {
    body.extend(more.map(|(name, value)| (name.to_owned(), value)));
    body
}

/// A folder of the other machine, which is not looked at here.
fn folder(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().filter(|text| text.starts_with('/'));
    text.map(str::to_owned).ok_or_else(|| {
        let message = format!("{} is no absolute path", text::one_line(&path.to_string_lossy()));
        Failure::new(ErrorKind::Usage, message).hint("name the folders of another machine from / on")
    })
}

impl Args {
    /// What every launch there is told.
    fn body(&self, prompt: Option<&str>, cwd: Option<&str>) -> Result<Map<String, Value>, Failure> {
        let spec = self.prompt.spec().map(|spec| folder(spec)).transpose()?;
        let files = self.prompt.files().iter().map(|file| folder(file)).collect::<Result<Vec<_>, _>>()?;
        let (issue, repo) = self.prompt.issue();
        let stay: agentctl_fleet::act::launch::Stay = (&self.stay).into();
        let all = json!({
            "prompt": prompt, "cwd": cwd, "spec": spec, "files": files,
            "maxFileSize": (!files.is_empty() || spec.is_some()).then(|| self.prompt.max_file_size()),
            "issue": issue, "repo": repo,
            "permissionMode": self.permission_mode, "systemPromptAppend": self.system_prompt_append,
            "group": self.group,
            "labels": self.labels.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
            "onCreate": self.on_create, "onComplete": self.on_complete, "gateway": self.gateway,
            "callbackSession": self.callback_session, "callbackAgent": self.callback_agent,
            "args": self.for_the_agent, "force": self.force, "trust": self.trust,
            "env": self.env.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
            "timeout": stay.timeout.map(length), "hold": stay.hold,
            "idleTimeout": stay.idle_timeout.map(length), "terminal": stay.terminal,
        });
        let Value::Object(mut all) = all else { return Ok(Map::new()) };
        // An older version there does not know every key, and needs none that says nothing.
        all.retain(|_, value| match value {
            Value::Null | Value::Bool(false) => false,
            Value::Array(values) => !values.is_empty(),
            Value::Object(values) => !values.is_empty(),
            _ => true,
        });
        Ok(all)
    }

    /// The working tree of a single launch.
    fn worktree_body(&self) -> Result<Option<(&'static str, Value)>, Failure> {
        let Some((repository, branch)) = self.worktree.as_ref().zip(self.branch.as_ref()) else {
            return Ok(None);
        };
        let tree = json!({
            "repository": folder(repository)?, "branch": branch, "baseBranch": self.base_branch,
        });
        Ok(Some(("worktree", tree)))
    }
}

fn tell(
    group: &str,
    sessions: &[(Arc<RosterHost>, Session)],
    failed: &[FailedSlot],
    out: &mut Output,
) -> Result<(), Failure> {
    writeln!(out, "group {}", out.paint.strong(&text::one_line(group)))?;
    let mut table = Table::new(vec![Column::whole("STATUS"), Column::whole("AGENT"), Column::whole("ID")]);
    for (host, session) in sessions {
        let look = style::look(session.status, session.outcome);
        table.row(vec![
            Cell::new(format!("{} {}", look.glyph, look.word), look.tone),
            Cell::plain(text::one_line(&session.adapter)),
            Cell::plain(text::one_line(&full(Some(host), &session.id))),
        ]);
    }
    if !sessions.is_empty() {
        for line in table.lines(out.width(), out.paint) {
            writeln!(out, "{line}")?;
        }
    }
    for failed in failed {
        let slot = text::one_line(&failed.slot);
        let words = format!("{} {slot}: {}", out.paint.bad("✕"), text::clean(&failed.error));
        for line in wrap(&words, out.width()) {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}
