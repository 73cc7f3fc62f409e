//! Programs in a pseudo-terminal.

use std::path::Path;
use std::time::Duration;

use agentctl_testkit::{Pty, TestHome, until};

#[test]
fn the_program_has_a_terminal_of_its_own() {
    let home = TestHome::new();
    // Not bash: as the leader of a session without a terminal it would take this one by itself.
    let mut shell = home.command("sh");
    // /dev/tty opens only for a process with a controlling terminal.
    shell.args(["-c", "stty size < /dev/tty; ps -o sid= -p $$; read line; echo got $line"]);
    let mut terminal = Pty::spawn(&shell);
    terminal.wait_for("40 120");
    terminal.wait_for(&terminal.pid().to_string());
    terminal.send("words\r");
    terminal.wait_for("got words");
    until(Duration::from_mins(1), "the end of the shell", || terminal.try_wait());
}

#[test]
fn the_terminal_answers_for_the_cursor() {
    let home = TestHome::new();
    let mut shell = home.command("bash");
    shell.args(["-c", r"printf 'ab\033[6n'; IFS= read -rs -d R answer; echo; echo ${answer#*[}"]);
    Pty::spawn(&shell).wait_for("1;3");
}

#[test]
fn dropping_the_terminal_ends_its_children() {
    let home = TestHome::new();
    let mut shell = home.command("bash");
    shell.args(["-c", "setsid sleep 600 & echo child $! end; wait"]);
    let terminal = Pty::spawn(&shell);
    let screen = terminal.wait_for("end");
    let child = screen.split_whitespace().nth(1).expect("a pid").to_owned();
    drop(terminal);
    let process = Path::new("/proc").join(child);
    until(Duration::from_mins(1), "the end of the child", || (!process.exists()).then_some(()));
}
