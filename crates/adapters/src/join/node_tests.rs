use super::*;
use agentctl_model::Observed;

fn process(pid: u32, parent: u32, argv: &[&str]) -> Process {
    Process {
        head: ProcessHead {
            process: ProcessRef { pid, start: u64::from(pid), boot: 1 },
            parent,
            uid: None,
            comm: "MainThread".into(),
            argv: argv.iter().map(ToString::to_string).collect(),
            started_at: None,
            forked: false,
        },
        exe: Observed::Unobservable(String::new()),
        cwd: Observed::Unobservable(String::new()),
        environ: Observed::Unobservable(String::new()),
        open_files: Observed::Unobservable(String::new()),
        listening: Observed::Unobservable(String::new()),
        inner_pid: None,
    }
}

fn is_gemini(argv: &[&str]) -> bool {
    let process = process(1, 0, argv);
    Invocation::of(&process.head).is_some_and(|run| run.is("gemini", "@google/gemini-cli", &["gemini.js"]))
}

#[test]
fn only_what_really_runs_counts() {
    for argv in [
        &["/usr/bin/node", "/usr/local/bin/gemini", "-p", "x"][..],
        &["node", "--max-old-space-size=4096", "/n/bin/gemini"],
        &["node", "-r", "./hook.js", "/n/@google/gemini-cli/bundle/gemini.js"],
        &["/opt/gemini"],
    ] {
        assert!(is_gemini(argv), "{argv:?}");
    }
    for argv in [
        &["vim", "/n/bin/gemini"][..],
        &["node", "-e", "x", "/n/bin/gemini"],
        &["node", "/srv/server.js", "/n/bin/gemini"],
        &["node", "/n/@google/gemini-cli/bundle/worker.js"],
        &["node", "/n/x@google/gemini-cli/bundle/gemini.js"],
        &["node", "/home/me/gemini.js"],
        &["node"],
        &[],
    ] {
        assert!(!is_gemini(argv), "{argv:?}");
    }
}

#[test]
fn options_belong_to_the_script_and_not_to_node() {
    let process = process(1, 0, &["node", "-r", "hook", "/b/gemini", "-r", "id", "--a=b", "--", "--c", "d"]);
    let run = Invocation::of(&process.head).unwrap();
    assert_eq!(run.option(&["-r", "--resume"]), Some("id"));
    assert_eq!(run.option(&["--a"]), Some("b"));
    assert_eq!(run.option(&["--c"]), None);
    assert!(run.has(&["--a"]) && !run.has(&["--c"]));
    assert_eq!(run.first_word(), None);
    assert_eq!(run.words(&[]), ["--c", "d"]);
    let process = self::process(1, 0, &["node", "/b/qwen", "-y", "do it", "-o", "json", "--x=1", "more"]);
    let run = Invocation::of(&process.head).unwrap();
    assert_eq!(run.words(&["-y"]), ["do it", "more"]);
    assert_eq!(run.words(&[]), ["more"]);
}

#[test]
fn a_chain_of_wrappers_ends_in_the_innermost_and_an_orphan_stands_for_itself() {
    let outer = process(10, 1, &["node", "/b/qwen", "--session-id", "a"]);
    let middle = process(11, 10, &["node", "--expose-gc", "/p/cli.js", "--session-id", "a"]);
    let inner = process(12, 11, &["node", "--x", "/p/cli.js", "--session-id", "a"]);
    let other = process(13, 12, &["node", "/b/qwen", "--session-id", "b"]);
    let (workers, wrappers) = unwrapped(&[&outer, &middle, &inner, &other]);
    assert_eq!(workers.iter().map(|p| p.pid()).collect::<Vec<_>>(), [12, 13]);
    assert_eq!(
        wrappers.iter().map(|w| (w.outer.pid(), w.inner.pid)).collect::<Vec<_>>(),
        [(10, 12), (11, 12)]
    );
    let orphan = process(12, 1, &["node", "--x", "/p/cli.js", "--session-id", "a"]);
    assert_eq!(unwrapped(&[&orphan]).0.len(), 1);
}

#[test]
fn a_circle_of_parents_ends() {
    let one = process(10, 11, &["node", "/b/qwen"]);
    let two = process(11, 10, &["node", "/b/qwen"]);
    let (workers, wrappers) = unwrapped(&[&one, &two]);
    assert_eq!(workers.len() + wrappers.len(), 2);
}
