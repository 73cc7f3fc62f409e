//! TLS over an open connection. A certificate is trusted because the system trusts it, or because the user named its
//! exact fingerprint; there is no way to trust every certificate.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

use data_encoding::HEXLOWER;
use ring::digest::{SHA256, digest};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring as provider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme,
    StreamOwned,
};
use rustls_platform_verifier::BuilderVerifierExt;

use crate::wire::deadline::{Bounded, Timed};

pub(crate) type TlsStream = StreamOwned<ClientConnection, Bounded<TcpStream>>;

/// Completes the handshake before the stream's deadline. With a pin only that certificate is trusted, whoever signed
/// it.
pub(crate) fn shake_hands(
    mut stream: Bounded<TcpStream>,
    host: &str,
    pin: Option<&Pin>,
) -> io::Result<TlsStream> {
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let config = config(pin).map_err(io::Error::other)?;
    let mut connection = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    while connection.is_handshaking() {
        if connection.wants_write() {
            connection.write_tls(&mut stream)?;
        } else if connection.read_tls(&mut stream)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        } else if let Err(error) = connection.process_new_packets() {
            // Sends the reason to the peer, if it still listens.
            let _ = connection.write_tls(&mut stream);
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
    }
    Ok(StreamOwned::new(connection, stream))
}

/// Why the peer was not trusted, if that is what went wrong.
pub(crate) fn distrust(error: &io::Error) -> Option<String> {
    match error.get_ref()?.downcast_ref::<Error>()? {
        Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure) => {
            Some("its certificate is not the one that was pinned".to_owned())
        }
        Error::InvalidCertificate(why) => Some(format!("its certificate is not trusted: {why}")),
        _ => None,
    }
}

impl Timed for TlsStream {
    fn wait_until(&mut self, deadline: Instant) {
        self.sock.wait_until(deadline);
    }
}

fn config(pin: Option<&Pin>) -> Result<ClientConfig, Error> {
    let provider = Arc::new(provider::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    Ok(match pin {
        Some(pin) => {
            let verifier = Arc::new(Pinned { pin: pin.clone(), provider });
            builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
        }
        None => builder.with_platform_verifier()?.with_no_client_auth(),
    })
}

/// The SHA-256 of one certificate in hexadecimal. A text that is not one matches no certificate: a pin never matches
/// by mistake.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pin(String);

impl Pin {
    /// Accepts OpenClaw's spellings: with or without `sha256:` in front, with or without colons.
    pub fn new(text: &str) -> Self {
        let text = text.trim().to_ascii_lowercase();
        Self(text.strip_prefix("sha256:").unwrap_or(&text).replace(':', ""))
    }

    /// The pin of the first certificate in a PEM file.
    pub(crate) fn of_pem(pem: &[u8]) -> Option<Self> {
        CertificateDer::from_pem_slice(pem).ok().map(|certificate| Self::of(&certificate))
    }

    fn of(certificate: &CertificateDer<'_>) -> Self {
        Self(HEXLOWER.encode(digest(&SHA256, certificate).as_ref()))
    }
}

#[derive(Debug)]
struct Pinned {
    pin: Pin,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if Pin::of(end_entity) == self.pin {
            return Ok(ServerCertVerified::assertion());
        }
        Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
    }

    /// It is checked as usual that the peer has the key of the pinned certificate.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_is_one_however_it_is_spelt_and_nothing_else_fits() {
        let plain = "1d".repeat(32);
        let colons = ["1D"; 32].join(":");
        assert_eq!(Pin::new(&plain), Pin::new(&format!(" sha256:{colons} ")));
        assert_ne!(Pin::new("anything"), Pin::of(&CertificateDer::from_slice(b"a certificate")));
        assert_eq!(Pin::of_pem(b"no certificate"), None);
    }
}
