//! The configuration that git has for a folder: what in it is the repository's own, and which programs that names.
//!
//! What the user or the machine has configured is trusted: it is theirs. What lies in the repository (also by `include`, in
//! a worktree's own file, or wherever its `.git` leads) came from whoever made it. Pure.

use std::collections::BTreeSet;

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
            });
        }
        Self(settings)
    }

    fn of_the_repository(&self) -> impl Iterator<Item = &Setting> {
        self.0.iter().filter(|setting| setting.of_the_repository)
    }

    /// The settings that keep git from running what the repository has named: each key with nothing, or with `false`.
    pub(super) fn silenced(&self) -> BTreeSet<(Vec<u8>, &'static str)> {
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

    /// The repository's settings that name what a checkout runs.
    pub(super) fn run_by_a_checkout(&self) -> Vec<String> {
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
        self.of_the_repository().filter(runs).map(Setting::words).collect()
    }

    /// `core.hooksPath`, and whether the repository has set it.
    pub(super) fn hooks_path(&self) -> Option<(&[u8], bool)> {
        let last = self.0.iter().rev().find(|setting| setting.key == b"core.hookspath")?;
        Some((last.value.as_slice(), last.of_the_repository))
    }
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
        let told = b"global\0filter.lfs.clean\ngit-lfs clean\0local\0lfs.extension.x.clean\ntouch y\0";
        assert!(
            silenced(told).contains(&"filter.lfs.clean=".to_owned()),
            "the repository tells it what to run"
        );
    }

    #[test]
    fn what_a_checkout_runs_is_what_the_repository_names_and_what_it_may_fetch_with() {
        let run = |printed: &[u8]| Config::parse(printed).run_by_a_checkout();
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
}
