//! However it ends, the terminal is the shell's again.

use crate::pane::{Pane, is_whole};
use crate::stored;

#[test]
fn the_terminal_is_given_back_at_every_end() {
    let home = stored();
    let Some(pane) = Pane::open(&home, 80, 24) else { return };
    pane.top("");
    pane.is_taken();
    pane.press("q");
    pane.is_usable("quit");
    pane.top("");
    pane.signal("-TERM");
    pane.is_usable("term");
    pane.top("");
    pane.signal("-HUP");
    pane.is_usable("hup");
    pane.top("");
    pane.press("C-c");
    pane.is_usable("interrupt");
    let times = if std::env::var_os("AGENTCTL_LONG").is_some() { 30 } else { 3 };
    for time in 0..times {
        pane.top("");
        pane.signal("-KILL");
        pane.is_usable(&format!("kill{time}"));
    }
}

#[test]
fn it_is_suspended_and_comes_back() {
    let home = stored();
    let Some(pane) = Pane::open(&home, 80, 24) else { return };
    pane.top("");
    for (suspend, mark) in [(None, "key"), (Some("-TSTP"), "signal")] {
        match suspend {
            None => pane.press("C-z"),
            Some(signal) => pane.signal(signal),
        }
        pane.shows("Stopped");
        pane.is_usable(mark);
        pane.types("clear; fg");
        pane.until("the whole screen", |screen| is_whole(screen) && screen.contains("/ find"));
        pane.is_taken();
    }
    pane.press("q");
    pane.is_usable("end");
}

/// `o` makes place for the command that leads to the session; its words are on the shell's screen.
#[test]
fn the_way_to_a_session_takes_its_place() {
    let home = stored();
    let Some(pane) = Pane::open(&home, 100, 30) else { return };
    pane.top("");
    pane.press("o");
    pane.until("the words of attach", |screen| screen.contains("is gone, and it is opened there"));
    pane.is_usable("attach");
}

/// The words of a panic are on the screen that the shell shows.
#[test]
fn a_panic_gives_the_terminal_back_and_is_read() {
    let home = stored();
    let Some(pane) = Pane::open(&home, 80, 24) else { return };
    pane.types(&format!("clear; AGENTCTL_FAULT=top.panics {} top", env!("CARGO_BIN_EXE_agentctl")));
    pane.until("the words of the panic", |screen| {
        screen.contains("panicked at") && screen.contains("the point top.panics")
    });
    pane.is_usable("panic");
    // A thread that looked and is gone leaves its rows; that they are old is said, and not across the screen.
    pane.types(&format!("clear; AGENTCTL_FAULT=top.look {} top", env!("CARGO_BIN_EXE_agentctl")));
    pane.until("the banner", |screen| {
        let banner = "does not look at this machine any more; start it anew (the point";
        is_whole(screen) && screen.contains(banner) && !screen.contains("panicked at")
    });
    pane.press("q");
    pane.is_usable("broken");
}

#[test]
fn without_a_terminal_it_is_one_sentence() {
    let home = stored();
    let output = home.agentctl(&["top"]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{output:#?}");
    assert!(output.stderr.starts_with("error: top needs a terminal"), "{output:#?}");
    assert_eq!(output.stderr.lines().count(), 1, "{output:#?}");
    let Some(pane) = Pane::open(&home, 80, 24) else { return };
    pane.types(&format!("TERM=dumb {} top 2>refused; echo code-$?", env!("CARGO_BIN_EXE_agentctl")));
    pane.shows("code-2");
    assert_eq!(pane.modes(), (false, true));
    pane.types("tr -d '[:print:]\\n' <refused | wc -c; cat refused");
    pane.until("one sentence without escape codes", |screen| {
        screen.contains("top needs a terminal") && screen.lines().any(|line| line.trim() == "0")
    });
}
