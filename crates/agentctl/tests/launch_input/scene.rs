//! A repository, and a stand-in for Claude Code that records how it was started and fails.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use agentctl_testkit::{Output, TestHome, until_seen};

/// Records its arguments and its input, and exits: there is never a session.
const STAND_IN: &str = "#!/bin/sh\nprintf '%s\\n' \"$@\" > \"$HOME/argv\"\ncat > \"$HOME/input\"\n\
    echo the stand-in was here >&2\nexit 3\n";

pub(crate) struct Scene {
    pub(crate) home: TestHome,
    pub(crate) repo: PathBuf,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
        let repo = home.git_repo("repo").canonicalize().unwrap();
        let scene = Self { home, repo };
        scene.put_on_path("claude", STAND_IN);
        scene
    }

    pub(crate) fn put_on_path(&self, name: &str, script: &str) -> PathBuf {
        let path = self.home.path().join(format!("{name}.sh"));
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self.home.put_on_path(name, &path);
        path
    }

    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.home.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn launch(&self, arguments: &[&str]) -> Output {
        self.launch_with(arguments, b"")
    }

    /// The same with something on standard input.
    pub(crate) fn launch_with(&self, arguments: &[&str], input: &[u8]) -> Output {
        let mut command = self.home.agentctl_command(&[&["launch"], arguments].concat());
        let input = fs::File::open(self.file("stdin", input)).unwrap();
        command.current_dir(&self.repo).stdin(Stdio::from(input));
        self.home.run(command)
    }

    /// Checks that the launch is refused before anything is created, and that the message names what is
    /// wrong.
    #[track_caller]
    pub(crate) fn refuses(&self, arguments: &[&str], code: i32, words: &[&str]) {
        self.is_refusal(&self.launch(arguments), arguments, code, words);
    }

    #[track_caller]
    pub(crate) fn is_refusal(&self, refused: &Output, arguments: &[&str], code: i32, words: &[&str]) {
        assert_eq!(refused.code, Some(code), "{arguments:?}: {refused:#?}");
        assert!(refused.stdout.is_empty(), "{arguments:?}: {refused:#?}");
        for word in words {
            assert!(refused.stderr.contains(word), "{word:?} for {arguments:?}: {refused:#?}");
        }
        assert_eq!(self.argv(), None, "{arguments:?} started the agent");
        self.nothing_is_left();
    }

    /// No record, no working tree, no branch, no process.
    #[track_caller]
    pub(crate) fn nothing_is_left(&self) {
        let launches = self.home.agentctl_home().join("launches");
        let records: Vec<_> = fs::read_dir(launches).into_iter().flatten().collect();
        assert!(records.is_empty(), "{records:?}");
        assert_eq!(self.git(&["branch", "--format=%(refname:short)"]), "main\n");
        assert_eq!(self.git(&["worktree", "list"]).lines().count(), 1);
        let beside = fs::read_dir(self.repo.parent().unwrap()).unwrap();
        let strange =
            beside.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("repo-"));
        assert_eq!(strange.count(), 0, "a folder beside the repository");
        until_seen(Duration::from_mins(1), "the end of every process", || match self.home.processes() {
            left if left.is_empty() => Ok(()),
            left => Err(format!("{left:?}")),
        });
    }

    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let mut command = self.home.command("git");
        command.args(arguments).current_dir(&self.repo);
        self.home.run(command).ok().stdout
    }

    /// The arguments that the stand-in was started with.
    pub(crate) fn argv(&self) -> Option<Vec<String>> {
        let text = fs::read_to_string(self.home.path().join("argv")).ok()?;
        Some(text.lines().map(str::to_owned).collect())
    }

    /// The input that the stand-in received.
    pub(crate) fn told(&self) -> Vec<u8> {
        fs::read(self.home.path().join("input")).unwrap()
    }

    /// The launch reached the stand-in, whose exit leaves no session: everything is undone.
    #[track_caller]
    pub(crate) fn reaches_the_agent(&self, launched: &Output) {
        assert_eq!(launched.code, Some(1), "{launched:#?}");
        assert!(launched.stderr.contains("the stand-in was here"), "{launched:#?}");
        assert!(launched.stderr.contains("exit code 3"), "{launched:#?}");
        self.nothing_is_left();
    }
}

pub(crate) fn make_fifo(home: &TestHome, path: &Path) {
    let mut command = home.command("mkfifo");
    command.arg(path);
    let _ = home.run(command).ok();
}
