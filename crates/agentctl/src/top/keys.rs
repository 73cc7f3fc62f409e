//! What a key means now: it changes the state, and may ask for something to be done. Pure.

use std::time::Instant;

use agentctl_adapters::hold::Decision;
use agentctl_model::{Capability, Pending, PendingKind, Session, Status};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::form::{Field, Form, Order};
use super::input::{Input, Purpose};
use super::rows::Key;
use super::state::{Sight, State, TWICE, View};

/// What is to be done beyond the screen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    Quit,
    /// ^C.
    Interrupted,
    Suspend,
    Redraw,
    Do(Deed),
    Ask(Question),
    /// Leave for the terminal in which it runs.
    Attach(Key),
}

/// What is done to a session.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Deed {
    /// The answer to exactly this request, as it was on the screen.
    Answer {
        key: Key,
        shown: Box<Pending>,
        decision: Decision,
    },
    Send {
        key: Key,
        words: String,
    },
    Interrupt {
        key: Key,
    },
    Stop {
        key: Key,
    },
    Resume {
        key: Key,
        words: String,
    },
    /// Show it in the page, in the user's browser.
    Page {
        key: Key,
    },
    Launch(Order),
}

/// What is looked at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Question {
    Usage(usize),
    Changes(Key),
    /// With how many columns there are for it.
    Timeline(usize),
}

/// How many ways usage can be told: by day, by model, by folder.
const USAGE_WAYS: usize = 3;

pub(crate) fn pressed(state: &mut State, key: KeyEvent, at: Instant) -> Option<Action> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        match key.code {
            KeyCode::Char('c') => return Some(Action::Interrupted),
            KeyCode::Char('z') => return Some(Action::Suspend),
            KeyCode::Char('l') => return Some(Action::Redraw),
            _ => {}
        }
    }
    if state.form.is_some() {
        return in_form(state, key);
    }
    if state.input.is_some() {
        return in_line(state, key);
    }
    state.message = None;
    let stopping = state.stopping.take();
    if let KeyCode::Char('x') = key.code {
        return stop(state, stopping, at);
    }
    if moves(state, key) {
        return None;
    }
    match key.code {
        KeyCode::Char('q') => return Some(Action::Quit),
        KeyCode::Esc => back(state),
        KeyCode::Enter => enter(state),
        KeyCode::Char('?') => toggle(state, View::Help),
        KeyCode::Char('y') => return approve(state, at),
        KeyCode::Char('n') => return deny(state, at),
        KeyCode::Char('a') => answer(state),
        KeyCode::Char('s') => speak(state),
        KeyCode::Char('r') => resume(state),
        KeyCode::Char('i') => return interrupt(state),
        KeyCode::Char('l') => launch(state),
        KeyCode::Char('o') => return chosen(state).map(Action::Attach),
        KeyCode::Char('w') => return chosen(state).map(|key| Action::Do(Deed::Page { key })),
        KeyCode::Char('/') => {
            state.view = View::List;
            state.input = Some(Input::new(Purpose::Find, &state.find.typed));
        }
        KeyCode::Char('e') => toggle(state, View::Evidence),
        KeyCode::Char('g') => toggle(state, View::Groups),
        KeyCode::Char('h') => toggle(state, View::Hosts),
        KeyCode::Char('u') => return Some(usage(state)),
        KeyCode::Char('d') => return sheet(state, View::Changes),
        KeyCode::Char('t') => return sheet(state, View::Timeline),
        _ => {}
    }
    None
}

/// What was pasted goes into the line that is typed, and nowhere else: its letters are no keys.
pub(crate) fn pasted(state: &mut State, text: &str) {
    if let Some(line) = state.form.as_mut().and_then(Form::line) {
        line.paste(text);
    } else if let Some(input) = &mut state.input {
        input.line.paste(text);
        if input.purpose == Purpose::Find {
            let typed = input.line.typed.clone();
            state.look_for(typed);
        }
    }
}

fn moves(state: &mut State, key: KeyEvent) -> bool {
    let far = isize::MAX / 2;
    let steps = match key.code {
        KeyCode::Down | KeyCode::Char('j') => (1, 1),
        KeyCode::Up | KeyCode::Char('k') => (-1, -1),
        KeyCode::PageDown | KeyCode::Char(' ') => (state.list_page(), state.page()),
        KeyCode::PageUp => (-state.list_page(), -state.page()),
        KeyCode::Home => (-far, -far),
        KeyCode::End => (far, far),
        _ => return false,
    };
    match state.view {
        View::List => state.move_by(steps.0),
        // The conversation is scrolled from its end, where it grows.
        View::Conversation => state.scroll_by(-steps.1),
        _ => state.scroll_by(steps.1),
    }
    true
}

fn toggle(state: &mut State, view: View) {
    let next = if state.view == view { View::List } else { view };
    state.open(next);
}

fn back(state: &mut State) {
    if state.view != View::List {
        state.open(View::List);
    } else if !state.find.is_empty() {
        state.look_for(String::new());
    }
}

fn enter(state: &mut State) {
    if state.selected().is_some() && matches!(state.view, View::List | View::Evidence | View::Request) {
        state.open(View::Conversation);
    }
}

/// The session under the cursor, if it offers this; else it is said why not.
fn offered(state: &mut State, wanted: Capability, verb: &str) -> Option<Key> {
    let Some(row) = state.selected() else {
        state.complain("no session is chosen");
        return None;
    };
    let key = row.key.clone();
    if row.session.capabilities.contains(&wanted) {
        return Some(key);
    }
    let words = not_offered(&row.session, wanted, verb);
    state.complain(words);
    None
}

fn not_offered(session: &Session, wanted: Capability, verb: &str) -> String {
    let instead = match (wanted, session.status) {
        (Capability::Send, Status::Stopped) => "; r resumes it",
        (Capability::Resume, status) if status != Status::Stopped => "; it is live: s sends, o opens it",
        (_, Status::Stopped) => "; it has ended",
        _ => "; o opens it where it runs",
    };
    format!("this session does not offer to {verb}{instead}")
}

/// The request under the cursor that can be answered from here, if it was seen whole; else it is shown.
fn asked(state: &mut State, at: Instant) -> Option<(Key, Pending)> {
    let Some((key, pending)) = state.cursor.clone().zip(state.request().cloned()) else {
        state.complain("it waits for nothing");
        return None;
    };
    if pending.kind == PendingKind::Limit {
        state.complain("its provider's limit is reached; no answer changes that");
        return None;
    }
    if !pending.answerable {
        state.complain("this is answered where it runs: o opens it");
        return None;
    }
    match state.has_seen_request(at) {
        Sight::Seen => Some((key, pending)),
        Sight::JustNow => {
            state.say("this request has only just come; read it and press the key again");
            None
        }
        Sight::NotWhole => {
            if state.view == View::Request {
                state.say("there is more of it: scroll to its end first (PgDn)");
            } else {
                state.open(View::Request);
            }
            None
        }
    }
}

fn approve(state: &mut State, at: Instant) -> Option<Action> {
    let (key, shown) = asked(state, at)?;
    if shown.kind == PendingKind::Question {
        state.complain("it asks a question: a answers it");
        return None;
    }
    if state.view == View::Request {
        state.open(View::List);
    }
    Some(Action::Do(Deed::Answer { key, shown: Box::new(shown), decision: Decision::AllowOnce }))
}

fn deny(state: &mut State, at: Instant) -> Option<Action> {
    let (key, shown) = asked(state, at)?;
    if state.view == View::Request {
        state.open(View::List);
    }
    let decision = Decision::Deny { reason: None };
    Some(Action::Do(Deed::Answer { key, shown: Box::new(shown), decision }))
}

fn answer(state: &mut State) {
    let Some((key, pending)) = state.cursor.clone().zip(state.request().cloned()) else {
        state.complain("it waits for nothing");
        return;
    };
    if !pending.answerable {
        state.complain("this is answered where it runs: o opens it");
        return;
    }
    let purpose = match pending.kind {
        PendingKind::Question => Purpose::Answer(key, Box::new(pending)),
        // Words to an approval are the reason of a denial.
        PendingKind::Approval => Purpose::Deny(key, Box::new(pending)),
        PendingKind::Limit => {
            state.complain("its provider's limit is reached; no answer changes that");
            return;
        }
    };
    state.input = Some(Input::new(purpose, ""));
}

fn speak(state: &mut State) {
    if let Some(key) = offered(state, Capability::Send, "take messages") {
        state.input = Some(Input::new(Purpose::Send(key), ""));
    }
}

fn resume(state: &mut State) {
    let is_live = state.selected().is_some_and(|row| row.session.status != Status::Stopped);
    if is_live {
        state.complain("it is live; s sends a message");
    } else if let Some(key) = offered(state, Capability::Resume, "be resumed") {
        state.input = Some(Input::new(Purpose::Resume(key), ""));
    }
}

fn interrupt(state: &mut State) -> Option<Action> {
    offered(state, Capability::Interrupt, "be interrupted").map(|key| Action::Do(Deed::Interrupt { key }))
}

fn stop(state: &mut State, before: Option<(Key, Instant)>, at: Instant) -> Option<Action> {
    let key = offered(state, Capability::Stop, "be stopped")?;
    match before {
        Some((pressed, when)) if pressed == key && at.saturating_duration_since(when) <= TWICE => {
            Some(Action::Do(Deed::Stop { key }))
        }
        _ => {
            state.say("press x again within 2 s to stop it with all its processes");
            state.stopping = Some((key, at));
            None
        }
    }
}

/// The session under the cursor, whatever it offers.
fn chosen(state: &mut State) -> Option<Key> {
    if state.cursor.is_none() {
        state.complain("no session is chosen");
    }
    state.cursor.clone()
}

fn launch(state: &mut State) {
    let row = state.selected();
    let agent = row.map(|row| row.session.adapter.clone());
    let here = row.filter(|row| row.key.host == state.host || row.key.host.is_empty());
    let folder = here.and_then(|row| row.session.cwd.clone()).or_else(|| state.cwd.clone());
    let agents = state.agents.clone();
    state.form = Some(Form::new(agents, agent.as_deref(), &folder.unwrap_or_default()));
}

fn usage(state: &mut State) -> Action {
    if state.view == View::Usage {
        state.usage_by = (state.usage_by + 1) % USAGE_WAYS;
    } else {
        state.open(View::Usage);
        state.usage_by = 0;
    }
    state.usage = None;
    Action::Ask(Question::Usage(state.usage_by))
}

fn sheet(state: &mut State, view: View) -> Option<Action> {
    if state.view == view {
        state.open(View::List);
        return None;
    }
    let question = match (view, state.cursor.clone()) {
        (View::Timeline, _) => Question::Timeline(state.width()),
        (_, Some(key)) => Question::Changes(key),
        (_, None) => {
            state.complain("no session is chosen");
            return None;
        }
    };
    state.ask(view, question.clone());
    Some(Action::Ask(question))
}

fn in_line(state: &mut State, key: KeyEvent) -> Option<Action> {
    let input = state.input.as_mut()?;
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Esc => {
            let is_find = input.purpose == Purpose::Find;
            state.input = None;
            if is_find {
                state.look_for(String::new());
            }
            return None;
        }
        KeyCode::Enter => return entered(state),
        KeyCode::Backspace => input.line.back(),
        KeyCode::Char('u') if is_control => input.line.clear(),
        KeyCode::Char('w') if is_control => input.line.word_back(),
        KeyCode::Char(letter) if !is_control => input.line.push(letter),
        KeyCode::Down if input.purpose == Purpose::Find => state.move_by(1),
        KeyCode::Up if input.purpose == Purpose::Find => state.move_by(-1),
        _ => {}
    }
    let found = state.input.as_ref().filter(|input| input.purpose == Purpose::Find);
    if let Some(typed) =
        found.map(|input| input.line.typed.clone()).filter(|typed| *typed != state.find.typed)
    {
        state.look_for(typed);
    }
    None
}

fn entered(state: &mut State) -> Option<Action> {
    let Input { purpose, line } = state.input.take()?;
    let words = line.typed;
    let is_empty = words.trim().is_empty();
    match purpose {
        Purpose::Find => None,
        Purpose::Deny(key, shown) => {
            let decision = Decision::Deny { reason: (!is_empty).then_some(words) };
            Some(Action::Do(Deed::Answer { key, shown, decision }))
        }
        _ if is_empty => {
            state.say("nothing was typed, so nothing was sent");
            None
        }
        Purpose::Answer(key, shown) => {
            Some(Action::Do(Deed::Answer { key, shown, decision: Decision::Text(words) }))
        }
        Purpose::Send(key) => Some(Action::Do(Deed::Send { key, words })),
        Purpose::Resume(key) => Some(Action::Do(Deed::Resume { key, words })),
    }
}

fn in_form(state: &mut State, key: KeyEvent) -> Option<Action> {
    let form = state.form.as_mut()?;
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    let chooses = matches!(form.field, Field::Agent | Field::Hold);
    match key.code {
        KeyCode::Esc => state.form = None,
        KeyCode::Tab | KeyCode::Down => form.next(false),
        KeyCode::BackTab | KeyCode::Up => form.next(true),
        KeyCode::Left if chooses => form.change(true),
        KeyCode::Right | KeyCode::Char(' ') if chooses => form.change(false),
        KeyCode::Enter => match form.order() {
            Ok(order) => {
                state.form = None;
                return Some(Action::Do(Deed::Launch(order)));
            }
            Err(why) => state.complain(why),
        },
        KeyCode::Backspace => {
            form.line().map(super::input::Line::back);
        }
        KeyCode::Char('u') if is_control => {
            form.line().map(super::input::Line::clear);
        }
        KeyCode::Char('w') if is_control => {
            form.line().map(super::input::Line::word_back);
        }
        KeyCode::Char(letter) if !is_control => {
            if let Some(line) = form.line() {
                line.push(letter);
            }
        }
        _ => {}
    }
    None
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
