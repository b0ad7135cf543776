//! The server.

use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use noq::crypto::rustls::QuicServerConfig;
use noq::rustls;
use noq::{Endpoint, Incoming, PathId, SendStream, ServerConfig};
use tokio::time::timeout;

use super::{
    CHUNK, Fingerprint, PROTOCOL, STOP_EVERY, TransferError, lost, runtime, tls, transport,
};
use crate::certificate::Certificate;
use crate::{DeliveryRate, Factory, NoqController};

/// What is served.
#[derive(Debug, Clone)]
pub enum Content {
    /// A file.
    File(PathBuf),
    /// So many bytes 0.
    Zeros(u64),
}

/// How it is served.
#[derive(Debug, Clone)]
pub struct ServeConfig {
    /// Where; port 0 is any.
    pub listen: SocketAddr,
    /// What.
    pub content: Content,
    /// Controls the connections; noq's own Cubic does without.
    pub controllers: Option<Arc<Factory>>,
    /// The server's certificate.
    pub certificate: Certificate,
    /// Folder for a qlog file a connection.
    pub qlog: Option<PathBuf>,
}

/// A transfer that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// The client.
    pub remote: SocketAddr,
    /// Bytes of content that the client acknowledged.
    pub bytes: u64,
    /// How long it took, from the connection to the last ACK.
    pub took: Duration,
    /// The last delivery rate of Fairwater's controller.
    pub delivery_rate: Option<DeliveryRate>,
    /// Why it failed.
    pub failure: Option<String>,
}

/// A server at its socket.
#[derive(Debug)]
pub struct FileServer {
    runtime: tokio::runtime::Runtime,
    endpoint: Endpoint,
    config: ServerConfig,
    shared: Arc<Shared>,
    address: SocketAddr,
    fingerprint: Fingerprint,
    served: Receiver<Served>,
}

#[derive(Debug)]
struct Shared {
    content: Content,
    controllers: Option<Arc<Factory>>,
    qlog: Option<PathBuf>,
    served: Mutex<Sender<Served>>,
}

impl FileServer {
    /// Binds the socket; a file must be there.
    ///
    /// # Errors
    /// See [`TransferError`].
    pub fn bind(config: ServeConfig) -> Result<Self, TransferError> {
        if let Content::File(path) = &config.content {
            let failed = |source| TransferError::File {
                path: path.clone(),
                source,
            };
            let metadata = File::open(path).and_then(|file| file.metadata());
            if metadata.map_err(failed)?.is_dir() {
                return Err(failed(io::ErrorKind::IsADirectory.into()));
            }
        }
        let address = config.listen;
        let fingerprint = Fingerprint::of(&config.certificate.certificate);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let chain = vec![config.certificate.certificate.clone()];
        let mut crypto = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(tls)?
            .with_no_client_auth()
            .with_single_cert(chain, config.certificate.key.clone_key())
            .map_err(tls)?;
        crypto.alpn_protocols = vec![PROTOCOL.to_vec()];
        let crypto = QuicServerConfig::try_from(crypto).map_err(tls)?;
        let server = ServerConfig::with_crypto(Arc::new(crypto));
        let runtime = runtime(address)?;
        let endpoint = runtime.block_on(async { Endpoint::server(server.clone(), address) });
        let failed = |source| TransferError::Socket { address, source };
        let endpoint = endpoint.map_err(failed)?;
        let address = endpoint.local_addr().map_err(failed)?;
        let (sender, served) = channel();
        Ok(Self {
            runtime,
            endpoint,
            config: server,
            shared: Arc::new(Shared {
                content: config.content,
                controllers: config.controllers,
                qlog: config.qlog,
                served: Mutex::new(sender),
            }),
            address,
            fingerprint,
            served,
        })
    }

    /// Where clients find it.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What clients trust.
    #[must_use]
    pub const fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Connections now.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.endpoint.open_connections()
    }

    /// Serves for at most this long, or until `stop` is set; the transfers that ended meanwhile.
    pub fn turn(&mut self, wait: Duration, stop: &AtomicBool) -> Vec<Served> {
        let until = Instant::now() + wait;
        self.runtime.block_on(async {
            loop {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() || stop.load(Ordering::Relaxed) {
                    return;
                }
                let accepted = timeout(left.min(STOP_EVERY), self.endpoint.accept()).await;
                let Ok(Some(incoming)) = accepted else {
                    continue;
                };
                let config = self.config_of(&incoming);
                tokio::spawn(serve(incoming, config, Arc::clone(&self.shared)));
            }
        });
        self.served.try_iter().collect()
    }

    /// Each connection has its addresses in its controller.
    fn config_of(&self, incoming: &Incoming) -> Arc<ServerConfig> {
        let remote = incoming.remote_address();
        let local = incoming.local_ip().unwrap_or(self.address.ip());
        let local = SocketAddr::new(local, self.address.port());
        let controllers = self.shared.controllers.as_ref();
        let controllers = controllers.map(|factory| factory.between(local, remote));
        let qlog = self.shared.qlog.clone().map(|folder| (folder, "serve"));
        let mut config = self.config.clone();
        config.transport_config(Arc::new(transport(controllers, qlog.as_ref())));
        Arc::new(config)
    }

    /// Tells the clients that it ends, and waits a little until they know.
    pub fn close(self) {
        self.endpoint.close(0_u8.into(), b"the server stops");
        self.runtime.block_on(async {
            let _ = timeout(Duration::from_millis(500), self.endpoint.wait_idle()).await;
        });
    }
}

async fn serve(incoming: Incoming, config: Arc<ServerConfig>, shared: Arc<Shared>) {
    let remote = incoming.remote_address();
    let mut served = Served {
        remote,
        bytes: 0,
        took: Duration::ZERO,
        delivery_rate: None,
        failure: None,
    };
    let began = Instant::now();
    if let Err(error) = answer(incoming, config, &shared, &mut served).await {
        served.failure = Some(error.to_string());
    }
    served.took = began.elapsed();
    // The server may have ended.
    let sender = shared.served.lock();
    let sender = sender.unwrap_or_else(std::sync::PoisonError::into_inner);
    let _ = sender.send(served);
}

async fn answer(
    incoming: Incoming,
    config: Arc<ServerConfig>,
    shared: &Shared,
    served: &mut Served,
) -> Result<(), TransferError> {
    let connection = incoming.accept_with(config).map_err(lost)?;
    let connection = connection.await.map_err(lost)?;
    let (mut stream, mut request) = connection.accept_bi().await.map_err(lost)?;
    request.read_to_end(0).await.map_err(lost)?;
    let sent = send(&mut stream, &shared.content).await;
    let controller = connection.congestion_state(PathId::ZERO);
    let handle = controller.and_then(NoqController::handle_of);
    served.delivery_rate = handle.and_then(|handle| handle.delivery_rate());
    let bytes = sent?;
    stream.finish().map_err(lost)?;
    // Everything is acknowledged, or the client took no more.
    match stream.stopped().await.map_err(lost)? {
        None => served.bytes = bytes,
        Some(_) => return Err(TransferError::Connection("the client stopped".to_owned())),
    }
    // The client closes.
    let _ = timeout(Duration::from_secs(1), connection.closed()).await;
    Ok(())
}

async fn send(stream: &mut SendStream, content: &Content) -> Result<u64, TransferError> {
    let (mut file, length) = match content {
        Content::Zeros(bytes) => (Source::Zeros, *bytes),
        Content::File(path) => {
            let failed = |source| TransferError::File {
                path: path.clone(),
                source,
            };
            let file = File::open(path).map_err(failed)?;
            let length = file.metadata().map_err(failed)?.len();
            (Source::File(file), length)
        }
    };
    stream
        .write_all(&length.to_le_bytes())
        .await
        .map_err(lost)?;
    let mut hash = blake3::Hasher::new();
    let mut buffer = vec![0; CHUNK];
    let mut left = length;
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        let Some(chunk) = buffer.get_mut(..most) else {
            break;
        };
        let read = file.read(chunk)?;
        let chunk = &chunk[..read];
        hash.update(chunk);
        stream.write_all(chunk).await.map_err(lost)?;
        left -= read as u64;
        // The runtime has one thread: sockets and other transfers have their turn.
        tokio::task::yield_now().await;
    }
    stream
        .write_all(hash.finalize().as_bytes())
        .await
        .map_err(lost)?;
    Ok(length)
}

enum Source {
    File(File),
    Zeros,
}

impl Source {
    fn read(&mut self, chunk: &mut [u8]) -> Result<usize, TransferError> {
        match self {
            Self::Zeros => Ok(chunk.len()),
            Self::File(file) => match file.read(chunk) {
                Ok(0) => Err(TransferError::Damaged("the file became shorter")),
                Ok(read) => Ok(read),
                Err(error) => Err(lost(error)),
            },
        }
    }
}
