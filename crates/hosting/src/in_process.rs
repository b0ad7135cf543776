//! A plane in a thread of this process, for datapaths of this process.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fairwater_plane::Plane;
use fairwater_proto::link::{Link, in_process};
use fairwater_service::{Config, Endpoints, Server, ServiceNotice};

use crate::hosted::HostError;
use crate::plane::plane_of_named;
use crate::{AttachError, NamedAlgorithm};

/// The longest that a new link waits.
const TURN: Duration = Duration::from_millis(5);

/// A plane that serves links of this process; the thread ends when this is dropped.
#[derive(Debug)]
pub struct InProcessPlane {
    links: Sender<Box<dyn Link>>,
    notices: Receiver<String>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl InProcessPlane {
    /// Hosts the algorithms, which are in Rust.
    ///
    /// # Errors
    /// What the plane refuses, or that no thread can be made.
    pub fn start(algorithms: &[NamedAlgorithm]) -> Result<Self, HostError> {
        let plane = plane_of_named(algorithms)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (links, new_links) = mpsc::channel();
        let (notify, notices) = mpsc::channel();
        let stop_flag = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("plane".to_owned())
            .spawn(move || {
                if let Err(error) = serve(plane, &new_links, &stop_flag, &notify) {
                    // Nobody is left to be told if this fails.
                    let _ = notify.send(error.to_string());
                }
            })
            .map_err(|error| HostError::Attach(AttachError::Thread(error)))?;
        Ok(Self {
            links,
            notices,
            stop,
            thread: Some(thread),
        })
    }

    /// A function that makes links to the plane.
    pub fn connector(&self) -> impl Fn() -> io::Result<Box<dyn Link>> + Send + Sync + 'static {
        let links = self.links.clone();
        move || {
            let (own, planes) = in_process::pair()?;
            let gone = |_| io::Error::from(io::ErrorKind::ConnectionRefused);
            links.send(Box::new(planes)).map_err(gone)?;
            Ok(Box::new(own))
        }
    }

    /// What went wrong since the last call, one notice each.
    pub fn notices(&self) -> Vec<String> {
        self.notices.try_iter().collect()
    }
}

impl Drop for InProcessPlane {
    fn drop(&mut self) {
        self.stop.store(true, Release);
        if let Some(thread) = self.thread.take() {
            // A plane that panicked has ended too.
            let _ = thread.join();
        }
    }
}

fn serve(
    plane: Plane,
    links: &Receiver<Box<dyn Link>>,
    stop: &AtomicBool,
    notify: &Sender<String>,
) -> io::Result<()> {
    let mut server = Server::bind(plane, Config::default(), &Endpoints::default())?;
    while !stop.load(Acquire) {
        server.turn(TURN)?;
        for link in links.try_iter() {
            server.add_link(link);
        }
        let notices = server.service_mut().drain_notices();
        let is_news = |notice: &ServiceNotice| {
            use ServiceNotice::{Connected, Disconnected};
            !matches!(notice, Connected { .. } | Disconnected { .. })
        };
        for notice in notices.filter(is_news) {
            // Without a receiver, nobody wants notices.
            let _ = notify.send(notice.to_string());
        }
    }
    Ok(())
}
