//! Waits, without blocking, for a database to be open, or for something else until it is being closed.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::Poll,
    time::Duration,
};

use database::{Access, AccessError, Closing, DatabaseLease, Ticket};
use engine::EngineError;
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};
use wire::ErrorKind;

use crate::{api_error::ApiError, api_error::access_error, server_state::ServerState};

/// The open database of this name; opens it first if necessary.
pub(crate) async fn open_database(
    state: &ServerState,
    name: &str,
) -> Result<DatabaseLease, ApiError> {
    let refused = |error: AccessError| access_error(&error, name);
    let mut deadline = None;
    loop {
        match state.engine.access(name).map_err(refused)? {
            Access::Ready(lease) => return Ok(lease),
            Access::Wait(ticket) => {
                let deadline = *deadline.get_or_insert_with(Instant::now);
                wait(state, name, &ticket, deadline).await?;
            }
        }
    }
}

/// Waits for `awaited`, which is polled first, unless the database is being closed before.
///
/// # Errors
/// [`EngineError::DatabaseClosing`].
pub(crate) async fn unless_closed<T>(
    closing: &mut Closing,
    awaited: impl Future<Output = T>,
) -> Result<T, EngineError> {
    let mut awaited = pin!(awaited);
    poll_fn(|context| match awaited.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Ok(output)),
        Poll::Pending => Pin::new(&mut *closing)
            .poll(context)
            .map(|()| Err(EngineError::DatabaseClosing { is_written: false })),
    })
    .await
}

async fn wait(
    state: &ServerState,
    name: &str,
    ticket: &Ticket,
    since: Instant,
) -> Result<(), ApiError> {
    let refused = |error: AccessError| access_error(&error, name);
    let (sender, receiver) = oneshot::channel();
    // A request that has given up does not need the notification.
    ticket.on_arrival(move |arrival| drop(sender.send(arrival))).map_err(refused)?;
    let wait_max = state.engine.settings().server.database_load_wait_max;
    match timeout_at(since + wait_max, receiver).await {
        Ok(Ok(Ok(()))) => Ok(()),
        Ok(Ok(Err(error))) => Err(refused(AccessError::Load(error))),
        Ok(Err(_)) => Err(refused(AccessError::ShuttingDown)),
        Err(_) => Err(timed_out(name, ticket, wait_max)),
    }
}

fn timed_out(name: &str, ticket: &Ticket, waited: Duration) -> ApiError {
    let seconds = waited.as_secs();
    if ticket.has_started() {
        let message = format!(
            "The database {name} takes longer than {seconds} seconds to open. It is still being \
             opened; try again later."
        );
        return ApiError::new(ErrorKind::DatabaseLoadTimeout, message);
    }
    let message = format!(
        "The database {name} did not get its turn to be opened within {seconds} seconds, because \
         too many databases are being opened. Try again later."
    );
    ApiError::new(ErrorKind::DatabaseConcurrentLoadTimeout, message)
}
