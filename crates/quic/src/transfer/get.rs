//! The client.

use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use noq::crypto::rustls::QuicClientConfig;
use noq::rustls;
use noq::{ClientConfig, Connection, Endpoint, RecvStream};
use tokio::time::timeout;

use super::trust::Pinned;
use super::{
    CHUNK, Fingerprint, PROTOCOL, STOP_EVERY, TransferError, lost, runtime, tls, transport,
};

/// What is fetched.
#[derive(Debug, Clone)]
pub struct GetConfig {
    /// The server.
    pub remote: SocketAddr,
    /// Its certificate.
    pub trust: Fingerprint,
    /// Where the content goes; nowhere without.
    pub output: Option<PathBuf>,
    /// Folder for a qlog file.
    pub qlog: Option<PathBuf>,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GetProgress {
    /// Bytes received.
    pub bytes: u64,
    /// Bytes in all.
    pub length: u64,
    /// Since the connection was asked for.
    pub elapsed: Duration,
}

/// What was fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Bytes of content.
    pub bytes: u64,
    /// Its BLAKE3 hash, which is what the server computed.
    pub hash: String,
    /// How long it took, from asking for the connection to the last byte.
    pub took: Duration,
    /// How long the handshake took.
    pub handshake: Duration,
}

/// Fetches the content of a server. A part of a file that was written is removed if it fails.
///
/// # Errors
/// See [`TransferError`].
pub fn get(
    config: &GetConfig,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(GetProgress),
) -> Result<Fetched, TransferError> {
    let mut output = match &config.output {
        None => None,
        Some(path) => {
            let file = File::create(path).map_err(|source| TransferError::File {
                path: path.clone(),
                source,
            })?;
            Some((path.clone(), file))
        }
    };
    let any: SocketAddr = match config.remote {
        SocketAddr::V4(_) => ([0; 4], 0).into(),
        SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
    };
    let fetched = runtime(any)?.block_on(async {
        let endpoint = Endpoint::client(any).map_err(|source| TransferError::Socket {
            address: any,
            source,
        })?;
        let fetched = fetch(&endpoint, config, &mut output, stop, progress).await;
        let reason: &[u8] = match fetched {
            Ok(_) => b"done",
            Err(_) => b"failed",
        };
        endpoint.close(0_u8.into(), reason);
        let _ = timeout(Duration::from_millis(500), endpoint.wait_idle()).await;
        fetched
    });
    if let (Err(_), Some((path, _))) = (&fetched, &output) {
        // What is there is not the content.
        let _ = std::fs::remove_file(path);
    }
    fetched
}

/// Waits, but not longer than until `stop` is set.
async fn unless_stopped<F: Future>(
    future: F,
    stop: &AtomicBool,
) -> Result<F::Output, TransferError> {
    let mut future = std::pin::pin!(future);
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(TransferError::Stopped);
        }
        if let Ok(output) = timeout(STOP_EVERY, &mut future).await {
            return Ok(output);
        }
    }
}

async fn connect(endpoint: &Endpoint, config: &GetConfig) -> Result<Connection, TransferError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Pinned {
        fingerprint: config.trust,
        provider: Arc::clone(&provider),
    };
    let mut crypto = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(tls)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    crypto.alpn_protocols = vec![PROTOCOL.to_vec()];
    let crypto = QuicClientConfig::try_from(crypto).map_err(tls)?;
    let mut client = ClientConfig::new(Arc::new(crypto));
    let qlog = config.qlog.clone().map(|folder| (folder, "get"));
    client.transport_config(Arc::new(transport(None, qlog.as_ref())));
    let connecting = endpoint
        .connect_with(client, config.remote, "fairwater")
        .map_err(lost)?;
    connecting.await.map_err(lost)
}

async fn fetch(
    endpoint: &Endpoint,
    config: &GetConfig,
    output: &mut Option<(PathBuf, File)>,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(GetProgress),
) -> Result<Fetched, TransferError> {
    let began = Instant::now();
    let connection = unless_stopped(connect(endpoint, config), stop).await??;
    let handshake = began.elapsed();
    let (mut request, mut stream) = connection.open_bi().await.map_err(lost)?;
    request.finish().map_err(lost)?;
    let mut length = [0; 8];
    let read = unless_stopped(stream.read_exact(&mut length), stop).await?;
    read.map_err(lost)?;
    let length = u64::from_le_bytes(length);
    let mut hash = blake3::Hasher::new();
    let mut bytes = 0;
    while bytes < length {
        let most = usize::try_from(length - bytes).unwrap_or(CHUNK).min(CHUNK);
        let chunk = unless_stopped(stream.read_chunk(most), stop).await?;
        let chunk = chunk.map_err(lost)?;
        let chunk = chunk.ok_or(TransferError::Damaged("it ended early"))?;
        hash.update(&chunk);
        if let Some((path, file)) = output {
            file.write_all(&chunk)
                .map_err(|source| TransferError::File {
                    path: path.clone(),
                    source,
                })?;
        }
        bytes += chunk.len() as u64;
        progress(GetProgress {
            bytes,
            length,
            elapsed: began.elapsed(),
        });
    }
    let took = began.elapsed();
    check(&mut stream, &hash, stop).await?;
    Ok(Fetched {
        bytes,
        hash: hash.finalize().to_string(),
        took,
        handshake,
    })
}

/// What follows the content is its hash.
async fn check(
    stream: &mut RecvStream,
    hash: &blake3::Hasher,
    stop: &AtomicBool,
) -> Result<(), TransferError> {
    let mut expected = [0; 32];
    let read = unless_stopped(stream.read_exact(&mut expected), stop).await?;
    read.map_err(lost)?;
    match hash.finalize() == expected {
        true => Ok(()),
        false => Err(TransferError::Damaged("its hash is another")),
    }
}
