//! A receivebox with its control socket: it needs no plane.

use std::io;
use std::path::Path;
use std::time::Duration;

use fairwater_bundle_linux::{BoxError, LinuxReceivebox, LinuxReceiveboxConfig};
use fairwater_proto::link::Poller;
use fairwater_service::Stopper;

use super::status::receivebox_status;
use super::{BoxRows, ReceiveboxConfig, ReceiveboxStatus};
use crate::control::{ControlListener, Request, Response};

/// A receivebox at work.
#[derive(Debug)]
pub(crate) struct RunningReceivebox {
    config: ReceiveboxConfig,
    receivebox: LinuxReceivebox,
}

impl RunningReceivebox {
    pub(crate) fn start(config: ReceiveboxConfig) -> Result<Self, BoxError> {
        let receivebox = LinuxReceivebox::start(&LinuxReceiveboxConfig {
            ports: config.ports.clone(),
            listen: config.listen,
            bundles: config.bundles.iter().map(|(_, it)| it.clone()).collect(),
        })?;
        Ok(Self { config, receivebox })
    }

    pub(crate) fn status(&self) -> Result<ReceiveboxStatus, String> {
        let status = self.receivebox.status();
        let row = status.map(|status| receivebox_status(&self.config, &status));
        row.ok_or_else(|| "the receivebox does not answer".to_owned())
    }
}

/// A receivebox without a plane, and its control socket. Dropping it leaves the machine as it was.
#[derive(Debug)]
pub struct ReceiveHost {
    receivebox: RunningReceivebox,
    control: Option<ControlListener>,
    poller: Poller,
}

/// Why a receivebox could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveFailure {
    /// The box refused.
    #[error(transparent)]
    Box(#[from] BoxError),
    /// The control socket could not be bound.
    #[error("the control socket: {0}")]
    Control(io::Error),
}

impl ReceiveHost {
    /// Starts it, and answers at the socket, if there is to be one.
    ///
    /// # Errors
    /// See [`ReceiveFailure`].
    pub fn start(config: ReceiveboxConfig, socket: Option<&Path>) -> Result<Self, ReceiveFailure> {
        let asked = Stopper::new().map_err(ReceiveFailure::Control)?;
        let poller = Poller::new().map_err(ReceiveFailure::Control)?;
        poller.add(&asked, 0).map_err(ReceiveFailure::Control)?;
        let bind = |path| ControlListener::bind(path, Vec::new(), asked);
        let control = socket.map(bind).transpose();
        Ok(Self {
            control: control.map_err(ReceiveFailure::Control)?,
            receivebox: RunningReceivebox::start(config)?,
            poller,
        })
    }

    /// Waits for at most this time, and answers what is asked.
    ///
    /// # Errors
    /// Of the system, none of which are to be expected.
    pub fn turn(&mut self, wait: Duration) -> io::Result<()> {
        let _ = self.poller.wait(Some(wait))?;
        let Some(control) = &self.control else {
            return Ok(());
        };
        for asked in control.asked() {
            let answer = match asked.request {
                Request::Bundles => match self.receivebox.status() {
                    Ok(status) => Response::Boxes(BoxRows {
                        sendbox: None,
                        receivebox: Some(status),
                    }),
                    Err(why) => Response::Failed(why),
                },
                _ => Response::Failed("this is a receivebox, which has no plane".to_owned()),
            };
            asked.answer(answer);
        }
        Ok(())
    }
}
