//! The configuration that git has for a folder: what in it is the repository's own, and which programs that names.
//!
//! What the user or the machine has configured is trusted: it is theirs. What lies in the repository (also by `include`, in
//! a worktree's own file, or wherever its `.git` leads) came from whoever made it. Pure.

use std::collections::BTreeSet;

/// Settings that keep git from running what the repository has named: each key with nothing, or with `false`.
pub(super) type Silenced = BTreeSet<(Vec<u8>, &'static str)>;

/// All settings, in the order in which they count.
#[derive(Debug, Default)]
pub(super) struct Config(Vec<Setting>);

#[derive(Debug, PartialEq, Eq)]
struct Setting {
    /// In the repository's own files.
    of_the_repository: bool,
    /// Without a middle part in lower case, as git prints it: `section.Middle.name`.
    key: Vec<u8>,
    value: Vec<u8>,
    /// A key that stands alone means `true`; one with nothing behind its sign means nothing.
    stands_alone: bool,
}

/// The parts of a key; the middle one is as it was written, and may hold anything.
struct Key<'k> {
    section: &'k [u8],
    /// One that is there may be empty.
    middle: Option<&'k [u8]>,
    name: &'k [u8],
}

impl Setting {
    fn key(&self) -> Key<'_> {
        let dot = |byte: &u8| *byte == b'.';
        let first = self.key.iter().position(dot).unwrap_or(self.key.len());
        let last = self.key.iter().rposition(dot).unwrap_or(first);
        Key {
            section: &self.key[..first],
            middle: self.key.get(first + 1..last),
            name: self.key.get(last + 1..).unwrap_or_default(),
        }
    }

    /// For a person.
    fn words(&self) -> String {
        let (key, value) = (String::from_utf8_lossy(&self.key), String::from_utf8_lossy(&self.value));
        format!("{key} = {value}")
    }
}

impl Config {
    /// What `git config --list --show-scope -z` prints: a scope and a setting by turns, the value behind a line break.
    pub(super) fn parse(printed: &[u8]) -> Self {
        let mut fields = printed.split(|byte| *byte == 0);
        let mut settings = Vec::new();
        while let (Some(scope), Some(setting)) = (fields.next(), fields.next()) {
            let end = setting.iter().position(|byte| *byte == b'\n').unwrap_or(setting.len());
            settings.push(Setting {
                // A scope that is not known is not the user's.
                of_the_repository: !matches!(scope, b"system" | b"global" | b"command"),
                key: setting[..end].to_vec(),
                value: setting.get(end + 1..).unwrap_or_default().to_vec(),
                stands_alone: end == setting.len(),
            });
        }
        Self(settings)
    }

    fn of_the_repository(&self) -> impl Iterator<Item = &Setting> {
        self.0.iter().filter(|setting| setting.of_the_repository)
    }

    /// The settings that keep git from running what the repository has named: each key with nothing, or with `false`.
    pub(super) fn silenced(&self) -> Silenced {
        let mut silenced = BTreeSet::new();
        let mut silence = |section: &str, middle: &[u8], name: &str, value: &'static str| {
            let key = [section.as_bytes(), b".", middle, b".", name.as_bytes()].concat();
            silenced.insert((key, value));
        };
        let mut filter = |middle: &[u8]| {
            for name in ["clean", "smudge", "process"] {
                silence("filter", middle, name, "");
            }
            // One that must run and does not would be an error.
            silence("filter", middle, "required", "false");
        };
        for Key { section, middle, name } in self.of_the_repository().map(Setting::key) {
            match (section, middle) {
                // That a filter of the user's must run names no program.
                (b"filter", Some(_)) if name == b"required" => {}
                (b"filter", Some(middle)) => filter(middle),
                // The user's own filter, which the repository tells what to run.
                _ if is_lfs_program(section, middle, name) => filter(b"lfs"),
                _ => {}
            }
        }
        for Key { section, middle, name } in self.of_the_repository().map(Setting::key) {
            let Some(middle) = middle else { continue };
            match (section, name) {
                (b"diff", b"command") => silence("diff", middle, "command", ""),
                (b"diff", b"textconv") => silence("diff", middle, "textconv", ""),
                (b"merge", b"driver") => silence("merge", middle, "driver", "false"),
                (b"credential", b"helper") => silence("credential", middle, "helper", ""),
                (b"hook", _) => {
                    silence("hook", middle, "enabled", "false");
                    silence("hook", middle, "event", "");
                }
                _ => {}
            }
        }
        silenced
    }

    /// The repository's settings that name what a checkout runs, each for a person and as it is.
    pub(super) fn run_by_a_checkout(&self) -> Vec<(String, Vec<u8>)> {
        let fetches = self.of_the_repository().any(|setting| {
            let key = setting.key();
            key.name == b"partialclone" || key.name == b"promisor"
        });
        let runs = |setting: &&Setting| {
            let Key { section, middle, name } = setting.key();
            if setting.value.is_empty() {
                return false;
            }
            match (section, name) {
                (b"filter", b"clean" | b"smudge" | b"process") | (b"hook", b"command") => true,
                // What is not there is fetched, by whatever the repository says.
                (b"core", b"sshcommand" | b"gitproxy" | b"askpass" | b"alternaterefscommand")
                | (b"credential", b"helper")
                | (b"remote", b"uploadpack" | b"vcs")
                | (b"protocol", b"allow") => fetches,
                _ => is_lfs_program(section, middle, name),
            }
        };
        let told = |setting: &Setting| {
            (setting.words(), [setting.key.as_slice(), b"\n", setting.value.as_slice()].concat())
        };
        self.of_the_repository().filter(runs).map(told).collect()
    }

    /// The repository's settings as one file that has them all and leads to no other. Where the tree lies is not said there.
    pub(super) fn written_by_the_repository(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for setting in self.of_the_repository() {
            let Key { section, middle, name } = setting.key();
            let leads_on = matches!(section, b"include" | b"includeif");
            let is_of_the_place =
                matches!(&*setting.key, b"core.bare" | b"core.worktree" | b"extensions.worktreeconfig");
            if leads_on || is_of_the_place {
                continue;
            }
            text.extend([b"[", section].concat());
            if let Some(middle) = middle {
                text.extend([b" \"", &*escaped(middle), b"\""].concat());
            }
            text.extend([b"]\n\t", name].concat());
            if !setting.stands_alone {
                text.extend([b" = \"", &*escaped(&setting.value), b"\""].concat());
            }
            text.push(b'\n');
        }
        text
    }

    /// Whether the repository may say something else in another of its trees.
    pub(super) fn differs_by_tree(&self) -> bool {
        self.of_the_repository().any(|setting| {
            setting.key().section == b"includeif" || setting.key == b"extensions.worktreeconfig"
        })
    }

    /// The folder of hooks that the user has set for all repositories: a relative one would be the repository's to fill.
    pub(super) fn hooks_of_the_user(&self) -> Option<&[u8]> {
        let (path, of_the_repository) = self.hooks_path()?;
        (!of_the_repository && !path.is_empty() && !is_relative(path)).then_some(path)
    }

    /// The helpers of the repository's that a filter of the user's may come to use, each with what the user has in its place.
    pub(super) fn instead_of_the_repositorys(&self) -> Vec<(&'static str, &[u8])> {
        let helpers: [(&'static str, &[u8]); 5] = [
            ("core.sshcommand", b"ssh"),
            ("core.askpass", b""),
            ("core.gitproxy", b""),
            ("core.alternaterefscommand", b""),
            ("credential.helper", b""),
        ];
        let set = |key: &str, of_the_repository: bool| {
            let is_it = |setting: &&Setting| {
                setting.of_the_repository == of_the_repository && setting.key == key.as_bytes()
            };
            self.0.iter().rev().find(is_it)
        };
        let theirs = helpers.into_iter().filter(|(key, _)| set(key, true).is_some());
        theirs
            .map(|(key, usual)| (key, set(key, false).map_or(usual, |setting| setting.value.as_slice())))
            .collect()
    }

    /// `core.hooksPath`, and whether the repository has set it.
    pub(super) fn hooks_path(&self) -> Option<(&[u8], bool)> {
        let last = self.0.iter().rev().find(|setting| setting.key == b"core.hookspath")?;
        Some((last.value.as_slice(), last.of_the_repository))
    }
}

/// As git reads it between quotes.
fn escaped(text: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(text.len());
    for byte in text {
        match byte {
            b'\n' => escaped.extend(b"\\n"),
            b'"' | b'\\' => escaped.extend([b'\\', *byte]),
            _ => escaped.push(*byte),
        }
    }
    escaped
}

/// Counted from the tree, so that the repository says what is there.
pub(super) fn is_relative(path: &[u8]) -> bool {
    !(path.starts_with(b"/") || path.starts_with(b"~"))
}

/// Large files are brought by a program of the user's that runs others when the repository tells it to.
fn is_lfs_program(section: &[u8], middle: Option<&[u8]>, name: &[u8]) -> bool {
    let middle = middle.unwrap_or_default();
    section == b"lfs"
        && (middle.starts_with(b"extension.")
            || middle.starts_with(b"customtransfer.")
            || name == b"standalonetransferagent")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn silenced(printed: &[u8]) -> Vec<String> {
        let silenced = Config::parse(printed).silenced();
        silenced.iter().map(|(key, value)| format!("{}={value}", String::from_utf8_lossy(key))).collect()
    }

    #[test]
    fn a_filter_of_the_repository_is_silenced_by_its_very_name_and_the_users_own_is_not() {
        let printed = b"global\0filter.lfs.clean\ngit-lfs clean\0local\0filter.a=b.C d.smudge\nx\0";
        assert_eq!(
            silenced(printed),
            [
                "filter.a=b.C d.clean=",
                "filter.a=b.C d.process=",
                "filter.a=b.C d.required=false",
                "filter.a=b.C d.smudge="
            ]
        );
        let required = b"global\0filter.lfs.clean\ngit-lfs clean\0local\0filter.lfs.required\ntrue\0";
        assert!(silenced(required).is_empty(), "it is the user's all the same");
        let told = b"global\0filter.lfs.clean\ngit-lfs clean\0local\0lfs.extension.x.clean\ntouch y\0";
        assert!(
            silenced(told).contains(&"filter.lfs.clean=".to_owned()),
            "the repository tells it what to run"
        );
    }

    #[test]
    fn what_a_checkout_runs_is_what_the_repository_names_and_what_it_may_fetch_with() {
        let run = |printed: &[u8]| {
            let told = Config::parse(printed).run_by_a_checkout();
            told.into_iter().map(|(words, _)| words).collect::<Vec<_>>()
        };
        assert_eq!(run(b"local\0filter.x.smudge\nsed s/a/b/\0"), ["filter.x.smudge = sed s/a/b/"]);
        assert_eq!(run(b"worktree\0filter.x.process\nrun\0"), ["filter.x.process = run"]);
        let user =
            b"global\0filter.x.smudge\nrun\0system\0core.sshcommand\nssh\0command\0filter.y.clean\nrun\0";
        assert!(run(user).is_empty(), "the user's own");
        let ssh = b"local\0core.sshcommand\nssh -i key\0";
        assert!(run(ssh).is_empty(), "nothing is fetched");
        let partial = b"local\0remote.origin.promisor\ntrue\0local\0core.sshcommand\nssh -i key\0";
        assert_eq!(run(partial), ["core.sshcommand = ssh -i key"]);
        assert!(run(b"local\0filter.x.smudge\0local\0core.bare\nfalse\0").is_empty(), "no value, no program");
    }

    #[test]
    fn the_last_folder_of_hooks_counts() {
        let config = Config::parse(b"global\0core.hookspath\n/mine\0local\0core.hookspath\n.hooks\0");
        assert_eq!(config.hooks_path(), Some((&b".hooks"[..], true)));
        assert_eq!(Config::default().hooks_path(), None);
    }

    #[test]
    fn the_repositorys_settings_are_written_so_that_git_reads_them_back() {
        let printed = b"global\0user.name\nme\0local\0core.bare\ntrue\0local\0filter.a\"b\\ c.D.smudge\nx \"y\" \\z\n # w\0\
            local\0include.path\n/elsewhere\0local\0core.ignorecase\0local\0credential.helper\n\0worktree\0a.b\n  c\0";
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        fs::write(&file, Config::parse(printed).written_by_the_repository()).unwrap();
        let mut git = std::process::Command::new("git");
        let output = git.args(["config", "--list", "-z", "--file"]).arg(&file).output().unwrap();
        let expected =
            b"filter.a\"b\\ c.D.smudge\nx \"y\" \\z\n # w\0core.ignorecase\0credential.helper\n\0a.b\n  c\0";
        assert_eq!(String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(expected), "{output:?}");
    }

    #[test]
    fn what_holds_in_one_tree_only_is_known_to_be_so() {
        let differs = |printed: &[u8]| Config::parse(printed).differs_by_tree();
        assert!(differs(b"local\0includeif.onbranch:x.path\ny\0"));
        assert!(differs(b"local\0extensions.worktreeconfig\ntrue\0"));
        assert!(!differs(b"global\0includeif.gitdir:~/w/.path\ny\0local\0core.bare\nfalse\0"));
    }

    #[test]
    fn the_users_own_helpers_and_hooks_stand_in_for_the_repositorys() {
        let config = Config::parse(
            b"global\0core.sshcommand\nmine\0global\0core.hookspath\n~/hooks\0local\0core.sshcommand\ntheirs\0\
              local\0core.askpass\ntheirs\0",
        );
        assert_eq!(
            config.instead_of_the_repositorys(),
            [("core.sshcommand", &b"mine"[..]), ("core.askpass", &b""[..])]
        );
        assert_eq!(config.hooks_of_the_user(), Some(&b"~/hooks"[..]));
        assert_eq!(Config::parse(b"global\0core.hookspath\nhooks\0").hooks_of_the_user(), None);
        assert_eq!(Config::parse(b"local\0core.hookspath\n/theirs\0").hooks_of_the_user(), None);
    }
}
