//! HTTPS: the configured certificate, or a self-signed one that is created at the first start.
//!
//! The self-signed certificate is in `tls/` of the state directory. Browsers warn about it until
//! the user trusts it; its fingerprint is logged for comparison.

use crate::access::secret;
use crate::config::ApiConfig;
use crate::health::{self, Validity};
use anyhow::{Context as _, Result, bail};
use host::durable;
use parking_lot::RwLock;
use rcgen::{CertificateParams, DnType, KeyPair};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, version};

/// Lifetime of a self-signed certificate, and age at which it is renewed. Some systems reject
/// certificates with a longer lifetime.
const GOOD_FOR: Duration = Duration::from_secs(800 * 86_400);
const RENEWED_AFTER: Duration = Duration::from_secs(700 * 86_400);

/// The current TLS configuration; new connections use the latest one.
pub struct Current(RwLock<Loaded>);

/// A certificate with its key.
#[derive(Clone)]
pub struct Loaded {
    acceptor: TlsAcceptor,
    /// SHA-256 fingerprint of the certificate.
    pub sha256: String,
    /// Times between which it is valid; `None` if they cannot be read.
    validity: Option<Validity>,
}

impl Current {
    pub fn new(loaded: Loaded) -> Arc<Self> {
        Arc::new(Self(RwLock::new(loaded)))
    }

    /// For an HTTP connection.
    pub fn acceptor(&self) -> TlsAcceptor {
        self.0.read().acceptor.clone()
    }

    /// For a connection with another protocol than HTTP.
    pub fn server(&self) -> Arc<ServerConfig> {
        let mut server = ServerConfig::clone(self.0.read().acceptor.config());
        server.alpn_protocols.clear();
        Arc::new(server)
    }

    /// SHA-256 fingerprint of the certificate.
    pub fn sha256(&self) -> String {
        self.0.read().sha256.clone()
    }

    /// Times between which the certificate is valid; `None` if they cannot be read.
    pub(crate) fn validity(&self) -> Option<Validity> {
        self.0.read().validity
    }

    /// Replaces the certificate for new connections. Returns whether it is a different one.
    pub fn replace(&self, loaded: Loaded) -> bool {
        let is_new = loaded.sha256 != self.0.read().sha256;
        if is_new {
            tracing::info!(sha256 = loaded.sha256, "new connections use the new certificate");
        }
        *self.0.write() = loaded;
        is_new
    }
}

/// Reads the certificate, or creates one.
pub fn load(config: &ApiConfig, state: &Path) -> Result<Loaded> {
    let (certificate, key) = match (&config.certificate, &config.key) {
        (Some(certificate), Some(key)) => (certificate.clone(), key.clone()),
        _ => own(config, &state.join("tls")).context("cannot create a certificate")?,
    };
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_file_iter(&certificate)
            .and_then(Iterator::collect)
            .with_context(|| format!("{}: expected certificates in PEM", certificate.display()))?;
    let Some(first) = chain.first() else { bail!("{}: contains no certificate", certificate.display()) };
    let digits: Vec<String> = Sha256::digest(first).iter().map(|byte| format!("{byte:02X}")).collect();
    let sha256 = digits.join(":");
    let validity = health::validity(first);
    tracing::info!(file = %certificate.display(), sha256, "certificate");
    let key_der = PrivateKeyDer::from_pem_file(&key)
        .with_context(|| format!("{}: expected a private key in PEM", key.display()))?;
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let mut server = builder
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])
        .context("TLS versions")?
        .with_no_client_auth()
        .with_single_cert(chain, key_der)
        .with_context(|| format!("{} and {} do not match", certificate.display(), key.display()))?;
    server.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Loaded { acceptor: TlsAcceptor::from(Arc::new(server)), sha256, validity })
}

/// Names and addresses for a self-signed certificate.
fn names(config: &ApiConfig) -> BTreeSet<String> {
    let loopback = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let listened =
        config.listen.iter().map(|a| a.ip()).filter(|ip| !ip.is_unspecified()).map(|ip: IpAddr| ip.to_string());
    loopback.into_iter().chain(listened).chain([host::name()]).chain(config.hosts.clone()).collect()
}

/// The certificate in `folder` and its key. It is created if it is missing, is for other names, or
/// is about to expire.
fn own(config: &ApiConfig, folder: &Path) -> Result<(PathBuf, PathBuf)> {
    let (certificate, key, wanted) = (folder.join("cert.pem"), folder.join("key.pem"), folder.join("names"));
    let names: Vec<String> = names(config).into_iter().collect();
    let list = names.join("\n");
    let made = fs::metadata(&certificate).and_then(|m| m.modified()).ok();
    let age = made.map(|then| SystemTime::now().duration_since(then).unwrap_or_default());
    let good = age.is_some_and(|age| age < RENEWED_AFTER) && key.exists();
    if good && fs::read_to_string(&wanted).is_ok_and(|had| had == list) {
        return Ok((certificate, key));
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).with_context(|| folder.display().to_string())?;
    let fresh = KeyPair::generate()?;
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, format!("weir on {}", host::name()));
    let now = SystemTime::now();
    params.not_before = (now - Duration::from_secs(86_400)).into();
    params.not_after = (now + GOOD_FOR).into();
    let signed = params.self_signed(&fresh)?;
    for (path, text) in [(&key, fresh.serialize_pem()), (&certificate, signed.pem()), (&wanted, list)] {
        durable::replace(path, text.as_bytes(), durable::PRIVATE).with_context(|| path.display().to_string())?;
    }
    tracing::info!(folder = %folder.display(), id = &secret::digest(&signed.pem())[..8], "created a certificate");
    Ok((certificate, key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_certificate_is_created_once_and_again_for_other_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = Config::default().api;
        load(&config, folder.path()).expect("made");
        let path = folder.path().join("tls/cert.pem");
        let first = fs::read(&path).expect("there");
        load(&config, folder.path()).expect("kept");
        assert_eq!(fs::read(&path).expect("there"), first);
        config.hosts.push("filer.example".into());
        load(&config, folder.path()).expect("recreated");
        assert_ne!(fs::read(&path).expect("there"), first);
        let mode = fs::metadata(folder.path().join("tls/key.pem")).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn an_invalid_certificate_file_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("c.pem");
        fs::write(&path, "nothing").expect("written");
        let mut config = Config::default().api;
        (config.certificate, config.key) = (Some(path.clone()), Some(path.clone()));
        let error = format!("{:#}", load(&config, folder.path()).err().expect("refused"));
        assert!(error.contains("c.pem"), "{error}");
    }
}
