//! Which gateway is meant, and its credentials: found the way OpenClaw's own command line finds them, first in the
//! environment, then in its config file. Nothing is written, and no connection is made here.
//!
//! Where OpenClaw 2026.9.6 decides: `src/config/paths.ts` (directories, config file, port), `src/infra/home-dir.ts`
//! (`~`), `src/infra/dotenv.ts` (files of variables), `src/cli/profile.ts` (profiles).

use std::io;
use std::path::{Path, PathBuf};

use agentctl_model::Environ;

use super::address::Address;
use super::target::{Variables, configured, keys_of};
use super::{config, dotenv};
use crate::Root;

const CONFIG: &str = "openclaw.json";
/// The former names of directory and file; OpenClaw still uses them if the new ones do not exist.
const OLD_FOLDER: &str = ".clawdbot";
const OLD_CONFIG: &str = "clawdbot.json";
const FOLDER: &str = ".openclaw";
/// A file of variables is short; OpenClaw reads no longer one.
const LARGEST_DOTENV: u64 = 1 << 20;

/// The gateway that a caller with these variables would talk to. If OpenClaw has no config there is no gateway: the
/// root is then its directory, which `survey` finds missing.
pub(crate) fn root(environ: &Environ) -> Option<Root> {
    let state = state_folder(environ);
    let environ = with_files(environ, &dotenv_files(environ));
    if let Some(url) = variable_text(&environ, "OPENCLAW_GATEWAY_URL") {
        // An address from the environment is only used with keys from the environment.
        return Some(Root { keys: Some(keys_of(&environ)), ..at(url) });
    }
    let state = state?;
    let config = path(&environ, "OPENCLAW_CONFIG_PATH").unwrap_or_else(|| config_in(&state));
    let roots = include_roots(&environ);
    let variables = Variables { named: environ.clone(), own: environ };
    Some(match config::read(&config, &roots) {
        Ok(settings) => configured(&settings, &variables, &state),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Root::at(state),
        Err(_) => Root::at(config),
    })
}

/// A root that the user configured: an address, or a directory of OpenClaw (a second profile). Its config may name
/// the caller's variables; the variables that locate the caller's own gateway do not apply to it.
pub(crate) fn configured_root(path: &Path, environ: &Environ) -> Root {
    if let Some(text) = path.to_str().filter(|text| text.contains("://")) {
        return at(text);
    }
    let config = config_in(path);
    let Ok(settings) = config::read(&config, &include_roots(environ)) else { return Root::at(path) };
    let state = config.parent().unwrap_or(path);
    let files = [state.join(".env")];
    let mut own = with_files(&Environ::default(), &files);
    let profile = state.file_name().and_then(|name| name.to_str()?.strip_prefix(".openclaw-"));
    if let Some(profile) = profile {
        own.set("OPENCLAW_PROFILE", profile);
        if profile == "dev" && variable_text(&own, "OPENCLAW_GATEWAY_PORT").is_none() {
            own.set("OPENCLAW_GATEWAY_PORT", "19001");
        }
    }
    let mut named = with_files(environ, &files);
    if let Some(home) = environ.get("HOME") {
        own.set("HOME", home);
        named.set("HOME", home);
    }
    configured(&settings, &Variables { own, named }, state)
}

/// Why a root that is not an address could not become one; `None` when there is no OpenClaw.
pub(crate) fn error(path: &Path) -> Option<String> {
    let config = config_in(path);
    match config::read(&config, &[]) {
        Ok(_) => Some(format!("{} is no address of a gateway", path.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(format!("{}: {error}", config.display())),
    }
}

/// The config file of a directory, or the file itself.
fn config_in(path: &Path) -> PathBuf {
    if !path.is_dir() {
        return path.to_owned();
    }
    let (now, before) = (path.join(CONFIG), path.join(OLD_CONFIG));
    if !now.exists() && before.exists() { before } else { now }
}

pub(crate) fn at(url: &str) -> Root {
    Root::at(Address::parse(url).map_or_else(|| without_password(url), |address| address.to_string()))
}

/// An invalid address is shown to its user, but without the password that it may contain.
fn without_password(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => format!("{scheme}://{}", rest.rsplit('@').next().unwrap_or_default()),
        None => url.to_owned(),
    }
}

fn state_folder(environ: &Environ) -> Option<PathBuf> {
    if let Some(folder) = path(environ, "OPENCLAW_STATE_DIR") {
        return Some(folder);
    }
    // `OPENCLAW_PROFILE` alone changes nothing: `--profile` sets the directory, too.
    let home = home(environ)?;
    let (now, before) = (home.join(FOLDER), home.join(OLD_FOLDER));
    Some(if !now.exists() && before.exists() { before } else { now })
}

/// The value of a variable, without the surrounding blanks.
pub(crate) fn variable_text<'e>(environ: &'e Environ, name: &str) -> Option<&'e str> {
    environ.text(name).map(str::trim).filter(|text| !text.is_empty())
}

/// The home directory that OpenClaw uses.
pub(crate) fn home(environ: &Environ) -> Option<PathBuf> {
    let real = |text: &&str| *text != "undefined" && *text != "null";
    let system = environ.path("HOME");
    match variable_text(environ, "OPENCLAW_HOME").filter(real) {
        Some(own) => Some(expanded(own, system.as_deref())),
        None => system,
    }
}

fn path(environ: &Environ, name: &str) -> Option<PathBuf> {
    variable_text(environ, name).map(|text| expanded(text, home(environ).as_deref()))
}

pub(crate) fn expanded(text: &str, home: Option<&Path>) -> PathBuf {
    match (Path::new(text).strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => text.into(),
    }
}

fn include_roots(environ: &Environ) -> Vec<PathBuf> {
    let roots = variable_text(environ, "OPENCLAW_INCLUDE_ROOTS").into_iter().flat_map(|list| list.split(':'));
    roots
        .map(str::trim)
        .filter(|root| !root.is_empty())
        .map(|root| expanded(root, home(environ).as_deref()))
        .collect()
}

/// The files of variables that apply when nothing else is set, in order of precedence.
fn dotenv_files(environ: &Environ) -> Vec<PathBuf> {
    let moved = path(environ, "OPENCLAW_STATE_DIR");
    let usual = home(environ).map(|home| home.join(FOLDER));
    let beside = path(environ, "OPENCLAW_CONFIG_PATH").and_then(|config| Some(config.parent()?.to_owned()));
    let service = home(environ).map(|home| home.join(".config/openclaw/gateway.env"));
    let service = service.filter(|_| moved.is_none() || moved == usual);
    moved.or(beside).or(usual).map(|folder| folder.join(".env")).into_iter().chain(service).collect()
}

/// A variable that is already set stays, even if it is empty.
fn with_files(environ: &Environ, files: &[PathBuf]) -> Environ {
    let mut all = environ.clone();
    for file in files {
        for (name, value) in
            dotenv::parse(&agentctl_files::read_text(file, LARGEST_DOTENV).unwrap_or_default())
        {
            if !all.iter().any(|(known, _)| known == name.as_str()) {
                all.set(name, value);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::scene::{address, environ, token};
    use super::*;
    use crate::{Keys, Secret};

    #[test]
    fn without_openclaw_there_is_only_a_folder_that_is_missing() {
        let home = tempfile::tempdir().unwrap();
        let variables = environ(&[("HOME", home.path().to_str().unwrap())]);
        let root = root(&variables).unwrap();
        assert_eq!(root, Root::at(home.path().join(".openclaw")));
        assert_eq!(error(&root.path), None);
    }

    #[test]
    fn a_config_file_names_address_and_token() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".openclaw-work");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join(CONFIG), "{gateway: {port: 7, auth: {token: '${MINE}'}}}").unwrap();
        let variables = [
            ("HOME", home.path().to_str().unwrap()),
            ("OPENCLAW_STATE_DIR", "~/.openclaw-work"),
            ("MINE", "t"),
        ];
        let found = root(&environ(&variables)).unwrap();
        assert_eq!((address(&found), token(&found)), ("ws://127.0.0.1:7", Some("t")));
        let second = configured_root(&folder, &environ(&[("MINE", "t"), ("OPENCLAW_GATEWAY_PORT", "8")]));
        assert_eq!((address(&second), token(&second)), ("ws://127.0.0.1:7", Some("t")), "a second profile");
        std::fs::write(folder.join(CONFIG), "{gateway: ").unwrap();
        let broken = root(&environ(&variables)).unwrap();
        assert_eq!(broken.path, folder.join(CONFIG));
        assert!(error(&broken.path).unwrap().contains("a value is missing"));
    }

    #[test]
    fn an_address_from_the_environment_gets_no_other_keys_and_shows_no_password() {
        let told = root(&environ(&[("OPENCLAW_GATEWAY_URL", "ws://me:s3cret@box")])).unwrap();
        assert_eq!(address(&told), "ws://box");
        let given = environ(&[("OPENCLAW_GATEWAY_URL", "ws://box.local"), ("HOME", "/nowhere")]);
        let without = Root { keys: Some(Keys::default()), ..Root::at("ws://box.local:18789") };
        assert_eq!(root(&given), Some(without), "no other keys");
    }

    #[test]
    fn folders_are_found_as_openclaw_finds_them() {
        let home = tempfile::tempdir().unwrap();
        let at_home = |path: &str| home.path().join(path);
        let with = |pairs: &[(&str, &str)]| {
            let mut all = environ(pairs);
            all.set("HOME", home.path());
            all
        };
        let write = |path: &str, text: &str| {
            std::fs::create_dir_all(at_home(path).parent().unwrap()).unwrap();
            std::fs::write(at_home(path), text).unwrap();
        };
        let port = |pairs: &[(&str, &str)]| {
            let found = root(&with(pairs)).unwrap();
            address(&found).rsplit(':').next().unwrap().to_owned()
        };
        write(".clawdbot/clawdbot.json", "{gateway: {port: 1}}");
        assert_eq!(port(&[]), "1", "as it was called before");
        write(".openclaw/openclaw.json", "{gateway: {port: 2}}");
        assert_eq!(port(&[]), "2");
        assert_eq!(port(&[("OPENCLAW_PROFILE", "work")]), "2", "the variable alone moves nothing");
        write("other/.openclaw/openclaw.json", "{gateway: {}}");
        assert_eq!(port(&[("OPENCLAW_HOME", " ~/other ")]), "18789");
        assert_eq!(port(&[("OPENCLAW_HOME", "~/other"), ("OPENCLAW_PROFILE", "work")]), "41984");
        assert_eq!(port(&[("OPENCLAW_HOME", "undefined")]), "2");
        write("else/my.json5", "{gateway: {port: 3}}");
        assert_eq!(port(&[("OPENCLAW_CONFIG_PATH", "~/else/my.json5")]), "3");
        assert_eq!(
            port(&[("OPENCLAW_CONFIG_PATH", "~/else/my.json5"), ("OPENCLAW_GATEWAY_PORT", "127.0.0.1:4")]),
            "4"
        );
        write(".openclaw-work/openclaw.json", "{gateway: {}}");
        assert_eq!(address(&configured_root(&at_home(".openclaw-work"), &with(&[]))), "ws://127.0.0.1:41984");
    }

    #[test]
    fn keys_may_stand_in_a_file_of_variables_and_in_files_that_are_taken_in() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".openclaw");
        std::fs::create_dir(&folder).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        let found = |pairs: &[(&str, &str)]| {
            let mut all = environ(pairs);
            all.set("HOME", home.path());
            root(&all).unwrap()
        };
        write("openclaw.json", "{gateway: {port: 7, remote: {token: 'far'}}}");
        assert_eq!(token(&found(&[])), Some("far"));
        write(".env", "OPENCLAW_GATEWAY_TOKEN='of the file'\nMINE=other\n");
        assert_eq!(token(&found(&[])), Some("of the file"));
        assert_eq!(token(&found(&[("OPENCLAW_GATEWAY_TOKEN", "said")])), Some("said"));
        write("auth.json5", "{mode: 'token', token: 'x-${MINE}'}");
        write(
            "openclaw.json",
            "{gateway: {port: 7, auth: {$include: './auth.json5'}, remote: {token: 'far'}}}",
        );
        assert_eq!(token(&found(&[])), Some("x-other"));
        for (written, expected) in [
            ("'$MINE'", Some("other")),
            ("'${GONE}'", Some("of the file")),
            ("{source: 'env', id: 'MINE'}", Some("other")),
        ] {
            write("auth.json5", &format!("{{token: {written}}}"));
            assert_eq!(token(&found(&[])), expected, "{written}");
        }
        write("auth.json5", "{mode: 'password', token: 'no', password: 'yes'}");
        let keys = found(&[]).keys.unwrap();
        assert_eq!((keys.token, keys.password.as_ref().map(Secret::reveal)), (None, Some("yes")));
        write("openclaw.json", "{$include: './gone.json'}");
        assert!(error(&found(&[]).path).unwrap().contains("gone.json"));
    }
}
