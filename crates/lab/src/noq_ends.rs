//! noq connections over the test bed's path.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fairwater_quic::certificate::Certificate;
use fairwater_quic::{Algorithm, Factory, Options};
use fairwater_testbed::{QuicEnds, QuicFlow, QuicState};
use noq::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use noq::rustls;
use noq::{
    ClientConfig, Connection, Endpoint, PathId, SendStream, ServerConfig, TransportConfig, VarInt,
};
use tokio::time::timeout;

use crate::error::LabError;

/// Both ends of noq connections, whose senders run the plane's algorithms in a plane of this process.
#[derive(Debug)]
pub struct NoqEnds {
    certificate: Certificate,
    /// Controllers by the name of their algorithm.
    controllers: Vec<(String, Arc<Factory>)>,
}

/// The name in the receiver's certificate.
const RECEIVER: &str = "receiver";

/// Send buffer and receive windows, bytes: the congestion window is the limit, as of the test bed's TCP.
const WINDOW: u32 = 64 << 20;

/// Bytes of a write.
const BLOCK: usize = 1 << 16;

/// How often the sender's state is sampled, and the flag that asks to stop looked at.
const SAMPLE_PERIOD: Duration = Duration::from_millis(10);

/// How long the handshake may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the last words may take.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(200);

impl NoqEnds {
    /// Ends for these algorithms, each under a name of its own.
    ///
    /// # Errors
    /// An algorithm cannot run on noq, or no certificate or thread can be made.
    pub fn new(algorithms: &[(String, Algorithm)]) -> Result<Self, LabError> {
        let certificate = Certificate::generate([RECEIVER.to_owned()]);
        let controllers = algorithms.iter().map(|(name, algorithm)| {
            let options = Options::default().name("lab-quic").embedded();
            let factory = options.algorithm(algorithm.clone()).noq(algorithm.name())?;
            Ok((name.clone(), factory))
        });
        Ok(Self {
            certificate: certificate.map_err(|error| LabError::Quic(error.to_string()))?,
            controllers: controllers.collect::<Result<_, LabError>>()?,
        })
    }

    fn server(&self) -> Result<ServerConfig, String> {
        let mut crypto = rustls::ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(text)?
            .with_no_client_auth()
            .with_single_cert(
                vec![self.certificate.certificate.clone()],
                self.certificate.key.clone_key(),
            )
            .map_err(text)?;
        crypto.alpn_protocols = vec![PROTOCOL.to_vec()];
        let crypto = QuicServerConfig::try_from(crypto).map_err(text)?;
        let mut config = ServerConfig::with_crypto(Arc::new(crypto));
        config.transport_config(Arc::new(transport(None)));
        Ok(config)
    }

    fn client(&self, algorithm: &str) -> Result<ClientConfig, String> {
        let known = self.controllers.iter().find(|(name, _)| name == algorithm);
        let (_, controllers) = known.ok_or_else(|| format!("no algorithm is `{algorithm}`"))?;
        let mut roots = rustls::RootCertStore::empty();
        roots
            .add(self.certificate.certificate.clone())
            .map_err(text)?;
        let mut crypto = rustls::ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(text)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        crypto.alpn_protocols = vec![PROTOCOL.to_vec()];
        let crypto = QuicClientConfig::try_from(crypto).map_err(text)?;
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(Arc::new(transport(Some(Arc::clone(controllers)))));
        Ok(config)
    }
}

/// What both ends speak (ALPN, RFC 7301).
const PROTOCOL: &[u8] = b"fairwater-bulk";

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn transport(controllers: Option<Arc<Factory>>) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .receive_window(VarInt::from_u32(WINDOW))
        .send_window(WINDOW.into());
    if let Some(controllers) = controllers {
        transport.congestion_controller_factory(controllers);
    }
    transport
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Runs in this thread.
fn block_on<T>(future: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().map_err(text)?.block_on(future)
}

/// Waits, but not longer than until `stop` is set.
async fn unless_stopped<F: Future>(future: F, stop: &AtomicBool) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    while !stop.load(Ordering::Relaxed) {
        if let Ok(output) = timeout(SAMPLE_PERIOD, &mut future).await {
            return Some(output);
        }
    }
    None
}

impl QuicEnds for NoqEnds {
    fn receive(
        &self,
        at: SocketAddr,
        listening: &mut dyn FnMut(),
        stop: &AtomicBool,
    ) -> Result<(), String> {
        let config = self.server()?;
        block_on(async {
            let endpoint = Endpoint::server(config, at).map_err(text)?;
            listening();
            let Some(Some(incoming)) = unless_stopped(endpoint.accept(), stop).await else {
                return Ok(());
            };
            let connecting = incoming.accept().map_err(text)?;
            let Some(connection) = unless_stopped(connecting, stop).await else {
                return Ok(());
            };
            let connection = connection.map_err(text)?;
            let Some(Ok(mut stream)) = unless_stopped(connection.accept_uni(), stop).await else {
                return Ok(());
            };
            // The sender drops what it had left when its time is over.
            while let Some(Ok(Some(_))) = unless_stopped(stream.read_chunk(BLOCK), stop).await {}
            Ok(())
        })
    }

    fn send(
        &self,
        flow: &QuicFlow,
        stop: &AtomicBool,
        sample: &mut dyn FnMut(QuicState),
    ) -> Result<(), String> {
        let config = self.client(&flow.algorithm)?;
        let end = Instant::now() + flow.duration;
        block_on(async {
            let endpoint = Endpoint::client(flow.from).map_err(text)?;
            let connecting = endpoint.connect_with(config, flow.to, RECEIVER);
            let connecting = timeout(CONNECT_TIMEOUT, connecting.map_err(text)?);
            let Some(connected) = unless_stopped(connecting, stop).await else {
                return Ok(());
            };
            let connection = connected.map_err(text)?.map_err(text)?;
            let sent = send(&connection, end, stop, sample).await;
            endpoint.close(VarInt::from_u32(0), b"its time is over");
            // What is still on its way serves no purpose.
            let _ = timeout(CLOSE_TIMEOUT, endpoint.wait_idle()).await;
            sent
        })
    }
}

/// Sends until `end`, while it samples.
async fn send(
    connection: &Connection,
    end: Instant,
    stop: &AtomicBool,
    sample: &mut dyn FnMut(QuicState),
) -> Result<(), String> {
    let mut stream = connection.open_uni().await.map_err(text)?;
    let mut sending = std::pin::pin!(send_for_ever(&mut stream));
    while Instant::now() < end && !stop.load(Ordering::Relaxed) {
        if let Ok(failed) = timeout(SAMPLE_PERIOD, &mut sending).await {
            return Err(failed);
        }
        if let Some(path) = connection.path_stats(PathId::ZERO) {
            sample(QuicState {
                cwnd_bytes: path.cwnd,
                mtu: path.current_mtu,
                srtt: path.rtt,
            });
        }
    }
    Ok(())
}

/// Ends with why it failed.
async fn send_for_ever(stream: &mut SendStream) -> String {
    let block = vec![0; BLOCK];
    loop {
        if let Err(error) = stream.write_all(&block).await {
            return error.to_string();
        }
    }
}
