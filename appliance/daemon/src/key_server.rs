//! Keys of encrypted datasets from web servers (`keylocation=https://…`).
//!
//! As with OpenZFS and libcurl, variables of the environment select certificates, and a certificate
//! that is itself in the file of trusted ones is accepted for the host that it names, even if it is
//! an authority or names the host only in its subject. Facts: get_key_material_https in
//! lib/libzfs/libzfs_crypto.c, zfsprops(7).
//!
//! Invariants:
//!   * a request ends within its time limit, and no more of the answer is read than a key may have
//!   * a request for https is not redirected to http

use crate::health::certificate;
use admin::new_key::Material;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::{WebPkiServerVerifier, verify_server_name};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore};
use tokio_rustls::rustls::{SignatureScheme, StreamOwned};
use ureq::Agent;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout};
use ureq::unversioned::transport::{TcpConnector, Transport, TransportAdapter};

/// Time limit of a request: that of OpenZFS.
const PATIENCE: Duration = Duration::from_secs(30);
/// Most bytes of a key: a passphrase has at most 512.
const KEY_BYTES_MAX: u64 = 4096;
const REDIRECTS_MAX: u32 = 10;

/// Files with certificates, by the variables that name them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Certificates {
    /// `SSL_CA_CERT_FILE`: trusted certificates, in place of this machine's.
    pub trusted_file: Option<PathBuf>,
    /// `SSL_CA_CERT_PATH`: a folder of such files.
    pub trusted_folder: Option<PathBuf>,
    /// `SSL_CLIENT_CERT_FILE`: what this client shows.
    pub client: Option<PathBuf>,
    /// `SSL_CLIENT_KEY_FILE`: its key.
    pub client_key: Option<PathBuf>,
}

impl Certificates {
    /// From variables of an environment.
    pub fn new(variable: impl Fn(&str) -> Option<PathBuf>) -> Self {
        Self {
            trusted_file: variable("SSL_CA_CERT_FILE"),
            trusted_folder: variable("SSL_CA_CERT_PATH"),
            client: variable("SSL_CLIENT_CERT_FILE"),
            client_key: variable("SSL_CLIENT_KEY_FILE"),
        }
    }

    fn trusted(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let mut files: Vec<PathBuf> = self.trusted_file.iter().cloned().collect();
        if let Some(folder) = &self.trusted_folder {
            let entries = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
            files.extend(entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_file()));
        }
        if files.is_empty() {
            return Ok(rustls_native_certs::load_native_certs().certs);
        }
        let mut found = Vec::new();
        for file in &files {
            found.extend(certificates(file)?);
        }
        Ok(found)
    }

    fn config(&self) -> Result<ClientConfig, String> {
        let (provider, trusted) = (Arc::new(ring::default_provider()), self.trusted()?);
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(trusted.iter().cloned());
        let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
        let usual = usual.map_err(|e| format!("no trusted certificates: {e}"))?;
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(|e| e.to_string())?.dangerous();
        let builder = builder.with_custom_certificate_verifier(Arc::new(Verifier { usual, trusted }));
        let (Some(file), key) = (&self.client, self.client_key.as_ref().or(self.client.as_ref())) else {
            return Ok(builder.with_no_client_auth());
        };
        let key = key.unwrap_or(file);
        let key = PrivateKeyDer::from_pem_file(key).map_err(|e| format!("{}: {e}", key.display()))?;
        builder.with_client_auth_cert(certificates(file)?, key).map_err(|e| e.to_string())
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_file_iter(file).and_then(|all| all.collect::<Result<Vec<_>, _>>());
    all.map_err(|e| format!("{}: {e}", file.display()))
}

/// Reads the key at `url`. Errors are OpenZFS's texts.
pub fn get(url: &str, files: &Certificates) -> Result<Material, String> {
    let failed = |why: &dyn std::fmt::Display| format!("Failed to connect to {url}: {why}");
    let config = Agent::config_builder()
        .proxy(None)
        .https_only(url.starts_with("https://"))
        .max_redirects(REDIRECTS_MAX)
        .http_status_as_error(false)
        .max_response_header_size(16 << 10)
        .timeout_global(Some(PATIENCE))
        .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")))
        .build();
    let tls = Tls(Arc::new(files.config().map_err(|e| failed(&e))?));
    let connector = Connector::<()>::chain(TcpConnector::default(), tls);
    let agent = Agent::with_parts(config, connector, DefaultResolver::default());
    let mut answer = agent.get(url).call().map_err(|e| failed(&e))?;
    if !answer.status().is_success() {
        return Err(format!("Couldn't GET {url}: {}", answer.status().as_u16()));
    }
    let body = answer.body_mut().with_config().limit(KEY_BYTES_MAX).read_to_vec();
    body.map(Material::new).map_err(|e| failed(&e))
}

/// Trusts what webpki does, and certificates that are in the file of trusted ones themselves.
#[derive(Debug)]
struct Verifier {
    usual: Arc<WebPkiServerVerifier>,
    trusted: Vec<CertificateDer<'static>>,
}

impl Verifier {
    fn is_trusted_itself(&self, der: &CertificateDer<'_>, name: &ServerName<'_>, now: UnixTime) -> bool {
        let names_host = || match certificate::has_alternative_names(der) {
            true => ParsedCertificate::try_from(der).is_ok_and(|parsed| verify_server_name(&parsed, name).is_ok()),
            false => certificate::common_name(der).is_some_and(|common| common.eq_ignore_ascii_case(&name.to_str())),
        };
        let is_valid = certificate::validity(der)
            .is_some_and(|validity| (validity.not_before..=validity.not_after).contains(&now.as_secs()));
        self.trusted.iter().any(|trusted| trusted == der) && is_valid && names_host()
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = self.usual.verify_server_cert(end_entity, intermediates, name, ocsp, now);
        verified.or_else(|error| match self.is_trusted_itself(end_entity, name, now) {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(error),
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.usual.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.usual.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

/// Adds TLS to connections for https.
#[derive(Debug)]
struct Tls(Arc<ClientConfig>);

impl<In: Transport> Connector<In> for Tls {
    type Out = Either<In, TlsTransport>;

    fn connect(&self, details: &ConnectionDetails, below: Option<In>) -> Result<Option<Self::Out>, ureq::Error> {
        let Some(below) = below else { return Ok(None) };
        if !details.needs_tls() || below.is_tls() {
            return Ok(Some(Either::A(below)));
        }
        let host = details.uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let mut connection = ClientConnection::new(self.0.clone(), name).map_err(io::Error::other)?;
        let mut socket = TransportAdapter::new(below.boxed(), details.current_time.clone());
        socket.set_timeout(details.timeout);
        connection.complete_io(&mut socket)?;
        let buffers = LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(Either::B(TlsTransport { buffers, stream: StreamOwned { conn: connection, sock: socket } })))
    }
}

struct TlsTransport {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl std::fmt::Debug for TlsTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsTransport").finish_non_exhaustive()
    }
}

impl Transport for TlsTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.stream.get_mut().set_timeout(timeout);
        Ok(self.stream.write_all(&self.buffers.output()[..amount])?)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.stream.get_mut().set_timeout(timeout);
        let amount = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.get_mut().get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair};
    use std::net::TcpListener;
    use tokio_rustls::rustls::{ServerConfig, ServerConnection};

    /// A server that answers each request with a passphrase, or with 404 for /missing. Returns its
    /// port.
    fn serve(certificate: CertificateDer<'static>, key: &KeyPair) -> u16 {
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        let provider = Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.expect("known").with_no_client_auth().with_single_cert(vec![certificate], key);
        let (config, listener) = (Arc::new(config.expect("fits")), TcpListener::bind("127.0.0.1:0").expect("free"));
        let port = listener.local_addr().expect("bound").port();
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let connection = ServerConnection::new(config.clone()).expect("a connection");
                let mut stream = StreamOwned::new(connection, socket.expect("accepted"));
                let mut request = [0; 1024];
                let Ok(length) = stream.read(&mut request) else { continue };
                let answer: &[u8] = match request[..length].starts_with(b"GET /missing ") {
                    true => b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
                    false => b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npassword\n",
                };
                let _ = stream.write_all(answer);
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        });
        port
    }

    /// As `openssl req -x509` makes it: an authority that names the host in its subject only.
    fn snake_oil(host: &str) -> (rcgen::Certificate, KeyPair) {
        let mut params = CertificateParams::new([]).expect("no names");
        params.distinguished_name.push(DnType::CommonName, host);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        (params.self_signed(&key).expect("signed"), key)
    }

    #[test]
    fn a_key_comes_from_a_server_whose_certificate_is_trusted() {
        let folder = tempfile::tempdir().expect("a folder");
        let (certificate, key) = snake_oil("localhost");
        let port = serve(certificate.der().clone(), &key);
        let file = |name: &str, certificate: &rcgen::Certificate| {
            let path = folder.path().join(name);
            std::fs::write(&path, certificate.pem()).expect("written");
            Certificates { trusted_file: Some(path), ..Certificates::default() }
        };
        let trusted = file("it", &certificate);
        let url = |host: &str, path: &str| format!("https://{host}:{port}/{path}");
        assert_eq!(get(&url("localhost", "key"), &trusted).expect("a key").as_slice(), b"password\n");
        assert_eq!(
            get(&url("localhost", "missing"), &trusted).unwrap_err(),
            format!("Couldn't GET {}: 404", url("localhost", "missing"))
        );
        // Of another host, and one that nothing vouches for.
        let (other, _) = snake_oil("localhost");
        for (host, files) in [("127.0.0.1", trusted), ("localhost", file("other", &other))] {
            let error = get(&url(host, "key"), &files).unwrap_err();
            assert!(error.starts_with(&format!("Failed to connect to {}: ", url(host, "key"))), "{error}");
        }
    }
}
