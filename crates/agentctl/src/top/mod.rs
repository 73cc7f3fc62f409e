//! `agentctl top`. One thread draws and hears keys; everything that asks a source, a machine or an agent has a thread of
//! its own and sends what it learns. So nothing slow can stand between a key and the screen.

mod feed;
mod find;
mod form;
mod input;
mod keys;
mod notices;
mod rows;
mod screen;
mod state;
pub(crate) mod terminal;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use agentctl_model::ErrorKind;
use ratatui::crossterm::event::{Event, KeyEventKind};

use self::feed::{Feed, News};
use self::keys::Action;
use self::notices::Notices;
use self::screen::Theme;
use self::state::{State, Words};
use self::terminal::{Screen, Signal};
use crate::cli::host_args::HostArgs;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::surroundings::Surroundings;

/// At most this many frames a second, however much is told.
const FRAME: Duration = Duration::from_millis(30);

/// What `top` was asked to show.
pub(crate) struct Scene {
    pub(crate) adapters: Vec<String>,
    pub(crate) folders: Vec<PathBuf>,
    pub(crate) hosts: HostArgs,
    pub(crate) colours: bool,
    pub(crate) surroundings: Surroundings,
}

pub(crate) fn run(scene: Scene) -> Result<Exit, Failure> {
    let scene = Arc::new(scene);
    let surroundings = &scene.surroundings;
    let mut state = State::new(agentctl_fleet::own_name(), surroundings.now());
    state.home.clone_from(&surroundings.home);
    state.zone = surroundings.zone.clone();
    state.cwd = surroundings.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into_owned());
    let fleet = surroundings.fleet()?;
    state.agents = fleet.sources().iter().map(|source| source.name().to_owned()).collect();
    state.agents.dedup();
    let (to, news) = channel();
    let feed = Feed::start(&scene, to.clone())?;
    let signals = to.clone();
    terminal::listen(move |signal| signals.send(News::Signal(signal)).is_ok());
    let program = surroundings.own_program()?;
    let taken = |error| Failure::new(ErrorKind::Failed, format!("cannot take the terminal: {error}"));
    let mut screen = Screen::take(&program).map_err(taken)?;
    give_back_on_panic();
    std::thread::spawn(move || while to.send(key()).is_ok() {});
    let theme = Theme { colours: scene.colours };
    let ended = until_quit(&mut state, &feed, &news, (&mut screen, &mut Notices::of(&scene)), theme);
    drop(screen);
    match ended.map_err(taken)? {
        Ended::With(exit) => Ok(exit),
        Ended::For(argv) => {
            let error = agentctl_process::tmux::become_program(&argv);
            Err(Failure::new(ErrorKind::Failed, format!("cannot open it: {error}")))
        }
    }
}

/// How `top` came to its end.
enum Ended {
    With(Exit),
    /// Another command takes the terminal.
    For(Vec<String>),
}

/// The next thing that comes from the keyboard. A keyboard that is gone ends it like a terminal that was closed.
fn key() -> News {
    loop {
        match ratatui::crossterm::event::read() {
            Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => return News::Key(key),
            Ok(Event::Paste(text)) => return News::Paste(text),
            Ok(Event::Resize(..)) => return News::Signal(Signal::Draw),
            Ok(_) => {}
            Err(_) => return News::Signal(Signal::End),
        }
    }
}

/// The words of a panic of the drawing thread are for the screen that the shell shows. Those of other threads would be
/// written across this one: the feed tells them as news.
fn give_back_on_panic() {
    let drawing = std::thread::current().id();
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().id() == drawing {
            terminal::give_back_now();
            before(panic);
        }
    }));
}

fn until_quit(
    state: &mut State,
    feed: &Feed,
    news: &Receiver<News>,
    (screen, notices): (&mut Screen, &mut Notices),
    theme: Theme,
) -> std::io::Result<Ended> {
    let mut drawn: Option<Instant> = None;
    let mut is_new = true;
    loop {
        if is_new && drawn.is_none_or(|at| at.elapsed() >= FRAME) {
            state.now = feed.now();
            draw(state, screen, theme)?;
            feed.wants(state);
            drawn = Some(Instant::now());
            is_new = false;
        }
        let since = drawn.map_or(FRAME, |at| at.elapsed());
        let pause = if is_new { FRAME.saturating_sub(since) } else { until_next_second(feed) };
        match news.recv_timeout(pause) {
            Ok(one) => {
                is_new = true;
                if let News::Part { name, part } = &one {
                    notices.see(name, part);
                }
                if let Some(ended) = hear(one, state, feed, screen)? {
                    return Ok(ended);
                }
            }
            // The clock goes on.
            Err(RecvTimeoutError::Timeout) => is_new = true,
            Err(RecvTimeoutError::Disconnected) => return Ok(Ended::With(Exit::Failed)),
        }
    }
}

fn until_next_second(feed: &Feed) -> Duration {
    let passed = u64::try_from(feed.now().subsec_nanosecond()).unwrap_or(0);
    Duration::from_nanos(1_000_000_000_u64.saturating_sub(passed).max(1_000_000))
}

fn draw(state: &mut State, screen: &mut Screen, theme: Theme) -> std::io::Result<()> {
    assert!(!agentctl_fleet::keep::fault::is_armed("top.panics"), "the point top.panics was reached");
    let mut shown = state::Shown::default();
    screen.terminal.draw(|frame| {
        let area = frame.area();
        shown = screen::draw(state, theme, area, frame.buffer_mut());
    })?;
    state.saw(shown, Instant::now());
    screen.set_title(&state.title());
    Ok(())
}

/// Takes one thing in. Returns how `top` ends, if it does.
fn hear(news: News, state: &mut State, feed: &Feed, screen: &mut Screen) -> std::io::Result<Option<Ended>> {
    match news {
        News::Key(key) => {
            if let Some(action) = keys::pressed(state, key, Instant::now()) {
                return act(action, state, feed, screen);
            }
        }
        News::Paste(text) => keys::pasted(state, &text),
        News::Signal(Signal::End) => return Ok(Some(Ended::With(Exit::Interrupted))),
        News::Signal(Signal::Suspend) => screen.suspend()?,
        News::Part { name, part } => state.hear(&name, part),
        News::Daemon { is_lost } => {
            state.daemon_lost = is_lost.then(|| state.daemon_lost.unwrap_or_else(|| feed.now()));
        }
        News::Words { of, told } => {
            let (entries, error) = match told {
                Ok(entries) => (entries, None),
                Err(error) => (Vec::new(), Some(error)),
            };
            state.words = Words { of: Some(of), entries, error, is_told: true };
        }
        News::Done { number, told } => {
            state.deeds.remove(&number);
            match told {
                Ok(words) => state.say(words),
                Err(words) => state.complain(words),
            }
        }
        News::Usage { by, answer } => state.hear_usage(by, answer.map(|answer| *answer)),
        News::Sheet { of, told } => state.hear_sheet(&of, told),
        News::Broken(words) => state.broken.push(words),
        // The next frame has the size that the terminal has then.
        News::Signal(Signal::Draw) => {}
    }
    Ok(None)
}

fn act(
    action: Action,
    state: &mut State,
    feed: &Feed,
    screen: &mut Screen,
) -> std::io::Result<Option<Ended>> {
    match action {
        Action::Quit => return Ok(Some(Ended::With(Exit::Done))),
        Action::Interrupted => return Ok(Some(Ended::With(Exit::Interrupted))),
        Action::Suspend => screen.suspend()?,
        Action::Redraw => screen.redraw()?,
        Action::Do(deed) => {
            let (number, words) = feed.carry_out(deed);
            state.deeds.insert(number, words);
        }
        Action::Ask(question) => feed.ask(question),
        Action::Attach(key) => return Ok(feed.way_to(&key).map(Ended::For)),
    }
    Ok(None)
}
