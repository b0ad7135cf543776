//! Certificates that are made on the spot.

use noq_proto::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rcgen::{CertificateParams, KeyPair, PKCS_ED25519};

/// A server's certificate, signed by itself, and its key.
///
/// The key is Ed25519, whose signatures all have one length: packets of a handshake have the same
/// sizes each time.
#[derive(Debug)]
pub struct Certificate {
    /// What clients are to trust.
    pub certificate: CertificateDer<'static>,
    /// The private key, PKCS #8.
    pub key: PrivateKeyDer<'static>,
}

impl Certificate {
    /// For a server with these names or addresses.
    ///
    /// # Errors
    /// A name is none.
    pub fn generate(names: impl IntoIterator<Item = String>) -> Result<Self, rcgen::Error> {
        let names: Vec<_> = names.into_iter().collect();
        let mut parameters = CertificateParams::new(names)?;
        parameters.serial_number = Some(1_u64.into());
        let key = KeyPair::generate_for(&PKCS_ED25519)?;
        let certificate = parameters.self_signed(&key)?;
        Ok(Self {
            certificate: certificate.into(),
            key: PrivateKeyDer::Pkcs8(key.serialize_der().into()),
        })
    }
}

impl Clone for Certificate {
    fn clone(&self) -> Self {
        Self {
            certificate: self.certificate.clone(),
            key: self.key.clone_key(),
        }
    }
}
