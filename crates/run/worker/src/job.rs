//! Jobs from other threads, done by the worker between two rounds.

use std::any::Any;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::time::Duration;

use crate::Worker;
use crate::notifier::Notifier;

/// Jobs that may wait for a worker; whoever brings another one waits.
pub(crate) const JOBS_MAX: usize = 64;
/// How long an answer of the worker may take. It comes after a round, that is, within microseconds of its core's time.
const ANSWER: Duration = Duration::from_secs(10);

/// Work for the thread of a worker. It runs between two rounds and delays packets, so it is short.
pub type Job<D> = Box<dyn FnOnce(&mut Worker<D>) + Send>;

/// The answer to a job of any type. A channel for each type would be compiled anew for each, which took a tenth of the program's build.
type Answer = Box<dyn Any + Send>;

/// The worker has ended, or does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerEnded;

/// Reaches a worker from other threads.
pub struct Handle<D> {
    jobs: SyncSender<Job<D>>,
    notifier: Notifier,
}

impl<D> Clone for Handle<D> {
    fn clone(&self) -> Handle<D> {
        Handle { jobs: self.jobs.clone(), notifier: self.notifier.clone() }
    }
}

impl<D> Handle<D> {
    pub(crate) fn new(jobs: SyncSender<Job<D>>, notifier: Notifier) -> Handle<D> {
        Handle { jobs, notifier }
    }

    /// Wakes the worker if it sleeps.
    pub fn notify(&self) {
        self.notifier.notify();
    }
}

impl<D: 'static> Handle<D> {
    /// Runs `work` on the worker's thread and returns its result: a change, or a snapshot of what the worker knows.
    ///
    /// # Errors
    /// The worker has ended.
    pub fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Worker<D>) -> T + Send + 'static,
    ) -> Result<T, WorkerEnded> {
        let (sender, answer) = channel();
        self.bring(Box::new(move |worker| send(&sender, Box::new(work(worker)))))?;
        let answer = wait(&answer)?.downcast::<T>().map_err(|_| WorkerEnded)?;
        Ok(*answer)
    }

    /// Hands a job over and wakes the worker.
    fn bring(&self, job: Job<D>) -> Result<(), WorkerEnded> {
        self.jobs.send(job).map_err(|_| WorkerEnded)?;
        self.notifier.notify();
        Ok(())
    }
}

impl<D> Worker<D> {
    /// Refuses jobs from now on, those that wait included: whoever brought one is told so at once. For a worker that runs no more.
    pub fn refuse_jobs(&mut self) {
        self.jobs = mpsc::sync_channel(0).1;
    }
}

fn channel() -> (Sender<Answer>, Receiver<Answer>) {
    mpsc::channel()
}

fn send(sender: &Sender<Answer>, answer: Answer) {
    // If nobody waits any more, the answer is thrown away.
    let _ = sender.send(answer);
}

fn wait(answer: &Receiver<Answer>) -> Result<Answer, WorkerEnded> {
    answer.recv_timeout(ANSWER).map_err(|_| WorkerEnded)
}
