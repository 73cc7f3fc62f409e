//! The server side of TLS, with a certificate that only tests trust.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A self-signed certificate for `localhost` and 127.0.0.1, in PEM.
pub const CERTIFICATE: &str = include_str!("tls/cert.pem");
/// Its SHA-256 fingerprint, in the usual notation.
pub const FINGERPRINT: &str =
    "1D:CC:ED:94:F4:54:93:48:D9:AE:E6:05:FB:FF:A1:D1:44:3B:AD:E3:89:F7:10:77:CA:9F:23:36:52:19:CE:46";
const KEY: &[u8] = include_bytes!("tls/key.der");

/// The authority that signed the certificate of [`Identity::Signed`], in PEM: a machine that trusts the authority trusts the
/// certificate.
pub const AUTHORITY: &str = include_str!("tls/authority.pem");
const SIGNED: &str = include_str!("tls/signed.pem");
const SIGNED_KEY: &[u8] = include_bytes!("tls/signed-key.der");

/// Which certificate a server shows.
#[derive(Debug, Clone, Copy)]
pub enum Identity {
    /// [`CERTIFICATE`], which is self-signed.
    Own,
    /// A certificate for the same names, signed by [`AUTHORITY`].
    Signed,
}

pub(super) fn server(identity: Identity) -> Arc<ServerConfig> {
    let (certificate, key) = match identity {
        Identity::Own => (CERTIFICATE, KEY),
        Identity::Signed => (SIGNED, SIGNED_KEY),
    };
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).expect("the test's certificate");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the usual versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key);
    Arc::new(config.expect("a key that fits"))
}

/// A connection with or without TLS.
pub(super) enum Stream {
    Plain(TcpStream),
    Secure(Box<StreamOwned<ServerConnection, TcpStream>>),
}

impl Stream {
    pub(super) fn of(stream: TcpStream, tls: Option<Arc<ServerConfig>>) -> Self {
        match tls {
            None => Self::Plain(stream),
            Some(config) => {
                let connection = ServerConnection::new(config).expect("a TLS connection");
                Self::Secure(Box::new(StreamOwned::new(connection, stream)))
            }
        }
    }

    /// The TCP connection, to send bytes outside of TLS records.
    pub(super) fn line(&mut self) -> &mut TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Secure(stream) => &mut stream.sock,
        }
    }

    pub(super) fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.set_read_timeout(time),
            Self::Secure(stream) => stream.sock.set_read_timeout(time),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(into),
            Self::Secure(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Secure(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Secure(stream) => stream.flush(),
        }
    }
}
