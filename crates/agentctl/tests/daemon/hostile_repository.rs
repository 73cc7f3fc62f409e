//! A repository that names a program wherever git allows it: reading it, by any command or request, runs none
//! of them. What a checkout runs is tested in `hostile_checkout`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::house::House;

/// Settings whose value is a program that git runs, each as `section.middle.name`.
const PROGRAMS: [&str; 51] = [
    "core.fsmonitor",
    "core.editor",
    "core.pager",
    "core.sshCommand",
    "core.gitProxy",
    "core.askPass",
    "core.alternateRefsCommand",
    "sequence.editor",
    "pager.status",
    "pager.log",
    "pager.diff",
    "credential.helper",
    "credential.https://example.invalid.helper",
    "diff.external",
    "diff.evil.command",
    "diff.evil.textconv",
    "filter.evil.clean",
    "filter.evil.smudge",
    "filter.evil.process",
    "filter.a=b.clean",
    "filter.info.clean",
    "filter..clean",
    "merge.evil.driver",
    "gpg.program",
    "gpg.openpgp.program",
    "gpg.x509.program",
    "gpg.ssh.program",
    "gpg.ssh.defaultKeyCommand",
    "interactive.diffFilter",
    "trailer.evil.command",
    "trailer.evil.cmd",
    "uploadpack.packObjectsHook",
    "remote.origin.uploadpack",
    "remote.origin.receivepack",
    "remote.origin.vcs",
    "difftool.evil.cmd",
    "difftool.evil.path",
    "mergetool.evil.cmd",
    "man.evil.cmd",
    "browser.evil.cmd",
    "web.browser",
    "sendemail.sendmailCmd",
    "sendemail.toCmd",
    "sendemail.ccCmd",
    "hook.evil.command",
    "lfs.extension.evil.clean",
    "lfs.extension.evil.smudge",
    "lfs.customtransfer.evil.path",
    "instaweb.httpd",
    "guitool.evil.cmd",
    "gc.recentObjectsHook",
];

/// The same for values that a shell interprets.
const SHELL: [&str; 7] = [
    "alias.status",
    "alias.diff",
    "alias.log",
    "alias.ls-files",
    "alias.worktree",
    "alias.rev-parse",
    "submodule.sub.update",
];

/// Settings that make git use the ones above.
const WISHES: [(&str, &str); 17] = [
    ("filter.evil.required", "true"),
    ("log.showSignature", "true"),
    ("status.submoduleSummary", "true"),
    ("diff.submodule", "diff"),
    ("diff.ignoreSubmodules", "none"),
    ("submodule.recurse", "true"),
    ("protocol.allow", "always"),
    ("protocol.ext.allow", "always"),
    ("commit.gpgSign", "true"),
    ("merge.verifySignatures", "true"),
    ("gpg.format", "openpgp"),
    ("hook.evil.event", "post-index-change"),
    ("hook.evil.enabled", "true"),
    ("diff.tool", "evil"),
    ("merge.tool", "evil"),
    ("core.untrackedCache", "true"),
    ("core.fsmonitorHookVersion", "1"),
];

const HOOKS: [&str; 16] = [
    "applypatch-msg",
    "commit-msg",
    "fsmonitor-watchman",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-rewrite",
    "pre-auto-gc",
    "pre-commit",
    "pre-push",
    "pre-rebase",
    "prepare-commit-msg",
    "push-to-checkout",
    "reference-transaction",
    "sendemail-validate",
];

const SIGNED: &str = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n iQEz\n -----END PGP SIGNATURE-----\n";

pub(crate) struct Scene {
    pub(crate) house: House,
    pub(crate) repo: PathBuf,
    tree: PathBuf,
    /// Each program that was run leaves a file of its name here.
    canaries: PathBuf,
    pub(crate) programs: PathBuf,
}

impl Scene {
    /// With the git of this path, or the usual one.
    fn new(git: Option<&Path>) -> Self {
        let scene = Self::ordinary(git);
        scene.make();
        scene
    }

    /// A repository in which nothing runs.
    pub(crate) fn ordinary(git: Option<&Path>) -> Self {
        let house = House::new();
        if let Some(git) = git {
            house.home.put_on_path("git", git);
        }
        let (canaries, programs) = (house.home.work_dir("canaries"), house.home.work_dir("programs"));
        let repo = house.home.git_repo("repo").canonicalize().unwrap();
        let tree = repo.with_file_name("tree");
        Self { house, repo, tree, canaries, programs }
    }

    fn make(&self) {
        let sub = self.house.home.git_repo("sub");
        fs::write(sub.join("inner.txt"), "inner\n").unwrap();
        fs::write(sub.join(".gitattributes"), "*.txt filter=inner\n").unwrap();
        self.git(&sub, &["add", "."]);
        self.git(&sub, &["commit", "--quiet", "--message", "inner"]);
        fs::write(self.repo.join("a.txt"), "one\n").unwrap();
        fs::write(self.repo.join("b.dat"), "one\n").unwrap();
        fs::write(self.repo.join("c.eq"), "one\n").unwrap();
        fs::write(self.repo.join("d.none"), "one\n").unwrap();
        let attributes = "*.txt filter=evil diff=evil merge=evil\n*.eq filter=a=b\n*.none filter=\n";
        fs::write(self.repo.join(".gitattributes"), attributes).unwrap();
        let add = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", sub.to_str().unwrap()];
        self.git(&self.repo, &add);
        self.git(&self.repo, &["add", "."]);
        self.git(&self.repo, &["commit", "--quiet", "--message", "second"]);
        self.git(&self.repo, &["worktree", "add", "--quiet", "-b", "try", self.tree.to_str().unwrap()]);
        self.sign_a_commit();
        self.poison(&self.repo.join(".git/config"), "");
        self.poison(&self.repo.join(".git/modules/sub/config"), "sub-");
        // Also through other files: an include, and the file of a single working tree.
        let include = format!(
            "\n[include]\n\tpath = included\n[includeIf \"gitdir:**\"]\n\tpath = also-included\n[filter \"inner\"]\n\tclean = {}\n\
             [extensions]\n\tworktreeConfig = true\n",
            self.program("inner-by-outer").display()
        );
        append(&self.repo.join(".git/config"), &include);
        self.poison(&self.repo.join(".git/included"), "included-");
        self.poison(&self.repo.join(".git/also-included"), "also-");
        self.poison(&self.repo.join(".git/worktrees/tree/config.worktree"), "tree-");
        append(
            &self.repo.join(".git/modules/sub/config"),
            &format!("[filter \"inner\"]\n\tclean = {}\n", self.program("inner").display()),
        );
        fs::create_dir_all(self.repo.join(".git/info")).unwrap();
        fs::write(self.repo.join(".git/info/attributes"), "*.dat filter=info\n").unwrap();
        for hook in HOOKS {
            for folder in [".git/hooks", ".git/modules/sub/hooks"] {
                let path = self.repo.join(folder).join(hook);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                self.script(&path, &format!("hook-{hook}"));
            }
        }
        // The length is unchanged: only reading the contents, which runs the filters, shows the difference.
        for folder in [&self.repo, &self.tree] {
            for name in ["a.txt", "b.dat", "c.eq", "d.none"] {
                fs::write(folder.join(name), "two\n").unwrap();
            }
            fs::write(folder.join("new.txt"), "new\n").unwrap();
        }
        fs::write(self.repo.join("sub/inner.txt"), "other\n").unwrap();
    }

    /// The branch of the tree gets a signed commit, whose signature `log` can be configured to check.
    fn sign_a_commit(&self) {
        fs::write(self.tree.join("ahead"), "x").unwrap();
        self.git(&self.tree, &["add", "ahead"]);
        self.git(&self.tree, &["commit", "--quiet", "--message", "ahead"]);
        let plain = self.git(&self.tree, &["cat-file", "commit", "HEAD"]);
        let (head, words) = plain.split_once("\n\n").unwrap();
        let file = self.house.home.path().join("commit");
        fs::write(&file, format!("{head}\n{SIGNED}\n{words}\n")).unwrap();
        let id = self.git(&self.tree, &["hash-object", "-t", "commit", "-w", file.to_str().unwrap()]);
        self.git(&self.tree, &["reset", "--quiet", "--soft", &id]);
    }

    fn poison(&self, config: &Path, prefix: &str) {
        let mut text = String::from("\n");
        let mut set = |key: &str, value: &str| {
            let (section, rest) = key.split_once('.').unwrap();
            let (head, name) = match rest.rsplit_once('.') {
                Some((middle, name)) => (format!("{section} \"{middle}\""), name),
                None => (section.to_owned(), rest),
            };
            text.extend(["[", &head, "]\n\t", name, " = \"", value, "\"\n"]);
        };
        for key in PROGRAMS {
            set(key, self.program(&format!("{prefix}{key}")).to_str().unwrap());
        }
        for key in SHELL {
            let program = self.program(&format!("{prefix}{key}"));
            set(key, &format!("!{}", program.display()));
        }
        for (key, value) in WISHES {
            set(key, value);
        }
        append(config, &text);
    }

    pub(crate) fn program(&self, name: &str) -> PathBuf {
        let name = name.replace(['/', ':', '='], "_");
        let path = self.programs.join(&name);
        if !path.exists() {
            self.script(&path, &name);
        }
        path
    }

    pub(crate) fn script(&self, path: &Path, canary: &str) {
        let canary = self.canaries.join(canary);
        fs::write(path, format!("#!/bin/sh\ntouch '{}'\nexec cat\n", canary.display())).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[track_caller]
    pub(crate) fn git(&self, folder: &Path, arguments: &[&str]) -> String {
        let mut command = self.house.home.command("git");
        command.args(arguments).current_dir(folder);
        self.house.home.run(command).ok().stdout.trim().to_owned()
    }

    /// The programs that ran since the last call.
    pub(crate) fn ran(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.canaries).unwrap().map(|entry| entry.unwrap().path());
        let mut names = Vec::new();
        for path in entries {
            names.push(path.file_name().unwrap().to_str().unwrap().to_owned());
            fs::remove_file(path).unwrap();
        }
        names.sort();
        names
    }

    /// A launch of ours that made this tree, as one slot of a group.
    fn record(&self, id: &str, tree: &Path, branch: &str, common: &Path) {
        let commit = self.git(&self.repo, &["rev-parse", "main"]);
        let record = json!({
            "version": 1, "id": id, "launchedAt": "2026-01-01T00:00:00Z", "settled": true,
            "sessionId": format!("5e550000-0000-4000-8000-{id:0>12}"),
            "made": {"path": tree, "branch": branch, "createdBranch": true, "commit": commit, "common": common},
            "order": {
                "adapter": "claude-code", "root": self.house.home.path().join(".claude"), "conversation": "new",
                "cwd": tree, "freshId": "", "env": {}, "labels": {}, "files": [], "force": false, "group": "g-evil",
            },
        });
        let folder = self.house.home.agentctl_home().join("launches").join(id);
        fs::create_dir_all(&folder).unwrap();
        for parent in [&folder, &self.house.home.agentctl_home()] {
            fs::set_permissions(parent, fs::Permissions::from_mode(0o700)).unwrap();
        }
        fs::write(folder.join("launch.json"), record.to_string()).unwrap();
    }

    pub(crate) fn agentctl(&self, arguments: &[&str]) -> agentctl_testkit::Output {
        let mut command = self.house.home.agentctl_command(arguments);
        command.current_dir(&self.repo);
        self.house.home.run(command)
    }
}

pub(crate) fn append(path: &Path, text: &str) {
    let before = fs::read_to_string(path).unwrap_or_default();
    fs::write(path, before + text).unwrap();
}

/// The usual git, and the system's if that is another one.
fn gits() -> Vec<Option<PathBuf>> {
    let system = PathBuf::from("/usr/bin/git");
    let usual = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .map(|folder| folder.join("git"))
        .find(|git| git.exists());
    let mut gits = vec![None];
    if system.exists() && usual.is_some_and(|usual| usual != system) {
        gits.push(Some(system));
    }
    gits
}

#[test]
fn looking_at_a_hostile_repository_runs_nothing_of_it() {
    for git in gits() {
        let scene = Scene::new(git.as_deref());
        // The traps work: reading as a person would triggers them.
        let mut plain = scene.house.home.command("git");
        plain.args(["-c", "core.pager=cat", "status", "--porcelain"]).current_dir(&scene.tree);
        let plain = scene.house.home.run(plain);
        let caught = scene.ran();
        assert!(caught.iter().any(|name| name.contains("filter")), "{caught:?} {plain:?}");
        assert!(caught.iter().any(|name| name.contains("fsmonitor")), "{caught:?}");

        scene.record("1", &scene.tree, "try", &scene.repo.join(".git"));
        let (repo, tree) = (scene.repo.to_str().unwrap(), scene.tree.to_str().unwrap());
        let looks: [&[&str]; 19] = [
            &["worktree", "list"],
            &["worktree", "list", "--json"],
            &["worktree", "clean", "--all", "--dry-run"],
            &["worktree", "clean", tree, "--dry-run", "--force", "--json"],
            &["worktree", "clean", tree],
            &["group", "list"],
            &["group", "show", "g-evil"],
            &["group", "show", "g-evil", "--json"],
            &["group", "diff", "g-evil"],
            &["group", "diff", "g-evil", "--stat"],
            &["list"],
            &["list", "-a", "--json"],
            &["locks"],
            &["inbox"],
            &["doctor"],
            &["prune", "--dry-run"],
            &["worktree", "create", repo, "--branch", "next"],
            &["launch", "claude-code", "-p", "x", "--worktree", repo, "--branch", "next", "--dry-run"],
            &["launch", "claude-code", "-p", "x", "--worktree", repo, "--branch", "next"],
        ];
        for look in looks {
            let output = scene.agentctl(look);
            assert_eq!(scene.ran(), Vec::<String>::new(), "{look:?} {output:#?}");
        }
        let listed = scene.agentctl(&["worktree", "list", "--json"]).ok().json();
        assert_eq!(listed["worktrees"][0]["changed"], 5, "the submodule is one of them: {listed:#}");
        assert_eq!(listed["worktrees"][1]["changed"], 4, "{listed:#}");
        assert_eq!(listed["worktrees"][1]["unpushed"], 1, "{listed:#}");
        let shown = scene.agentctl(&["group", "diff", "g-evil"]).ok().stdout;
        assert!(shown.contains("+two") && shown.contains("new.txt"), "{shown}");

        let _daemon = scene.house.daemon(&["--read-only"]);
        for target in [
            format!("/v1/worktrees?repository={repo}"),
            "/v1/groups".to_owned(),
            "/v1/groups/g-evil".to_owned(),
            "/v1/groups/g-evil/diff".to_owned(),
            "/v1/groups/g-evil/diff?stat=true".to_owned(),
            "/v1/sessions?since=all".to_owned(),
            "/v1/locks".to_owned(),
            "/v1/inbox".to_owned(),
        ] {
            let reply = scene.house.get(&target);
            assert_eq!((reply.status, scene.ran()), (200, Vec::new()), "{target} {reply:?}");
        }
    }
}

/// A missing object would be fetched with the command that the repository configures.
#[test]
fn nothing_is_fetched_to_look() {
    for git in gits() {
        let scene = Scene::new(git.as_deref());
        let blob = scene.git(&scene.repo, &["rev-parse", "main:a.txt"]);
        fs::remove_file(scene.repo.join(".git/objects").join(&blob[..2]).join(&blob[2..])).unwrap();
        let fetch = scene.program("fetched");
        append(
            &scene.repo.join(".git/config"),
            &format!(
                "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = far\n\
                 [remote \"far\"]\n\turl = \"ext::{} %S\"\n\tpromisor = true\n",
                fetch.display()
            ),
        );
        scene.record("1", &scene.tree, "try", &scene.repo.join(".git"));
        for look in [&["worktree", "list"][..], &["group", "show", "g-evil"], &["group", "diff", "g-evil"]] {
            let output = scene.agentctl(look);
            assert_eq!(scene.ran(), Vec::<String>::new(), "{look:?} {output:#?}");
        }
    }
}
