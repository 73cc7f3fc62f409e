//! The configuration that git has for a directory: which part of it is the repository's own, and which programs that
//! part names.
//!
//! What the user or the machine has configured is trusted, because it is theirs. What lies in the repository (also by
//! `include`, in a worktree's own file, or wherever its `.git` leads) came from the author of the repository. Pure.

use std::collections::BTreeSet;

/// Settings that keep git from running what the repository names: each key with an empty value, or with `false`.
pub(super) type DisabledPrograms = BTreeSet<(Vec<u8>, &'static str)>;

/// All settings; a later one overrides an earlier one.
#[derive(Debug, Default)]
pub(super) struct Config(Vec<Setting>);

#[derive(Debug, PartialEq, Eq)]
struct Setting {
    /// It is set in the repository's own files.
    of_the_repository: bool,
    /// The key as git prints it: `section.Middle.name`, in lower case except for the middle part.
    key: Vec<u8>,
    value: Vec<u8>,
    /// A key without `=` means `true`; a key with nothing after `=` has an empty value.
    has_no_value: bool,
}

/// The parts of a key. The middle one is as it was written, and may contain anything.
struct Key<'k> {
    section: &'k [u8],
    /// It may be present and empty.
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

    /// The setting as it is shown to a person.
    fn describe(&self) -> String {
        let (key, value) = (String::from_utf8_lossy(&self.key), String::from_utf8_lossy(&self.value));
        format!("{key} = {value}")
    }
}

impl Config {
    /// Parses the output of `git config --list --show-scope -z`: scopes and settings alternate, and a value follows its
    /// key after a line break.
    pub(super) fn parse(printed: &[u8]) -> Self {
        let mut fields = printed.split(|byte| *byte == 0);
        let mut settings = Vec::new();
        while let (Some(scope), Some(setting)) = (fields.next(), fields.next()) {
            let end = setting.iter().position(|byte| *byte == b'\n').unwrap_or(setting.len());
            settings.push(Setting {
                // A scope that we do not know does not belong to the user.
                of_the_repository: !matches!(scope, b"system" | b"global" | b"command"),
                key: setting[..end].to_vec(),
                value: setting.get(end + 1..).unwrap_or_default().to_vec(),
                has_no_value: end == setting.len(),
            });
        }
        Self(settings)
    }

    fn of_the_repository(&self) -> impl Iterator<Item = &Setting> {
        self.0.iter().filter(|setting| setting.of_the_repository)
    }

    /// Returns the settings that keep git from running what the repository names: each key with an empty value, or with
    /// `false`.
    pub(super) fn disabled_programs(&self) -> DisabledPrograms {
        let mut disabled = BTreeSet::new();
        let mut disable = |section: &str, middle: &[u8], name: &str, value: &'static str| {
            let key = [section.as_bytes(), b".", middle, b".", name.as_bytes()].concat();
            disabled.insert((key, value));
        };
        let mut filter = |middle: &[u8]| {
            for name in ["clean", "smudge", "process"] {
                disable("filter", middle, name, "");
            }
            // A required filter that does not run would be an error.
            disable("filter", middle, "required", "false");
        };
        for Key { section, middle, name } in self.of_the_repository().map(Setting::key) {
            match (section, middle) {
                // The repository only requires a filter of the user to run, which names no program.
                (b"filter", Some(_)) if name == b"required" => {}
                (b"filter", Some(middle)) => filter(middle),
                // The filter is the user's own, but the repository decides what it runs.
                _ if is_lfs_program(section, middle, name) => filter(b"lfs"),
                _ => {}
            }
        }
        for Key { section, middle, name } in self.of_the_repository().map(Setting::key) {
            let Some(middle) = middle else { continue };
            match (section, name) {
                (b"diff", b"command") => disable("diff", middle, "command", ""),
                (b"diff", b"textconv") => disable("diff", middle, "textconv", ""),
                (b"merge", b"driver") => disable("merge", middle, "driver", "false"),
                (b"credential", b"helper") => disable("credential", middle, "helper", ""),
                (b"hook", _) => {
                    disable("hook", middle, "enabled", "false");
                    disable("hook", middle, "event", "");
                }
                _ => {}
            }
        }
        disabled
    }

    /// Returns the repository's settings that name what a checkout runs, each in a form for a person and as the value
    /// itself.
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
                // Git fetches missing objects with whatever the repository names.
                (b"core", b"sshcommand" | b"gitproxy" | b"askpass" | b"alternaterefscommand")
                | (b"credential", b"helper")
                | (b"remote", b"uploadpack" | b"vcs")
                | (b"protocol", b"allow") => fetches,
                _ => is_lfs_program(section, middle, name),
            }
        };
        let told = |setting: &Setting| {
            (setting.describe(), [setting.key.as_slice(), b"\n", setting.value.as_slice()].concat())
        };
        self.of_the_repository().filter(runs).map(told).collect()
    }

    /// Returns the repository's settings as one file that contains all of them and includes no other. It does not say
    /// where the worktree lies.
    pub(super) fn repository_config_file(&self) -> Vec<u8> {
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
            if !setting.has_no_value {
                text.extend([b" = \"", &*escaped(&setting.value), b"\""].concat());
            }
            text.push(b'\n');
        }
        text
    }

    /// Whether the repository may have other settings in another of its worktrees.
    pub(super) fn differs_by_tree(&self) -> bool {
        self.of_the_repository().any(|setting| {
            setting.key().section == b"includeif" || setting.key == b"extensions.worktreeconfig"
        })
    }

    /// Returns the directory of hooks that the user has set for all repositories. A relative path does not count,
    /// because the repository would decide what is in it.
    pub(super) fn user_hooks(&self) -> Option<&[u8]> {
        let (path, of_the_repository) = self.hooks_path()?;
        (!of_the_repository && !path.is_empty() && !is_relative(path)).then_some(path)
    }

    /// Returns the helpers of the repository that a filter of the user may use, each with what the user has configured
    /// instead.
    pub(super) fn user_helpers(&self) -> Vec<(&'static str, &[u8])> {
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

    /// Returns `core.hooksPath`, and whether the repository has set it.
    pub(super) fn hooks_path(&self) -> Option<(&[u8], bool)> {
        let last = self.0.iter().rev().find(|setting| setting.key == b"core.hookspath")?;
        Some((last.value.as_slice(), last.of_the_repository))
    }
}

/// Escapes text as git reads it between quotes.
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

/// A relative path starts at the worktree, so the repository decides what is there.
pub(super) fn is_relative(path: &[u8]) -> bool {
    !(path.starts_with(b"/") || path.starts_with(b"~"))
}

/// git-lfs is a program of the user, but the repository can make it run other programs.
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

    fn disabled_programs(printed: &[u8]) -> Vec<String> {
        let disabled = Config::parse(printed).disabled_programs();
        disabled.iter().map(|(key, value)| format!("{}={value}", String::from_utf8_lossy(key))).collect()
    }

    #[test]
    fn a_filter_of_the_repository_is_silenced_by_its_very_name_and_the_users_own_is_not() {
        let printed = b"global\0filter.lfs.clean\ngit-lfs clean\0local\0filter.a=b.C d.smudge\nx\0";
        assert_eq!(
            disabled_programs(printed),
            [
                "filter.a=b.C d.clean=",
                "filter.a=b.C d.process=",
                "filter.a=b.C d.required=false",
                "filter.a=b.C d.smudge="
            ]
        );
        let required = b"global\0filter.lfs.clean\ngit-lfs clean\0local\0filter.lfs.required\ntrue\0";
        assert!(disabled_programs(required).is_empty(), "it is the user's all the same");
        let told = b"global\0filter.lfs.clean\ngit-lfs clean\0local\0lfs.extension.x.clean\ntouch y\0";
        assert!(
            disabled_programs(told).contains(&"filter.lfs.clean=".to_owned()),
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
        fs::write(&file, Config::parse(printed).repository_config_file()).unwrap();
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
        assert_eq!(config.user_helpers(), [("core.sshcommand", &b"mine"[..]), ("core.askpass", &b""[..])]);
        assert_eq!(config.user_hooks(), Some(&b"~/hooks"[..]));
        assert_eq!(Config::parse(b"global\0core.hookspath\nhooks\0").user_hooks(), None);
        assert_eq!(Config::parse(b"local\0core.hookspath\n/theirs\0").user_hooks(), None);
    }
}
