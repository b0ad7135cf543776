//! A receivebox with its control socket: it needs no plane.

use std::io;
use std::path::Path;
use std::time::Duration;

use fairwater_bundle_linux::{BoxError, LinuxReceivebox, LinuxReceiveboxConfig};
use fairwater_proto::link::Poller;
use fairwater_service::Stopper;

use super::ReceiveboxConfig;
use super::status::receivebox_status;
use crate::control::{ControlListener, Request, Response};

/// A receivebox at work. Dropping it leaves the machine as it was.
#[derive(Debug)]
pub struct ReceiveHost {
    config: ReceiveboxConfig,
    receivebox: LinuxReceivebox,
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
        let receivebox = LinuxReceivebox::start(&LinuxReceiveboxConfig {
            ports: config.ports.clone(),
            listen: config.listen,
            bundles: config.bundles.iter().map(|(_, it)| it.clone()).collect(),
        });
        Ok(Self {
            control: control.map_err(ReceiveFailure::Control)?,
            receivebox: receivebox?,
            config,
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
                    Some(status) => Response::Receivebox(receivebox_status(&self.config, &status)),
                    None => Response::Failed("the receivebox does not answer".to_owned()),
                },
                _ => Response::Failed("this is a receivebox, which has no plane".to_owned()),
            };
            asked.answer(answer);
        }
        Ok(())
    }
}
