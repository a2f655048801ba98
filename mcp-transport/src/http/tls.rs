use std::fmt;
use std::sync::{Arc, OnceLock};

use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

/// Which certificate authorities are trusted.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum TlsRoots {
    /// Those of the operating system, loaded when the first connection needs them.
    #[default]
    Platform,
    /// These alone, each in DER form.
    Only(Vec<Vec<u8>>),
}

/// TLS cannot be used at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The operating system has no certificate authorities that can be read.
    #[error("no certificate authority of this system can be read")]
    NoRoots,
    /// A configured certificate cannot be read.
    #[error("a configured certificate authority cannot be read: {0}")]
    BadRoot(String),
    /// The library refused the configuration.
    #[error("TLS cannot be set up: {0}")]
    Setup(String),
}

/// The configuration of TLS, made when the first URL asks for it and then kept.
#[derive(Debug)]
pub(super) struct Tls {
    roots: TlsRoots,
    config: OnceLock<Result<Arc<ClientConfig>, TlsError>>,
}

impl Tls {
    pub(super) fn new(roots: TlsRoots) -> Self {
        Self { roots, config: OnceLock::new() }
    }

    pub(super) fn config(&self) -> Result<Arc<ClientConfig>, TlsError> {
        self.config.get_or_init(|| configure(&self.roots).map(Arc::new)).clone()
    }
}

fn configure(roots: &TlsRoots) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::Setup(error.to_string()))?
        .with_root_certificates(store(roots)?)
        .with_no_client_auth();
    Ok(config)
}

fn store(roots: &TlsRoots) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    match roots {
        TlsRoots::Platform => {
            let found = rustls_native_certs::load_native_certs();
            for error in &found.errors {
                tracing::debug!(%error, "a certificate store of this system cannot be read");
            }
            let (added, ignored) = store.add_parsable_certificates(found.certs);
            tracing::debug!(added, ignored, "loaded the certificate authorities of this system");
            if added == 0 {
                return Err(TlsError::NoRoots);
            }
        }
        TlsRoots::Only(certificates) => {
            for certificate in certificates {
                store
                    .add(CertificateDer::from_slice(certificate).into_owned())
                    .map_err(|error| TlsError::BadRoot(error.to_string()))?;
            }
        }
    }
    Ok(store)
}

impl fmt::Debug for TlsRoots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Platform => f.write_str("Platform"),
            Self::Only(certificates) => write!(f, "Only({} certificates)", certificates.len()),
        }
    }
}
