//! Which gateway is meant, and what opens it: found the way OpenClaw's own command line finds them, first in the
//! environment, then in its config file. Nothing is written, and no connection is made here.

use std::io;
use std::path::{Path, PathBuf};

use agentctl_model::Environ;
use serde_json::Value;

use super::address::{Address, DEFAULT_PORT};
use super::json5;
use crate::{Keys, Pin, Root, Secret};

const CONFIG: &str = "openclaw.json";
/// A config file is a few kilobytes; what is larger is none.
const LARGEST_CONFIG: u64 = 4 << 20;

/// The gateway that a caller with these variables would talk to. Where OpenClaw has no config there is no gateway:
/// the root is then its folder, which `survey` finds missing.
pub(super) fn root(environ: &Environ) -> Option<Root> {
    if let Some(url) = environ.text("OPENCLAW_GATEWAY_URL") {
        // An address from the environment is opened with keys from the environment only.
        return Some(Root { keys: keys_of(environ), ..at(url) });
    }
    let state = state_folder(environ)?;
    let config = environ.path("OPENCLAW_CONFIG_PATH").unwrap_or_else(|| state.join(CONFIG));
    Some(match read(&config) {
        Ok(settings) => configured(&settings, environ, &state),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Root::at(state),
        Err(_) => Root::at(config),
    })
}

/// A root that the user wrote down: an address, or a folder of OpenClaw (a second profile).
pub(super) fn written(path: &Path) -> Root {
    match path.to_str() {
        Some(text) if text.contains("://") => at(text),
        _ => match read(&config_in(path)) {
            Ok(settings) => configured(&settings, &Environ::default(), path),
            Err(_) => Root::at(path),
        },
    }
}

/// Why a root that is no address could not become one; `None` when there is no OpenClaw.
pub(super) fn trouble(path: &Path) -> Option<String> {
    let config = config_in(path);
    match read(&config) {
        Ok(_) => Some(format!("{} is no address of a gateway", path.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(format!("{}: {error}", config.display())),
    }
}

fn config_in(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(CONFIG) } else { path.to_owned() }
}

fn at(url: &str) -> Root {
    Root::at(Address::parse(url).map_or_else(|| without_password(url), |address| address.to_string()))
}

/// An address that is none is shown to its user, but not with the password that somebody wrote into it.
fn without_password(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => format!("{scheme}://{}", rest.rsplit('@').next().unwrap_or_default()),
        None => url.to_owned(),
    }
}

fn state_folder(environ: &Environ) -> Option<PathBuf> {
    if let Some(folder) = environ.path("OPENCLAW_STATE_DIR") {
        return Some(expanded(folder, environ));
    }
    let home = environ.path("OPENCLAW_HOME").map(|home| expanded(home, environ));
    let home = home.or_else(|| environ.path("HOME"))?;
    Some(home.join(match environ.text("OPENCLAW_PROFILE") {
        Some(profile) if profile != "default" => format!(".openclaw-{profile}"),
        _ => ".openclaw".to_owned(),
    }))
}

fn expanded(path: PathBuf, environ: &Environ) -> PathBuf {
    match (path.strip_prefix("~"), environ.path("HOME")) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path,
    }
}

fn read(config: &Path) -> io::Result<Value> {
    let length = std::fs::metadata(config)?.len();
    if length > LARGEST_CONFIG {
        return Err(io::Error::other("too large for a config file"));
    }
    json5::parse(&std::fs::read_to_string(config)?).map_err(io::Error::other)
}

/// The gateway that a config file names, with its keys. Of the files, only the certificate of a local gateway is read.
fn configured(settings: &Value, environ: &Environ, state: &Path) -> Root {
    let gateway = &settings["gateway"];
    let said = |place: &Value| secret(place, environ);
    let from_environ = keys_of(environ);
    let (local, remote) = (&gateway["auth"], &gateway["remote"]);
    if let (Some("remote"), Some(url)) = (gateway["mode"].as_str(), remote["url"].as_str()) {
        let token = said(&remote["token"]).or(from_environ.token).or_else(|| said(&local["token"]));
        let password =
            from_environ.password.or_else(|| said(&remote["password"])).or_else(|| said(&local["password"]));
        let pin = remote["tlsFingerprint"].as_str().map(Pin::new);
        return Root { keys: Keys { token, password, pin, ..Keys::default() }, ..at(url) };
    }
    let chosen = environ.text("OPENCLAW_GATEWAY_PORT").and_then(|port| port.parse().ok());
    let written = gateway["port"].as_u64().and_then(|port| u16::try_from(port).ok());
    let secure = gateway["tls"]["enabled"].as_bool() == Some(true);
    let address = Address::local(chosen.or(written).unwrap_or(DEFAULT_PORT), secure);
    let token = said(&local["token"]).or(from_environ.token).or_else(|| said(&remote["token"]));
    let password = said(&local["password"]).or(from_environ.password).or_else(|| said(&remote["password"]));
    let pin = if secure { own_certificate(&gateway["tls"], environ, state) } else { None };
    // Its gateway is this machine's own: what it stores lies here.
    let store = Some(state.to_owned());
    Root { path: address.to_string().into(), store, keys: Keys { token, password, pin, ..Keys::default() } }
}

/// A gateway on this machine mostly signs for itself: its certificate lies here, and that very one is trusted.
fn own_certificate(tls: &Value, environ: &Environ, state: &Path) -> Option<Pin> {
    let named = tls["certPath"].as_str().map(|path| expanded(path.into(), environ));
    let path = named.unwrap_or_else(|| state.join("gateway/tls/gateway-cert.pem"));
    Pin::of_pem(&std::fs::read(path).ok()?)
}

fn keys_of(environ: &Environ) -> Keys {
    let secret = |name: &str| environ.text(name).and_then(Secret::new);
    Keys {
        token: secret("OPENCLAW_GATEWAY_TOKEN"),
        password: secret("OPENCLAW_GATEWAY_PASSWORD"),
        ..Keys::default()
    }
}

/// The secret itself, `${NAME}`, or a reference to a variable. Other references only OpenClaw can follow.
fn secret(place: &Value, environ: &Environ) -> Option<Secret> {
    let variable = |name: &str| environ.text(name).and_then(Secret::new);
    match place {
        Value::String(text) => match text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) {
            Some(name) => variable(name),
            None => Secret::new(text.as_str()),
        },
        Value::Object(reference) if reference.get("source").and_then(Value::as_str) == Some("env") => {
            reference.get("id").and_then(Value::as_str).and_then(variable)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environ(pairs: &[(&str, &str)]) -> Environ {
        pairs.iter().copied().collect()
    }

    fn token(root: &Root) -> Option<&str> {
        root.keys.token.as_ref().map(Secret::reveal)
    }

    fn address(root: &Root) -> &str {
        root.path.to_str().unwrap()
    }

    #[test]
    fn without_openclaw_there_is_only_a_folder_that_is_missing() {
        let home = tempfile::tempdir().unwrap();
        let variables = environ(&[("HOME", home.path().to_str().unwrap())]);
        let root = root(&variables).unwrap();
        assert_eq!(root, Root::at(home.path().join(".openclaw")));
        assert_eq!(trouble(&root.path), None);
    }

    #[test]
    fn a_config_file_names_address_and_token() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".openclaw-work");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join(CONFIG), "{gateway: {port: 7, auth: {token: '${MINE}'}}}").unwrap();
        let variables =
            [("HOME", home.path().to_str().unwrap()), ("OPENCLAW_PROFILE", "work"), ("MINE", "t")];
        let found = root(&environ(&variables)).unwrap();
        assert_eq!((address(&found), token(&found)), ("ws://127.0.0.1:7", Some("t")));
        assert_eq!(address(&written(&folder)), "ws://127.0.0.1:7", "a second profile by its folder");
        std::fs::write(folder.join(CONFIG), "{gateway: ").unwrap();
        let broken = root(&environ(&variables)).unwrap();
        assert_eq!(broken.path, folder.join(CONFIG));
        assert!(trouble(&broken.path).unwrap().contains("a value is missing"));
    }

    #[test]
    fn the_order_of_the_keys_is_openclaws_own() {
        let settings = json5::parse(
            "{gateway: {auth: {token: 'local'}, remote: {url: 'wss://gw.example', token: 'far', tlsFingerprint: 'AB:CD'}, mode: 'remote'}}",
        )
        .unwrap();
        let variables = environ(&[("OPENCLAW_GATEWAY_TOKEN", "env")]);
        let nowhere = Path::new("/nowhere");
        let far = configured(&settings, &variables, nowhere);
        assert_eq!((address(&far), token(&far)), ("wss://gw.example:443", Some("far")));
        assert_eq!(far.keys.pin, Some(Pin::new("abcd")));
        let near =
            configured(&json5::parse("{gateway: {auth: {token: 'local'}}}").unwrap(), &variables, nowhere);
        assert_eq!((address(&near), token(&near)), ("ws://127.0.0.1:18789", Some("local")));
        let unsaid = configured(
            &json5::parse("{gateway: {auth: {token: {source: 'exec', id: 'x'}}}}").unwrap(),
            &variables,
            nowhere,
        );
        assert_eq!(token(&unsaid), Some("env"));
        let told = root(&environ(&[("OPENCLAW_GATEWAY_URL", "ws://me:s3cret@box")])).unwrap();
        assert_eq!(address(&told), "ws://box");
        let given = environ(&[("OPENCLAW_GATEWAY_URL", "ws://box.local"), ("HOME", "/nowhere")]);
        assert_eq!(root(&given), Some(Root::at("ws://box.local:18789")), "no other keys");
    }
}
