//! The test home keeps the machine out and ends what it has started.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use agentctl_testkit::{Background, TestHome, until};

#[test]
fn the_environment_is_built_from_nothing() {
    let mut home = TestHome::new();
    home.set_env("EXTRA", "1");
    let output = home.run(home.command("env")).ok();
    let names: Vec<&str> = output.stdout.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    assert!(names.contains(&"AGENTCTL_HOME") && names.contains(&"EXTRA"), "{names:?}");
    // Cargo sets this one in every test process, so it would be here if anything leaked.
    assert!(!names.iter().any(|name| name.starts_with("CARGO")), "{names:?}");
    assert!(output.stdout.contains(&format!("HOME={}\n", home.path().display())));
}

#[test]
fn a_git_repo_has_a_commit_on_main() {
    let home = TestHome::new();
    let mut git = home.command("git");
    git.args(["log", "--format=%D"]).current_dir(home.git_repo("odd name"));
    assert_eq!(home.run(git).ok().stdout.trim(), "HEAD -> main");
}

#[test]
fn agentctl_runs_in_the_home_without_a_daemon() {
    let home = TestHome::with_agentctl("/usr/bin/env");
    let output = home.agentctl(&["sh", "-c", r#"printf '{"daemon":"%s"}' "$AGENTCTL_NO_DAEMON"; exit 3"#]);
    assert_eq!((output.code, output.json()["daemon"].as_str()), (Some(3), Some("1")));
}

#[test]
fn orphans_end_with_the_home() {
    let home = TestHome::new();
    let mut shell = home.command("sh");
    shell.args(["-c", "setsid sleep 600 & echo $!"]).stderr(Stdio::null());
    let output = home.run(shell).ok();
    let process = Path::new("/proc").join(output.stdout.trim());
    assert!(process.exists(), "the orphan should live: {output:?}");
    drop(home);
    until(Duration::from_mins(1), "the end of the orphan", || (!process.exists()).then_some(()));
}

#[test]
fn a_background_process_ends_with_its_children() {
    let home = TestHome::new();
    let mut shell = home.command("bash");
    shell.args(["-c", "cat; setsid sleep 600 & echo $!; wait"]);
    let run = Background::spawn_with_input(&home, shell, "input\n");
    let child = until(Duration::from_mins(1), "the child's pid", || {
        run.stdout().strip_prefix("input\n")?.strip_suffix('\n').map(str::to_owned)
    });
    let process = Path::new("/proc").join(child);
    assert!(process.exists(), "the child should live");
    drop(run);
    until(Duration::from_mins(1), "the end of the child", || (!process.exists()).then_some(()));
}
