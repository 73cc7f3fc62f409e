//! The way to the server, the same for who serves and who asks. Keys are read from files of this user that nobody else can
//! read, at the moment of connecting, and are kept nowhere else.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event, ServerAddr, ServerError};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::sync::watch;

use super::settings::{NatsSettings, TlsFiles};
use super::subjects;
use crate::failure::{RoadFailure, Step};
use crate::name::HostName;

/// No file of keys or certificates is larger.
const LARGEST_FILE: u64 = 256 << 10;
/// The longest pause between two tries to come back to a server.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What the server said last that no request gets as its answer: above all, which right is missing.
pub type ServerWords = watch::Receiver<Option<String>>;

/// Is given words about the connection.
pub type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// Who comes to the server, and what it may do when the server is away.
pub struct Manner<'a> {
    /// The user in his own inbox.
    pub user: &'a HostName,
    /// Whether to try for ever, in the background.
    pub stays: bool,
    /// Is told of every change of the connection.
    pub tell: Option<Tell>,
}

/// Connects. One who stays is returned at once and connects in the background.
pub async fn dial(settings: &NatsSettings, manner: Manner<'_>) -> Result<(Client, ServerWords), RoadFailure> {
    let servers = servers(&settings.url).map_err(|why| RoadFailure::new(Step::Resolve, why))?;
    let (heard, words) = watch::channel(None);
    let heard = Arc::new(heard);
    let tell = manner.tell;
    let mut options = ConnectOptions::new()
        .name(format!("agentctl {}", manner.user))
        .custom_inbox_prefix(subjects::inbox(manner.user))
        .connection_timeout(settings.timeout)
        .request_timeout(Some(settings.timeout))
        .ping_interval(Duration::from_secs(10))
        .event_callback(move |event| {
            let (heard, tell) = (heard.clone(), tell.clone());
            async move {
                if let Event::ServerError(ServerError::Other(words)) = &event {
                    heard.send_replace(Some(words.clone()));
                }
                if let Some(tell) = tell {
                    tell(&event.to_string());
                }
            }
        });
    if manner.stays {
        let pause = |tries: usize| {
            let exponent = u32::try_from(tries.min(8)).unwrap_or(8);
            Duration::from_millis(20 * 2_u64.pow(exponent)).min(LONGEST_PAUSE)
        };
        options = options.retry_on_initial_connect().reconnect_delay_callback(pause);
    }
    options = authenticated(options, settings)?;
    if !settings.tls.is_empty() {
        options = options.require_tls(true);
    }
    if !settings.tls.is_empty() || servers.iter().any(ServerAddr::tls_required) {
        options = options.tls_client_config(tls(&settings.tls).map_err(|why| wrong_key(&why))?);
    }
    let client = options.connect(servers).await.map_err(|error| unconnected(&error, settings))?;
    Ok((client, words))
}

/// The servers of an address. Passwords do not belong into it: it is shown.
pub fn servers(url: &str) -> Result<Vec<ServerAddr>, String> {
    let mut servers = Vec::new();
    for one in url.split(',').map(str::trim).filter(|one| !one.is_empty()) {
        let server: ServerAddr = one.parse().map_err(|_| {
            "no address of a NATS server, expected one such as tls://nats.example:4222".to_owned()
        })?;
        if server.has_user_pass() || server.username().is_some() {
            return Err(
                "an address holds no user and no password; name a file with `creds` or `nkey`".to_owned()
            );
        }
        if server.host().is_empty() {
            return Err("an address without a host, expected one such as tls://nats.example:4222".to_owned());
        }
        if !matches!(server.scheme(), "nats" | "tls") {
            return Err(format!("`{}` is no scheme of a NATS server, expected nats or tls", server.scheme()));
        }
        servers.push(server);
    }
    if servers.is_empty() {
        return Err("no server is named, expected one such as tls://nats.example:4222".to_owned());
    }
    Ok(servers)
}

fn authenticated(options: ConnectOptions, settings: &NatsSettings) -> Result<ConnectOptions, RoadFailure> {
    if let Some(path) = &settings.creds {
        let text = secret(path).map_err(|why| wrong_key(&why))?;
        // The error of the parser could repeat what it could not read.
        let unread =
            |_| wrong_key(&format!("{} is no file of credentials, as `nsc` writes it", path.display()));
        return options.credentials(&text).map_err(unread);
    }
    let Some(path) = &settings.nkey else { return Ok(options) };
    let text = secret(path).map_err(|why| wrong_key(&why))?;
    let seed = text.lines().map(str::trim).find(|line| line.starts_with("SU"));
    let seed = seed.ok_or_else(|| wrong_key(&format!("{} holds no seed of a user (SU…)", path.display())))?;
    Ok(options.nkey(seed.to_owned()))
}

fn wrong_key(why: &str) -> RoadFailure {
    RoadFailure::new(Step::Authenticate, why).hint("`[nats]` of config.toml names the files")
}

/// Reads a file that nobody but this user may read.
fn secret(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let unread = |error: io::Error| format!("{shown} cannot be read: {error}");
    let file = agentctl_files::own::open(path).map_err(unread)?;
    let mode = file.metadata().map_err(unread)?.mode();
    if mode & 0o077 != 0 {
        return Err(format!("{shown} can be read by others; `chmod 600` it"));
    }
    agentctl_files::own::read_text(path, LARGEST_FILE).map_err(unread)
}

fn tls(files: &TlsFiles) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match &files.ca {
        None => builder.with_platform_verifier().map_err(|error| error.to_string())?,
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                let unfit = |error| format!("{}: {error}", path.display());
                roots.add(certificate).map_err(unfit)?;
            }
            builder.with_root_certificates(roots)
        }
    };
    match (&files.cert, &files.key) {
        (Some(cert), Some(key)) => {
            let unread = |_| format!("{} holds no private key in PEM form", key.display());
            let parsed = PrivateKeyDer::from_pem_slice(secret(key)?.as_bytes()).map_err(unread)?;
            let unfit = |error| format!("{} and {}: {error}", cert.display(), key.display());
            builder.with_client_auth_cert(certificates(cert)?, parsed).map_err(unfit)
        }
        _ => Ok(builder.with_no_client_auth()),
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let shown = path.display();
    let bytes =
        agentctl_files::read_small(path, LARGEST_FILE).map_err(|error| format!("{shown}: {error}"))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(format!("{shown} holds no certificate in PEM form")),
    }
}

fn unconnected(error: &async_nats::ConnectError, settings: &NatsSettings) -> RoadFailure {
    let url = &settings.url;
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    match error.kind() {
        ConnectErrorKind::Dns | ConnectErrorKind::ServerParse => {
            RoadFailure::new(Step::Resolve, format!("{url} has no address{cause}"))
                .hint("correct `url` in `[nats]` of config.toml")
        }
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => RoadFailure::new(
            Step::Authenticate,
            format!("{url} does not let this user in"),
        )
        .hint(
            "`creds` or `nkey` in `[nats]` names the key; ask who runs the server whether it is known there",
        ),
        ConnectErrorKind::Tls => {
            RoadFailure::new(Step::Authenticate, format!("{url} cannot prove who it is{cause}"))
                .hint("name who signs its certificate: `tls = { ca = \"…\" }` in `[nats]`")
        }
        ConnectErrorKind::TimedOut => {
            RoadFailure::new(Step::Connect, format!("{url} does not answer within {:?}", settings.timeout))
                .hint("is the server up, and the way to it open?")
        }
        ConnectErrorKind::Io if cause.contains("ertificate") => {
            RoadFailure::new(Step::Authenticate, format!("{url} cannot prove who it is{cause}"))
                .hint("name who signs its certificate: `tls = { ca = \"…\" }` in `[nats]`")
        }
        ConnectErrorKind::Io | ConnectErrorKind::MaxReconnects => {
            RoadFailure::new(Step::Connect, format!("{url} cannot be reached{cause}"))
                .hint("is the server up, and the way to it open?")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_servers_and_holds_no_password() {
        assert_eq!(servers("nats://a:4222, tls://b").unwrap().len(), 2);
        for bad in ["", "nats://ann:s3cret@a:4222", "nats://token@a", "ws://a", "http://a", "nats://"] {
            let why = servers(bad).expect_err(bad);
            assert!(!why.contains("s3cret"), "{why}");
        }
    }

    #[test]
    fn a_key_that_others_can_read_is_no_key() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("user.creds");
        std::fs::write(&path, "SUAB").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(secret(&path).unwrap_err().contains("chmod 600"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(secret(&path).as_deref(), Ok("SUAB"));
    }
}
