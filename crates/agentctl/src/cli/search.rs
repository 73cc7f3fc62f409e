//! `agentctl search`: finds words in every conversation of every agent.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use agentctl_adapters::search::Pattern;
use agentctl_fleet::{SearchEnd, SearchQuery, Since, Told, moment};
use agentctl_model::search::Hit;
use agentctl_model::{ErrorKind, Role, text};
use clap_complete::engine::ArgValueCompleter;

use super::{complete, coverage, group};
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::link::Link;
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
    searched as they were meant, not as their files spell them. Without a hit the\n\
    exit code is 1, or 6 if not everything could be heard.")]
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
    if let Some(typed) = &args.group {
        group::meant(typed, &link.fleet)?;
    }
    let asked = args.query(surroundings)?;
    let interrupt = Interrupt::listen();
    // A source that hangs must not keep this process from ending: the search is left behind with its thread.
    let (teller, told) = sync_channel(64);
    let searcher = link.clone();
    std::thread::spawn(move || {
        let passed_on = |message| {
            if teller.send(message).is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let end = searcher.search(&asked, &mut |told| passed_on(Message::Told(told)));
        let _ = passed_on(Message::End(end));
    });
    let mut progress = Shown { began: Instant::now(), is_shown: false };
    loop {
        if interrupt.came() {
            progress.hide(out);
            return Ok(Exit::Interrupted);
        }
        match told.recv_timeout(TICK) {
            Ok(Message::Told(Told::Hit(hit))) => {
                progress.hide(out);
                args.print(&hit, surroundings, out)?;
                out.flush()?;
            }
            Ok(Message::Told(Told::Progress { done, of })) => progress.show(done, of, out),
            Ok(Message::End(end)) => {
                progress.hide(out);
                return Ok(args.end(&end, &link, surroundings, out));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::new(ErrorKind::Failed, "the search ended without a word"));
            }
        }
    }
}

enum Message {
    Told(Told),
    End(SearchEnd),
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

    fn print(&self, hit: &Hit, surroundings: &Surroundings, out: &mut Output) -> Result<(), Failure> {
        if self.json {
            return json::line(out, hit);
        }
        if self.files_with {
            writeln!(out, "{}", text::one_line(&hit.session_id))?;
            return Ok(());
        }
        for line in lines(hit, surroundings, out) {
            writeln!(out, "{line}")?;
        }
        Ok(())
    }

    fn end(&self, end: &SearchEnd, link: &Link, surroundings: &Surroundings, out: &mut Output) -> Exit {
        coverage::warn_unread(&self.adapter, &link.fleet, out);
        coverage::warn(&end.sources, surroundings, out);
        if end.hits > 0 {
            if end.more && !self.json && !self.files_with {
                out.hint(&format!("there may be more than {}; -n shows more of them", end.hits));
            }
            return Exit::Done;
        }
        if end.heard_all() {
            out.hint(&format!("nothing fits in {} conversations", end.searched));
            return Exit::Failed;
        }
        Exit::Incomplete
    }
}

/// A hit for a person: its session and time on one line, the line that fits below it.
fn lines(hit: &Hit, surroundings: &Surroundings, out: &Output) -> Vec<String> {
    let paint = out.paint;
    let look = style::look(hit.status, None);
    let id = text::one_line(&hit.session_id);
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
