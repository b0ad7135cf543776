//! Files over noq: what `fairwater quic-serve` and `fairwater quic-get` do.
//!
//! A client opens a stream and finishes it; the server answers with the content's length (8 bytes,
//! little-endian), the content, and its BLAKE3 hash (32 bytes). The server's certificate is made on
//! the spot; the client trusts the one whose fingerprint it is given.

mod get;
mod serve;
mod trust;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use noq::{TransportConfig, VarInt};
use thiserror::Error;

use crate::Factory;

pub use get::{Fetched, GetConfig, GetProgress, get};
pub use serve::{Content, FileServer, ServeConfig, Served};
pub use trust::{Fingerprint, FingerprintError};

/// What both ends speak (ALPN, RFC 7301).
const PROTOCOL: &[u8] = b"fairwater-transfer";

/// Bytes that are read and sent at once.
const CHUNK: usize = 1 << 16;

/// How long a connection may be idle.
const IDLE: Duration = Duration::from_secs(10);

/// Receive windows: the path is to limit, not the receiver.
const RECEIVE_WINDOW: u32 = 32 << 20;

/// How often the flag that asks to stop is looked at.
const STOP_EVERY: Duration = Duration::from_millis(50);

/// Why a transfer failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The socket or the runtime could not be made.
    #[error("{address}: {source}")]
    Socket {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// TLS or its certificate.
    #[error("TLS: {0}")]
    Tls(String),
    /// The connection could not be made, or was lost.
    #[error("{0}")]
    Connection(String),
    /// The content ended early or is not what was sent.
    #[error("the content is damaged: {0}")]
    Damaged(&'static str),
    /// It was asked to stop.
    #[error("stopped")]
    Stopped,
}

/// What both ends have in common; `controllers` are noq's own without a factory.
fn transport(controllers: Option<Arc<Factory>>, qlog: Option<&(PathBuf, &str)>) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(VarInt::from_u32(RECEIVE_WINDOW))
        .receive_window(VarInt::from_u32(RECEIVE_WINDOW))
        .send_window(RECEIVE_WINDOW.into())
        .max_idle_timeout(IDLE.try_into().ok());
    if let Some(controllers) = controllers {
        transport.congestion_controller_factory(controllers);
    }
    if let Some((directory, prefix)) = qlog {
        transport.qlog_from_path(directory, prefix);
    }
    transport
}

fn tls(error: impl std::fmt::Display) -> TransferError {
    TransferError::Tls(error.to_string())
}

fn lost(error: impl std::fmt::Display) -> TransferError {
    TransferError::Connection(error.to_string())
}

/// A runtime of this thread's.
fn runtime(address: SocketAddr) -> Result<tokio::runtime::Runtime, TransferError> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let built = builder.enable_all().build();
    built.map_err(|source| TransferError::Socket { address, source })
}
