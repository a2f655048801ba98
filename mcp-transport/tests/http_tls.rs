//! TLS, with certificates made on the spot.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "test code"
)]
#![cfg(feature = "http")]

use std::sync::Arc;
use std::time::Duration;

use mcp_transport::http::{Endpoint, HttpConnectError, HttpConnector, HttpLimits, HyperBackend, TlsRoots};
use mcp_transport::testing::checks::isolated;
use mcp_transport::{ConnectError, Connection, Connector as _, Outbound, Sent};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::server::Acceptor;
use tokio_rustls::{LazyConfigAcceptor, TlsAcceptor};

/// A listener with a certificate for `name`, and that certificate.
async fn listen(name: &str) -> (TcpListener, TlsAcceptor, Vec<u8>) {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    (listener, TlsAcceptor::from(Arc::new(config)), certificate.to_vec())
}

fn connector(listener: &TcpListener, roots: TlsRoots) -> HttpConnector {
    let port = listener.local_addr().unwrap().port();
    let endpoint = Endpoint::parse(&format!("https://localhost:{port}/mcp")).unwrap();
    HttpConnector::new(Arc::new(HyperBackend::new(roots)), endpoint, HttpLimits::default())
}

#[test]
fn a_trusted_server_is_talked_to_over_tls() {
    isolated(async |_| {
        let (listener, acceptor, certificate) = listen("localhost").await;
        let connector = connector(&listener, TlsRoots::Only(vec![certificate]));
        let by = Instant::now() + Duration::from_secs(10);
        let serving = async {
            let mut tls = acceptor.accept(listener.accept().await.unwrap().0).await.unwrap();
            let mut seen = vec![0; 4096];
            let length = tls.read(&mut seen).await.unwrap();
            assert!(seen[..length].starts_with(b"POST /mcp HTTP/1.1\r\n"));
            let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
            tls.write_all(answer.as_bytes()).await.unwrap();
            tls.flush().await.unwrap();
            tls
        };
        let calling = async {
            let Connection { transport, receive, .. } = connector.connect(by).await.unwrap();
            let sent = transport.send(Outbound::request(1.into(), r#"{"id":1}"#.into())).await;
            assert!(matches!(sent, Ok(Sent::Answered(answer)) if answer == "{}"));
            transport.close(by).await;
            receive
        };
        tokio::join!(serving, calling);
    });
}

#[test]
fn f088_http_2_is_not_offered() {
    isolated(async |_| {
        let (listener, _, certificate) = listen("localhost").await;
        let connector = connector(&listener, TlsRoots::Only(vec![certificate]));
        let by = Instant::now() + Duration::from_secs(10);
        let (connected, offered) = tokio::join!(connector.connect(by), async {
            let (stream, _) = listener.accept().await.unwrap();
            let started = LazyConfigAcceptor::new(Acceptor::default(), stream).await.unwrap();
            started.client_hello().alpn().map(|mut offered| offered.any(|protocol| protocol == b"h2"))
        });
        assert_ne!(offered, Some(true));
        assert!(matches!(connected, Err(ConnectError::Http(_))), "the server has gone: {connected:?}");
    });
}

#[test]
fn f054_a_certificate_that_is_not_trusted_or_for_another_host_ends_the_attempt_for_good() {
    isolated(async |_| {
        for (name, is_trusted) in [("localhost", false), ("example.com", true)] {
            let (listener, acceptor, certificate) = listen(name).await;
            let (_, _, other) = listen("localhost").await;
            let roots = TlsRoots::Only(vec![if is_trusted { certificate } else { other }]);
            let connector = connector(&listener, roots);
            let by = Instant::now() + Duration::from_secs(10);
            let (error, accepted) = tokio::join!(connector.connect(by), async {
                acceptor.accept(listener.accept().await.unwrap().0).await
            });
            let error = error.unwrap_err();
            assert!(matches!(error, ConnectError::Http(HttpConnectError::Tls { .. })), "{error:?}");
            assert!(error.is_permanent() && accepted.is_err());
            // No second attempt, and none without TLS.
            let again = tokio::time::timeout(Duration::from_millis(100), listener.accept()).await;
            assert!(again.is_err());
        }
    });
}

#[test]
fn f055_a_handshake_that_stalls_counts_in_the_time_to_connect() {
    isolated(async |_| {
        let (listener, _, certificate) = listen("localhost").await;
        let connector = connector(&listener, TlsRoots::Only(vec![certificate]));
        let began = Instant::now();
        let error = connector.connect(began + Duration::from_millis(200)).await.unwrap_err();
        assert!(matches!(error, ConnectError::Timeout), "{error:?}");
        assert!(began.elapsed() < Duration::from_millis(300));
    });
}
