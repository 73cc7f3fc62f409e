//! From settings and variables to one gateway: its address and its credentials. Only the certificate of a local
//! gateway is read here.
//!
//! Where OpenClaw 2026.9.6 decides: `src/gateway/connection-details.ts` (address), `src/config/paths.ts` (port),
//! `src/gateway/credentials.ts` (keys: which of several counts).

use std::path::Path;

use agentctl_model::Environ;
use serde_json::Value;

use super::address::{Address, DEFAULT_PORT};
use super::config::{self, substituted, variable};
use super::discovery::{at, expanded, home, variable_text};
use crate::{Keys, Pin, Root, Secret};

/// The variables that apply to one gateway.
pub(crate) struct Variables {
    /// Those that OpenClaw itself uses.
    pub(crate) own: Environ,
    /// Those that a config may name: all of them.
    pub(crate) named: Environ,
}

/// The gateway that a config file names, with its keys. The only further file that is read is the certificate of a
/// local gateway.
pub(crate) fn configured(settings: &Value, variables: &Variables, state: &Path) -> Root {
    let gateway = &settings["gateway"];
    let given = |place: &Value| secret(place, settings, &variables.named);
    let text = |place: &Value| substituted(place.as_str()?.trim(), settings, &variables.named);
    let environ = keys_of(&variables.own);
    let (local, remote) = (&gateway["auth"], &gateway["remote"]);
    if let (Some("remote"), Some(url)) = (gateway["mode"].as_str(), text(&remote["url"])) {
        let token = given(&remote["token"]).or(environ.token).or_else(|| given(&local["token"]));
        let password =
            environ.password.or_else(|| given(&remote["password"])).or_else(|| given(&local["password"]));
        let pin = text(&remote["tlsFingerprint"]).map(|pin| Pin::new(&pin));
        return Root { keys: Some(Keys { token, password, pin, ..Keys::default() }), ..at(&url) };
    }
    let secure = gateway["tls"]["enabled"].as_bool() == Some(true);
    let address = Address::local(port(gateway, &variables.own), secure);
    // The keys of another gateway are tried only if the config says nothing about the keys of this one.
    let or_else = |key: Option<Secret>, place: &str| {
        key.or_else(|| local[place].is_null().then(|| given(&remote[place]))?)
    };
    let mut token = or_else(given(&local["token"]).or(environ.token), "token");
    let password = or_else(given(&local["password"]).or(environ.password), "password");
    if local["mode"] == "password" && password.is_some() {
        token = None;
    }
    let pin = if secure {
        own_certificate(text(&gateway["tls"]["certPath"]), &variables.named, state)
    } else {
        None
    };
    // The gateway runs on this machine, so its storage is here.
    let store = Some(state.to_owned());
    let keys = Some(Keys { token, password, pin, ..Keys::default() });
    Root { path: address.to_string().into(), store, keys }
}

/// The port from the variable or the config, otherwise the one that OpenClaw computes for a profile.
fn port(gateway: &Value, environ: &Environ) -> u16 {
    let number = |text: &str| text.parse().ok().filter(|port: &u16| *port > 0);
    // Some users write the host in front of it.
    let chosen = variable_text(environ, "OPENCLAW_GATEWAY_PORT");
    let chosen = chosen.and_then(|text| number(text.rsplit_once(':').map_or(text, |(_, port)| port)));
    let written = gateway["port"].as_u64().and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
    chosen.or(written).unwrap_or_else(|| {
        match variable_text(environ, "OPENCLAW_PROFILE").filter(|name| is_profile(name)) {
            Some(profile) => port_of(profile),
            None => DEFAULT_PORT,
        }
    })
}

fn is_profile(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    !name.eq_ignore_ascii_case("default")
        && name.len() <= 64
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.bytes().all(fits)
}

/// FNV-1a, as in `resolveGatewayPort`.
fn port_of(profile: &str) -> u16 {
    let hash = profile
        .bytes()
        .fold(2_166_136_261_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(16_777_619));
    u16::try_from(20_000 + hash % 40_000).unwrap_or(DEFAULT_PORT)
}

/// A certificate has a few kilobytes.
const LARGEST_CERTIFICATE: u64 = 1 << 20;

/// A gateway on this machine usually signs its own certificate: it is stored here, and exactly that one is trusted.
fn own_certificate(named: Option<String>, environ: &Environ, state: &Path) -> Option<Pin> {
    let named = named.map(|path| expanded(&path, home(environ).as_deref()));
    let path = named.unwrap_or_else(|| state.join("gateway/tls/gateway-cert.pem"));
    Pin::of_pem(&agentctl_files::read_small(&path, LARGEST_CERTIFICATE).ok()?)
}

pub(crate) fn keys_of(environ: &Environ) -> Keys {
    let secret = |name: &str| variable_text(environ, name).and_then(Secret::new);
    Keys {
        token: secret("OPENCLAW_GATEWAY_TOKEN"),
        password: secret("OPENCLAW_GATEWAY_PASSWORD"),
        ..Keys::default()
    }
}

/// The secret itself, with or without variables in it, `$NAME`, or a reference to a variable. Only OpenClaw can
/// resolve other references (`src/config/types.secrets.ts`).
fn secret(place: &Value, settings: &Value, environ: &Environ) -> Option<Secret> {
    let named = |name: &str| variable(name, settings, environ).map(str::trim).and_then(Secret::new);
    match place {
        Value::String(text) => match text.trim().strip_prefix('$') {
            Some(name) if config::is_name(name) => named(name),
            _ => Secret::new(substituted(text.trim(), settings, environ)?),
        },
        Value::Object(reference) if reference.get("source").and_then(Value::as_str) == Some("env") => {
            reference.get("id").and_then(Value::as_str).and_then(named)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::json5;
    use super::super::scene::{address, environ, token};
    use super::*;

    #[test]
    fn the_order_of_the_keys_is_openclaws_own() {
        let settings = json5::parse(
            "{gateway: {auth: {token: 'local'}, remote: {url: 'wss://gw.example', token: 'far', tlsFingerprint: 'AB:CD'}, mode: 'remote'}}",
        )
        .unwrap();
        let environ_of = |pairs: &[(&str, &str)]| Variables { own: environ(pairs), named: environ(pairs) };
        let variables = environ_of(&[("OPENCLAW_GATEWAY_TOKEN", "env")]);
        let nowhere = Path::new("/nowhere");
        let far = configured(&settings, &variables, nowhere);
        assert_eq!((address(&far), token(&far)), ("wss://gw.example:443", Some("far")));
        assert_eq!(far.keys.unwrap().pin, Some(Pin::new("abcd")));
        let near =
            configured(&json5::parse("{gateway: {auth: {token: 'local'}}}").unwrap(), &variables, nowhere);
        assert_eq!((address(&near), token(&near)), ("ws://127.0.0.1:18789", Some("local")));
        let unsaid = configured(
            &json5::parse("{gateway: {auth: {token: {source: 'exec', id: 'x'}}}}").unwrap(),
            &variables,
            nowhere,
        );
        assert_eq!(token(&unsaid), Some("env"));
    }
}
