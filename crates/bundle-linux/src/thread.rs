//! The thread of a box, as the rest of the process sees it: asked between two of its turns, and stopped when dropped.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fairwater_service::Stopper;

use crate::BoxError;
use crate::punctuality::ask_for_punctuality;

/// How long to wait for an answer of the thread: shorter than a plane may be silent.
const ANSWER: Duration = Duration::from_millis(200);

/// What is done with a box's worker between two of its turns.
pub(crate) type Question<W> = Box<dyn FnOnce(&mut W) + Send>;

/// What the worker is asked.
pub(crate) type Questions<W> = Receiver<Question<W>>;

/// The thread of a worker.
#[derive(Debug)]
pub(crate) struct BoxThread<W> {
    questions: Sender<Question<W>>,
    stop: Stopper,
    /// `None` while it is dropped.
    thread: Option<JoinHandle<()>>,
}

impl<W: Send + 'static> BoxThread<W> {
    /// Runs the worker in a thread of this name, which is woken on time where this process has the right to ask for
    /// that. The worker ends when `stop` says so, which questions wake.
    pub(crate) fn start(
        name: &str,
        stop: Stopper,
        worker: W,
        run: impl FnOnce(W, &Questions<W>) + Send + 'static,
    ) -> Result<Self, BoxError> {
        let (questions, asked) = mpsc::channel();
        let work = move || {
            ask_for_punctuality();
            run(worker, &asked);
        };
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(work)
            .map_err(BoxError::io("start the thread of a box"))?;
        Ok(Self {
            questions,
            stop,
            thread: Some(thread),
        })
    }

    /// Asks the worker; `None` if it does not answer in time, or has ended.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut W) -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = mpsc::channel();
        let question = Box::new(move |worker: &mut W| {
            let _ = answer.send(question(worker));
        });
        self.questions.send(question).ok()?;
        self.stop.wake();
        answered.recv_timeout(ANSWER).ok()
    }

    /// Whether the worker has ended by itself.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl<W> Drop for BoxThread<W> {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            // A thread that has panicked holds nothing any more.
            let _ = thread.join();
        }
    }
}
