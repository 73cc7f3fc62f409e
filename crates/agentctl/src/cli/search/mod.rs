//! `agentctl search`: finds words in every conversation of every agent.

mod over_hosts;

use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use agentctl_adapters::search::Pattern;
use agentctl_fleet::{SearchEnd, SearchQuery, Since, Told, moment};
use agentctl_hosts::RoadFailure;
use agentctl_model::search::Hit;
use agentctl_model::{ErrorKind, HostReport, Road, Role, text};
use clap_complete::engine::ArgValueCompleter;

use super::host_args::{self, HostArgs};
use super::{complete, coverage, group};
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::link::Link;
use crate::link::hosts::Asked;
use crate::output::Output;
use crate::render::style::{self, Tone};
use crate::render::width::cut_end;
use crate::render::{json, time};
use crate::surroundings::Surroundings;

/// A search that takes longer says how far it is.
const PATIENCE: Duration = Duration::from_millis(500);

/// How soon Ctrl-C is noticed.
const TICK: Duration = Duration::from_millis(30);

/// Find words in every conversation of every agent
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    agentctl search auth token            both words in one message\n  \
    agentctl search 'connection refused'  these words as they stand\n  \
    agentctl search --regex 'time(d )?out' --role tool --since 7d\n  \
    agentctl search --cwd . --files-with migrate\n  \
    agentctl search panic --json | jq -r '.sessionId + \" \" + .hit'\n  \
    agentctl logs 5f0c --at 183402.0      open a conversation at a hit\n\n\
    Hits come newest session first, as they are found. Capital letters count if a\n\
    word has one. Arguments and results of tools are of the role tool. Texts are\n\
    searched as they were meant, not as their files spell them. Those of several\n\
    machines (--host) come as each of them finds its own. Without a hit the exit\n\
    code is 1, or 6 if not everything could be heard.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct Args {
    /// Words that must all be in one message
    #[arg(value_name = "WORDS", required = true, num_args = 1..)]
    words: Vec<String>,
    /// The words are regular expressions
    #[arg(long)]
    regex: bool,
    /// Ignore case even if a word has a capital letter
    #[arg(short, long)]
    ignore_case: bool,
    /// Only what this one said or did: user, agent or tool (repeatable)
    #[arg(long, value_name = "WHO", value_parser = role, hide_possible_values = true)]
    role: Vec<Role>,
    /// Only sessions of this agent (repeatable)
    #[arg(long, value_name = "NAME", value_parser = super::adapter_names())]
    adapter: Vec<String>,
    /// Only sessions that work in this folder or below
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    cwd: Option<PathBuf>,
    /// Only sessions launched as this group
    #[arg(long, value_name = "GROUP", add = ArgValueCompleter::new(complete::groups))]
    group: Option<String>,
    /// Only messages from this moment on: a day, 7d, 12h, an RFC 3339 time [default: all]
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// At most this many hits
    #[arg(short = 'n', long = "limit", value_name = "N", default_value_t = 50)]
    limit: usize,
    /// Also this many lines of the message before and after the line that fits
    #[arg(short = 'C', long = "context", value_name = "N", default_value_t = 0)]
    context: usize,
    /// Only the ids of the sessions, one per line
    #[arg(long, conflicts_with = "json")]
    files_with: bool,
    #[command(flatten)]
    hosts: HostArgs,
    /// One JSON object per hit and line
    #[arg(long)]
    json: bool,
}

fn role(word: &str) -> Result<Role, String> {
    match word {
        "user" => Ok(Role::User),
        "agent" => Ok(Role::Agent),
        "tool" => Ok(Role::Tool),
        _ => Err(format!("`{word}` is none of user, agent, tool")),
    }
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let link = Arc::new(Link::open(surroundings)?);
    let machines = match args.hosts.roster(surroundings)? {
        None => Asked::here(),
        Some(roster) => args.hosts.asked(&roster, link.fleet.host())?,
    };
    if let Some(typed) = args.group.as_ref().filter(|_| machines.is_here()) {
        group::meant(typed, &link.fleet)?;
    }
    let asked = args.query(surroundings)?;
    let interrupt = Interrupt::listen();
    let told = args.begin(asked, &machines, link.clone(), surroundings);
    let mut progress = Shown { began: Instant::now(), is_shown: false };
    let mut all = Ends::default();
    loop {
        if interrupt.came() {
            progress.hide(out);
            return Ok(Exit::Interrupted);
        }
        match told.recv_timeout(TICK) {
            // Each machine finds as many as are wanted of all.
            Ok(Message::Told { told: Told::Hit(_), .. }) if all.end.hits >= args.limit => {
                all.end.more = true;
                progress.hide(out);
                return Ok(args.end(&all, &link, surroundings, out));
            }
            Ok(Message::Told { told: Told::Hit(hit), far }) => {
                progress.hide(out);
                all.end.hits += 1;
                args.print(&hit, far.as_deref(), surroundings, out)?;
                out.flush()?;
            }
            Ok(Message::Told { told: Told::Progress { done, of }, .. }) => progress.show(done, of, out),
            Ok(Message::End { end, here }) => all.add(end, here),
            Ok(Message::Unheard { host, via, failure }) => {
                let mut row = HostReport::unheard(host, via);
                (row.error, row.hint) = (Some(failure.message), failure.hint);
                all.unheard.push(row);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) if machines.local && !all.here => {
                return Err(Failure::new(ErrorKind::Failed, "the search ended without a word"));
            }
            // Everybody has said how it ended.
            Err(RecvTimeoutError::Disconnected) => {
                progress.hide(out);
                return Ok(args.end(&all, &link, surroundings, out));
            }
        }
    }
}

/// What one of the machines tells.
enum Message {
    /// `far` names another machine than this one.
    Told {
        told: Told,
        far: Option<String>,
    },
    End {
        end: SearchEnd,
        here: bool,
    },
    Unheard {
        host: String,
        via: Road,
        failure: RoadFailure,
    },
}

/// How the search ended on all machines.
struct Ends {
    end: SearchEnd,
    /// Whether this machine has ended.
    here: bool,
    unheard: Vec<HostReport>,
}

impl Default for Ends {
    fn default() -> Self {
        let end = SearchEnd { hits: 0, searched: 0, more: false, sources: Vec::new() };
        Self { end, here: false, unheard: Vec::new() }
    }
}

impl Ends {
    fn add(&mut self, end: SearchEnd, here: bool) {
        self.here |= here;
        self.end.searched += end.searched;
        self.end.more |= end.more;
        self.end.sources.extend(end.sources);
    }
}

/// The line that says how far the search is.
struct Shown {
    began: Instant,
    is_shown: bool,
}

impl Shown {
    fn show(&mut self, done: usize, of: usize, out: &mut Output) {
        if self.began.elapsed() > PATIENCE {
            self.is_shown = true;
            out.progress(Some(&format!("searched {done} of {of} conversations")));
        }
    }

    fn hide(&mut self, out: &mut Output) {
        if std::mem::take(&mut self.is_shown) {
            out.progress(None);
        }
    }
}

impl Args {
    /// Begins to search on all machines. What they tell ends when all of them have ended.
    fn begin(
        &self,
        asked: SearchQuery,
        machines: &Asked,
        link: Arc<Link>,
        surroundings: &Surroundings,
    ) -> Receiver<Message> {
        // A source or a machine that hangs must not keep this process from ending: the search is left behind with its
        // threads.
        let (teller, told) = sync_channel(64);
        let pass_on = |teller: &SyncSender<Message>, message| {
            if teller.send(message).is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        if let Some(target) = self.target(&asked).filter(|_| !machines.is_here()) {
            let (machines, teller) = (machines.clone(), teller.clone());
            let own = machines.local.then(|| surroundings.instance());
            std::thread::spawn(move || {
                over_hosts::search(&machines, own, &target, &|message| pass_on(&teller, message));
            });
        }
        if machines.local {
            std::thread::spawn(move || {
                let tell = |told| pass_on(&teller, Message::Told { told, far: None });
                let end = link.search(&asked, &mut |told| tell(told));
                let _ = pass_on(&teller, Message::End { end, here: true });
            });
        }
        told
    }

    fn query(&self, surroundings: &Surroundings) -> Result<SearchQuery, Failure> {
        let usage = |words: String| Failure::new(ErrorKind::Usage, words);
        let pattern = Pattern::new(&self.words, self.regex, self.ignore_case)
            .map_err(|error| usage(format!("this cannot be searched: {error}")))?;
        let since = self.since.as_deref().map(|text| moment(text, &surroundings.zone, false).map_err(usage));
        Ok(SearchQuery {
            pattern,
            roles: self.role.clone(),
            adapters: self.adapter.clone(),
            folders: self.cwd.iter().flat_map(|given| surroundings.meant_folders(given)).collect(),
            group: self.group.clone(),
            since: since.transpose()?.unwrap_or(Since::Ever),
            limit: self.limit,
            around: self.context,
            once: self.files_with,
        })
    }

    /// `far` is the other machine on which it was found.
    fn print(
        &self,
        hit: &Hit,
        far: Option<&str>,
        surroundings: &Surroundings,
        out: &mut Output,
    ) -> Result<(), Failure> {
        if self.json {
            return json::line(out, hit);
        }
        let host = far.map(|far| format!("{far}/")).unwrap_or_default();
        let id = format!("{host}{}", text::one_line(&hit.session_id));
        if self.files_with {
            writeln!(out, "{id}")?;
            return Ok(());
        }
        for line in lines(hit, &id, surroundings, out) {
            writeln!(out, "{line}")?;
        }
        Ok(())
    }

    fn end(&self, all: &Ends, link: &Link, surroundings: &Surroundings, out: &mut Output) -> Exit {
        let Ends { end, unheard, .. } = all;
        coverage::warn_unread(&self.adapter, &link.fleet, out);
        host_args::warn(unheard, out);
        coverage::warn(&end.sources, surroundings, out);
        if end.hits > 0 {
            if end.more && !self.json && !self.files_with {
                out.hint(&format!("there may be more than {}; -n shows more of them", end.hits));
            }
            return Exit::Done;
        }
        if end.heard_all() && unheard.is_empty() {
            out.hint(&format!("nothing fits in {} conversations", end.searched));
            return Exit::Failed;
        }
        Exit::Incomplete
    }
}

/// A hit for a person: its session and time on one line, the line that fits below it.
fn lines(hit: &Hit, id: &str, surroundings: &Surroundings, out: &Output) -> Vec<String> {
    let paint = out.paint;
    let look = style::look(hit.status, None);
    let at =
        hit.at.map_or_else(|| "-".to_owned(), |at| time::moment(surroundings.now(), at, &surroundings.zone));
    let who = hit
        .tool
        .as_deref()
        .map_or_else(|| hit.role.as_str().to_owned(), |tool| format!("tool {}", text::one_line(tool)));
    let name = hit.name.as_deref().map(text::one_line).unwrap_or_default();
    let head = format!("{} {id}  {at}  {who}  --at {}", look.glyph, text::one_line(&hit.hit));
    let room = out.width().saturating_sub(head.chars().count() + 2);
    let name =
        if room > 8 && !name.is_empty() { format!("  {}", cut_end(&name, room)) } else { String::new() };
    let mut lines = vec![format!("{}{}", paint.apply(look.tone, &head), paint.dim(&name))];
    let width = out.width().saturating_sub(2);
    let beside = |line: &String| format!("  {}", paint.dim(&cut_end(&text::one_line(line), width)));
    lines.extend(hit.before.iter().map(beside));
    lines.push(format!("  {}", marked(hit, width, |words| paint.apply(Tone::Attention, words))));
    lines.extend(hit.after.iter().map(beside));
    lines
}

/// The line with its matches marked, cut around the first of them.
fn marked(hit: &Hit, width: usize, mark: impl Fn(&str) -> String) -> String {
    let letters: Vec<char> =
        hit.line.chars().map(|letter| if letter == '\t' { ' ' } else { letter }).collect();
    let first = hit.matches.first().map_or(0, |(start, _)| *start);
    let from = if letters.len() > width { first.saturating_sub(width / 4) } else { 0 };
    let to = letters.len().min(from.saturating_add(width.saturating_sub(2)));
    let mut line = String::new();
    if from > 0 {
        line.push('…');
    }
    let mut at = from;
    for (start, end) in &hit.matches {
        let (start, end) = ((*start).clamp(at, to.max(at)), (*end).clamp(from, to));
        if end <= start {
            continue;
        }
        line.extend(&letters[at..start]);
        line.push_str(&mark(&letters[start..end].iter().collect::<String>()));
        at = end;
    }
    line.extend(&letters[at..to]);
    if to < letters.len() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use agentctl_model::Status;

    use super::*;

    fn hit(line: &str, matches: &[(usize, usize)]) -> Hit {
        Hit {
            session_id: "s".into(),
            adapter: "pi".into(),
            config_root: "/r".into(),
            host: "h".into(),
            at: None,
            role: Role::User,
            tool: None,
            hit: "0.0".into(),
            line: line.into(),
            matches: matches.to_vec(),
            before: Vec::new(),
            after: Vec::new(),
            status: Status::Stopped,
            name: None,
            cwd: None,
        }
    }

    #[test]
    fn matches_are_marked_and_a_long_line_is_cut_around_the_first() {
        let mark = |words: &str| format!("<{words}>");
        assert_eq!(marked(&hit("say über it", &[(4, 8)]), 80, mark), "say <über> it");
        assert_eq!(marked(&hit("aaaa", &[(0, 2), (1, 3)]), 80, mark), "<aa><a>a", "matches may overlap");
        let long = format!("{}needle{}", "x".repeat(200), "y".repeat(200));
        let shown = marked(&hit(&long, &[(200, 206)]), 40, mark);
        assert!(shown.starts_with('…') && shown.ends_with('…') && shown.contains("<needle>"), "{shown}");
        assert!(shown.chars().count() <= 42, "{shown}");
        assert_eq!(marked(&hit("nothing", &[(90, 99)]), 80, mark), "nothing", "a range of another machine");
    }
}
