//! s2n-quic connections under an algorithm, over real UDP.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::time::Duration;

use fairwater_quic::Options;
use fairwater_quic::certificate::Certificate;
use s2n_quic::client::Connect;
use s2n_quic::provider::tls::rustls;
use s2n_quic::{Client, Server};
use tokio::time::timeout;

const BYTES: usize = 3_000_000;

#[test]
fn a_transfer_arrives_whole_and_the_plane_hears_of_it() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    for algorithm in ["copa", "cubic"] {
        let endpoint = Options::default().embedded().s2n(algorithm).unwrap();
        let factory = endpoint.factory().clone();
        let transfer =
            runtime.block_on(async { timeout(Duration::from_secs(30), transfer(endpoint)).await });
        assert_eq!(transfer.unwrap(), BYTES, "{algorithm}");
        let status = factory.status();
        assert!(status.reports > 0, "{algorithm}: {status:?}");
        assert_eq!(status.fallbacks, 0, "{algorithm}: {status:?}");
    }
}

/// Sends all bytes from a server under these controllers; how many arrive.
async fn transfer(controllers: fairwater_quic::S2nEndpoint) -> usize {
    let certificate = Certificate::generate(["localhost".to_owned()]).unwrap();
    let chain = certificate.certificate.to_vec();
    let tls = rustls::Server::builder()
        .with_certificate(chain.clone(), certificate.key.secret_der().to_vec())
        .unwrap()
        .build()
        .unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let mut server = Server::builder()
        .with_tls(tls)
        .unwrap()
        .with_io(any)
        .unwrap()
        .with_congestion_controller(controllers)
        .unwrap()
        .start()
        .unwrap();
    let address = server.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        let mut connection = server.accept().await.unwrap();
        let mut stream = connection.open_send_stream().await.unwrap();
        let chunk = vec![7; 1 << 16];
        let mut left = BYTES;
        while left > 0 {
            let most = left.min(chunk.len());
            stream.send(chunk[..most].to_vec().into()).await.unwrap();
            left -= most;
        }
        stream.close().await.unwrap();
        // The client has everything, and closes.
        let _ = connection.accept().await;
    });
    let trust = rustls::Client::builder()
        .with_certificate(chain)
        .unwrap()
        .build()
        .unwrap();
    let client = Client::builder()
        .with_tls(trust)
        .unwrap()
        .with_io(any)
        .unwrap()
        .start()
        .unwrap();
    let connect = Connect::new(address).with_server_name("localhost");
    let mut connection = client.connect(connect).await.unwrap();
    let mut stream = connection.accept_receive_stream().await.unwrap().unwrap();
    let mut received = 0;
    while let Some(bytes) = stream.receive().await.unwrap() {
        received += bytes.len();
    }
    connection.close(0_u8.into());
    let _ = serving.await;
    received
}
