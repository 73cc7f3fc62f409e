//! What is on the screen: at three sizes, while the window changes, with and without colours, with every view.

use std::os::unix::fs::PermissionsExt;

use agentctl_testkit::{Background, until_seen};

use crate::pane::{PATIENCE, Pane, is_whole};
use crate::stored;

#[test]
fn the_list_and_every_view_are_there_at_three_sizes() {
    let home = stored();
    let Some(pane) = Pane::open(&home, 80, 24) else { return };
    pane.top("");
    for (width, height) in [("80", "24"), ("120", "40"), ("200", "50")] {
        pane.tmux(&["resize-window", "-x", width, "-y", height]);
        let rows: usize = height.parse().unwrap();
        pane.until("the whole screen, with the detail below the list or beside it", |screen| {
            let is_wide = screen.lines().nth(1).is_some_and(|line| line.contains(" │ "));
            let is_full = screen.lines().count() == rows && is_whole(screen);
            is_full && screen.contains("✕") && screen.contains("claude-code") && is_wide == (width == "200")
        });
        for (key, words) in [
            ("?", "approve what it waits for"),
            ("e", "transcript"),
            ("h", "hosts and sources"),
            ("g", "groups"),
            ("u", "by day"),
            ("u", "by model"),
            ("u", "by folder"),
            ("d", "changes"),
            ("t", "timeline"),
            ("Enter", "10:"),
        ] {
            if key == "Enter" {
                pane.press("Escape");
                pane.shows("/ find");
                pane.press(key);
                pane.shows("Esc back");
                continue;
            }
            pane.press(key);
            pane.shows(words);
        }
        pane.press("Escape");
        pane.shows("/ find");
    }
    pane.press("/");
    pane.tmux(&["send-keys", "-l", "status:failed"]);
    pane.until("the failed one alone", |screen| screen.contains("✕") && !screen.contains('✓'));
    pane.press("Enter");
    pane.press("Escape");
    pane.shows("✓");
    pane.press("l");
    pane.shows("launch an agent");
    pane.press("Escape");
    pane.shows("/ find");
}

#[test]
fn a_storm_of_sizes_ends_in_a_whole_screen() {
    let home = stored();
    let Some(pane) = Pane::open(&home, 80, 24) else { return };
    pane.top("");
    let rounds = if std::env::var_os("AGENTCTL_LONG").is_some() { 300 } else { 30 };
    for round in 0..rounds {
        let (width, height) = (20 + (round * 37) % 190, 3 + (round * 13) % 50);
        pane.tmux(&["resize-window", "-x", &width.to_string(), "-y", &height.to_string()]);
        pane.press("j");
    }
    pane.tmux(&["resize-window", "-x", "100", "-y", "30"]);
    pane.until("a whole screen", |screen| {
        screen.lines().count() == 30 && is_whole(screen) && screen.matches("agentctl · ").count() == 1
    });
    pane.press("q");
    pane.is_usable("storm");
}

#[test]
fn without_colours_there_are_none_and_the_rest_is_the_same() {
    let home = stored();
    let Some(pane) = Pane::open(&home, 80, 24) else { return };
    // One of the sixteen colours, by its number.
    let coloured = |screen: &str| screen.contains("\u{1b}[38;5;1m") || screen.contains("\u{1b}[31m");
    let painted = |what: &str, fits: &dyn Fn(&str) -> bool| {
        until_seen(PATIENCE, what, || {
            let screen = pane.tmux(&["capture-pane", "-p", "-e"]);
            if fits(&screen) { Ok(()) } else { Err(screen) }
        });
    };
    pane.top("");
    painted("a failure in its colour", &|screen| screen.contains('✕') && coloured(screen));
    pane.press("q");
    pane.is_usable("first");
    pane.top("--color never");
    painted("a failure without a colour", &|screen| screen.contains('✕') && !coloured(screen));
}

/// A daemon that is killed is a banner and not an empty list; when it is back the banner goes by itself.
#[test]
fn a_lost_daemon_is_a_banner_until_it_is_back() {
    let home = stored();
    let Some(pane) = Pane::open(&home, 80, 24) else { return };
    let start = || {
        let mut command = home.agentctl_command(&["daemon", "run"]);
        command.env_remove("AGENTCTL_NO_DAEMON");
        Background::spawn(&home, command)
    };
    let mut daemon = start();
    // Its socket is there before it answers.
    until_seen(PATIENCE, "the daemon", || {
        let mut command = home.agentctl_command(&["daemon", "status"]);
        command.env_remove("AGENTCTL_NO_DAEMON");
        let status = home.run(command);
        if status.code == Some(0) { Ok(()) } else { Err(format!("{status:?}")) }
    });
    // A browser that takes the file which leads it to the page.
    let (browser, opened) = (home.path().join("browser"), home.path().join("opened"));
    std::fs::write(&browser, format!("#!/bin/sh\nexec mv \"$1\" {}\n", opened.display())).unwrap();
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o700)).unwrap();
    pane.types(&format!("unset AGENTCTL_NO_DAEMON; export BROWSER={}", browser.display()));
    let screen = pane.top("");
    assert!(!screen.contains("the daemon is not heard"), "{screen}");
    pane.press("w");
    pane.shows("the page is open in your browser");
    let led = std::fs::read_to_string(opened).unwrap();
    assert!(led.contains("&to=%2Fs%2F"), "{led}");
    until_seen(PATIENCE, "it follows the daemon's events", || {
        let mut command = home.agentctl_command(&["daemon", "status", "--json"]);
        command.env_remove("AGENTCTL_NO_DAEMON");
        let status = home.run(command).ok().json();
        if status["daemon"]["listeners"].as_u64() > Some(0) { Ok(()) } else { Err(format!("{status:#}")) }
    });
    daemon.signal(agentctl_testkit::Signal::KILL);
    pane.until("a banner over the list", |screen| {
        screen.contains("the daemon is not heard") && screen.contains('✕')
    });
    let _back = start();
    pane.until("no banner", |screen| !screen.contains("the daemon is not heard") && screen.contains('✕'));
}
