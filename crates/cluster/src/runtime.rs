//! What openraft and this crate wait for and start: tasks, time, timers.
//!
//! On a thread of the server that is tokio. On a thread with a simulated scheduler it is that scheduler: then many nodes
//! live on one thread, in virtual time, and the same seed always does the same. openraft asks for these things through
//! functions without a receiver, so which of the two it is depends on the thread.

use std::{
    fmt,
    future::Future,
    ops::{Add, AddAssign, Sub, SubAssign},
    pin::Pin,
    sync::OnceLock,
    task::{Context, Poll},
    time::Duration,
};

use openraft::{AsyncRuntime, OptionalSend, impls::TokioRuntime};
use platform::simulated::{Scheduler, TaskId};
use tokio::sync::oneshot;

/// The first moment of a process, so that earlier ones can be computed.
const BEGINNING: Duration = Duration::from_secs(86_400);

/// See the module.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Runtime;

/// A moment of monotonic time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(Duration);

impl Moment {
    pub(crate) fn now() -> Self {
        static STARTED: OnceLock<tokio::time::Instant> = OnceLock::new();
        Self(match Scheduler::current() {
            Some(scheduler) => scheduler.now(),
            None => BEGINNING + STARTED.get_or_init(tokio::time::Instant::now).elapsed(),
        })
    }

    /// The time since this moment.
    pub(crate) fn elapsed(self) -> Duration {
        Self::now() - self
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }
}

impl AddAssign<Duration> for Moment {
    fn add_assign(&mut self, time: Duration) {
        *self = *self + time;
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;

    fn sub(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(time))
    }
}

impl SubAssign<Duration> for Moment {
    fn sub_assign(&mut self, time: Duration) {
        *self = *self - time;
    }
}

impl Sub for Moment {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl openraft::Instant for Moment {
    fn now() -> Self {
        Self::now()
    }
}

/// Ends when its time has come.
pub(crate) enum Sleep {
    Real(Pin<Box<tokio::time::Sleep>>),
    Simulated(platform::simulated::Sleep),
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match self.get_mut() {
            Self::Real(sleep) => sleep.as_mut().poll(context),
            Self::Simulated(sleep) => Pin::new(sleep).poll(context),
        }
    }
}

pub(crate) fn sleep(time: Duration) -> Sleep {
    match Scheduler::current() {
        Some(scheduler) => Sleep::Simulated(scheduler.sleep(time)),
        None => Sleep::Real(Box::pin(tokio::time::sleep(time))),
    }
}

pub(crate) fn sleep_until(moment: Moment) -> Sleep {
    sleep(moment - Moment::now())
}

/// A future that may take a limited time.
pub(crate) struct Timeout<F> {
    future: Pin<Box<F>>,
    sleep: Sleep,
}

/// The time was over first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("it took too long")
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Poll::Ready(output) = this.future.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        Pin::new(&mut this.sleep).poll(context).map(|()| Err(Elapsed))
    }
}

pub(crate) fn timeout<F: Future>(time: Duration, future: F) -> Timeout<F> {
    Timeout { future: Box::pin(future), sleep: sleep(time) }
}

/// A task that was started, and its result.
pub(crate) enum JoinHandle<T> {
    Real(tokio::task::JoinHandle<T>),
    Simulated { task: TaskId, result: oneshot::Receiver<T> },
}

/// Why a task has no result.
#[derive(Debug)]
pub(crate) enum JoinError {
    Real(tokio::task::JoinError),
    /// It was aborted.
    Aborted,
}

impl fmt::Display for JoinError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Real(error) => error.fmt(formatter),
            Self::Aborted => formatter.write_str("the task was aborted"),
        }
    }
}

impl<T> JoinHandle<T> {
    /// Drops the task.
    pub(crate) fn abort(&self) {
        match self {
            Self::Real(task) => task.abort(),
            Self::Simulated { task, .. } => {
                if let Some(scheduler) = Scheduler::current() {
                    scheduler.abort(*task);
                }
            }
        }
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Real(task) => {
                Pin::new(task).poll(context).map(|result| result.map_err(JoinError::Real))
            }
            Self::Simulated { result, .. } => {
                Pin::new(result).poll(context).map(|result| result.map_err(|_| JoinError::Aborted))
            }
        }
    }
}

/// Starts a task. Dropping the handle leaves it running.
pub(crate) fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let Some(scheduler) = Scheduler::current() else {
        return JoinHandle::Real(tokio::spawn(future));
    };
    let (sender, result) = oneshot::channel();
    let task = scheduler.spawn(async move {
        // Nobody may be interested in the result.
        drop(sender.send(future.await));
    });
    JoinHandle::Simulated { task, result }
}

impl AsyncRuntime for Runtime {
    type JoinError = JoinError;
    type JoinHandle<T: OptionalSend + 'static> = JoinHandle<T>;
    type Sleep = Sleep;
    type Instant = Moment;
    type TimeoutError = Elapsed;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = Timeout<T>;
    // openraft draws nothing from it but the timeouts of its own elections, which are switched off.
    type ThreadLocalRng = <TokioRuntime as AsyncRuntime>::ThreadLocalRng;
    type OneshotSender<T: OptionalSend> = <TokioRuntime as AsyncRuntime>::OneshotSender<T>;
    type OneshotReceiver<T: OptionalSend> = oneshot::Receiver<T>;
    type OneshotReceiverError = oneshot::error::RecvError;

    fn spawn<T>(future: T) -> JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        spawn(future)
    }

    fn sleep(duration: Duration) -> Sleep {
        sleep(duration)
    }

    fn sleep_until(deadline: Moment) -> Sleep {
        sleep_until(deadline)
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(
        duration: Duration,
        future: F,
    ) -> Timeout<F> {
        timeout(duration, future)
    }

    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(
        deadline: Moment,
        future: F,
    ) -> Timeout<F> {
        timeout(deadline - Moment::now(), future)
    }

    fn is_panic(join_error: &JoinError) -> bool {
        match join_error {
            JoinError::Real(error) => error.is_panic(),
            JoinError::Aborted => false,
        }
    }

    fn thread_rng() -> Self::ThreadLocalRng {
        TokioRuntime::thread_rng()
    }

    fn oneshot<T: OptionalSend>() -> (Self::OneshotSender<T>, oneshot::Receiver<T>) {
        TokioRuntime::oneshot()
    }
}
